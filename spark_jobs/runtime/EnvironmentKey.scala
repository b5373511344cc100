package stratalog

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.azurebfs.services.KeyProvider

/** The account's key from the variable of the environment whose name is in Hadoop's configuration; the key never is. */
class EnvironmentKey extends KeyProvider {
  override def getStorageAccountKey(account: String, conf: Configuration): String = {
    val variable = conf.getTrimmed("fs.azure.stratalog.account_key_env", "")
    Option(System.getenv(variable)).filter(_.nonEmpty).getOrElse(
      throw new IllegalStateException(
        s"$account: the environment of ${java.net.InetAddress.getLocalHost.getHostName} has no variable $variable; " +
          "set it for executors"))
  }
}
