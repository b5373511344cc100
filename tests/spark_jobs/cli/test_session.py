import json
import os

from spark_jobs.runtime.standing.attach import attach
from tests.fix_cli import Stratalog
from tests.fix_keeper import Wishes


def test_without_a_session_it_says_so(stratalog: Stratalog, wish: Wishes) -> None:
    for words in ([], ["stop"]):
        ran = stratalog("session", *words)
        assert (ran.status, ran.out, ran.err) == (0, "no session runs\n", "")
    assert stratalog("session", "stop", "--json").out == ""
    assert (stratalog("session", "--json").out, stratalog("session", "--name", "ab").status) == ("", 1)


def test_it_shows_and_stops(stratalog: Stratalog, wish: Wishes) -> None:
    attachment = attach(wish())
    ran = stratalog("session")
    assert ran.status == 0
    assert f"127.0.0.1:{attachment.port}" in ran.out
    assert str(attachment.folder.log) in ran.out
    (listed,) = map(json.loads, stratalog("session", "--json").out.splitlines())
    assert (listed["address"], listed["keep"]) == (f"127.0.0.1:{attachment.port}", 60)
    assert [run["pid"] for run in listed["runs"]] == [os.getpid()]
    assert attachment.token not in json.dumps(listed)

    ran = stratalog("session", "stop")
    assert (ran.status, ran.out) == (1, "")
    assert "stop it with --force" in ran.err.replace("\n", " ")
    refused = stratalog("session", "stop", "--json")
    assert (refused.status, json.loads(refused.out)["stopped"]) == (1, False)
    ran = stratalog("session", "stop", "--name", listed["name"], "--force")
    assert (ran.status, ran.out) == (0, f"session {listed['name']}: stopped\n")
    assert stratalog("session").out == "no session runs\n"


def test_a_session_that_is_stopped_as_json(stratalog: Stratalog, wish: Wishes) -> None:
    attachment = attach(wish())
    ended = json.loads(stratalog("session", "stop", "--force", "--json").out)
    assert (ended["address"], ended["stopped"]) == (f"127.0.0.1:{attachment.port}", True)


def test_force_without_stop_is_wrong_use(stratalog: Stratalog, wish: Wishes) -> None:
    assert stratalog("session", "--force").status == 2
