import copy
import tempfile
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr

from spark_jobs.cli.group import cli
from spark_jobs.config.loader import from_keys, load
from spark_jobs.config.model import Pipeline, Retention, RouteRule, SourceSettings
from spark_jobs.config.servers import MySQL, Tls
from spark_jobs.delta import commits
from spark_jobs.delta.snapshot import new_table
from spark_jobs.errors import ConfigError
from spark_jobs.lake.layout import lake_of
from spark_jobs.text.disclosure import printable

LEAST = "lake: ./lake\nsources:\n  shop:\n    files: ./binlogs\n"
TOO_DEEP = "nests more than 100 levels deep; write several rules, or IN (...) in the place of ORs"
SERVER = "lake: /lake\nsources:\n  shop:\n    mysql: {user: repl, password: '${SECRET}', host: db, port: 3307}\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "pipeline.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def problems(folder: Path, text: str, **environment: str) -> dict[str, str]:
    with pytest.raises(ConfigError) as refused:
        load(write(folder, text), environment)
    return {key.removeprefix("pipeline.yaml: "): message for key, message in refused.value.problems.items()}


def test_five_mistakes_are_five_problems(tmp_path: Path) -> None:
    text = """
lake: ./lake
sources:
  shop:
    mysql: {user: repl, password: "${SHOP_PASSWORD}", port: 70000}
  2nd:
    files: ./binlogs
tables: [shop.*, orders]
routes:
  - {from: "shop_*.orders", to: shop.orders}
  - {from: "shop_1.*", to: "shop.*"}
tabels: [shop.*]
"""
    assert problems(tmp_path, text) == {
        "routes[1].from": "a table can match routes[0].from too; a table has at most one route, which may list "
        "several targets: to: [a.t, b.t]",
        "routes[1].to": "'shop.*' must be one table, without * or ?; {1} is what the first of them in from stands for",
        "sources.2nd": "a source's name is made of letters, digits and _, and begins with no digit",
        "sources.shop.mysql.password": "the environment has no variable SHOP_PASSWORD; set it: export SHOP_PASSWORD=…",
        "sources.shop.mysql.port": "must be at most 65535",
        "tabels": "no such key; did you mean tables?",
        "tables[1]": "'orders' is not a table pattern; write it like shop.orders or shop.*",
    }


def test_the_message_names_the_file_and_each_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load(write(tmp_path, "sources: {shop: {files: x, start: now}}\n"), {})
    assert str(refused.value) == (
        "pipeline.yaml: lake: missing\n"
        "pipeline.yaml: sources.shop.start: 'now' is not a position, GTID set or time; "
        "write a position like mysql-bin.000042:1337, a GTID set like 3e11fa47-71ca-11e1-9e33-c80aa9429562:1-100 or "
        "0-1-100, or a time and its offset like "
        "2026-11-21T08:00:00+01:00; or write earliest or latest"
    )


