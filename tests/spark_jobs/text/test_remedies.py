import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from spark_jobs import errors
from spark_jobs.cli.group import every_verb
from spark_jobs.errors import (
    AccessDenied,
    AnotherLog,
    ConfigError,
    DecodeError,
    DeliveryError,
    LakeError,
    LostRace,
    SourceError,
    StratalogError,
    TableStopped,
    Truncated,
)
from spark_jobs.text.codes import code_of
from spark_jobs.text.remedies import DEFAULTS, KINDS, Kind, advised, has_remedy, kind_of
from tests.command_result import without_codes
from tests.source_trees import nodes_of

COMMANDS = every_verb()

ROOT = Path(__file__).parents[3]
CLASSES = {
    name: class_
    for name, class_ in vars(errors).items()
    if isinstance(class_, type) and issubclass(class_, StratalogError) and class_ is not ConfigError
}


def literal(node: ast.expr) -> str:
    """The text of a message, with what it is filled with as {…}; <…> where it is computed elsewhere."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(literal, node.values))
    if isinstance(node, ast.FormattedValue):
        return f"{{{ast.unparse(node.value)}}}"
    return f"<{ast.unparse(node)}>"


@cache
def raised() -> tuple[tuple[str, type[StratalogError], str], ...]:
    """Position where an error of ours is made, its class, and its message."""
    return tuple(_raised())


def _raised() -> Iterator[tuple[str, type[StratalogError], str]]:
    for path in sorted((ROOT / "spark_jobs").rglob("*.py")):
        label = str(path.relative_to(ROOT / "spark_jobs"))
        if label.startswith("demo/") or label == "errors.py":
            continue
        for node in nodes_of(path):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if name in CLASSES:
                yield label, CLASSES[name], literal(node.args[0])
            elif name == "refusal" and label.startswith("silver/timeline/"):  # how a timeline refuses a statement
                yield label, TableStopped, f"ALTER TABLE at bin.000001:4 {literal(node.args[1])}: ALTER TABLE t"


COMPUTED = re.compile(
    r"(?:x at x x: x|x\.x: x|"
    r"(?:x(?:: | )?|<[^>]*>|ALTER TABLE at \S+ |: ALTER TABLE t|its order times are known up to x, and )"
    r"+)"
)
"""Messages, with x for what they are filled with, that are made of others, which are looked at where they are made."""
OF_RULES = ("silver/masking.py: x", "silver/row_filters.py: x", "silver/column_masks.py: x")
"""x, the rule's key, begins with columns. or row_filters., which is a kind."""


def test_every_stop_of_a_table_has_a_remedy_of_its_own_kind() -> None:
    """A message of which this is not true: say in it what to do, or give it a kind in spark_jobs/text/remedies.py."""
    stops = [
        (label, text)
        for label, cls, text in raised()
        # What verify says of a table stops none, and operations/repair.py repeats the message of a stop.
        if issubclass(cls, TableStopped) and not label.startswith(("checks/verify/", "operations/repair.py"))
    ]
    assert len(stops) > 80
    filled = [(label, text, re.sub(r"\{[^}]*\}", "x", text)) for label, text in stops]
    alone = [
        f"{label}: {short}"
        for label, text, short in filled
        if not (has_remedy(text) or kind_of(text) or kind_of(short) or COMPUTED.fullmatch(short))
    ]
    assert [line for line in alone if not line.startswith(OF_RULES)] == []


def test_every_message_that_is_made_can_be_advised() -> None:
    for label, cls, text in raised():
        message = advised(cls(text), "shop", "shop.t")
        remedy = without_codes(message).removeprefix(text)
        assert has_remedy(message) or "run again" in message, label
        assert not re.search(r"\{(?:source|table|at)\}", remedy), label
        assert advised(message) == message, "once is enough"


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_has_a_remedy(name: str) -> None:
    message = advised(CLASSES[name]("something"))
    assert len(message) > len("something; run")
    assert (
        any(issubclass(CLASSES[name], default) and default is not StratalogError for default in DEFAULTS)
        or name == "StratalogError"
    )


