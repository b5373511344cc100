import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fix_cli import Stratalog
from tests.lakes.consumers import Shop, order


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    shop.log([*order(1), *order(2), *order(3)])
    return shop


def ids_in(text: str) -> list[int]:
    return [json.loads(line)["after"]["id"] for line in text.splitlines()]


def test_lines_are_acknowledged_when_they_are_written(stratalog: Stratalog, shop: Shop) -> None:
    arguments = ("consume", "-c", shop.path, "--source", "shop", "--group", "g")
    assert ids_in(stratalog(*arguments, "--max", 2, "--batch", 1).out) == [1, 2]
    assert ids_in(stratalog(*arguments, "--peek").out) == [3]
    assert ids_in(stratalog(*arguments, "--table", "shop.orders").out) == [3]
    assert stratalog(*arguments) == (stratalog(*arguments))
    assert stratalog(*arguments).out == ""
    assert ids_in(stratalog("consume", "-c", shop.path, "--group", "new", "--from", "b.000001:600").out) == [2, 3]


def test_groups_are_listed_moved_and_removed(stratalog: Stratalog, shop: Shop) -> None:
    stratalog("consume", "-c", shop.path, "--group", "g")
    arguments = ("subscriptions", "-c", shop.path, "--group", "g")
    assert "g" in stratalog("subscriptions", "-c", shop.path).out
    listed = json.loads(stratalog("subscriptions", "-c", shop.path, "--json").out)
    assert (listed["source"], listed["group"], listed["lag_bytes"], listed["consumer"]) == ("shop", "g", 0, None)
    answer = stratalog(*arguments, "--move", "earliest")
    assert ("would move" in answer.out, "nothing is changed yet; give --yes" in answer.err) == (True, True)
    assert "moved from" in stratalog(*arguments, "--move", "earliest", "--yes").out
    assert ids_in(stratalog("consume", "-c", shop.path, "--group", "g").out) == [1, 2, 3]
    assert "is removed" in stratalog(*arguments, "--remove", "--yes").out
    assert stratalog("subscriptions", "-c", shop.path).out == "no consumer groups\n"
    for wrong in (("--move", "latest"), ("--group", "g"), ("--group", "g", "--move", "latest", "--remove")):
        assert stratalog("subscriptions", "-c", shop.path, *wrong).status == 2
    missing = stratalog("subscriptions", "-c", shop.path, "--group", "x", "--move", "latest")
    assert (missing.status, "shop has no group 'x'; it has none" in missing.err) == (2, True)


def test_a_group_that_is_moved_or_removed_as_json(stratalog: Stratalog, shop: Shop) -> None:
    stratalog("consume", "-c", shop.path, "--group", "g")
    arguments = ("subscriptions", "-c", shop.path, "--group", "g", "--json")
    moved = {"source": "shop", "group": "g", "before": "b.000001:1037", "after": "b.000001:4"}
    asked = stratalog(*arguments, "--move", "earliest")
    assert (json.loads(asked.out), "nothing is changed yet" in asked.err) == (moved | {"changed": False}, True)
    assert json.loads(stratalog(*arguments, "--move", "earliest", "--yes").out) == moved | {"changed": True}
    assert json.loads(stratalog(*arguments, "--remove", "--yes").out) == {
        "source": "shop",
        "group": "g",
        "before": "b.000001:4",
        "after": None,
        "changed": True,
    }


def test_status_shows_groups(stratalog: Stratalog, shop: Shop) -> None:
    stratalog("consume", "-c", shop.path, "--group", "g", "--max", 1)
    status = json.loads(stratalog("status", "-c", shop.path, "--json").out)["sources"]["shop"]
    (group,) = status["subscriptions"]
    assert (group["group"], group["position"], group["lag_bytes"] > 0) == ("g", "b.000001:158", True)
    assert "behind" in stratalog("status", "-c", shop.path).out


@pytest.mark.parametrize(
    "options, message",
    [
        (["--group", "a/b"], "no name of a group"),
        (["--group", "g", "--format", "maxwell", "--ddl"], "has no DDL statements"),
        (["--group", "g", "--peek", "--follow"], "--peek does not go with --follow"),
        (["--group", "g", "--from", "nowhere"], "is not a position, GTID set or time"),
    ],
)
def test_wrong_use(stratalog: Stratalog, shop: Shop, options: list[str], message: str) -> None:
    ran = stratalog("consume", "-c", shop.path, *options)
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err


def following(shop: Shop, *options: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "stratalog", "consume", "-c", str(shop.path), "--group", "g", "--follow", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path.cwd())


def read(process: Any, count: int) -> list[int]:
    return ids_in("".join(process.stdout.readline() for _ in range(count)))


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_following_waits_for_log_and_ends_with_a_signal(stratalog: Stratalog, shop: Shop, number: int) -> None:
    with following(shop) as process:
        assert read(process, 3) == [1, 2, 3]
        shop.log(order(4))
        assert read(process, 1) == [4]
        time.sleep(1)
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")
    assert stratalog("consume", "-c", shop.path, "--group", "g").out == "", "the group is free, and all is acknowledged"


@pytest.mark.thorough
@pytest.mark.slow
def test_following_ends_with_its_reader(stratalog: Stratalog, shop: Shop) -> None:
    with following(shop, "--batch", "1") as process:
        assert process.stdout
        assert read(process, 3) == [1, 2, 3]
        process.stdout.close()
        shop.log(order(4))
        assert process.wait(60) == 0
    assert ids_in(stratalog("consume", "-c", shop.path, "--group", "g").out) == [4], "nobody read it"
