import com.github.shyiko.mysql.binlog.BinaryLogFileReader;
import com.github.shyiko.mysql.binlog.event.DeleteRowsEventData;
import com.github.shyiko.mysql.binlog.event.Event;
import com.github.shyiko.mysql.binlog.event.EventData;
import com.github.shyiko.mysql.binlog.event.TableMapEventData;
import com.github.shyiko.mysql.binlog.event.TableMapEventMetadata;
import com.github.shyiko.mysql.binlog.event.TransactionPayloadEventData;
import com.github.shyiko.mysql.binlog.event.UpdateRowsEventData;
import com.github.shyiko.mysql.binlog.event.WriteRowsEventData;
import com.github.shyiko.mysql.binlog.event.deserialization.EventDeserializer;
import com.github.shyiko.mysql.binlog.event.deserialization.json.JsonBinary;
import com.taobao.tddl.dbsync.binlog.FileLogFetcher;
import com.taobao.tddl.dbsync.binlog.LogContext;
import com.taobao.tddl.dbsync.binlog.LogDecoder;
import com.taobao.tddl.dbsync.binlog.LogEvent;
import com.taobao.tddl.dbsync.binlog.LogPosition;
import com.taobao.tddl.dbsync.binlog.event.RowsLogBuffer;
import com.taobao.tddl.dbsync.binlog.event.RowsLogEvent;
import com.taobao.tddl.dbsync.binlog.event.TableMapLogEvent.ColumnInfo;
import com.taobao.tddl.dbsync.binlog.event.TransactionPayloadLogEvent;
import java.io.BufferedInputStream;
import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.io.Serializable;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * The two decoders in Java: mysql-binlog-connector-java and canal's dbsync. {@code java Peers connector|canal} reads
 * names of binlog files from standard input and answers each with changes, values, the sum of all first columns and the
 * sum of the code points of all VARCHAR values of each table's last image. Neither checks a checksum.
 */
final class Peers {
    private static final int BUFFER = 1 << 20;
    private static final byte JSON = (byte) 245;
    private static final byte VARCHAR = 15;

    private long changes;
    private long values;
    private long sum;
    private final Map<Long, Object[]> last = new HashMap<>();

    /** What an image needs to be made of values: each column's type, and the character set of those that are VARCHAR. */
    private record Columns(byte[] types, Charset[] charsets, Object[] last) {}

