import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pymysql
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from pydantic import SecretStr

from spark_jobs.config.servers import MySQL, Tls
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import AccessDenied, ConfigError, SourceError
from spark_jobs.identity.errors import CredentialsError
from spark_jobs.source.connection import (
    connect,
    connection_options,
    log_in,
    may_pass,
    open_connection,
    refusal,
    refused_by,
)
from spark_jobs.source.server import Server
from tests.fix_servers import EACH_SERVER, OPTIONS, Servers
from tests.services.servers import build_of
from tests.spark_jobs.source.test_binlog_dump import settings_of


def context(tls: Tls) -> ssl.SSLContext:
    tls_context = connection_options(MySQL(user="repl", tls=tls))["ssl"]
    assert isinstance(tls_context, ssl.SSLContext)
    return tls_context


def test_certificate_and_name_are_verified_together_or_not_at_all() -> None:
    """Without a CA of one's own too: those that the machine trusts sign anybody's name."""
    verified, unverified = context(Tls()), context(Tls(verify=False))
    assert (verified.verify_mode, verified.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert (unverified.verify_mode, unverified.check_hostname) == (ssl.CERT_NONE, False)
    assert not {"ssl", "ssl_disabled"} & connection_options(MySQL(user="repl")).keys()
    assert connection_options(MySQL(user="repl", tls=Tls(enabled=False)))["ssl_disabled"]


def test_a_file_of_tls_that_is_not_there_is_named(tmp_path: Path) -> None:
    server_uuid = Server("shop", MySQL(user="repl", port=1, tls=Tls(ca=tmp_path / "no.pem")))
    with pytest.raises(SourceError) as refused:
        server_uuid.log()
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


@pytest.mark.parametrize(
    "error, kind",
    [
        (pymysql.OperationalError(1045, "Access denied for user 'repl'@'%' (using password: YES)"), AccessDenied),
        (pymysql.OperationalError(1142, "SELECT command denied to user 'repl'@'%' for table 't'"), AccessDenied),
        (pymysql.OperationalError(1227, "Access denied; you need (at least one of) the X privilege(s)"), AccessDenied),
        (pymysql.OperationalError(2003, "Can't connect"), SourceError),
        (pymysql.OperationalError(1236, "Could not find first log file name"), SourceError),
        (TimeoutError("timed out"), SourceError),
        (CredentialsError("a token cannot be had"), AccessDenied),
        (CredentialsError("a service is busy", is_passing=True), SourceError),
    ],
)
def test_a_refusal_that_stays_is_told_from_what_may_pass(error: Exception, kind: type[SourceError]) -> None:
    refused = refused_by("shop", MySQL(user="repl"), error)
    assert type(refused) is kind
    assert str(refused) == refusal("shop", MySQL(user="repl"), error)


# ---- logins that never end ------------------------------------------------------------------------------------------

GREETING = bytes.fromhex("4a0000000a382e302e313200080000001122334455667788")
"""The head of a greeting of 74 bytes, and its first 20."""


@contextmanager
def listening(pieces: list[bytes], interval: float = 0.0) -> Iterator[int]:
    """The port of a socket that sends these to each connection, so many seconds apart, and then waits."""
    with socket.create_server(("127.0.0.1", 0)) as listener, suppress(OSError):
        end = threading.Event()

        def send(client: socket.socket) -> None:
            with client, suppress(OSError):
                for piece in pieces:
                    client.sendall(piece)
                    end.wait(interval)
                end.wait()

        def serve() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=send, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        end.set()
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "pieces, interval",
    [([], 0), ([GREETING], 0), ([bytes([byte]) for byte in GREETING] * 3, 0.2)],
    ids=["silent", "half a greeting", "a byte at a time"],
)
@pytest.mark.parametrize("read_timeout", [60, 1], ids=["read later", "read sooner"])
@pytest.mark.parametrize("tls", [None, Tls(verify=False)], ids=["no TLS", "TLS"])
def test_a_login_ends_with_connect_timeout(
    pieces: list[bytes], interval: float, read_timeout: int, tls: Tls | None
) -> None:
    with listening(pieces, interval) as port:
        settings = MySQL(user="repl", port=port, connect_timeout=2, read_timeout=read_timeout, tls=tls)
        began = time.monotonic()
        with pytest.raises(SourceError) as refused:
            connect("shop", settings)
        assert 1.9 < time.monotonic() - began < 4
    assert str(refused.value) == (
        f"shop: 127.0.0.1:{port}: the login was not complete after 2 s; check that a MySQL server listens at this port "
        "and is not overloaded, or raise connect_timeout"
    )
    assert refused.value.__cause__
    assert may_pass(refused.value.__cause__)


