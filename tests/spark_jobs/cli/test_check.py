import json
from contextlib import nullcontext
from pathlib import Path

import deltalake
import pytest
from deltalake import CommitProperties, Transaction

from spark_jobs.binlog import TableName
from spark_jobs.bronze import table as bronze
from spark_jobs.bronze.commit import BronzeCommit
from spark_jobs.checks.verify import KeyDifference, Verdict
from spark_jobs.log.position import Position
from tests.command_result import CommandResult
from tests.fix_cli import SPEC, Stratalog
from tests.fix_mysql import Database

ROOT = Path(__file__).parents[3]
RECORDED = ROOT / "tests" / "recorded"


def test_check_says_that_all_is_well(stratalog: Stratalog, pipeline_file: Path) -> None:
    ran = stratalog("check", "-c", pipeline_file)
    assert (ran.status, ran.out, ran.err) == (0, f"{pipeline_file}: no problems found\n", "")


def test_check_with_connect_lists_what_was_checked(
    stratalog: Stratalog, pipeline_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "500")
    ran = stratalog("check", "-c", pipeline_file, "--connect")
    folder = pipeline_file.parent
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "sources.shop:",
        f"  ok       folder          {folder}/binlogs",
        "  ok       binlog files    1, mysql-bin.000001",
        "  ok       missing files   none",
        f"  ok       log end         mysql-bin.000001:{len(SPEC.to_bytes())}",
        "  ok       start position  earliest: found, bronze is empty",
        "lake:",
        f"  ok       writable  {folder}/lake; a run creates it",
        f"{pipeline_file}: no problems found",
    ]


def test_results_fit_the_terminal(stratalog: Stratalog, pipeline_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    (pipeline_file.parent / "binlogs" / "mysql-bin.000003").write_bytes(SPEC.to_bytes())
    lines = stratalog("check", "-c", pipeline_file, "--connect").out.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("  problem  missing files"))
    assert lines[at].split(maxsplit=3)[3] == "between mysql-bin.000001 and"
    assert lines[at + 1].split() == ["mysql-bin.000003"]
    assert lines[at + 2].split() == ["copy", "the", "missing", "files", "into"]
    assert all(len(line) <= 60 for line in lines if str(pipeline_file.parent) not in line)


def test_check_gives_the_same_results_as_json(stratalog: Stratalog, pipeline_file: Path) -> None:
    pipeline_file.write_text(pipeline_file.read_text().replace("./lake", "./pipeline.yaml/lake"))
    ran = stratalog("check", "-c", pipeline_file, "--connect", "--json")
    results = json.loads(ran.out)
    assert (ran.status, results["problems"], results["warnings"]) == (1, 1, 0)
    assert results["checks"][0] == {
        "about": "sources.shop",
        "name": "folder",
        "status": "ok",
        "value": f"{pipeline_file.parent}/binlogs",
        "remedy": "",
    }
    assert (results["checks"][-1]["about"], results["checks"][-1]["status"]) == ("lake", "problem")
    assert json.loads(stratalog("check", "-c", pipeline_file, "--json").out)["checks"] == []


@pytest.mark.mysql
def test_a_pattern_that_matches_nothing_fails_and_an_exclusion_only_warns(
    stratalog: Stratalog, database: Database, tmp_path: Path
) -> None:
    database.execute("CREATE TABLE orders (id INT PRIMARY KEY)")
    server, path = database.server, tmp_path / "pipeline.yaml"
    access = f"{{host: {server.host}, port: {server.port}, user: {server.user}, password: {server.password}}}"

    def check(*tables: str) -> CommandResult:
        path.write_text(f"lake: ./lake\nsources: {{shop: {{mysql: {access}}}}}\ntables: {json.dumps(tables)}\n")
        return stratalog("check", "-c", path, "--connect")

    ran = check(f"{database.name}.*", "!none.*")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.endswith(f"{path}: no problems found, 1 warning\n")
    ran = check(f"{database.name}.*", f"{database.name}x.*")
    assert (ran.status, ran.err) == (1, f"{path}: 1 problem, 0 warnings\n")
    assert "matches no table" in ran.out
    assert "no problems found" not in ran.out


