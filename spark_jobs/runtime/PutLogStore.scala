package stratalog

import java.io.{ByteArrayOutputStream, IOException}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.FileAlreadyExistsException
import java.util.{Arrays, Iterator => Lines}

import io.delta.storage.HadoopFileSystemLogStore
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/** Delta's commits by conditional puts (If-None-Match: *), so that no writer overwrites another's.
  *
  * The answer to a put may be lost, and the put is sent again: what the object has then shows whose it is, since every
  * commit has an id of its own.
  */
abstract class PutLogStore(initial: Configuration) extends HadoopFileSystemLogStore(initial) {
  /** Puts an object with its content; an IOException without overwrite where it exists. */
  protected def put(path: Path, content: Array[Byte], overwrite: Boolean, conf: Configuration): Unit

  override def write(path: Path, actions: Lines[String], overwrite: java.lang.Boolean, conf: Configuration): Unit = {
    val buffer = new ByteArrayOutputStream
    while (actions.hasNext) {
      buffer.write(actions.next().getBytes(UTF_8))
      buffer.write('\n')
    }
    val content = buffer.toByteArray
    try put(path, content, overwrite, conf)
    catch {
      case error: IOException if !overwrite =>
        if (!Arrays.equals(read(path, conf, content.length, error), content)) {
          val conflict = new FileAlreadyExistsException(path.toString)
          conflict.initCause(error)
          throw conflict
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
}
