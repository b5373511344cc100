import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.PrintStream;
import java.util.Properties;
import java.util.concurrent.Executors;

/** Prints the values of the change events that Debezium's MySQL connector makes, by its embedded engine. */
public class DebeziumPeer {

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), true, "UTF-8");
        Properties properties = new Properties();
        properties.setProperty("name", "peer");
        properties.setProperty("connector.class", "io.debezium.connector.mysql.MySqlConnector");
        properties.setProperty("offset.storage", "org.apache.kafka.connect.storage.MemoryOffsetBackingStore");
        properties.setProperty("offset.flush.interval.ms", "60000");
        properties.setProperty("schema.history.internal", "io.debezium.relational.history.MemorySchemaHistory");
        properties.setProperty("database.hostname", "127.0.0.1");
        properties.setProperty("database.port", arguments[0]);
        properties.setProperty("database.user", arguments[1]);
        properties.setProperty("database.password", arguments[2]);
        properties.setProperty("database.server.id", "772");
        properties.setProperty("driver.allowPublicKeyRetrieval", "true");
        properties.setProperty("topic.prefix", "peer");
        properties.setProperty("snapshot.mode", "no_data");
        properties.setProperty("include.schema.changes", "false");
        properties.setProperty("database.include.list", arguments[3]);
        properties.setProperty("key.converter.schemas.enable", "false");
        properties.setProperty("value.converter.schemas.enable", "false");
        for (int at = 4; at < arguments.length; at += 2) {
            properties.setProperty(arguments[at], arguments[at + 1]);
        }
        DebeziumEngine<ChangeEvent<String, String>> engine =
            DebeziumEngine.create(Json.class).using(properties).using((isSuccess, message, error) -> {
                System.err.println("ENDED " + message);
                if (error != null) {
                    error.printStackTrace();
                }
                Runtime.getRuntime().halt(1);
            }).using(new DebeziumEngine.ConnectorCallback() {
                @Override
                public void pollingStarted() {
                    System.err.println("READY");
                }
            }).notifying(event -> {
                if (event.value() == null) {
                    return; // a tombstone
                }
                out.println(event.value());
                if (event.destination().endsWith(".done")) {
                    Runtime.getRuntime().halt(0);
                }
            }).build();
        Executors.newSingleThreadExecutor().submit(engine);
    }
}
