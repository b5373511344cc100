"""Servers that have the password itself sent, as those of clouds do."""

import ast
import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from spark_jobs.config.servers import MySQL
from spark_jobs.delivery.target import Connection
from spark_jobs.demo.server import MySQLServer
from spark_jobs.errors import DeliveryError, SourceError
from spark_jobs.source.connection import connect, log_in
from spark_jobs.source.server import Server
from tests.fix_mysql import database_of
from tests.services.clear_password_gateway import ClearPasswordGateway
from tests.services.identities import environment
from tests.services.token_services import instance, moment, serving
from tests.source_trees import nodes_of
from tests.spark_jobs.source.test_binlog_dump import content_of
from tests.spark_jobs.source.test_connection import certificate

__all__ = ["environment"]

ROOT = Path(__file__).parents[3]
PASSWORD = "Geheim-4711"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of ``server`` at 127.0.0.1, signed by ``ca``; ``other`` is a CA that signed nothing."""
    folder = tmp_path_factory.mktemp("certificates")
    certificate(folder, "ca")
    certificate(folder, "other")
    certificate(folder, "server", "ca", host="127.0.0.1")
    return folder


def by_password(user: str, password: str) -> bool:
    return (user, password) == ("reader", PASSWORD)


def settings_at(port: int, **changed: object) -> MySQL:
    return MySQL.model_validate({"port": port, "user": "reader", "connect_timeout": 5} | changed)


@pytest.mark.mysql
@pytest.mark.parametrize("plugin", ["mysql_clear_password", "dialog"])
@pytest.mark.parametrize("tls", [None, {"enabled": False}, {"verify": False}], ids=["none", "off", "unverified"])
def test_a_password_goes_to_no_server_that_is_not_known(
    plugin: str, tls: dict[str, object] | None, mysql: MySQLServer, certificates: Path
) -> None:
    """Whoever stands in between can ask for it, whatever plugin the account has."""
    served = certificates / "server.pem" if tls == {"verify": False} else None
    with ClearPasswordGateway(mysql, served, by_password, plugin=plugin) as gateway:
        settings = settings_at(gateway.port, password=PASSWORD, tls=tls)
        with pytest.raises(SourceError) as refused:
            connect("shop", settings)
        with pytest.raises(DeliveryError, match=r"^delivery copy: .* asks for the password itself"):
            Connection("copy", settings).open()
    assert str(refused.value) == (
        f"shop: 127.0.0.1:{gateway.port}: the server asks for the password itself ({plugin}), which goes only to a "
        "server whose certificate was verified; set tls, with the CA that signed it as tls.ca"
    )
    assert gateway.passwords == []
    assert (b"reader" in gateway.wire) == (served is None)  # the wire shows what is sent in clear
    assert PASSWORD.encode() not in gateway.wire


@pytest.mark.mysql
def test_over_verified_tls_the_password_is_sent(mysql: MySQLServer, certificates: Path) -> None:
    with ClearPasswordGateway(mysql, certificates / "server.pem", by_password) as gateway:
        tls = {"ca": certificates / "ca.pem"}
        with closing(log_in(settings_at(gateway.port, password=PASSWORD, tls=tls))):
            assert gateway.passwords == [PASSWORD]
        with pytest.raises(SourceError, match=r"Access denied.*; check the user or password of 'reader'$"):
            connect("shop", settings_at(gateway.port, password="falsch", tls=tls))
        with pytest.raises(SourceError, match="certificate verify failed"):
            connect("shop", settings_at(gateway.port, password=PASSWORD, tls={"ca": certificates / "other.pem"}))
    assert gateway.passwords == [PASSWORD, "falsch"]
    assert not any(word in gateway.wire for word in (PASSWORD.encode(), b"falsch"))


@pytest.mark.mysql
def test_a_command_gives_each_connection_its_password(
    mysql: MySQLServer, certificates: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A password that is another one each time, as of a vault that lends it."""
    caplog.set_level(logging.DEBUG)
    (tmp_path / "count").write_text("0")
    program = (
        f"import pathlib; file = pathlib.Path({str(tmp_path / 'count')!r}); number = int(file.read_text()) + 1; "
        f"file.write_text(str(number)); print('{PASSWORD}-' + str(number))"
    )
    words = [sys.executable, "-c", program]

    def accepts(user: str, password: str) -> bool:
        return password == f"{PASSWORD}-{len(gateway.passwords)}"

    with ClearPasswordGateway(mysql, certificates / "server.pem", accepts) as gateway:
        tls = {"ca": certificates / "ca.pem"}
        source = Server("shop", settings_at(gateway.port, password_command=words, tls=tls))
        assert source.problems() == []
        with closing(Connection("copy", settings_at(gateway.port, password_command=words, tls=tls))) as target:
            assert target.rows("SELECT 1 AS found") == [{"found": 1}]
        assert len(set(gateway.passwords)) == len(gateway.passwords) > 2
        failing = settings_at(gateway.port, password_command=["sh", "-c", f"echo {PASSWORD}; exit 4"], tls=tls)
        with pytest.raises(SourceError) as refused:
            connect("shop", failing)
    assert str(refused.value) == (
        f"shop: 127.0.0.1:{gateway.port}: password_command: sh ended with exit status 4; "
        "run it by hand as the same user"
    )
    assert PASSWORD not in repr(failing) + caplog.text
    assert PASSWORD.encode() not in gateway.wire


