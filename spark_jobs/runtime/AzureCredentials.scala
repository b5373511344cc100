package stratalog

import java.net.{InetAddress, URLEncoder}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Paths}
import java.util.{Date, Hashtable}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.azurebfs.extensions.{CustomTokenProviderAdaptee, SASTokenProvider}
import org.apache.hadoop.fs.azurebfs.oauth2.{AzureADAuthenticator, AzureADToken}
import org.apache.hadoop.fs.azurebfs.services.KeyProvider

/** The value of the variable of the environment whose name is in Hadoop's configuration; the value never is. */
private object Named {
  def value(account: String, conf: Configuration, key: String): String = {
    val variable = conf.getTrimmed(s"fs.azure.stratalog.$key", "")
    Option(System.getenv(variable)).filter(_.nonEmpty).getOrElse(
      throw new IllegalStateException(
        s"$account: the environment of ${InetAddress.getLocalHost.getHostName} has no variable $variable; " +
          "set it for executors"))
  }
}

/** The key of an account. */
class EnvironmentKey extends KeyProvider {
  override def getStorageAccountKey(account: String, conf: Configuration): String =
    Named.value(account, conf, "account_key_env")
}

/** A shared access signature. */
class EnvironmentSignature extends SASTokenProvider {
  private var conf: Configuration = _

  override def initialize(configuration: Configuration, account: String): Unit = conf = configuration

  override def getSASToken(account: String, container: String, path: String, operation: String): String =
    Named.value(account, conf, "sas_token_env").stripPrefix("?")
}

/** Tokens of the identity that the process has, in the order of identity/azure.py. */
class EnvironmentToken extends CustomTokenProviderAdaptee {
  private val Resource = "https://storage.azure.com"
  private var token: AzureADToken = _

  override def initialize(conf: Configuration, account: String): Unit = ()

  override def getExpiryTime(): Date = if (token == null) new Date(0) else token.getExpiry

  override def getAccessToken(): String = {
    token = if (has("AZURE_CLIENT_SECRET") || has("AZURE_FEDERATED_TOKEN_FILE")) ofApplication() else ofMachine()
    token.getAccessToken
  }

  private def get(name: String): String = Option(System.getenv(name)).getOrElse("")

  private def has(name: String): Boolean = get(name).nonEmpty

  private def form(fields: (String, String)*): String =
    fields.map { case (name, value) => s"$name=${URLEncoder.encode(value, UTF_8)}" }.mkString("&")

  private def ofApplication(): AzureADToken = {
    val proof =
      if (has("AZURE_CLIENT_SECRET")) Seq("client_secret" -> get("AZURE_CLIENT_SECRET"))
      else Seq(
        "client_assertion_type" -> "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        "client_assertion" -> Files.readString(Paths.get(get("AZURE_FEDERATED_TOKEN_FILE"))).trim)
    val fields = Seq(
      "client_id" -> get("AZURE_CLIENT_ID"), "grant_type" -> "client_credentials", "scope" -> s"$Resource/.default")
    val host = Some(get("AZURE_AUTHORITY_HOST")).filter(_.nonEmpty).getOrElse("https://login.microsoftonline.com")
    val authority = (if (host.contains("://")) host else s"https://$host").stripSuffix("/")
    val url = s"$authority/${get("AZURE_TENANT_ID")}/oauth2/v2.0/token"
    AzureADAuthenticator.getTokenSingleCall(url, form(fields ++ proof: _*), null, "POST", false)
  }

  private def ofMachine(): AzureADToken = {
    val chosen = if (has("AZURE_CLIENT_ID")) Seq("client_id" -> get("AZURE_CLIENT_ID")) else Nil
    val isService = has("IDENTITY_ENDPOINT") && has("IDENTITY_HEADER")
    val headers = new Hashtable[String, String]()
    if (isService) headers.put("X-IDENTITY-HEADER", get("IDENTITY_HEADER")) else headers.put("Metadata", "true")
    val host = Some(get("AZURE_POD_IDENTITY_AUTHORITY_HOST")).filter(_.nonEmpty).getOrElse("http://169.254.169.254")
    val url =
      if (isService) get("IDENTITY_ENDPOINT") else s"${host.stripSuffix("/")}/metadata/identity/oauth2/token"
    val version = if (isService) "2019-08-01" else "2018-02-01"
    val query = form(Seq("api-version" -> version, "resource" -> Resource) ++ chosen: _*)
    AzureADAuthenticator.getTokenSingleCall(url, query, headers, "GET", false)
  }
}
