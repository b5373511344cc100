import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import scala.jdk.CollectionConverters._

/** Commits by the log store to a table on Azure: the table's address, then settings as name=value. */
object AzureCommits {
  def main(arguments: Array[String]): Unit = {
    val conf = new Configuration()
    arguments.tail.map(_.split("=", 2)).foreach(setting => conf.set(setting(0), setting(1)))
    val store = new stratalog.AzureLogStore(conf)
    val path = new Path(arguments.head + "/_delta_log/00000000000000000000.json")
    def write(text: String, overwrite: Boolean): Unit =
      try {
        store.write(path, Seq(text).iterator.asJava, overwrite, conf)
        println(s"$text: written, ${store.read(path, conf).asScala.mkString}")
      } catch { case error: Exception => println(s"$text: ${error.getClass.getSimpleName}") }
    write("first", false)
    write("first", false)
    write("second", false)
    write("third", true)
    println(store.listFrom(path, conf).asScala.map(_.getPath.getName).mkString(","))
    System.exit(0) // threads of ABFS would keep the JVM
  }
}
