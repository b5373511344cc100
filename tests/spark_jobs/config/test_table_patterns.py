import itertools
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_jobs.config.table_patterns import SYSTEM_SCHEMAS, TOOLS, Helpers, Pattern, Scope
from spark_jobs.errors import ConfigError

GLOBS = st.text(alphabet="ab*?", min_size=1, max_size=5)
NAMES = ["".join(letters) for size in range(6) for letters in itertools.product("abc", repeat=size)]


@pytest.mark.parametrize(
    "pattern, inside, outside",
    [
        ("shop.orders", ["shop.orders"], ["shop.orders2", "shop.Orders", "Shop.orders", "xshop.orders"]),
        ("shop.*", ["shop.orders", "shop.a b", "shop.a\nb"], ["shop2.orders", "sho.orders"]),
        ("*.orders", ["shop.orders", "a.orders"], ["shop.orders_1"]),
        ("shop_?.t??", ["shop_1.t01", "shop_a.tab"], ["shop_.t01", "shop_10.t01", "shop_1.t1"]),
        ("shop.order[1]", ["shop.order[1]"], ["shop.order1"]),
        ("shop.a+b", ["shop.a+b"], ["shop.aab"]),
        (" shop.orders ", ["shop.orders"], ["shop. orders"]),
        ("Größe.täglich", ["Größe.täglich"], ["Grösse.täglich"]),
    ],
)
def test_a_pattern_matches_whole_names(pattern: str, inside: list[str], outside: list[str]) -> None:
    parsed = Pattern.parse(pattern)
    assert [name for name in inside if not parsed.matches(*name.split("."))] == []
    assert [name for name in outside if parsed.matches(*name.split("."))] == []


@pytest.mark.parametrize(
    "text, schema, table",
    [
        ("`my.shop`.orders", "my.shop", "orders"),
        ("`my.shop`.`a.b`", "my.shop", "a.b"),
        ("shop.`a``b`", "shop", "a`b"),
        ("`a b`.*", "a b", "x"),
    ],
)
def test_names_with_dots_and_back_ticks_are_quoted(text: str, schema: str, table: str) -> None:
    assert Pattern.parse(text).matches(schema, table)


def test_a_dot_does_not_move_between_schema_and_table() -> None:
    assert not Pattern.parse("`a.b`.c").matches("a", "b.c")
    assert not Pattern.parse("a*.c").matches("a", "b.c")


@pytest.mark.parametrize("text", ["", "orders", "a.b.c", ".orders", "shop.", "`shop.orders", "shop.or`ders", "``.a"])
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Pattern.parse(text)
    assert str(refused.value) == f"{text!r} is not a table pattern; write it like shop.orders or shop.*"


@pytest.mark.parametrize(
    "rules, inside, outside",
    [
        ([], ["shop.orders"], [f"{schema}.t" for schema in SYSTEM_SCHEMAS]),
        (["shop.*", "!shop.audit_*"], ["shop.orders"], ["shop.audit_1", "crm.people"]),
        (["shop.*", "!shop.audit_*", "shop.audit_keep"], ["shop.audit_keep"], ["shop.audit_1"]),
        (["!shop.audit_*", "shop.*"], ["shop.audit_1"], ["crm.people"]),
        (["!shop.audit_*"], ["shop.orders", "crm.people"], ["shop.audit_1", "mysql.user"]),
        (["!*.*"], [], ["shop.orders", "mysql.user"]),
        (["*.*"], ["shop.orders", "mysql.user"], []),
        (["mysql.user"], ["mysql.user"], ["mysql.db", "shop.orders"]),
    ],
)
def test_the_last_match_wins(rules: list[str], inside: list[str], outside: list[str]) -> None:
    scope = Scope.parse(rules)
    assert [name for name in inside if not scope.holds(*name.split("."))] == []
    assert [name for name in outside if scope.holds(*name.split("."))] == []


BOTH = Helpers(tuple(TOOLS))


@pytest.mark.parametrize(
    "name, tool, changed",
    [
        ("_t_gho", "gh-ost", "t"),
        ("_t_ghc", "gh-ost", "t"),
        ("_t_del", "gh-ost", "t"),
        ("_t_20180808165224_del", "gh-ost", "t"),
        ("__a_b__gho", "gh-ost", "_a_b_"),
        ("_t_new", "pt-osc", "t"),
        ("___t_old", "pt-osc", "t"),
        ("t_gho", None, None),
        ("_t_gho2", None, None),
        ("__gho", None, None),
        ("t_old", None, None),
        ("_new", None, None),
    ],
)
def test_working_tables_of_tools_are_told_by_their_names(name: str, tool: str | None, changed: str | None) -> None:
    assert BOTH.of("shop", name) == (None if tool is None else (tool, changed))
    assert BOTH.is_copy(name) == name.endswith(("gho", "new"))


