import com.github.shyiko.mysql.binlog.BinaryLogFileReader;
import com.github.shyiko.mysql.binlog.event.DeleteRowsEventData;
import com.github.shyiko.mysql.binlog.event.Event;
import com.github.shyiko.mysql.binlog.event.EventData;
import com.github.shyiko.mysql.binlog.event.TableMapEventData;
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
import java.nio.charset.StandardCharsets;
import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;

/**
 * The two decoders in Java: mysql-binlog-connector-java and canal's dbsync. {@code java Peers connector|canal} reads
 * names of binlog files from standard input and answers each with changes, values and the sum of all first columns.
 * Neither checks a checksum.
 */
final class Peers {
    private static final int BUFFER = 1 << 20;
    private static final byte JSON = (byte) 245;

    private long changes;
    private long values;
    private long sum;

    private interface Reader {
        void read(String file, Peers counts) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        Reader reader = arguments[0].equals("canal") ? Peers::canal : Peers::connector;
        BufferedReader names = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String file = names.readLine(); file != null; file = names.readLine()) {
            Peers counts = new Peers();
            reader.read(file, counts);
            System.out.println(counts.changes + " " + counts.values + " " + counts.sum);
        }
    }

    private static void connector(String file, Peers counts) throws Exception {
        EventDeserializer deserializer = new EventDeserializer();
        deserializer.setCompatibilityMode(EventDeserializer.CompatibilityMode.CHAR_AND_BINARY_AS_BYTE_ARRAY);
        try (BinaryLogFileReader reader = new BinaryLogFileReader(
                new BufferedInputStream(new FileInputStream(file), BUFFER), deserializer)) {
            Map<Long, byte[]> types = new HashMap<>();
            for (Event event = reader.readEvent(); event != null; event = reader.readEvent()) {
                counts.event(event, types);
            }
        }
    }

    private void event(Event event, Map<Long, byte[]> types) throws Exception {
        EventData data = event.getData();
        if (data instanceof TransactionPayloadEventData payload) {
            for (Event inner : payload.getUncompressedEvents()) {
                event(inner, types);
            }
        } else if (data instanceof TableMapEventData table) {
            types.put(table.getTableId(), table.getColumnTypes());
        } else if (data instanceof WriteRowsEventData written) {
            changes += written.getRows().size();
            for (Serializable[] row : written.getRows()) {
                image(row, types.get(written.getTableId()));
            }
        } else if (data instanceof UpdateRowsEventData updated) {
            changes += updated.getRows().size();
            for (Map.Entry<Serializable[], Serializable[]> row : updated.getRows()) {
                image(row.getKey(), types.get(updated.getTableId()));
                image(row.getValue(), types.get(updated.getTableId()));
            }
        } else if (data instanceof DeleteRowsEventData deleted) {
            changes += deleted.getRows().size();
            for (Serializable[] row : deleted.getRows()) {
                image(row, types.get(deleted.getTableId()));
            }
        }
    }

    /** The connector gives JSON as it stands in the log; the others' values are text. */
    private void image(Serializable[] row, byte[] types) throws Exception {
        values += row.length;
        sum += ((Number) row[0]).longValue();
        for (int place = 0; place < row.length; place++) {
            if (types[place] == JSON && row[place] != null) {
                row[place] = JsonBinary.parseAsString((byte[]) row[place]);
            }
        }
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
        while (buffer.nextOneRow(event.getColumns(), false)) {
            image(buffer, columns, event.getColumns());
            if (update) {
                buffer.nextOneRow(event.getChangeColumns(), true);
                image(buffer, columns, event.getChangeColumns());
            }
            changes++;
        }
    }

    private void image(RowsLogBuffer buffer, ColumnInfo[] columns, BitSet present) {
        for (int place = 0; place < columns.length; place++) {
            if (present.get(place)) {
                Serializable value = buffer.nextValue("", place, columns[place].type, columns[place].meta, false);
                values++;
                if (place == 0) {
                    sum += ((Number) value).longValue();
                }
            }
        }
    }
}