@dataclass
class Rds:
    """A role's keys, each for some seconds, and what became of logins with tokens that they signed."""

    seconds: float = 3600.0
    issued: int = 0
    used: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def keys(self) -> dict[str, object]:
        with self.lock:
            self.issued += 1
            access = f"ASIA{self.issued}"
        end = moment(self.seconds)
        return {"AccessKeyId": access, "SecretAccessKey": "secret-of-role", "Token": "session", "Expiration": end}

    def accepts(self, user: str, password: str) -> bool:
        """As RDS does, but for the signature, which test_aws.py compares with botocore's."""
        query = parse_qs(password.partition("?")[2])
        self.used.append(query["X-Amz-Credential"][0].split("/")[0])
        signed = time.strptime(query["X-Amz-Date"][0], "%Y%m%dT%H%M%SZ")
        is_young = abs(time.time() - (time.mktime(signed) - time.timezone)) < int(query["X-Amz-Expires"][0])
        return is_young and query["DBUser"] == [user] and self.used[-1] == f"ASIA{self.issued}"


@pytest.fixture
def rds(environment: pytest.MonkeyPatch) -> Iterator[Rds]:
    """A machine with a role, whose metadata service says so."""
    rds = Rds()
    with serving(instance(rds.keys)) as service:
        environment.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.url)
        environment.setenv("AWS_REGION", "eu-west-1")
        yield rds


@pytest.mark.mysql
def test_tokens_are_renewed_from_connection_to_connection(
    mysql: MySQLServer, certificates: Path, rds: Rds, caplog: pytest.LogCaptureFixture
) -> None:
    """Also for a dump that is cut in the middle after its keys have expired: it goes on where it was."""
    caplog.set_level(logging.DEBUG)
    with database_of(mysql) as database:
        database.execute("CREATE TABLE t (id INT PRIMARY KEY, note LONGTEXT)")
        for number in range(12):
            database.execute("INSERT INTO t VALUES (%s, REPEAT('x', 500000))", (number,))
    rds.seconds = 3.0  # 2 to 3, since a time has whole seconds
    with ClearPasswordGateway(mysql, certificates / "server.pem", rds.accepts, cut=2_000_000) as gateway:
        settings = settings_at(gateway.port, auth="aws-iam", tls={"ca": certificates / "ca.pem"})
        source = Server("shop", settings)
        assert source.problems() == []
        log = source.log()
        part = next(part for part in log.parts_from(log.first) if part.stop > 4_000_000)
        before, issued = len(gateway.passwords), rds.issued
        time.sleep(1.6)  # half of what the keys live, and they are renewed
        content = b"".join(map(bytes, source.reading()(part)[1]))
        assert content == content_of(mysql, part.file)[: part.stop]
        assert rds.issued > issued
        assert len(gateway.passwords) > before + 1  # it was cut, and logged in again
        assert {"ASIA1", f"ASIA{rds.issued}"} <= set(rds.used)
        with closing(Connection("copy", settings)) as target:
            assert target.rows("SELECT 1 AS found") == [{"found": 1}]
    assert "going on there in" in caplog.text
    for password in gateway.passwords:
        signature = password.rpartition("=")[2]
        assert len(signature) == 64
        assert signature.encode() not in gateway.wire
        assert signature not in caplog.text
    assert "secret-of-role" not in caplog.text


@pytest.mark.mysql
def test_a_token_that_the_server_refuses_says_what_to_check(mysql: MySQLServer, certificates: Path, rds: Rds) -> None:
    with ClearPasswordGateway(mysql, certificates / "server.pem", lambda *_: False) as gateway:
        settings = settings_at(gateway.port, auth="aws-iam", tls={"ca": certificates / "ca.pem"})
        with pytest.raises(
            SourceError, match=r"Access denied for user .*; check that 'reader' is made for auth: aws-iam "
        ):
            connect("shop", settings)


def test_a_service_that_does_not_answer_is_told_before_a_connection(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1")
    environment.setenv("AWS_REGION", "eu-west-1")
    with pytest.raises(SourceError) as refused:
        connect("shop", settings_at(1, auth="aws-iam", tls={}))
    message = str(refused.value)
    assert message.startswith("shop: 127.0.0.1:1: auth: aws-iam: there is no AWS_ACCESS_KEY_ID with AWS_SECRET_ACC")
    assert message.endswith("; the EC2 instance metadata service cannot be reached: Connection refused")


def called(node: ast.AST) -> str:
    """What a node calls, as it is written; nothing of other nodes and longer names."""
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return str(name)
        case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=name)):
            return f"{module}.{name}"
    return ""


def test_every_connection_is_opened_where_passwords_are_got() -> None:
    """Of the program; the demo's server is its own, with a password that it made up."""
    names = {"pymysql.connect", "pymysql.Connection", "_Connection", "BinLogStreamReader"}
    opening = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "spark_jobs").rglob("*.py")
        if any(called(node) in names for node in nodes_of(path))
    }
    assert opening == {"spark_jobs/source/connection.py", "spark_jobs/demo/server.py"}