@pytest.mark.parametrize(
    "text, expected",
    [
        ("lake: x\n", {"sources": "missing"}),
        ("lake: x\nsources: {}\n", {"sources": "must hold at least one"}),
        ("lake: x\nsources:\n", {"sources": "must hold keys and values"}),
        ("lake: x\nsources: [shop]\n", {"sources": "must hold keys and values"}),
        ("lake: x\nsources: {shop: {}}\n", {"sources.shop": "needs exactly one of mysql and files"}),
        ("lake: x\nsources: {shop: }\n", {"sources.shop": "must hold keys and values"}),
        (
            "lake: x\nsources: {shop: {files: x, mysql: {user: u}}}\n",
            {"sources.shop": "needs exactly one of mysql and files"},
        ),
        ("lake: x\nsources: {shop: {mysql: {host: db}}}\n", {"sources.shop.mysql.user": "missing"}),
        (
            "lake: x\nsources: {shop: {mysql: {user: u}, schema_dump: s.sql}}\n",
            {"sources.shop": "schema_dump is for a source of files; a server is asked for its tables itself"},
        ),
        (
            "lake: x\nsources: {shop: {files: x, schema_dump: {at: b.000001:4}}}\n",
            {"sources.shop.schema_dump.file": "missing"},
        ),
        (
            "lake: x\nsources: {shop: {files: x, schema_dump: {file: s.sql, at: 2026-11-21T08:00:00Z}}}\n",
            {
                "sources.shop.schema_dump.at": "must be a position or a GTID set: a time does not tell which "
                "statements come before it"
            },
        ),
        ("lake: x\nsources: {shop: {mysql: {user: u, port: high}}}\n", {"sources.shop.mysql.port": "must be a number"}),
        ("lake: x\nsources: {shop: {mysql: {user: u, port: 0}}}\n", {"sources.shop.mysql.port": "must be at least 1"}),
        ("lake: 5\nsources: {shop: {files: x}}\n", {"lake": "must be text"}),
        (f"{LEAST}tables: shop.*\n", {"tables": "must be a list"}),
        (f"{LEAST}tables: [5]\n", {"tables[0]": "must be text"}),
        (f"{LEAST}routes: [{{from: a.b}}]\n", {"routes[0].to": "missing"}),
        (f"{LEAST}routes: [{{source: a.b, to: a.c}}]\n", {
            "routes[0].from": "missing", "routes[0].source": "no such key; did you mean sources?"
        }),
        (f"{LEAST}routes: [{{from: a.b, to: []}}]\n", {"routes[0].to": "must hold at least one"}),
        (f"{LEAST}routes: [{{from: a.b, to: 5}}, {{from: a.c, to: [a.c, 5, a.d, 'a.*']}}]\n", {
            "routes[0].to": "must be text",
            "routes[1].to[1]": "must be text",
            "routes[1].to[3]": "'a.*' must be one table, without * or ?; {1} is what the first of them in from stands "
            "for",
        }),
        (f"{LEAST}routes: [{{from: a.b, to: [a.c, a.d, a.c]}}, {{from: 'b.*', to: ['a.{{1}}', 'a.{{2}}']}}]\n", {
            "routes[0].to[2]": "is routes[0].to[0] once more; a table goes to another once",
            "routes[1].to[1]": "{2} stands for nothing: from has 1 of * and ?; there are {source}, {schema}, {table} "
            "too",
        }),
        (f"{LEAST}routes: [{{from: a.b, to: a.c, keys: shared}}]\n", {
            "routes[0].keys": "shared is about tables of several, and by routes: each of these is of one source table; "
            'say which sources: meet there, as ["*"], or leave a * of from out of to'
        }),
        (f"{LEAST}routes: [{{from: a.b, to: a.c, sources: ['*'], keys: several}}]\n", {
            "routes[0].keys": "must be 'source' or 'shared'"
        }),
        (f"{LEAST}routes: [{{from: 'a_*.b', to: 'a.{{2}}', sources: [shop, 'x*', '-']}}]\n", {
            "routes[0].sources[2]": "'-' is no source's name, and no pattern of such with * or ?"
        }),
        (f"{LEAST}routes: [{{from: a.b}}, {{from: 'a_*.b', to: 'a.{{2}}', sources: ['x*', shop]}}]\n", {
            "routes[0].to": "missing",
            "routes[1].to": "{2} stands for nothing: from has 1 of * and ?; there are {source}, {schema}, {table} too",
            "routes[1].sources[0]": "no source is called x*",
        }),
        (f"{LEAST}retention: {{bronze: 30}}\n", {
            "retention.bronze": "must be a number of days, hours or minutes, like 30d, 36h or 90m"
        }),
        (f"{LEAST}retention: {{versions: 23h, margin_bytes: -1}}\n", {
            "retention.versions": "must be at least 1d: runs that are still going need these files",
            "retention.margin_bytes": "must be at least 0",
        }),
        (f"{LEAST}online_ddl: {{follow: [spirit], real: ['!shop._x_old', _x_old], allow: []}}\n", {
            "online_ddl.follow[0]": "must be 'gh-ost' or 'pt-osc'",
            "online_ddl.real[0]": "lists the tables that are real; leave others out of the list instead of excluding "
            "them",
            "online_ddl.real[1]": "'_x_old' is not a table pattern; write it like shop.orders or shop.*",
            "online_ddl.allow": "no such key",
        }),
        (f"{LEAST}max_lag: soon\nowners: [ann@example.com, team:data, me]\n", {
            "max_lag": "must be a number of days, hours or minutes, like 30d, 36h or 90m",
            "owners[2]": "'me' must be an email address, or team:NAME",
        }),
        (f"{LEAST}compat: some\n", {"compat": "must be 'full' or 'plain'"}),
        (f"{LEAST}path: /etc\n", {"path": "no such key"}),
        (f"{LEAST}spark: {{conf: {{spark.x: 1}}}}\n", {"spark.conf.spark.x": "must be text"}),
        (
            "lake: x\nsources: {shop: {mysql: {user: u, tls: {verify: maybe}}}}\n",
            {"sources.shop.mysql.tls.verify": "must be true or false"},
        ),
        ("lake: x\nsources: {a-b: {files: x}}\n", {
            "sources.a-b": "a source's name is made of letters, digits and _, and begins with no digit"
        }),
    ],
)  # fmt: skip
def test_each_mistake_has_its_key_and_plain_words(tmp_path: Path, text: str, expected: dict[str, str]) -> None:
    assert problems(tmp_path, text) == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", "must hold keys such as lake: and sources:"),
        ("- lake\n", "must hold keys such as lake: and sources:"),
        ("lake: x\nlake: y\n", "line 2: the key 'lake' is given twice"),
        ("sources:\n  shop: {files: x}\n  shop: {files: y}\n", "line 3: the key 'shop' is given twice"),
        ("? [a, b]\n: 1\n", "line 1: a key must be text or a number"),
    ],
)
def test_a_file_that_cannot_be_understood_is_one_problem(tmp_path: Path, text: str, expected: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as refused:
        load(path, {})
    assert str(refused.value) == f"{path}: {expected}"


def test_broken_yaml_is_said_with_its_place(tmp_path: Path) -> None:
    path = write(tmp_path, "lake: [x\nsources: }\n")
    with pytest.raises(ConfigError, match=r"pipeline\.yaml: not valid YAML: (?s:.)*line 2"):
        load(path, {})


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path / "none.yaml", {})
    advice = "name the file by -c FILE or STRATALOG_CONFIG, or write one: stratalog init"
    assert str(refused.value) == f"{tmp_path}/none.yaml: cannot be read: No such file or directory; {advice}"


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    path.write_bytes(b"lake: \xff\n")
    with pytest.raises(ConfigError, match=r"pipeline\.yaml: not valid YAML"):
        load(path, {})


