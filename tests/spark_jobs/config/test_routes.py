import pytest

from spark_jobs.config.routes import Destination, Route, Routes, problems_of_routes
from spark_jobs.config.table_patterns import Pattern
from spark_jobs.errors import ConfigError


def route(tables: str, to: str, *sources: str, is_shared: bool = False) -> Route:
    """to: one target or several, with a blank between two."""
    return Route(Pattern.parse(tables), tuple(map(Pattern.parse, to.split())), sources, is_shared)


ROUTES = Routes(
    (
        route("shop_*.orders_*", "shop.orders"),
        route("crm.people", "crm.all"),
        route("tenant_*.*", "tenants.{2}_{1}"),
        route("log_??.*", "logs.{table}_{{{2}{1}}}"),
        route("*.eu_*", "world.{2}", "eu*"),
        route("*.us_*", "world.{2}", "us"),
        route("own.*", "{schema}_{source}.{table}", "*"),
        route("same.*", "{schema}.{1}", "*"),
    )
)


@pytest.mark.parametrize(
    "name, into, is_merged",
    [
        (("a", "shop_1", "orders_7"), "shop.orders", True),
        (("a", "shop", "orders"), "shop.orders", True),
        (("a", "crm", "people"), "crm.all", False),
        (("a", "crm", "pets"), "crm.pets", False),
        (("a", "tenant_7", "a.b"), "tenants.a.b_7", False),
        (("a", "log_ab", "x"), "logs.x_{ba}", False),
        (("a", "log_abc", "x"), "log_abc.x", False),
        (("eu1", "x", "eu_t"), "world.t", True),
        (("us", "x", "us_t"), "world.t", True),
        (("us", "x", "eu_t"), "x.eu_t", False),
        (("a", "own", "t"), "own_a.t", False),
        (("a", "same", "t"), "same.t", True),
    ],
)
def test_a_table_goes_where_its_route_says_or_keeps_its_name(
    name: tuple[str, str, str], into: str, is_merged: bool
) -> None:
    (destination,) = ROUTES.of(*name)
    assert (str(destination), destination.is_merged) == (into, is_merged)


@pytest.mark.parametrize(
    "routes, is_merged",
    [
        ([route("a.t", "x.t")], False),
        ([route("a.t", "x.t", "one")], False),
        ([route("a.t", "x.t", "one", "two")], True),
        ([route("a.t", "x.t", "*")], True),
        ([route("a.t", "x.{source}", "*")], False),
        ([route("a.?", "x.t")], True),
        ([route("a.?", "x.{1}")], False),
        ([route("?.t", "x.{schema}")], False),
        ([route("?.t", "x.{table}")], True),
        ([route("a.t", "x.t"), route("b.t", "x.t")], True),
        ([route("a.t", "x.t"), route("b.*", "x.{1}")], True),
        ([route("a.t", "x.t"), route("b.*", "x.b_{1}")], False),
        ([route("a.t", "{source}.t", "one"), route("a.t", "{source}.t", "two")], False),
        ([route("a.*", "x.{1} y.all")], False),
        ([route("a.*", "y.all x.{1}")], True),
        ([route("a.*", "x.{1} y.{1}")], False),
        ([route("a.*", "x.{1} {1}.all")], True),
        ([route("*.t", "x.{1} {1}.x")], True),
        ([route("a.t", "x.t y.t"), route("b.t", "y.t z.t")], False),
        ([route("a.t", "y.t x.t"), route("b.t", "y.t z.t")], True),
    ],
)
def test_a_table_is_of_several_where_several_may_meet_in_it(routes: list[Route], is_merged: bool) -> None:
    source = (routes[0].sources or ("one",))[0].replace("*", "one")
    assert Routes(tuple(routes)).of(source, "a", "t")[0].is_merged is is_merged


def test_a_table_goes_to_each_target_of_its_route_once() -> None:
    routes = Routes((route("a.*", "x.{1} y.all", "s"), route("*_*.t", "y.{1} y.{2}")))
    names = (("s", "a", "t"), ("s", "b_c", "t"), ("s", "b_b", "t"), ("other", "a", "t"))
    into = [[(str(destination), destination.is_merged) for destination in routes.of(*name)] for name in names]
    assert into == [
        [("x.t", False), ("y.all", True)],
        [("y.b", True), ("y.c", True)],
        [("y.b", True)],  # two of its targets are one for this table, and each has several tables for that
        [("a.t", False)],
    ]


