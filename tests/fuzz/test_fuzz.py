"""The fuzzer's seeds and findings pass its judges, its damage gets past checksums, and a short run finds nothing."""

import base64
import os
import random
import re
import subprocess
import sys
import textwrap
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz import mutations, oracle, seeds
from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).parents[2]
SECONDS = int(os.environ.get("FUZZ_SECONDS", "30"))


def unchanged(content: bytes, _max_size: int) -> bytes:
    return content


@pytest.mark.thorough
@pytest.mark.slow
def test_seeds_and_findings_of_logs() -> None:
    for content in seeds.of("log"):
        oracle.judge_log(content)


@pytest.mark.parametrize("content", seeds.of("json"), ids=bytes.hex)
def test_seeds_and_findings_of_documents(content: bytes) -> None:
    oracle.judge_document(content)


@pytest.mark.parametrize("target", [name for name, target in TARGETS.items() if not target.has_kernels])
def test_seeds_and_findings_of_texts_and_tables(target: str) -> None:
    judge, contents = TARGETS[target].judge(), seeds.of(target)
    assert len(contents) > 5
    for content in contents:
        judge(content)


def test_a_corpus_is_laid_out_as_oss_fuzz_has_it() -> None:
    folders = {path.name.removesuffix("_seed_corpus") for path in seeds.CORPUS.iterdir() if path.is_dir()}
    words = {path.stem for path in seeds.CORPUS.glob("*.dict")}
    assert {path.name for path in seeds.CORPUS.iterdir()} == {
        *(f"{name}_seed_corpus" for name in folders),
        *(f"{name}.dict" for name in words),
    }
    assert words <= folders <= TARGETS.keys()
    for name in words:  # as libFuzzer reads them
        for line in (seeds.CORPUS / f"{name}.dict").read_text(encoding="utf-8").splitlines():
            assert re.fullmatch(r'"(?:[^"\\]|\\["\\])+"', line), line


def test_bodies_of_row_events_are_logs_again() -> None:
    contents = seeds.corpus("rows")
    assert len({content[0] for content in contents}) > 5
    assert {seeds.log_of(content)[:4] for content in contents} == {mutations.MAGIC}
    assert all(oracle.refusal(seeds.log_of(content)) is None for content in contents if content[1] == 30)


def test_an_untouched_file_comes_together_again() -> None:
    for content in seeds.logs():
        assert mutations.joined(mutations.split(content)) == content


def test_damage_passes_the_checksums() -> None:
    """Most damaged files are read beyond their checksums."""
    chance = random.Random(1)
    content = seeds.logs()[0]
    texts = [
        oracle.refusal(mutations.mutated_log(content, 1 << 13, chance.getrandbits(32), unchanged)) for _ in range(200)
    ]
    refused = [text for text in texts if text]
    assert sum("CRC32" in text for text in refused) < 30
    assert len({re.sub(r"\d+", "", text) for text in refused}) > 10


def test_compiled_kernels_stand_some_damage() -> None:
    """What the fuzzer does at length to kernels in plain Python, a little, to those that were compiled."""
    chance = random.Random(2)
    logs = seeds.logs()
    for _ in range(300):
        oracle.judge_log(mutations.mutated_log(chance.choice(logs), 1 << 13, chance.getrandbits(32), unchanged))
    for _ in range(3000):
        content = chance.choice(seeds.DOCUMENTS)
        oracle.judge_document(mutations.mutated_document(content, 1 << 12, chance.getrandbits(32), unchanged))


def _findings(folder: Path) -> Iterator[str]:
    """What the run left behind, as ``python -c "…zlib.decompress(base64.b85decode(…))"`` takes it."""
    for path in folder.glob("found-*"):
        yield f"{path.name}, base85 of zlib:"
        yield from textwrap.wrap(base64.b85encode(zlib.compress(path.read_bytes(), 9)).decode(), 300)


@pytest.mark.parametrize(
    "target, runs",
    [
        *(pytest.param(name, runs, marks=pytest.mark.thorough) for name, runs in (("log", 800), ("json", 3000))),
        *(pytest.param(name, -1, marks=pytest.mark.long) for name in TARGETS if name not in ("log", "json")),
    ],
)
def test_a_run_finds_nothing(target: str, runs: int, tmp_path: Path) -> None:
    """So many inputs in half a minute, or as many as the machine has time for.

    No run's are quite the same: what libFuzzer takes for new depends on addresses too. What is found is shown with its
    bytes, to be put into corpus/.
    """
    pytest.importorskip("atheris", reason="atheris is published for Linux on x86-64 alone")
    limit = max(-1, runs * SECONDS // 30)
    run = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", target, str(SECONDS), str(tmp_path), "1", str(limit)],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, "\n".join((run.stdout[-2000:], *_findings(tmp_path), run.stderr[-1000:]))
    executed = re.search(r"number_of_executed_units: (\d+)", run.stderr)
    assert executed
    assert int(executed[1]) > 0  # how many depends on the machine