def test_a_host_that_does_not_answer_is_given_up_after_connect_timeout() -> None:
    """A queue of connections that is full drops further ones, as a firewall does."""
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        for waiting in (first, second):
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        time.sleep(0.1)
        with pytest.raises(SourceError) as refused:
            connect("shop", MySQL(user="repl", port=port, connect_timeout=1))
    assert str(refused.value) == (
        f"shop: 127.0.0.1:{port}: cannot be reached: no connection after 1 s; correct host and port, let the network "
        "pass them, or raise connect_timeout"
    )


@pytest.mark.parametrize("greeting", [b"\x01\0\0\0\x0a", b"\x03\0\0\0\x0a8\0", b"\x05\0\0\0\x0a\xff\xfe\xfd\0"])
def test_a_greeting_of_no_server_is_a_message(greeting: bytes) -> None:
    with listening([greeting]) as port, pytest.raises(SourceError) as refused:
        connect("shop", MySQL(user="repl", port=port, connect_timeout=2))
    assert str(refused.value) == (
        f"shop: 127.0.0.1:{port} answered: what it sends is no greeting of a MySQL server; correct host and port"
    )


@pytest.mark.mysql
def test_read_timeout_counts_from_the_login_on(mysql: MySQLServer) -> None:
    settings = settings_of(mysql, connect_timeout=30, read_timeout=1)
    with closing(open_connection(settings)) as connection, connection.cursor() as cursor:
        began = time.monotonic()
        with pytest.raises(pymysql.OperationalError, match="timed out"):
            cursor.execute("SELECT SLEEP(20)")
        assert time.monotonic() - began < 5


@pytest.mark.mysql
def test_a_slow_login_may_take_longer_than_a_read(mysql: MySQLServer) -> None:
    settings = settings_of(mysql, connect_timeout=30, read_timeout=1)
    began = time.monotonic()
    with closing(log_in(settings, init_command="DO SLEEP(2)")) as connection, connection.cursor() as cursor:
        assert time.monotonic() - began >= 2
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == ((1,),)


@pytest.mark.mysql
def test_a_command_at_login_that_waits_ends_with_connect_timeout(mysql: MySQLServer) -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="login was not complete after 2 s"):
        log_in(settings_of(mysql, connect_timeout=2), init_command="DO SLEEP(20)")
    assert time.monotonic() - began < 5


@pytest.mark.mysql
def test_a_connection_outlives_connect_timeout(mysql: MySQLServer) -> None:
    with closing(open_connection(settings_of(mysql, connect_timeout=1))) as connection:
        time.sleep(1.5)
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 one")
            assert cursor.fetchone() == {"one": 1}


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
        except pymysql.MySQLError as error:
            pytest.skip(f"{name}: {error.args[-1]}")
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
    with pytest.raises(AccessDenied, match=r"Access denied.*; check the user or password of 'login'$"):
        wrong.log()


BEYOND_ASCII = [("jürgen", "café"), ("repl€", "10€"), ("レプリカ", "日本語'\"\\"), ("σς", "пароль")]


@pytest.mark.thorough
@pytest.mark.mysql
@pytest.mark.parametrize(
    "name, plugin", [user_and_password for user_and_password in LOGINS if user_and_password[1] != "ed25519"]
)
@pytest.mark.parametrize("user, password", BEYOND_ASCII)
def test_users_and_passwords_beyond_ascii_log_in_by_every_connection(
    user: str, password: str, name: str, plugin: str, servers: Servers
) -> None:
    server = servers.get(name)
    with server.connect(charset="utf8mb4") as connection, connection.cursor() as cursor:
        cursor.execute("DROP USER IF EXISTS %s@'%%'", (user,))
        by = f"VIA {plugin} USING PASSWORD(%s)" if name.startswith("mariadb") else f"WITH {plugin} BY %s"
        cursor.execute(f"CREATE USER %s@'%%' IDENTIFIED {by}", (user, password))
        cursor.execute("GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO %s@'%%'", (user,))
        try:
            settings = settings_of(server, user=user, password=password)
            source = Server("shop", settings)
            assert source.problems() == []  # of which one is a dump
            log = source.log()
            assert b"".join(map(bytes, source.reading()(next(iter(log.parts_from(log.first))))[1]))
            with (
                closing(pymysql.connect(**connection_options(settings))) as session,
                session.cursor() as session_cursor,
            ):
                session_cursor.execute("SELECT CURRENT_USER()")
                assert session_cursor.fetchone() == (f"{user}@%",)
            wrong = Server("shop", settings_of(server, user=user, password=password + "é"))
            with pytest.raises(AccessDenied, match=r"Access denied.*; check the user or password of") as refused:
                wrong.log()
            assert password not in str(refused.value)
        finally:
            cursor.execute("DROP USER %s@'%%'", (user,))


def test_bytes_of_the_environment_that_are_no_text_are_sent_as_they_are() -> None:
    """A variable may hold bytes of another character set; Python reads them as surrogates."""
    latin = b"caf\xe9".decode("utf-8", "surrogateescape")
    options = connection_options(MySQL(user=latin, password=SecretStr(latin)))
    assert (options["user"], options["password"]) == (b"caf\xe9", b"caf\xe9")


