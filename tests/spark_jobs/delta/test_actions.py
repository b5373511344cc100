import json
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from spark_jobs.delta.actions import checkpoint_actions, commit_actions
from spark_jobs.delta.log_files import read_log
from spark_jobs.errors import LakeError


def test_a_commit_has_an_action_a_line() -> None:
    content = b'{"protocol":{"minReaderVersion":1}}\n\n{"remove":{"path":"a"}}\n'
    assert list(commit_actions("/t", 3, content)) == [
        {"protocol": {"minReaderVersion": 1}},
        {"remove": {"path": "a"}},
    ]
    with pytest.raises(LakeError, match=r"^/t: version 3 of its log cannot be read: "):
        list(commit_actions("/t", 3, b'{"remove"'))


def test_a_checkpoint_has_the_actions_of_the_commits_before_it(tmp_path: Path) -> None:
    path = str(tmp_path)
    for number in range(3):
        deltalake.write_deltalake(path, pa.table({"a": [number], "b": [number]}), mode="append", partition_by=["a"])
    deltalake.DeltaTable(path).create_checkpoint()
    listing = read_log(path)
    assert listing
    actions = list(checkpoint_actions(path, listing, ["add", "protocol"]))
    added = {action["add"]["path"]: action["add"] for action in actions if "add" in action}
    assert [set(action) for action in actions if "add" not in action] == [{"protocol"}]
    for file in tmp_path.joinpath("_delta_log").glob("*.json"):
        for line in file.read_text().splitlines():
            if "add" in (written := json.loads(line)):
                read = added.pop(written["add"]["path"])
                assert {name: read[name] for name in ("size", "partitionValues")} == {
                    name: written["add"][name] for name in ("size", "partitionValues")
                }
    assert not added
