import com.taobao.tddl.dbsync.binlog.FileLogFetcher;
import com.taobao.tddl.dbsync.binlog.LogContext;
import com.taobao.tddl.dbsync.binlog.LogDecoder;
import com.taobao.tddl.dbsync.binlog.LogEvent;
import com.taobao.tddl.dbsync.binlog.LogPosition;
import com.taobao.tddl.dbsync.binlog.event.DeleteRowsLogEvent;
import com.taobao.tddl.dbsync.binlog.event.QueryLogEvent;
import com.taobao.tddl.dbsync.binlog.event.RowsLogBuffer;
import com.taobao.tddl.dbsync.binlog.event.RowsLogEvent;
import com.taobao.tddl.dbsync.binlog.event.TableMapLogEvent;
import com.taobao.tddl.dbsync.binlog.event.TableMapLogEvent.ColumnInfo;
import com.taobao.tddl.dbsync.binlog.event.UpdateRowsLogEvent;
import com.taobao.tddl.dbsync.binlog.event.WriteRowsLogEvent;
import java.io.File;
import java.io.PrintStream;
import java.io.Serializable;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.sql.Types;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HexFormat;
import java.util.List;

/**
 * Prints what canal's decoder reads of the files of the corpus, in the reader's form (corpus/README.md).
 *
 * Its decoder hands out events, and a buffer of rows. Text is read as Latin-1, which keeps its bytes, and as UTF-8 in
 * tables with documents, which the buffer reads by the same character set; signs are the log's.
 */
public class Canal {

    private static final PrintStream OUT = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), true);
    private static final int JSON = 245;

    public static void main(String[] files) {
        System.setOut(System.err); // where its logger writes
        for (String file : files) {
            OUT.println("{\"file\": " + quoted(new File(file).getName()) + "}");
            String last = "{\"end\": true}";
            try {
                read(new File(file));
            } catch (Throwable error) {
                last = "{\"error\": " + quoted(String.valueOf(error)) + "}";
            }
            OUT.println(last);
        }
        System.exit(0);
    }

    private static void read(File file) throws Exception {
        LogDecoder decoder = new LogDecoder(LogEvent.UNKNOWN_EVENT, LogEvent.ENUM_END_EVENT);
        LogContext context = new LogContext();
        context.setLogPosition(new LogPosition(file.getName(), 4));
        try (FileLogFetcher fetcher = new FileLogFetcher()) {
            fetcher.open(file);
            while (fetcher.fetch()) {
                LogEvent event = decoder.decode(fetcher, context);
                if (event == null) {
                    continue;
                }
                List<LogEvent> inner = decoder.processIterateDecode(event, context);
                for (LogEvent each : inner.isEmpty() ? List.of(event) : inner) {
                    add(each);
                }
            }
        }
    }

    private static void add(LogEvent event) throws Exception {
        if (event instanceof QueryLogEvent) {
            OUT.println("{\"statement\": " + quoted(((QueryLogEvent) event).getQuery()) + "}");
        } else if (event instanceof RowsLogEvent) {
            rows((RowsLogEvent) event);
        }
    }

    private static void rows(RowsLogEvent event) throws Exception {
        TableMapLogEvent table = event.getTable();
        boolean hasDocuments = Arrays.stream(table.getColumnInfo()).anyMatch(column -> column.type == JSON);
        Charset charset = hasDocuments ? StandardCharsets.UTF_8 : StandardCharsets.ISO_8859_1;
        RowsLogBuffer buffer = event.getRowsBuf(charset);
        String name = table.getDbName() + "." + table.getTableName();
        BitSet before = event.getColumns();
        while (buffer.nextOneRow(before, false)) {
            String first = image(buffer, table, before, charset);
            String op = event instanceof WriteRowsLogEvent ? "insert" : event instanceof DeleteRowsLogEvent ? "delete" : "update";
            String second = "null";
            if (event instanceof UpdateRowsLogEvent) {
                buffer.nextOneRow(event.getChangeColumns(), true);
                second = image(buffer, table, event.getChangeColumns(), charset);
            }
            boolean isInsert = op.equals("insert");
            OUT.println("{\"table\": " + quoted(name) + ", \"op\": " + quoted(op) + ", \"before\": "
                + (isInsert ? "null" : first) + ", \"after\": " + (isInsert ? first : second) + "}");
        }
    }

    private static String image(RowsLogBuffer buffer, TableMapLogEvent table, BitSet included, Charset charset)
        throws Exception {
        StringBuilder text = new StringBuilder("[");
        ColumnInfo[] columns = table.getColumnInfo();
        for (int at = 0; at < columns.length; at++) {
            text.append(at == 0 ? "" : ", ");
            if (!included.get(at)) {
                text.append("{\"absent\": true}");
                continue;
            }
            ColumnInfo column = columns[at];
            Serializable value = buffer.nextValue(column.name, at, column.type, column.meta, false);
            text.append(buffer.isNull() ? "null" : cell(column, buffer.getJavaType(), value, charset));
        }
        return text.append("]").toString();
    }

    private static String cell(ColumnInfo column, int kind, Serializable value, Charset charset) {
        if (value == null) {
            return "null";
        }
        if (value instanceof byte[]) {
            return hex((byte[]) value);
        }
        if (value instanceof String && (kind == Types.CHAR || kind == Types.VARCHAR) && column.type != JSON
            && column.type != LogEvent.MYSQL_TYPE_YEAR) {
            return hex(((String) value).getBytes(charset));
        }
        if (column.unsigned && value instanceof Integer) {
            // As canal's own conversion adds what the sign has taken.
            int bits = column.type == LogEvent.MYSQL_TYPE_TINY ? 8 : column.type == LogEvent.MYSQL_TYPE_SHORT ? 16
                : column.type == LogEvent.MYSQL_TYPE_INT24 ? 24 : 32;
            return Long.toString(((Integer) value) & ((1L << bits) - 1));
        }
        if (column.unsigned && value instanceof Long) {
            return Long.toUnsignedString((Long) value);
        }
        if (value instanceof java.math.BigDecimal) {
            return quoted(((java.math.BigDecimal) value).toPlainString());
        }
        return value instanceof Number && !(value instanceof Float || value instanceof Double)
            ? value.toString() : quoted(value.toString());
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
