package stratalog

import java.io.{ByteArrayOutputStream, FileNotFoundException, IOException}
import java.net.URI
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.FileAlreadyExistsException
import java.util.{Arrays, Iterator => Lines}

import io.delta.storage.HadoopFileSystemLogStore
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import software.amazon.awssdk.auth.credentials.{AwsBasicCredentials, AwsCredentials, AwsCredentialsProvider, AwsSessionCredentials}

/** Delta's commits on S3 by conditional puts (If-None-Match: *), so that no writer overwrites another's.
  *
  * Delta's own log store for S3 looks whether the version exists, then puts: of two drivers the second overwrites the
  * first. The store's answer may be lost, and S3A sends a put again: what the object has then shows whose it is, since
  * every commit has an id of its own.
  */
class ConditionalLogStore(initial: Configuration) extends HadoopFileSystemLogStore(initial) {
  override def write(path: Path, actions: Lines[String], overwrite: java.lang.Boolean, conf: Configuration): Unit = {
    val buffer = new ByteArrayOutputStream
    while (actions.hasNext) {
      buffer.write(actions.next().getBytes(UTF_8))
      buffer.write('\n')
    }
    val content = buffer.toByteArray
    val store = path.getFileSystem(conf)
    if (overwrite) {
      val stream = store.create(path, true)
      try stream.write(content) finally stream.close()
    } else {
      try {
        val stream = store.createFile(path).recursive().must("fs.option.create.conditional.overwrite", true).build()
        try stream.write(content) finally stream.close()
      } catch {
        case error: IOException =>
          val present = read(path, conf, content.length, error)
          if (!Arrays.equals(present, content)) {
            val conflict = new FileAlreadyExistsException(path.toString)
            conflict.initCause(error)
            throw conflict
          }
      }
    }
  }

  /** As many bytes of the object as were put, and one more where it has them; what was raised where it does not exist. */
  private def read(path: Path, conf: Configuration, length: Int, raised: IOException): Array[Byte] =
    try {
      val stream = path.getFileSystem(conf).open(path)
      try stream.readNBytes(length + 1) finally stream.close()
    } catch {
      case error: IOException =>
        raised.addSuppressed(error)
        throw raised
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
