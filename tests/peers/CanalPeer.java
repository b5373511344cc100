import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONWriter;
import com.alibaba.otter.canal.connector.core.producer.MQMessageUtils;
import com.alibaba.otter.canal.instance.manager.CanalInstanceWithManager;
import com.alibaba.otter.canal.instance.manager.model.Canal;
import com.alibaba.otter.canal.instance.manager.model.CanalParameter;
import com.alibaba.otter.canal.protocol.ClientIdentity;
import com.alibaba.otter.canal.protocol.FlatMessage;
import com.alibaba.otter.canal.protocol.Message;
import com.alibaba.otter.canal.server.embedded.CanalServerWithEmbedded;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Prints the flat messages that canal's server makes of a MySQL server's log, as its Kafka producer writes them. */
public class CanalPeer {

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), true, "UTF-8");
        String filter = arguments[3];
        Canal canal = new Canal();
        canal.setId(1L);
        canal.setName("peer");
        canal.setCanalParameter(parameter(Integer.parseInt(arguments[0]), arguments[1], arguments[2], arguments[4]));
        CanalServerWithEmbedded server = CanalServerWithEmbedded.instance();
        server.setCanalInstanceGenerator(name -> new CanalInstanceWithManager(canal, filter));
        server.start();
        server.start("peer");
        ClientIdentity client = new ClientIdentity("peer", (short) 1001, filter);
        server.subscribe(client);
        ThreadPoolExecutor pool = (ThreadPoolExecutor) Executors.newFixedThreadPool(1);
        System.err.println("READY");
        for (boolean isLast = false; !isLast; ) {
            Message message = server.getWithoutAck(client, 1000, 200L, TimeUnit.MILLISECONDS);
            if (message.getId() == -1) {
                continue;
            }
            List<FlatMessage> flat =
                MQMessageUtils.messageConverter(MQMessageUtils.buildMessageData(message, pool), message.getId());
            for (FlatMessage line : flat) {
                out.write(JSON.toJSONBytes(line, JSONWriter.Feature.WriteNulls, JSONWriter.Feature.LargeObject));
                out.write('\n');
                isLast |= "done".equals(line.getTable()) && !line.getIsDdl();
            }
            out.flush();
            server.ack(client, message.getId());
        }
        Runtime.getRuntime().halt(0);
    }

    private static CanalParameter parameter(int port, String user, String password, String position) {
        InetSocketAddress address = new InetSocketAddress("127.0.0.1", port);
        CanalParameter parameter = new CanalParameter();
        parameter.setMetaMode(CanalParameter.MetaMode.MEMORY);
        parameter.setIndexMode(CanalParameter.IndexMode.MEMORY);
        parameter.setStorageMode(CanalParameter.StorageMode.MEMORY);
        parameter.setSourcingType(CanalParameter.SourcingType.MYSQL);
        parameter.setGroupDbAddresses(List.of(List.of(
            new CanalParameter.DataSourcing(CanalParameter.SourcingType.MYSQL, address))));
        parameter.setDbUsername(user);
        parameter.setDbPassword(password);
        parameter.setDefaultDatabaseName("mysql");
        parameter.setSlaveId(771L);
        parameter.setConnectionCharset("UTF-8");
        parameter.setConnectionCharsetNumber((byte) 33);
        parameter.setDefaultConnectionTimeoutInSeconds(30);
        parameter.setReceiveBufferSize(8 * 1024);
        parameter.setSendBufferSize(8 * 1024);
        parameter.setDetectingEnable(false);
        parameter.setParallel(false);
        parameter.setTsdbEnable(false);
        parameter.setGtidEnable(false);
        parameter.setMemoryStorageRawEntry(false);
        parameter.setPositions(List.of(position));
        return parameter;
    }
}
