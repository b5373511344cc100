package stratalog

import java.io.IOException
import java.net.URI
import java.net.http.{HttpClient, HttpRequest, HttpResponse}
import java.nio.charset.StandardCharsets.UTF_8
import java.time.{Duration, ZoneOffset, ZonedDateTime}
import java.time.format.DateTimeFormatter
import java.util.{Base64, Locale}
import javax.crypto.Mac
import javax.crypto.spec.SecretKeySpec

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.hadoop.fs.azurebfs.services.KeyProvider

/** Delta's commits on Azure by conditional puts (Put Blob with If-None-Match: *).
  *
  * Delta's own log store for Azure renames, which an account without a hierarchy does by a conditional copy: where the
  * copy's answer is lost, it takes its own commit for one of another writer. A stream of ABFS creates an empty blob before
  * it has its content, which readers would see. One Put Blob is atomic and conditional.
  */
class AzureLogStore(initial: Configuration) extends PutLogStore(initial) {
  override protected def put(path: Path, content: Array[Byte], overwrite: Boolean, conf: Configuration): Unit = {
    var tries = 0
    var status = 0
    while (status != 201) {
      tries += 1
      val answer =
        try Right(AzureLogStore.client.send(request(path, content, overwrite, conf), HttpResponse.BodyHandlers.ofString()))
        catch { case error: IOException => Left(error) }
      val isLast = tries == AzureLogStore.Tries
      answer match {
        case Left(error) if isLast => throw new IOException(s"PUT $path: ${error.getMessage}", error)
        case Right(refused) if refused.statusCode != 201 && (refused.statusCode < 500 || isLast) =>
          val code = refused.headers.firstValue("x-ms-error-code").orElse("")
          throw new IOException(s"PUT $path: status code: ${refused.statusCode} <Code>$code</Code>")
        case Right(done) if done.statusCode == 201 => status = 201
        case _                                     => Thread.sleep(200L * tries)
      }
    }
  }

  private def request(path: Path, content: Array[Byte], overwrite: Boolean, conf: Configuration): HttpRequest = {
    // Azure's Shared Key: method, twelve headers of which most are empty, headers of its own, and the resource.
    val account = path.toUri.getHost.takeWhile(_ != '.')
    val container = path.toUri.getUserInfo
    val endpoint = conf.get("fs.azure.stratalog.blob_endpoint")
    val uri = URI.create(s"$endpoint/$container${new URI(null, null, path.toUri.getPath, null).toASCIIString}")
    val date = DateTimeFormatter.ofPattern("EEE, dd MMM yyyy HH:mm:ss 'GMT'", Locale.US).format(ZonedDateTime.now(ZoneOffset.UTC))
    val condition = if (overwrite) "" else "*"
    val own = s"x-ms-blob-type:BlockBlob\nx-ms-date:$date\nx-ms-version:${AzureLogStore.Version}\n"
    val length = if (content.isEmpty) "" else content.length.toString
    val text = s"PUT\n\n\n$length\n\n\n\n\n\n$condition\n\n\n$own/$account${uri.getRawPath}"
    val mac = Mac.getInstance("HmacSHA256")
    mac.init(new SecretKeySpec(Base64.getDecoder.decode(new EnvironmentKey().getStorageAccountKey(account, conf)), "HmacSHA256"))
    val signature = Base64.getEncoder.encodeToString(mac.doFinal(text.getBytes(UTF_8)))
    val builder = HttpRequest.newBuilder(uri).timeout(Duration.ofSeconds(60)).version(HttpClient.Version.HTTP_1_1)
      .header("Authorization", s"SharedKey $account:$signature")
      .header("x-ms-blob-type", "BlockBlob").header("x-ms-date", date).header("x-ms-version", AzureLogStore.Version)
      .PUT(HttpRequest.BodyPublishers.ofByteArray(content))
    (if (overwrite) builder else builder.header("If-None-Match", condition)).build()
  }

  /** Streams create an empty blob first: checkpoints are written under another name and renamed. */
  override def isPartialWriteVisible(path: Path, conf: Configuration): java.lang.Boolean = true
}

object AzureLogStore {
  private val Version = "2023-11-03"
  private val Tries = 5
  private lazy val client = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(20)).build()
}

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
