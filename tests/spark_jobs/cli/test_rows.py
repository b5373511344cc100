import json
import re
from pathlib import Path

import pytest

from tests.binlogs.segment_spec import Commit, Update
from tests.fix_cli import Stratalog
from tests.lakes.consumers import Shop, order


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    shop.log([*order(1), *order(2), Update("shop.orders", (1, "n1"), (1, "x")), Commit()])
    return shop


def test_trace_prints_entries_or_json_lines(stratalog: Stratalog, shop: Shop) -> None:
    ran = stratalog("trace", "shop.orders", "-c", shop.path, "--key", "1", "--json")
    assert (ran.status, ran.err) == (0, "")
    assert [json.loads(line)["op"] for line in ran.out.splitlines()] == ["insert", "update"]
    ran = stratalog("trace", "shop.orders", "-c", shop.path, "--key", "1")
    assert "  update  shop.orders  id=1\n" in ran.out
    assert '    note  "n1"  →  "x"\n' in ran.out
    ran = stratalog("trace", "shop.orders", "-c", shop.path, "--key", "1", "--all-columns", "--json")
    assert json.loads(ran.out.splitlines()[1])["before"] == {"id": 1, "note": "n1"}


@pytest.mark.parametrize(
    "choice, chosen",
    [
        (["--key", "99999"], ", id=99999,"),
        (["--key", "8", "--key", "id=9", "--json"], ", id=8 or id=9,"),
        (["--where", "id > 900", "--connection", "99"], ", by --where and --connection,"),
    ],
)
def test_a_trace_that_finds_no_change_says_so(stratalog: Stratalog, shop: Shop, choice: list[str], chosen: str) -> None:
    ran = stratalog("trace", "shop.orders", "-c", shop.path, *choice)
    assert (ran.status, ran.out) == (0, "")
    assert re.fullmatch(
        rf"no change of shop\.orders{chosen} in the log from b\.000001:\d+ to b\.000001:\d+\n", ran.err
    ), ran.err


@pytest.mark.parametrize(
    "arguments, status, message",
    [
        (("orders",), 2, "'orders' is no table; write it like shop.orders"),
        (("shop.orders", "--key", "x"), 2, "--key 'x': id of shop.orders is int, and this is no value of it"),
        (("shop.orders", "--key", "1,2"), 2, "the key of shop.orders has 1 column (id), and this has 2 values"),
        (("shop.orders", "--where", "price = 1"), 2, "--where: "),
        (("shop.orders", "--from", "nowhere"), 2, "from: 'nowhere' is not a position, GTID set or time"),
        (("shop.orders", "--source", "other"), 2, "no source 'other'"),
        (("shop.orders", "--gtid", "x"), 2, "--gtid: 'x' is not a UUID"),
    ],
)
def test_wrong_use_is_one_message(
    stratalog: Stratalog, shop: Shop, arguments: tuple[str, ...], status: int, message: str
) -> None:
    ran = stratalog("trace", *arguments, "-c", shop.path)
    assert (ran.status, ran.out) == (status, "")
    assert message in ran.err
    assert len(ran.err.splitlines()) == 1


def test_undo_prints_sql(stratalog: Stratalog, shop: Shop) -> None:
    ran = stratalog("undo", "shop.orders", "-c", shop.path, "--key", "1")
    assert (ran.status, ran.err) == (0, "")
    statements = [line for line in ran.out.splitlines() if line.startswith(("UPDATE", "DELETE", "INSERT"))]
    assert len(statements) == 2
    assert statements[0].startswith("UPDATE `shop`.`orders` SET `note` = 'n1' WHERE `id` = 1 AND ")
    assert "SELECT 'b.000001:" in ran.out
    assert "SET SESSION sql_mode = '" in ran.out


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((), "say which changes: --from, --to, --key, --where, --gtid, --connection or --statement"),
        (("--key", "1", "--check"), "--check: shop is a folder of files; run it with a configuration that names the"),
    ],
)
def test_undo_is_of_chosen_changes_and_checks_servers(
    stratalog: Stratalog, shop: Shop, arguments: tuple[str, ...], message: str
) -> None:
    ran = stratalog("undo", "shop.orders", "-c", shop.path, *arguments)
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err