REMEDIES = [*(kind.remedy for kind in KINDS), *DEFAULTS.values()]


@pytest.mark.parametrize("remedy", REMEDIES)
def test_a_remedy_names_what_there_is(remedy: str) -> None:
    for verb, options in re.findall(r"stratalog ([a-z]+)((?: --[a-z-]+(?: (?:\{\w+\}|[A-Z]+))?)*)", remedy):
        command = COMMANDS[verb]
        option_names = {text for parameter in command.params for text in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", options)) <= option_names, verb


EMPTY = re.compile(r"\b(?:fix|do) (?:that|this|it)\b|once (?:that|it|this) (?:is|has)\b")
"""Words of a remedy that names no action."""


def test_no_remedy_is_empty() -> None:
    assert [remedy for remedy in REMEDIES if EMPTY.search(remedy)] == []
    assert [f"{label}: {text}" for label, _, text in raised() if EMPTY.search(text)] == []


SOURCE_MESSAGES: list[tuple[StratalogError, str]] = [
    (
        TableStopped("shop: shop.orders: ALTER TABLE at b.000003:99 does not keep every value of column total: x"),
        "; set on_incompatible: new_column, and the next run starts a new column",
    ),
    (
        TableStopped("shop: shop.orders: UPDATE at b.000003:99 changes the table, which is not applied yet: UPDATE o"),
        "skip --source shop --at b.000003:99 --table shop.orders;",
    ),
    (
        DecodeError("shop: shop.orders: b.000003:99: a JSON document is damaged"),
        "quarantine it: stratalog skip --source shop --at b.000003:99 --table shop.orders (",
    ),
    (Truncated("b.000003:99: Gtid event of 75 bytes: cut"), "; compare the file with the server's"),
    (TableStopped("shop: shop.orders: row 7 is strange"), '(tables: "!shop.orders")'),
    (SourceError("shop: 127.0.0.1:1 cannot be reached: Connection refused"), "host and port of source shop ("),
    (SourceError("shop: /x holds no binlog files"), "correct files: of source shop ("),
    (AccessDenied("shop: denied"), "; correct the user's password, account or privileges, then run again"),
    (AnotherLog("shop: another server"), "or set on_new_server: continue"),
    (LakeError("/lake: cannot be written"), "stratalog check --connect"),
    (
        DeliveryError("delivery d: shop.t: db:3306 answered: error 1367 (22007)"),
        "; correct the cause at the target, then deliver",
    ),
    (LostRace("/lake: another writer committed first"), "; run again: "),
]


@pytest.mark.parametrize("error, remedy", SOURCE_MESSAGES)
def test_the_remedy_names_what_the_stop_is_about(error: StratalogError, remedy: str) -> None:
    message = without_codes(advised(error))
    assert message.startswith(str(error))
    assert remedy in message[len(str(error)) :]


@pytest.mark.parametrize(
    "text",
    [
        "shop: a file is missing between a and b; restore it and run again",
        "its column _op has the name of one that is added; rename it",
        "a log that became shorter was reset: give the source another name, or restore the log",
    ],
)
def test_a_message_that_says_what_to_do_gets_its_code_alone(text: str) -> None:
    assert advised(SourceError(text)) == f"[{code_of(SourceError(text))}] {text}"


def test_what_is_known_of_a_stop_goes_before_what_its_message_begins_with() -> None:
    message = advised("the values of column a are computed, which is not in the log", "shop", "shop.t")
    assert '(tables: "!shop.t")' in message
    assert "DB.TABLE" in advised("the values of column a are computed, which is not in the log")


def test_kinds_are_told_by_pattern() -> None:
    assert kind_of("nothing that is known") is None
    assert isinstance(kind_of("columns.c is wrong"), Kind)
