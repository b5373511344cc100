package stratalog

import java.net.URI

import org.apache.hadoop.conf.Configuration
import software.amazon.awssdk.auth.credentials.{AwsBasicCredentials, AwsCredentials, AwsCredentialsProvider, AwsSessionCredentials}

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