@pytest.mark.parametrize(
    "rules, helpers, inside, outside",
    [
        (["shop.*"], BOTH, ["t", "t_old"], ["_t_gho", "_t_ghc", "_t_del", "_t_new", "_t_old"]),
        (["shop.*"], Helpers(("gh-ost",)), ["_t_new", "_t_old"], ["_t_gho"]),
        (["shop.*"], Helpers(), ["_t_gho", "_t_old"], []),
        (["shop.*"], Helpers(("pt-osc",), (Pattern.parse("shop._x*"),)), ["_x_old"], ["_t_old"]),
        (["shop.*", "shop._x_old"], BOTH, ["_x_old"], ["_t_old"]),
        (["shop.*", "!shop.x"], BOTH, ["_x_old"], ["_t_old"]),
        (["shop.t"], BOTH, ["t"], ["_t_gho"]),
        ([], BOTH, ["t"], ["_t_gho"]),
    ],
)
def test_working_tables_are_out_of_scope_where_the_one_they_change_is_in_it(
    rules: list[str], helpers: Helpers, inside: list[str], outside: list[str]
) -> None:
    scope = replace(Scope.parse(rules), helpers=helpers)
    assert [name for name in inside if not scope.holds("shop", name)] == []
    assert [name for name in outside if scope.holds("shop", name)] == []


def test_why_a_table_is_left_out_is_said_with_the_way_back() -> None:
    scope = replace(Scope.parse(["shop.*"]), helpers=BOTH)
    assert scope.why_helper("shop", "_x_old") == (
        "taken by its name for a table that pt-osc works with to change shop.x; if it is one of your own, list it "
        "under online_ddl.real"
    )
    assert (scope.why_helper("shop", "x"), scope.why_helper("crm", "_x_old")) == (None, None)


@given(GLOBS, GLOBS)
@example("a*b", "ab*")
@example("*", "")
@example("?*", "*?")
def test_globs_meet_where_some_name_matches_both(left: str, right: str) -> None:
    patterns = [Pattern("s", left), Pattern("s", right)]
    is_common = any(all(pattern.matches("s", name) for pattern in patterns) for name in NAMES)
    longer = (
        sum(len(glob.replace("*", "")) for glob in (left, right)) > 5
    )  # then a common name may be longer than NAMES'
    assert patterns[0].meets(patterns[1]) == patterns[1].meets(patterns[0])
    assert patterns[0].meets(patterns[1]) or not is_common
    assert is_common or longer or not patterns[0].meets(patterns[1])


@pytest.mark.parametrize(
    "left, right, meet",
    [
        ("shop_*.orders", "shop_1.*", True),
        ("shop.orders", "shop.orders", True),
        ("shop.orders", "crm.orders", False),
        ("shop.a*", "shop.b*", False),
        ("*.a", "s.b", False),
        ("*a*a*a*a*a*a*a*a*.t", "*b*b*b*b*b*b*b*b*.t", True),
        ("*a*a*a*a*a*a*a*ac.t", "*a*a*a*a*a*a*a*ab.t", False),
    ],
)
def test_patterns_meet_in_both_parts(left: str, right: str, meet: bool) -> None:
    assert Pattern.parse(left).meets(Pattern.parse(right)) is meet


@given(GLOBS, GLOBS)
def test_a_pattern_that_covers_another_matches_all_that_it_does(left: str, right: str) -> None:
    wide, narrow = Pattern("s", left), Pattern("s", right)
    if wide.covers(narrow):
        assert all(wide.matches("s", name) for name in NAMES if narrow.matches("s", name))


def test_covering_is_told_of_both_parts() -> None:
    assert Pattern("*", "*").covers(Pattern("shop", "a*"))
    assert Pattern("shop", "a*").covers(Pattern("shop", "a?b*"))
    assert not Pattern("shop", "a?").covers(Pattern("shop", "a*"))
    assert not Pattern("shop", "*").covers(Pattern("*", "a"))