def has_tls(server: MySQLServer) -> bool:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL VARIABLES LIKE 'have_ssl'")
        row = cursor.fetchone()
        return row is None or row[1] == "YES"


# ---- certificates ---------------------------------------------------------------------------------------------------


def certificate(folder: Path, name: str, issuer: str | None = None, host: str | None = None) -> Path:
    """A certificate and its key in ``folder``, signed by another there or by itself; of a host's address or a CA."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    signer, signed_by = key, name
    if issuer:
        loaded = serialization.load_pem_private_key((folder / f"{issuer}.key").read_bytes(), None)
        assert isinstance(loaded, rsa.RSAPrivateKey)
        signer, signed_by = loaded, issuer
    now = datetime.now(UTC)
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ip_address(host))] if host else [x509.DNSName(name)])
    server_certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, signed_by)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=host is None, path_length=None), critical=True)
        .add_extension(alternative, critical=False)
        .sign(signer, hashes.SHA256())
    )
    form, plain = serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    (folder / f"{name}.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    (folder / f"{name}.pem").write_bytes(server_certificate.public_bytes(serialization.Encoding.PEM))
    return folder / f"{name}.pem"


# MySQL 5.7.22 came with a library that ends at TLS 1.1, which OpenSSL no longer speaks.
@pytest.fixture(scope="module", params=[server for server in EACH_SERVER if server.values != ("mysql-5.7",)])
def certified(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySQLServer]:
    """A server with a certificate for its address, signed by ``ca``; ``other`` is a CA that signed nothing."""
    folder = tmp_path_factory.mktemp("certified")
    certificate(folder, "ca")
    certificate(folder, "other")
    certificate(folder, "server", "ca", host="127.0.0.1")
    options = {"ssl_ca": folder / "ca.pem", "ssl_cert": folder / "server.pem", "ssl_key": folder / "server.key"}
    try:
        build = build_of(request.param)
    except ConfigError as error:
        pytest.skip(str(error))
    with MySQLServer(folder, OPTIONS | options, build) as server:
        yield server


@pytest.mark.mysql
def test_a_certificate_by_the_configured_ca_is_trusted(certified: MySQLServer) -> None:
    source = Server("shop", settings_of(certified, tls={"ca": certified.directory / "ca.pem"}))
    assert source.problems() == []
    with source.connect() as connection:
        (cipher,) = source.ask(connection, "SHOW STATUS LIKE 'Ssl_cipher'")
    assert cipher["Value"]
    log = source.log()
    (file, *_) = log.parts_from(log.first)
    assert b"".join(bytes(chunk) for chunk in source.reading()(file)[1])[:4] == b"\xfebin"


@pytest.mark.mysql
@pytest.mark.parametrize("ca", ["other", None])
def test_a_certificate_by_another_ca_is_refused_in_one_message(certified: MySQLServer, ca: str | None) -> None:
    path = certified.directory / f"{ca}.pem" if ca else None
    source = Server("shop", settings_of(certified, tls={"ca": path}))
    with pytest.raises(SourceError) as refused:
        source.log()
    message = str(refused.value)
    assert message.startswith(f"shop: 127.0.0.1:{certified.port} answered: ")
    assert "certificate verify failed" in message
    assert message.endswith(
        f"; the server's certificate is not trusted: name the CA that signed it as tls.ca (it is {path or 'not set'}), "
        "connect by the host name that stands in it, or set tls.verify to false to connect without knowing who answers"
    )


@pytest.mark.mysql
def test_a_certificate_for_another_host_is_refused(certified: MySQLServer) -> None:
    source = Server("shop", settings_of(certified, host="localhost", tls={"ca": certified.directory / "ca.pem"}))
    with pytest.raises(SourceError, match=r"Hostname mismatch.*connect by the host name that stands in it"):
        source.log()


@pytest.mark.mysql
def test_unverified_any_certificate_will_do(certified: MySQLServer) -> None:
    tls = {"verify": False, "ca": certified.directory / "other.pem"}
    assert Server("shop", settings_of(certified, host="localhost", tls=tls)).problems() == []


@pytest.mark.mysql
@pytest.mark.parametrize("tls, encrypted", [(None, True), ({"enabled": False}, False)])
def test_without_a_word_it_is_encrypted_where_the_server_can(
    certified: MySQLServer, tls: dict[str, object] | None, encrypted: bool
) -> None:
    source = Server("shop", settings_of(certified, tls=tls))
    assert source.problems() == []
    with source.connect() as connection:
        (cipher,) = source.ask(connection, "SHOW STATUS LIKE 'Ssl_cipher'")
    assert bool(cipher["Value"]) == encrypted