    private interface Reader {
        void read(String file, Peers counts) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        Reader reader = arguments[0].equals("canal") ? Peers::canal : Peers::connector;
        BufferedReader names = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String file = names.readLine(); file != null; file = names.readLine()) {
            Peers counts = new Peers();
            reader.read(file, counts);
            System.out.println(counts.changes + " " + counts.values + " " + counts.sum + " " + counts.letters());
        }
    }

    private long letters() {
        return last.values().stream().flatMap(Arrays::stream).filter(Objects::nonNull)
                .flatMapToInt(text -> text.toString().codePoints()).asLongStream().sum();
    }

    private static void connector(String file, Peers counts) throws Exception {
        EventDeserializer deserializer = new EventDeserializer();
        deserializer.setCompatibilityMode(EventDeserializer.CompatibilityMode.CHAR_AND_BINARY_AS_BYTE_ARRAY);
        try (BinaryLogFileReader reader = new BinaryLogFileReader(
                new BufferedInputStream(new FileInputStream(file), BUFFER), deserializer)) {
            Map<Long, Columns> tables = new HashMap<>();
            for (Event event = reader.readEvent(); event != null; event = reader.readEvent()) {
                counts.event(event, tables);
            }
        }
    }

    private void event(Event event, Map<Long, Columns> tables) throws Exception {
        EventData data = event.getData();
        if (data instanceof TransactionPayloadEventData payload) {
            for (Event inner : payload.getUncompressedEvents()) {
                event(inner, tables);
            }
        } else if (data instanceof TableMapEventData table) {
            tables.put(table.getTableId(), columns(table, last));
        } else if (data instanceof WriteRowsEventData written) {
            changes += written.getRows().size();
            for (Serializable[] row : written.getRows()) {
                image(row, tables.get(written.getTableId()));
            }
        } else if (data instanceof UpdateRowsEventData updated) {
            changes += updated.getRows().size();
            for (Map.Entry<Serializable[], Serializable[]> row : updated.getRows()) {
                image(row.getKey(), tables.get(updated.getTableId()));
                image(row.getValue(), tables.get(updated.getTableId()));
            }
        } else if (data instanceof DeleteRowsEventData deleted) {
            changes += deleted.getRows().size();
            for (Serializable[] row : deleted.getRows()) {
                image(row, tables.get(deleted.getTableId()));
            }
        }
    }

    /** The connector gives JSON and text as they stand in the log; the others' values are text. */
    private void image(Serializable[] row, Columns columns) throws Exception {
        values += row.length;
        sum += ((Number) row[0]).longValue();
        for (int place = 0; place < row.length; place++) {
            if (columns.types[place] == JSON && row[place] != null) {
                row[place] = JsonBinary.parseAsString((byte[]) row[place]);
            } else if (columns.types[place] == VARCHAR) {
                if (row[place] instanceof byte[] text) { // in compressed transactions it is a string already, as of UTF-8
                    row[place] = new String(text, columns.charsets[place]);
                }
                columns.last[place] = row[place];
            }
        }
    }

    /** Character sets are told of the columns of characters alone: of each, or of those that have not the usual one. */
    private static Columns columns(TableMapEventData table, Map<Long, Object[]> last) {
        byte[] types = table.getColumnTypes();
        Charset[] charsets = new Charset[types.length];
        TableMapEventMetadata.DefaultCharset usual = table.getEventMetadata().getDefaultCharset();
        List<Integer> each = table.getEventMetadata().getColumnCharsets();
        int told = 0;
        for (int place = 0; place < types.length; place++) {
            if (types[place] == VARCHAR) {
                charsets[place] = charset(usual == null
                        ? each.get(told)
                        : usual.getCharsetCollations() == null
                                ? usual.getDefaultCharsetCollation()
                                : usual.getCharsetCollations().getOrDefault(told, usual.getDefaultCharsetCollation()));
                told++;
            }
        }
        return new Columns(types, charsets, last.computeIfAbsent(table.getTableId(), id -> new Object[types.length]));
    }

    /** Of the collations that the logs have. */
    private static Charset charset(int collation) {
        return switch (collation) {
            case 8 -> Charset.forName("windows-1252");
            case 51 -> Charset.forName("windows-1251");
            case 28 -> Charset.forName("GBK");
            case 13 -> Charset.forName("Shift_JIS");
            case 54 -> StandardCharsets.UTF_16BE;
            default -> StandardCharsets.UTF_8;
        };
    }

    private static void canal(String file, Peers counts) throws Exception {
        LogDecoder decoder = new LogDecoder(LogEvent.UNKNOWN_EVENT, LogEvent.ENUM_END_EVENT);
        LogContext context = new LogContext();
        context.setLogPosition(new LogPosition("", 0));
        FileLogFetcher fetcher = new FileLogFetcher(BUFFER);
        fetcher.open(file);
        while (fetcher.fetch()) {
            LogEvent event = decoder.decode(fetcher, context);
            if (event instanceof RowsLogEvent rows) {
                counts.rows(rows);
            } else if (event instanceof TransactionPayloadLogEvent) {
                for (LogEvent inner : decoder.processIterateDecode(event, context)) {
                    if (inner instanceof RowsLogEvent rows) {
                        counts.rows(rows);
                    }
                }
            }
        }
        fetcher.close();
    }

    private void rows(RowsLogEvent event) {
        RowsLogBuffer buffer = event.getRowsBuf(StandardCharsets.UTF_8);
        int type = event.getHeader().getType();
        boolean update = type == LogEvent.UPDATE_ROWS_EVENT || type == LogEvent.UPDATE_ROWS_EVENT_V1;
        ColumnInfo[] columns = event.getTable().getColumnInfo();
        Object[] texts = last.computeIfAbsent(event.getTableId(), id -> new Object[columns.length]);
        while (buffer.nextOneRow(event.getColumns(), false)) {
            image(buffer, columns, event.getColumns(), texts);
            if (update) {
                buffer.nextOneRow(event.getChangeColumns(), true);
                image(buffer, columns, event.getChangeColumns(), texts);
            }
            changes++;
        }
    }

    private void image(RowsLogBuffer buffer, ColumnInfo[] columns, BitSet present, Object[] texts) {
        for (int place = 0; place < columns.length; place++) {
            if (present.get(place)) {
                Serializable value = buffer.nextValue("", place, columns[place].type, columns[place].meta, false);
                values++;
                if (place == 0) {
                    sum += ((Number) value).longValue();
                } else if (columns[place].type == VARCHAR) {
                    texts[place] = value;
                }
            }
        }
    }
}