def test_check_reads_schema_dumps(stratalog: Stratalog, pipeline_file: Path) -> None:
    log, location = pipeline_file.parent / "log", "-- CHANGE MASTER TO MASTER_LOG_FILE='b.000001', MASTER_LOG_POS=4;\n"
    pipeline_file.write_text(f"lake: x\nsources: {{shop: {{files: {log}, schema_dump: s.sql}}}}\n")
    dump = pipeline_file.parent / "s.sql"
    assert (
        f"sources.shop.schema_dump: {dump}: it cannot be read: No such file"
        in stratalog("check", "-c", pipeline_file).err
    )
    for text, reason in (
        ("CREATE TABLE d.t (a INT);", "it does not say at which position of the log it was taken"),
        (f"{location}CREATE TABLE d.t (a WHAT);", "line 2: CREATE TABLE of d.t cannot be read"),
        (
            f"{location}CREATE TABLE t (a INT);",
            "line 2: the statement that begins there cannot be read: CREATE TABLE t",
        ),
    ):
        dump.write_text(text)
        ran = stratalog("check", "-c", pipeline_file)
        assert (ran.status, ran.out) == (2, "")
        assert ran.err.startswith(f"sources.shop.schema_dump: {dump}: {reason}")
    dump.write_text(f"{location}CREATE TABLE d.t (a INT);")
    assert stratalog("check", "-c", pipeline_file).status == 0


def test_check_with_connect_asks_every_source(
    stratalog: Stratalog, pipeline_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "500")
    text = "lake: x\nsources:\n  gone: {files: ./gone}\n  down: {mysql: {user: u, port: 1, connect_timeout: 2}}\n"
    pipeline_file.write_text(text)
    ran = stratalog("check", "-c", pipeline_file, "--connect")
    missing = pipeline_file.parent / "gone"
    assert (ran.status, ran.err) == (1, f"{pipeline_file}: 2 problems, 0 warnings\n")
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert f"problem folder {missing} cannot be read: No such file or directory" in lines
    assert any(line.startswith("problem connection 127.0.0.1:1") and "Connection refused" in line for line in lines)


def test_a_check_tells_what_the_source_has_purged(stratalog: Stratalog, pipeline_file: Path) -> None:
    checkpoint = BronzeCommit(Position("mysql-bin.000001", 4), "b", begin=Position("mysql-bin.000001", 4))
    commit = CommitProperties(
        custom_metadata={"userMetadata": checkpoint.to_json()}, app_transactions=[Transaction("stratalog", 1)]
    )
    path = pipeline_file.parent / "lake" / "bronze" / "shop"
    deltalake.write_deltalake(path, bronze.ARROW.empty_table(), commit_properties=commit)
    assert stratalog("check", "-c", pipeline_file, "--connect").status == 0
    (pipeline_file.parent / "binlogs" / "mysql-bin.000001").rename(
        pipeline_file.parent / "binlogs" / "mysql-bin.000002"
    )
    ran = stratalog("check", "-c", pipeline_file, "--connect")
    assert ran.status == 1
    assert "mysql-bin.000001 is gone from the source, whose oldest file is mysql-bin." in " ".join(ran.out.split())


