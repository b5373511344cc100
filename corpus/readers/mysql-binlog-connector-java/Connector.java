import com.github.shyiko.mysql.binlog.BinaryLogFileReader;
import com.github.shyiko.mysql.binlog.event.DeleteRowsEventData;
import com.github.shyiko.mysql.binlog.event.Event;
import com.github.shyiko.mysql.binlog.event.EventData;
import com.github.shyiko.mysql.binlog.event.QueryEventData;
import com.github.shyiko.mysql.binlog.event.TableMapEventData;
import com.github.shyiko.mysql.binlog.event.TransactionPayloadEventData;
import com.github.shyiko.mysql.binlog.event.UpdateRowsEventData;
import com.github.shyiko.mysql.binlog.event.WriteRowsEventData;
import com.github.shyiko.mysql.binlog.event.deserialization.EventDeserializer;
import com.github.shyiko.mysql.binlog.event.deserialization.EventDeserializer.CompatibilityMode;
import com.github.shyiko.mysql.binlog.event.deserialization.json.JsonBinary;
import java.io.File;
import java.io.PrintStream;
import java.io.Serializable;
import java.util.BitSet;
import java.util.Calendar;
import java.util.GregorianCalendar;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.TimeZone;

/**
 * Prints what mysql-binlog-connector-java reads of the files of the corpus, in the reader's form (corpus/README.md).
 *
 * Its reader hands out events. Text is bytes, times are microseconds with invalid ones marked, signs are those of the log.
 */
public class Connector {