def test_variables_are_read_from_the_environment_anywhere(tmp_path: Path) -> None:
    text = "lake: ${ROOT}/lake\nsources:\n  shop:\n    mysql: {user: '${U}', password: '${P}x'}\ntables: ['${U}.*']\n"
    pipeline = load(write(tmp_path, text), {"ROOT": "/data", "U": "repl", "P": "geheim"})
    server = pipeline.sources["shop"].mysql
    assert server is not None
    assert (pipeline.lake, server.user, server.password.get_secret_value()) == ("/data/lake", "repl", "geheimx")
    assert pipeline.tables == ("repl.*",)


def test_all_missing_variables_of_a_value_are_named(tmp_path: Path) -> None:
    text = "lake: ${ROOT}/${PLACE}\nsources: {shop: {files: x}}\n"
    remedy = "set it: export ROOT=… PLACE=…"
    assert problems(tmp_path, text) == {"lake": f"the environment has no variable ROOT, PLACE; {remedy}"}


@pytest.mark.parametrize(
    "text",
    [
        SERVER,
        SERVER + "tables: [x]\n",
        SERVER.replace("port: 3307", "port: many"),
        SERVER.replace("user: repl", "user: 5"),
        SERVER.replace("host: db", "hots: db"),
        SERVER.replace("'${SECRET}'", "[geheim]"),
        SERVER.replace("'${SECRET}'", "{geheim: 1}"),
    ],
)
def test_no_secret_is_shown_by_a_message_or_a_value(tmp_path: Path, text: str) -> None:
    try:
        pipeline = load(write(tmp_path, text), {"SECRET": "geheim"})
    except ConfigError as refused:
        content_text = f"{refused} {refused!r} {refused.problems}"
    else:
        content_text = f"{pipeline} {pipeline!r} {pipeline.model_dump()} {pipeline.model_dump_json()}"
    assert "geheim" not in content_text.replace("password.geheim", "")


def test_relative_paths_count_from_the_files_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "deep"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    write(folder, LEAST)
    pipeline = load(Path("deep/pipeline.yaml"), {})
    assert pipeline.path == folder / "pipeline.yaml"
    assert pipeline.lake == str(folder / "lake")
    assert pipeline.sources["shop"].files == folder / "binlogs"
    assert pipeline.tables_file == folder / "pipeline.tables.json"


