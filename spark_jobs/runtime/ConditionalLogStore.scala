package stratalog

import java.net.URI

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import software.amazon.awssdk.auth.credentials.{AwsBasicCredentials, AwsCredentials, AwsCredentialsProvider, AwsSessionCredentials}

/** Delta's commits on S3 by conditional puts of S3A.
  *
  * Delta's own log store for S3 looks whether the version exists, then puts: of two drivers the second overwrites the
  * first.
  */
class ConditionalLogStore(initial: Configuration) extends PutLogStore(initial) {
  override protected def put(path: Path, content: Array[Byte], overwrite: Boolean, conf: Configuration): Unit = {
    val store = path.getFileSystem(conf)
    val stream =
      if (overwrite) store.create(path, true)
      else store.createFile(path).recursive().must("fs.option.create.conditional.overwrite", true).build()
    try stream.write(content) finally stream.close()
  }

  override def isPartialWriteVisible(path: Path, conf: Configuration): java.lang.Boolean = false
}

/** Keys from variables of the environment whose names are in Hadoop's configuration; no key ever is. */
class EnvironmentKeys(store: URI, conf: Configuration) extends AwsCredentialsProvider {
  private def variable(name: String): String = conf.getTrimmed(s"fs.s3a.stratalog.$name", "")

  private def required(name: String): String =
    Option(System.getenv(variable(name))).filter(_.nonEmpty).getOrElse(
      throw new IllegalStateException(
        s"$store: the environment of ${java.net.InetAddress.getLocalHost.getHostName} has no variable ${variable(name)}; " +
          "set it for executors"))

  override def resolveCredentials(): AwsCredentials =
    Option(System.getenv(variable("session_token_env"))).filter(_.nonEmpty) match {
      case Some(token) => AwsSessionCredentials.create(required("access_key_env"), required("secret_key_env"), token)
      case None        => AwsBasicCredentials.create(required("access_key_env"), required("secret_key_env"))
    }
}
