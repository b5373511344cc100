"""Password of a new connection: of the configuration, of a program, or a cloud's token.

Put here: the choice, and what a token demands of the connection. Not here: each kind (its own module).
"""

from collections.abc import Callable, Mapping

from spark_jobs.config.servers import Auth, MySQL, problem_of_login
from spark_jobs.identity.errors import CredentialsError
from spark_jobs.source.login import aws, azure, google
from spark_jobs.source.login.command import first_line

_TOKENS: Mapping[str, Callable[[MySQL], str]] = {
    "aws-iam": aws.token,
    "azure-entra": azure.token,
    "gcp-iam": google.token,
}


def password_of(settings: MySQL) -> bytes:
    """The password as it is sent; renewed by each call, a token of a service until shortly before it expires.

    Text is UTF-8, as clients send it; bytes of an environment variable that are no UTF-8 (Python's surrogates) are sent
    as they are. Takes up to a few times ``connect_timeout`` where a service does not answer. Raises CredentialsError.
    """
    # Endpoints and copies of settings were not validated as a whole.
    if problem := problem_of_login(settings):
        raise CredentialsError(problem)
    if settings.password_command:
        words = [word.get_secret_value() for word in settings.password_command]
        return first_line(words, settings.connect_timeout)
    text = _token(settings, settings.auth) if settings.auth else settings.password.get_secret_value()
    return text.encode("utf-8", "surrogateescape")


def _token(settings: MySQL, auth: Auth) -> str:
    try:
        return _TOKENS[auth](settings)
    except CredentialsError as error:
        raise CredentialsError(f"auth: {auth}: {error}", error.is_passing) from None