def test_the_files_of_tls_are_beside_the_file_that_names_them(tmp_path: Path) -> None:
    text = """lake: ./lake
sources:
  shop: {mysql: {user: repl, tls: {ca: ca.pem, cert: /etc/client.pem, key: client.key}}}
  pair: {mysql: {user: repl, tls: {ca: ca.pem}}, endpoints: [{host: a, tls: {ca: a.pem}}, {host: b}]}
deliveries: {replica: {mysql: {user: writer, tls: {ca: replica.pem}}}, plain: {mysql: {user: writer}}}
"""
    pipeline = load(write(tmp_path, text), {})
    (shop,) = pipeline.sources["shop"].servers
    assert shop.tls == Tls(ca=tmp_path / "ca.pem", cert=Path("/etc/client.pem"), key=tmp_path / "client.key")
    assert [server.tls for server in pipeline.sources["pair"].servers] == [
        Tls(ca=tmp_path / "a.pem"),
        Tls(ca=tmp_path / "ca.pem"),
    ]
    assert pipeline.deliveries["replica"].mysql.tls == Tls(ca=tmp_path / "replica.pem")
    assert pipeline.deliveries["plain"].mysql.tls is None


@pytest.mark.parametrize("lake", ["/data/lake", "s3a://bucket/lake"])
def test_absolute_and_remote_lakes_stay_as_they_are(tmp_path: Path, lake: str) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    assert load(write(tmp_path, f"lake: {lake}\nsources: {{shop: {{files: x}}}}\n"), keys).lake == lake