@pytest.mark.mysql
def test_check_with_connect_names_child_tables_that_the_server_changes_unlogged(
    stratalog: Stratalog, pipeline_file: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, rule = database.server, "ON DELETE CASCADE"
    database.execute("CREATE TABLE p (id INT PRIMARY KEY)")
    database.execute(f"CREATE TABLE c (id INT, CONSTRAINT f FOREIGN KEY (id) REFERENCES p (id) {rule})")
    monkeypatch.setenv("SHOP_PASSWORD", server.password)
    login = f"{{host: {server.host}, port: {server.port}, user: {server.user}, password: '${{SHOP_PASSWORD}}'}}"
    text = f"lake: x\nsources: {{shop: {{mysql: {login}}}}}\ntables: ['{database.name}.*']\n"
    pipeline_file.write_text(text)
    ran = stratalog("check", "-c", pipeline_file, "--connect")
    changed = f"{database.name}.c: is changed by the foreign key f -> {database.name}.p {rule}, and"
    assert ran.status == 0
    assert changed in " ".join(ran.out.split())
    assert "apply: what it does is derived (default)" in " ".join(ran.out.split()), "a lake that is not there yet"
    # Each foreign key with what will be of it, and why.
    for choice, outcome in {
        "warn": "warn: the table continues, and its rows may be wrong (on_cascade: warn; apply is possible",
        "ignore": "ignored: its rows may be wrong, and nothing says so (on_cascade: ignore)",
        "apply": "apply: what it does is derived (on_cascade: apply)",
        f"[{{tables: '{database.name}.c', action: stop}}]": "(on_cascade: stop of the line",
    }.items():
        pipeline_file.write_text(f"{text}on_cascade: {choice}\n")
        ran = stratalog("check", "-c", pipeline_file, "--connect")
        assert outcome in " ".join(ran.out.split()), choice
    # What the server declares may be in the way.
    database.execute("CREATE TABLE days (day DATE PRIMARY KEY)")
    database.execute(f"CREATE TABLE d (day DATE, CONSTRAINT g FOREIGN KEY (day) REFERENCES days (day) {rule})")
    pipeline_file.write_text(text + "on_cascade: apply\n")
    output = " ".join(stratalog("check", "-c", pipeline_file, "--connect").out.split())
    reason = f"(on_cascade: apply is not possible: {database.name}.d.day: dates and times are not compared)"
    assert f"stop: the table stops before the first change of the parent that may change its rows {reason}" in output


@pytest.mark.mysql
@pytest.mark.parametrize("verb", ["verify", "mend"])
def test_a_table_that_nobody_has_is_refused_before_spark_starts(
    stratalog: Stratalog, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    started: list[object] = []
    monkeypatch.setattr("spark_jobs.runtime.spark_session.spark_session", started.append)
    database.execute("CREATE TABLE orders (id INT PRIMARY KEY)")
    database.execute("CREATE TABLE goods (id INT PRIMARY KEY)")
    server, path = database.server, tmp_path / "pipeline.yaml"
    access = f"{{host: {server.host}, port: {server.port}, user: {server.user}, password: {server.password}}}"
    path.write_text(f"lake: ./lake\nsources: {{shop: {{mysql: {access}}}}}\ntables: ['{database.name}.*']\n")
    known, wrong = f"{database.name}.goods", f"{database.name}.ordres"
    ran = stratalog(verb, "-c", path, "--table", known, "--table", wrong)
    message = (
        f"--table: neither shop nor the lake has a table like {wrong} in scope; did you mean {database.name}.orders?"
    )
    assert (ran.status, ran.out, started) == (2, "", [])
    assert ran.err.splitlines()[-1] == message
    assert not (tmp_path / "lake").exists()


@pytest.mark.mysql
def test_a_table_that_an_unreachable_source_may_have(
    stratalog: Stratalog, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []

    def verdicts_of(_spark: object, _pipeline: object, name: str, *_: object, **__: object) -> list[Verdict]:
        compared.append(name)
        return []

    monkeypatch.setattr("spark_jobs.cli.app.spark_of", lambda *_, **__: nullcontext())
    monkeypatch.setattr("spark_jobs.checks.verify.verify_source", verdicts_of)
    database.execute("CREATE TABLE orders (id INT PRIMARY KEY)")
    server, path = database.server, tmp_path / "pipeline.yaml"
    access = f"{{host: {server.host}, port: {server.port}, user: {server.user}, password: {server.password}}}"
    closed = "{host: 127.0.0.1, port: 1, user: repl}"
    sources = f"sources: {{crm: {{mysql: {closed}}}, shop: {{mysql: {access}}}}}"
    path.write_text(f"lake: ./lake\n{sources}\ntables: ['{database.name}.*', crm.*]\n")
    # No answer is known for a name that only the source without an answer may have.
    ran = stratalog("verify", "-c", path, "--table", f"{database.name}.orders", "--table", f"{database.name}.ordres")
    assert (ran.status, ran.out, compared) == (1, "", [])
    assert f"crm: could not be asked for a table like {database.name}.ordres, which is not among" in ran.err
    assert "in scope of shop, the lake: crm: 127.0.0.1:1" in ran.err
    assert f"did you mean {database.name}.orders?" in ran.err
    # What the server that answers has is right; of the other source its comparison speaks.
    assert stratalog("verify", "-c", path, "--table", f"{database.name}.orders").status == 0
    assert compared == ["crm", "shop"]


@pytest.mark.mysql
def test_a_mend_without_the_lock_is_refused_before_anything_is_compared(
    stratalog: Stratalog, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    monkeypatch.setattr("spark_jobs.runtime.spark_session.spark_session", started.append)
    database.execute("CREATE TABLE orders (id INT PRIMARY KEY)")
    server, path = database.server, tmp_path / "pipeline.yaml"
    access = f"{{host: {server.host}, port: {server.port}, user: {server.user}, password: {server.password}}}"
    path.write_text(f"lake: ./lake\nsources: {{shop: {{mysql: {access}}}}}\ntables: ['{database.name}.*']\n")
    ran = stratalog("mend", "-c", path)
    assert (ran.status, ran.out, started) == (1, "", [])
    assert f"GRANT LOCK TABLES ON `{database.name}`.* TO 'repl'@'%'" in ran.err
    assert not (tmp_path / "lake").exists()


def test_verify_refuses_a_source_without_a_server(stratalog: Stratalog, pipeline_file: Path) -> None:
    ran = stratalog("verify", "-c", pipeline_file)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("sources.shop: it reads files, which have no tables to compare")


@pytest.fixture
def verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipeline of a server whose one table differs, and another that does not."""
    differences = (
        KeyDifference("different", {"id": "7", "code": "a"}, {"price": ("0.37", "0.42"), "note": (None, "x")}),
        KeyDifference("missing", {"id": "8", "code": "b"}),
    )
    orders = TableName("shop", "orders")
    listed = [
        Verdict("shop", TableName("shop", "lines"), "equal", Position("bin.000001", 4), 3, 3),
        Verdict("shop", orders, "differs", None, 9, 8, missing=1, different=1, unread=2, differences=differences),
        Verdict("shop", TableName("shop", "bag"), "not compared", reason="shop: shop.bag: stopped"),
        Verdict("shop", TableName("shop", "copied"), "differs", older=1, into="audit.copied"),
    ]
    monkeypatch.setattr("spark_jobs.cli.app.spark_of", lambda *_, **__: nullcontext())
    monkeypatch.setattr(
        "spark_jobs.checks.verify.verify_source",
        lambda _s, _p, _n, in_scope, since: (verdict for verdict in listed if in_scope(verdict.table)),
    )
    monkeypatch.setattr("spark_jobs.checks.verify.require_named", lambda *_: None)
    path = tmp_path / "pipeline.yaml"
    path.write_text("lake: ./lake\nsources:\n  shop: {mysql: {user: repl}}\n")
    return path


def test_verify_lists_what_differs(stratalog: Stratalog, verdicts: Path) -> None:
    ran = stratalog("verify", "-c", verdicts, "--values")
    lines = [line.split() for line in ran.out.splitlines()]
    assert ran.status == 1
    assert lines[1] == ["shop.lines", "equal", "3", "3", "0", "0", "0", "0", "0", "0.0"]
    assert lines[4][:4] == ["shop.copied", "into", "audit.copied", "differs"]
    assert ran.out.splitlines()[5:] == [
        "shop.orders different id=7, code=a: price is 0.42 and should be 0.37, note is x and should be NULL",
        "shop.orders missing id=8, code=b",
    ]
    assert ran.err.splitlines() == [
        "shop.orders: 2 more rows differ by their hashes; they were not read again one by one",
        "shop: shop.bag: stopped",
        "shop.copied into audit.copied: 1 rows are older than the log, which lacks the table's CREATE too",
    ]
    assert "shop.orders different id=7, code=a: price, note\n" in stratalog("verify", "-c", verdicts).out


def test_verify_says_it_in_json_and_by_its_status(stratalog: Stratalog, verdicts: Path) -> None:
    ran = stratalog("verify", "-c", verdicts, "--json", "--table", "shop.orders")
    results = json.loads(ran.out)
    assert (ran.status, results["table"], results["state"], results["position"]) == (1, "shop.orders", "differs", None)
    assert (results["equal"], results["into"]) == (5, None)
    assert results["differences"][0] == {
        "kind": "different",
        "key": {"id": "7", "code": "a"},
        "columns": {"price": {"source": "0.37", "lake": "0.42"}, "note": {"source": None, "lake": "x"}},
    }
    assert stratalog("verify", "-c", verdicts, "--table", "shop.lines").status == 0