AT_MOST_ONE = "a table has at most one route, which may list several targets: to: [a.t, b.t]"


def test_a_table_with_two_routes_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        Routes((*ROUTES.routes, route("*.orders_7", "x.y"))).of("a", "shop_1", "orders_7")
    assert str(refused.value) == f"shop_1.orders_7 matches 2 routes; {AT_MOST_ONE}"


def test_keys_are_shared_where_the_route_says_so_and_its_sources_are_known() -> None:
    routes = Routes((route("a.t", "x.t", "e*", "us", is_shared=True), route("b.*", "y.{1}", "*")))
    assert routes.of("eu", "a", "t") == (Destination("x", "t", is_merged=True, is_shared=True),)
    assert routes.of("eu", "b", "t") == (Destination("y", "t", is_merged=True),)
    assert [routes.shares(source) for source in ("eu", "us", "asia")] == [True, True, False]
    assert [routes.is_shared_by("us", into) for into in (("x", "t"), ("y", "t"))] == [True, False]


def test_a_star_takes_as_much_as_it_can_from_the_left() -> None:
    (destination,) = Routes((route("a.*_*", "{1}.{2}"),)).of("s", "a", "x_y_z")
    assert destination == Destination("x_y", "z")


ALONE = (
    "shared is about tables of several, and by routes: each of these is of one source table; say which sources: meet "
    'there, as ["*"], or leave a * of from out of to'
)
SAME = f"a table can match routes[0].from too; {AT_MOST_ONE}"


@pytest.mark.parametrize(
    "routes, problems",
    [
        ([route("a.*", "x.t"), route("a.t", "y.t")], {"routes[1].from": SAME}),
        ([route("a.*", "x.t", "one"), route("a.t", "y.t")], {"routes[1].from": SAME}),
        ([route("a.*", "x.t", "one"), route("a.t", "y.t", "o*")], {"routes[1].from": SAME}),
        ([route("a.*", "x.t", "one"), route("a.t", "y.t", "two")], {}),
        ([route("a.*", "x.t", "one"), route("b.t", "y.t", "one")], {}),
        ([route("a.t", "x.{1}")], {"routes[0].to": "{1} stands for nothing: from has neither * nor ?; there are "
          "{source}, {schema}, {table} too"}),
        ([route("a.t", "x.{}")], {"routes[0].to": "{} stands for nothing: from has neither * nor ?; there are "
          "{source}, {schema}, {table} too"}),
        ([route("a.*", "x.{1")], {"routes[0].to": "a single {; {1} is what the first * or ? of from stands for, and "
          "{{ is a brace"}),
        ([route("a.*", "x.{{1}}")], {}),
        ([route("a.*", "x.{1}", "three")], {"routes[0].sources[0]": "no source is called three"}),
        ([route("a.t", "x.t", "*", is_shared=True)], {}),
        ([route("a.t", "x.t", "one", is_shared=True), route("b.t", "x.t", "two", is_shared=True)], {}),
        ([route("a.*", "x.{1}", is_shared=True)], {"routes[0].keys": ALONE}),
        ([route("a.t", "x.t", "one", is_shared=True), route("b.*", "x.{1}", "two")], {"routes[1].keys":
          "routes[0] may lead to the same table, and says otherwise of its keys"}),
        ([route("a.*", "x.all y.all", is_shared=True)], {}),
        ([route("a.*", "x.all y.{1}", is_shared=True)], {"routes[0].keys": ALONE}),
        ([route("a.*", "x.all y.all", is_shared=True), route("b.t", "z.t y.all", "*")], {"routes[1].keys":
          "routes[0] may lead to the same table, and says otherwise of its keys"}),
        ([route("a.t", "x.{1} y.t")], {"routes[0].to[0]": "{1} stands for nothing: from has neither * nor ?; there are "
          "{source}, {schema}, {table} too"}),
        ([route("a.t", "x.t y.t x.{table}")], {"routes[0].to[2]": "is routes[0].to[0] once more; a table goes to "
          "another once"}),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(routes: list[Route], problems: dict[str, str]) -> None:
    by_key = {f"routes[{at}]": route for at, route in enumerate(routes)}
    assert problems_of_routes(by_key, ["one", "two"]) == problems