@pytest.mark.parametrize(
    "folder, lake, part",
    [
        ("a", "50%25", "%25"),
        ("%c3%A9", "lake", "%c3"),
        ("a#b", "lake", "#"),
        ("a", "b?/lake", "?"),
        ("a\\b", "./lake", "\\"),
        ("a", "s3a://bucket/%41", "%41"),
    ],
)
def test_a_lake_in_a_folder_that_deltalake_decodes_is_refused(
    tmp_path: Path, folder: str, lake: str, part: str
) -> None:
    (tmp_path / folder).mkdir()
    text = f"lake: '{lake}'\nsources: {{shop: {{files: x}}}}\n"
    with pytest.raises(ConfigError) as refused:
        load(write(tmp_path / folder, text), {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"})
    (reason,) = refused.value.problems.values()
    assert reason.startswith(f"its path has {part!r}, and one with %41")


@pytest.mark.parametrize("name", ["a b", "50%", "é", "日本 {x}[y]~`^|<>*", "a:b", "100%!"])
def test_a_lake_may_have_other_signs_in_its_path(tmp_path: Path, name: str) -> None:
    pipeline = load(write(tmp_path, f"lake: '{name}/lake'\nsources: {{shop: {{files: x}}}}\n"), {})
    table = lake_of(pipeline).published()
    snapshot = new_table(table.path, {"a": "INT"}, {})
    commits.commit(snapshot)
    assert commits.write_checkpoint(table.path, 0)


def test_merge_keys_of_yaml_are_no_duplicates(tmp_path: Path) -> None:
    text = "lake: x\nsources:\n  a: &a {files: x, start: latest}\n  b:\n    <<: *a\n    files: y\n"
    pipeline = load(write(tmp_path, text), {})
    assert (pipeline.sources["b"].start, pipeline.sources["b"].files) == ("latest", tmp_path / "y")


def test_the_pipeline_of_the_documentation_loads(tmp_path: Path) -> None:
    text = """
lake: ./lake                  # local, s3a://, abfss://
sources:
  shop:
    mysql: {host: 127.0.0.1, port: 3306, user: repl, password: "${SHOP_PASSWORD}"}
    start: earliest
  archive:
    files: ./binlogs
tables: ["shop.*", "!shop.audit_*"]
routes:
  - {from: "shop_*.orders_*", to: shop.orders}
"""
    pipeline: Pipeline = load(write(tmp_path, text), {"SHOP_PASSWORD": "x"})
    assert list(pipeline.sources) == ["shop", "archive"]


def test_a_pipeline_is_made_of_keys_and_of_models(tmp_path: Path) -> None:
    keys = {
        "lake": "./lake",
        "sources": {
            "shop": SourceSettings(mysql=MySQL(user="repl", password=SecretStr("x"))),
            "archive": {"files": "./${FOLDER}"},
        },
        "retention": Retention(bronze=timedelta(days=30)),
        "routes": (RouteRule.model_validate({"from": "shop.*", "to": "sales.all"}),),
    }
    pipeline = from_keys(keys, tmp_path / "pipeline.yaml", {"FOLDER": "logs"})
    assert pipeline.lake == str(tmp_path / "lake")
    assert pipeline.sources["archive"].files == tmp_path / "logs"
    assert pipeline.retention.bronze == timedelta(days=30)
    assert pipeline.tables_file == tmp_path / "pipeline.tables.json"


def test_keys_that_are_wrong_are_told_as_those_of_a_file(tmp_path: Path) -> None:
    route = RouteRule.model_validate({"from": "shop.*", "to": "sales.all"})
    keys = {"lake": "./lake", "sources": {"shop": {"files": "${GONE}"}}, "routes": [route, route], "tabels": []}
    with pytest.raises(ConfigError) as info:
        from_keys(keys, tmp_path / "pipeline.yaml", {})
    assert list(info.value.problems) == [
        "pipeline.yaml: routes[1].from",
        "pipeline.yaml: sources.shop.files",
        "pipeline.yaml: tabels",
    ]


@pytest.mark.parametrize(
    "text, expected",
    [
        (
            "lake: x\nsources: {shop: {mysql: {user: u, passwd: '${NONE}'}}}\n",
            {
                "sources.shop.mysql.passwd": (
                    "no such key; did you mean password?; the environment has no variable NONE; set it: export NONE=…"
                )
            },
        ),
        (
            "lakes: x\nsources: {shop: {files: x, mysql: {port: 33:06}, schema_dmp: y}}\n",
            {
                "lake": "missing",
                "lakes": "no such key; did you mean lake?",
                "sources.shop": "needs exactly one of mysql and files",
                "sources.shop.mysql.port": "must be a number",
                "sources.shop.mysql.user": "missing",
                "sources.shop.schema_dmp": "no such key; did you mean schema_dump?",
            },
        ),
        (f"{LEAST}on: 5\n5: a\nnull: b\n", dict.fromkeys(("5", "null", "on"), "no such key")),
        (
            f"{LEAST}retention: {{bronze: 99999999999d, margin: {'9' * 5000}m}}\nmax_lag: 40000d\n",
            dict.fromkeys(("max_lag", "retention.bronze", "retention.margin"), "must be at most 36500d"),
        ),
        (
            "lake: ' '\nsources: {shop: {files: '', archive: \"a\\0\"}}\n",
            {
                "lake": "must be a path, and is empty",
                "sources.shop.archive": "has characters that no path has",
                "sources.shop.files": "must be a path, and is empty",
            },
        ),
        (
            f"{LEAST}row_filters: {{a: {{tables: [a.b], insert-value-expr: '{'(' * 3000}a{')' * 3000} = 1'}}}}\n",
            {"row_filters.a.insert-value-expr": TOO_DEEP},
        ),
        (
            f"{LEAST}row_filters: {{a: {{tables: [a.b], insert-value-expr: '{' AND '.join(['a = 1'] * 3000)}'}}}}\n",
            {"row_filters.a.insert-value-expr": TOO_DEEP},
        ),
        (
            f"{LEAST}row_filters: {{a: {{tables: [a.b], insert-value-expr: 'a = {'- ' * 3000}1'}}}}\n",
            {"row_filters.a.insert-value-expr": TOO_DEEP},
        ),
        (
            f"{LEAST}filters: {{a: {{tables: [a.b], sql-pattern: ['{'(' * 3000}{')' * 3000}']}}}}\n",
            {"filters.a.sql-pattern[0]": "nests too deep for a regular expression"},
        ),
    ],
)
def test_what_ended_in_a_trace_or_came_later_is_a_problem_like_others(
    tmp_path: Path, text: str, expected: dict[str, str]
) -> None:
    assert problems(tmp_path, text) == expected


@pytest.mark.parametrize("text", ["${SHOP-PASSWORD}", "${X:-default}", "${}", "a ${ b", "${A}${"])
def test_a_variable_that_is_none_is_no_text(tmp_path: Path, text: str) -> None:
    file = f"lake: x\nsources: {{shop: {{mysql: {{user: u, password: '{text}'}}}}}}\n"
    assert problems(tmp_path, file, A="a") == {
        "sources.shop.mysql.password": (
            "has ${ without the name of a variable and }, as ${NAME}: letters, digits and _; text that has ${ itself "
            "goes into a variable"
        )
    }
    pipeline = load(write(tmp_path, "lake: x\nsources: {shop: {mysql: {user: u, password: '${A}'}}}\n"), {"A": text})
    assert pipeline.sources["shop"].servers[0].password.get_secret_value() == text


VALID: dict[str, Any] = {
    "lake": "./lake",
    "sources": {
        "shop": {
            "mysql": {"user": "repl", "password": "${SECRET}", "port": 3306, "tls": {"verify": False}},
            "endpoints": [{"host": "a"}, {"host": "b", "port": 3307}],
            "choose": "hash",
            "start": "mysql-bin.000042:1337",
            "system_time_zone": "Europe/Berlin",
            "redact": ["shop.secrets"],
        },
        "files": {"files": "./binlogs", "archive": "./old", "start": "latest"},
    },
    "tables": ["shop.*", "!shop.audit_*", "!shop.secrets"],
    "routes": [{"from": "shop_*.orders_*", "to": ["shop.orders", "{schema}.{1}"], "sources": ["*"], "keys": "shared"}],
    "filters": {"a": {"tables": ["shop.t"], "events": ["drop table"], "sql-pattern": ["^DROP"], "action": "ignore"}},
    "row_filters": {"b": {"tables": ["shop.u"], "update-new-value-expr": "a IN (1, 2) AND NOT b LIKE 'x%'"}},
    "columns": {"c": {"tables": ["shop.v"], "exclude": ["x"], "mask": {"y": {"hash": "${SECRET}"}}}},
    "spark": {"master": "local[2]", "conf": {"spark.x": "1"}},
    "retention": {"bronze": "30d", "margin": "90m", "versions": "7d", "margin_bytes": 5, "fold": True},
    "online_ddl": {"follow": ["gh-ost"], "real": ["shop._x_gho"]},
    "reports": {"to": None, "url": "https://x"},
    "owners": ["team:data"],
    "max_lag": "36h",
    "verify": True,
}
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(10**400), 10**400), st.floats(), st.text(max_size=9),
    st.sampled_from(
        ["33:06", "0123", "yes", "${X-Y}", "${", "${NONE}", "9" * 5000, "99999999999d", "(" * 2000, "- " * 900 + "1",
         "a = 1 AND " * 900 + "a = 1", "a.1:" + "9" * 5000, "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59",
         "*.*", "!", "a{99999999999}", "\0", "\x1b[31m", "\u202e", "1-1-" + "9" * 30, "x" * 9000, "+99:99", "a\nb",
         "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-" + "9" * 99, "{9}.{0}", "{1}.{nope}", "{" * 99, "a." + "?" * 99]
    ),
)  # fmt: skip
TREES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """The valid document with some values, keys and bytes changed."""
    document = copy.deepcopy(VALID)
    for _ in range(draw(st.integers(1, 4))):
        inner: Any = document
        while True:
            at = draw(st.sampled_from(list(inner) if isinstance(inner, dict) else list(range(len(inner)))))
            if isinstance(inner[at], dict | list) and inner[at] and draw(st.booleans()):
                inner = inner[at]
                continue
            break
        match draw(st.sampled_from(["value", "key", "gone", "wrapped"])):
            case "value":
                inner[at] = draw(TREES)
            case "key" if isinstance(inner, dict):
                inner[draw(st.one_of(SCALARS, st.just(f"{at}s")))] = inner[at]
            case "wrapped":
                inner[at] = [inner[at]]
            case _ if len(inner) > 1:
                del inner[at]
    text: str = yaml.safe_dump(document, allow_unicode=draw(st.booleans()), default_flow_style=draw(st.booleans()))
    if draw(st.booleans()):
        index = draw(st.integers(0, len(text)))
        text = (
            text[:index]
            + draw(st.sampled_from(["&a ", "*a ", "!!int ", "<<: ", "'", "[", "}", ": ", "\n", "- "]))
            + text[index:]
        )
    return text


def test_the_document_that_is_changed_is_valid(tmp_path: Path) -> None:
    assert load(write(tmp_path, yaml.safe_dump(VALID)), {"SECRET": "geheim"}).verify


@pytest.mark.thorough
@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(mutated())
def test_any_document_is_right_or_refused_with_a_line_a_problem(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        path = Path(folder) / "pipeline.yaml"
        path.write_text(text, encoding="utf-8", errors="replace")
        patched.setenv("SECRET", "geheim")
        ran = CliRunner().invoke(cli, ["check", "-c", str(path)])
        if isinstance(ran.exception, ConfigError):
            message = "\n".join(printable(line) for line in str(ran.exception).split("\n"))
            count = len(ran.exception.problems)
            assert len(message.split("\n")) == count, message
            assert all(line.startswith((f"{path}", "pipeline.yaml", "sources")) for line in message.split("\n")), (
                message
            )
            assert "geheim" not in message
        else:
            assert ran.exception is None, "".join(traceback.format_exception(ran.exception)[-8:])
            assert ran.exit_code == 0
