import ssl
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest

from spark_jobs.config import MySQL, Tls
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import SourceError
from spark_jobs.source.connection import connection_options, may_pass
from spark_jobs.source.server import Server
from tests.fix_servers import Servers
from tests.spark_jobs.source.test_dump import settings_of


def context(tls: Tls) -> ssl.SSLContext:
    found = connection_options(MySQL(user="repl", tls=tls))["ssl"]
    assert isinstance(found, ssl.SSLContext)
    return found


def test_certificate_and_name_are_verified_together_or_not_at_all() -> None:
    """Without a CA of one's own too: those that the machine trusts sign anybody's name."""
    verified, unverified = context(Tls()), context(Tls(verify=False))
    assert (verified.verify_mode, verified.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert (unverified.verify_mode, unverified.check_hostname) == (ssl.CERT_NONE, False)
    assert "ssl" not in connection_options(MySQL(user="repl"))


def test_a_file_of_tls_that_is_not_there_is_named(tmp_path: Path) -> None:
    nobody = Server("shop", MySQL(user="repl", port=1, tls=Tls(ca=tmp_path / "no.pem")))
    with pytest.raises(SourceError) as refused:
        nobody.log()
    assert str(refused.value) == (
        f"shop: the files of tls (ca {tmp_path / 'no.pem'}) cannot be used: No such file or directory"
    )


@pytest.mark.parametrize(
    "error, passes",
    [
        (pymysql.OperationalError(2013, "Lost connection"), True),
        (pymysql.OperationalError(1053, "Server shutdown in progress"), True),
        (pymysql.OperationalError(1045, "Access denied"), False),
        (pymysql.OperationalError(1236, "Could not find first log file name"), False),
        (pymysql.ProgrammingError(1064, "syntax"), False),
        (TimeoutError("timed out"), True),
        (ConnectionResetError(104, "reset"), True),
        (ssl.SSLCertVerificationError("certificate"), False),
        (RuntimeError("cryptography is missing"), False),
    ],
)
def test_what_another_try_may_help_against(error: Exception, passes: bool) -> None:
    assert may_pass(error) == passes


# ---- real servers: ways to log in, with TLS and without -------------------------------------------------------------

LOGINS = [
    ("mysql-5.7", "mysql_native_password"),
    ("mysql-8.0", "mysql_native_password"),
    ("mysql-8.0", "sha256_password"),
    ("mysql-8.0", "caching_sha2_password"),
    ("mysql-9.7", "sha256_password"),
    ("mysql-9.7", "caching_sha2_password"),
    ("mariadb-10.11", "mysql_native_password"),
    ("mariadb-10.11", "ed25519"),
    ("mariadb-11.4", "mysql_native_password"),
    ("mariadb-11.4", "ed25519"),
    ("mariadb-11.8", "mysql_native_password"),
    ("mariadb-11.8", "ed25519"),
]
"""What docs/configuration.md lists as tested."""


@pytest.fixture(params=LOGINS, ids="-".join)
def login(request: pytest.FixtureRequest, servers: Servers) -> Iterator[tuple[MySQLServer, str]]:
    """A server, and a user of its own who logs in by that way; the password is 'geheim'."""
    name, plugin = request.param
    server = servers.get(name)
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("DROP USER IF EXISTS login@'%'")
        by = "VIA ed25519 USING PASSWORD('geheim')" if plugin == "ed25519" else f"WITH {plugin} BY 'geheim'"
        if name.startswith("mariadb") and plugin != "ed25519":
            by = f"VIA {plugin} USING PASSWORD('geheim')"
        try:
            cursor.execute(f"CREATE USER login@'%' IDENTIFIED {by}")
        except pymysql.MySQLError as why:
            pytest.skip(f"{name}: {why.args[-1]}")
        cursor.execute("GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO login@'%'")
        yield server, plugin
        cursor.execute("DROP USER login@'%'")


@pytest.mark.mysql
@pytest.mark.parametrize("tls", [None, {"verify": False}], ids=["as the server offers", "TLS unverified"])
def test_logging_in(login: tuple[MySQLServer, str], tls: dict[str, object] | None) -> None:
    server, _ = login
    source = Server("shop", settings_of(server, user="login", password="geheim", tls=tls))
    if tls and not has_tls(server):
        with pytest.raises(SourceError, match=r"TLS|SSL"):
            source.log()
        return
    assert source.problems() == []
    wrong = Server("shop", settings_of(server, user="login", password="falsch", tls=tls))
    with pytest.raises(SourceError, match=r"Access denied.*; check the user or password of 'login'$"):
        wrong.log()


def has_tls(server: MySQLServer) -> bool:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL VARIABLES LIKE 'have_ssl'")
        row = cursor.fetchone()
        return row is None or row[1] == "YES"