    private static final PrintStream OUT = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), true);
    private static final int TIMESTAMP = 7, DATE = 10, TIME = 11, DATETIME = 12, TIMESTAMP_2 = 17;
    private static final int DATETIME_2 = 18, TIME_2 = 19, JSON = 245;

    private final Map<Long, TableMapEventData> tables = new HashMap<>();

    public static void main(String[] files) {
        for (String file : files) {
            OUT.println("{\"file\": " + quoted(new File(file).getName()) + "}");
            String last = "{\"end\": true}";
            try {
                new Connector().read(new File(file));
            } catch (Throwable error) {
                last = "{\"error\": " + quoted(String.valueOf(root(error))) + "}";
            }
            OUT.println(last);
        }
    }

    private static Throwable root(Throwable error) {
        return error.getCause() == null ? error : root(error.getCause());
    }

    private void read(File file) throws Exception {
        EventDeserializer deserializer = new EventDeserializer();
        deserializer.setCompatibilityMode(
            CompatibilityMode.CHAR_AND_BINARY_AS_BYTE_ARRAY,
            CompatibilityMode.DATE_AND_TIME_AS_LONG_MICRO,
            CompatibilityMode.INVALID_DATE_AND_TIME_AS_MIN_VALUE);
        try (BinaryLogFileReader reader = new BinaryLogFileReader(file, deserializer)) {
            for (Event event; (event = reader.readEvent()) != null; ) {
                add(event);
            }
        }
    }

    private void add(Event event) throws Exception {
        EventData data = event.getData();
        if (data instanceof EventDeserializer.EventDataWrapper) {
            data = ((EventDeserializer.EventDataWrapper) data).getInternal();
        }
        if (data instanceof QueryEventData) {
            OUT.println("{\"statement\": " + quoted(((QueryEventData) data).getSql()) + "}");
        } else if (data instanceof TableMapEventData) {
            tables.put(((TableMapEventData) data).getTableId(), (TableMapEventData) data);
        } else if (data instanceof TransactionPayloadEventData) {
            for (Event inner : ((TransactionPayloadEventData) data).getUncompressedEvents()) {
                add(inner);
            }
        } else if (data instanceof WriteRowsEventData) {
            WriteRowsEventData rows = (WriteRowsEventData) data;
            TableMapEventData table = tables.get(rows.getTableId());
            for (Serializable[] row : rows.getRows()) {
                print(table, "insert", "null", image(table, rows.getIncludedColumns(), row));
            }
        } else if (data instanceof DeleteRowsEventData) {
            DeleteRowsEventData rows = (DeleteRowsEventData) data;
            TableMapEventData table = tables.get(rows.getTableId());
            for (Serializable[] row : rows.getRows()) {
                print(table, "delete", image(table, rows.getIncludedColumns(), row), "null");
            }
        } else if (data instanceof UpdateRowsEventData) {
            UpdateRowsEventData rows = (UpdateRowsEventData) data;
            TableMapEventData table = tables.get(rows.getTableId());
            for (Map.Entry<Serializable[], Serializable[]> row : rows.getRows()) {
                print(table, "update", image(table, rows.getIncludedColumnsBeforeUpdate(), row.getKey()),
                    image(table, rows.getIncludedColumns(), row.getValue()));
            }
        }
    }

    private static void print(TableMapEventData table, String op, String before, String after) {
        OUT.println("{\"table\": " + quoted(table.getDatabase() + "." + table.getTable()) + ", \"op\": " + quoted(op)
            + ", \"before\": " + before + ", \"after\": " + after + "}");
    }

    private static String image(TableMapEventData table, BitSet included, Serializable[] row) throws Exception {
        StringBuilder text = new StringBuilder("[");
        BitSet unsigned = table.getEventMetadata() == null ? null : table.getEventMetadata().getSignedness();
        int at = 0;
        for (int column = 0; column < table.getColumnTypes().length; column++) {
            int kind = table.getColumnTypes()[column] & 0xFF;
            boolean isUnsigned = unsigned != null && unsigned.get(column);
            text.append(column == 0 ? "" : ", ");
            text.append(included.get(column) ? cell(kind, row[at++], isUnsigned) : "{\"absent\": true}");
        }
        return text.append("]").toString();
    }

    private static String cell(int kind, Serializable value, boolean isUnsigned) throws Exception {
        if (value == null) {
            return "null";
        }
        if (value instanceof byte[]) {
            return kind == JSON ? quoted(JsonBinary.parseAsString((byte[]) value)) : hex((byte[]) value);
        }
        if (value instanceof BitSet) {
            long[] words = ((BitSet) value).toLongArray();
            return words.length == 0 ? "0" : Long.toUnsignedString(words[0]);
        }
        if (value instanceof Long && isTime(kind)) {
            return time(kind, (Long) value);
        }
        if (isUnsigned && value instanceof Integer) {
            int bits = kind == 1 ? 8 : kind == 2 ? 16 : kind == 9 ? 24 : 32;
            return Long.toString(((Integer) value) & ((1L << bits) - 1));
        }
        if (isUnsigned && value instanceof Long) {
            return Long.toUnsignedString((Long) value);
        }
        if (value instanceof java.math.BigDecimal) {
            return quoted(((java.math.BigDecimal) value).toPlainString());
        }
        return value instanceof Number && !(value instanceof Float || value instanceof Double)
            ? value.toString() : quoted(value.toString());
    }

    private static boolean isTime(int kind) {
        return kind == TIMESTAMP || kind >= DATE && kind <= DATETIME || kind >= TIMESTAMP_2 && kind <= TIME_2;
    }

    private static String time(int kind, long micros) {
        if (micros == Long.MIN_VALUE) {
            return "{\"marked\": true}";
        }
        if (kind == TIME || kind == TIME_2) {
            long size = Math.abs(micros);
            return quoted(String.format("%s%02d:%02d:%02d.%06d", micros < 0 ? "-" : "", size / 3600000000L,
                size / 60000000L % 60, size / 1000000L % 60, size % 1000000L));
        }
        // The library counts days by Java's older calendar, which is Julian before 1582.
        Calendar calendar = new GregorianCalendar(TimeZone.getTimeZone("UTC"));
        calendar.setTimeInMillis(Math.floorDiv(micros, 1000L));
        String date = String.format("%04d-%02d-%02d", calendar.get(Calendar.YEAR), calendar.get(Calendar.MONTH) + 1,
            calendar.get(Calendar.DAY_OF_MONTH));
        return quoted(kind == DATE ? date : date + String.format(" %02d:%02d:%02d.%06d",
            calendar.get(Calendar.HOUR_OF_DAY), calendar.get(Calendar.MINUTE), calendar.get(Calendar.SECOND),
            Math.floorMod(micros, 1000000L)));
    }

    private static String hex(byte[] content) {
        return "{\"hex\": \"" + HexFormat.of().formatHex(content) + "\"}";
    }

    private static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char letter : text.toCharArray()) {
            if (letter == '"' || letter == '\\') {
                out.append('\\').append(letter);
            } else if (letter < ' ' || letter > '~') {
                out.append(String.format("\\u%04x", (int) letter));
            } else {
                out.append(letter);
            }
        }
        return out.append('"').toString();
    }
}
