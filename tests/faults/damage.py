"""Lakes with a damaged file: each file in turn is deleted, cut, emptied, or has a bit flipped; then a run goes on.

Put here: the damage, and what may follow it. Not here: faults of calls (disk.py), or what tables have to be
(checking.py).
"""

import logging
import os
import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from spark_jobs.config.model import Pipeline
from spark_jobs.errors import StratalogError
from tests.faults import runs
from tests.faults.campaign import Log
from tests.faults.changes import SOURCE
from tests.faults.checking import Wrong

_STEPS = 5
HARMS = ("deleted", "cut", "emptied", "flipped")


@dataclass(frozen=True, slots=True)
class Harm:
    """What happens to a file of a lake."""

    file: Path
    """Relative to the lake."""
    name: str
    """One of HARMS."""
    at: int = 0
    """The byte that is flipped, or the first one that is cut."""
    bit: int = 0

    @property
    def kind(self) -> str:
        """The layer and what the file is in it."""
        name, layer = self.file.name, self.file.parts[0]
        for end, role in (("_last_checkpoint", "hint"), (".checkpoint.parquet", "checkpoint"), (".json", "commit")):
            if name.endswith(end):
                return f"{layer}: {role}"
        ends = {".parquet": "data file", ".bin": "deletion vector", ".index": "key index"}
        return f"{layer}: {ends.get(self.file.suffix, self.file.suffix)}"

    def __str__(self) -> str:
        return f"{self.file} {self.name} at {self.at}"

    def apply(self, lake: Path) -> bytes:
        """Damages the file; returns what it had."""
        path = lake / self.file
        content = path.read_bytes()
        match self.name:
            case "deleted":
                path.unlink()
            case "flipped":
                flipped = bytearray(content)
                flipped[self.at] ^= 1 << self.bit
                path.write_bytes(flipped)
            case _:
                os.truncate(path, self.at)
        return content


class DamagedLake:
    """A lake that runs of a seed have filled, and copies of it with one damaged file each."""

    def __init__(self, seed: int, folder: Path, layout: str) -> None:
        self.random = random.Random(seed)
        self.log = Log(seed, folder / "log", layout)
        self.folder, self.layout = folder, layout
        self.undamaged = folder / "undamaged"
        self.undamaged.mkdir()
        pipeline = runs.pipeline_in(self.undamaged, layout)
        for step in range(_STEPS - 1):
            self._grow(self.undamaged, step)
            runs.run_until_current(pipeline, seed + step)
            if step == 1:
                shutil.copytree(self.undamaged / "lake", folder / "backup")
        self._grow(self.undamaged, _STEPS - 1)

    def harms(self, flips: int, files: int) -> Iterator[Harm]:
        """Every harm to some files of each kind, so many at most. flips: so many a file."""
        lake = self.undamaged / "lake"
        by_kind: dict[str, list[Path]] = defaultdict(list)
        for path in sorted(path for path in lake.rglob("*") if path.is_file()):
            # Without its newest commit bronze is as it was before, and the next run extracts the rest again.
            if not (path.name == f"{_STEPS - 1:020}.json" and path.is_relative_to(lake / "bronze")):
                by_kind[Harm(path.relative_to(lake), "").kind].append(path)
        sample = [path for paths in by_kind.values() for path in self.random.sample(paths, min(files, len(paths)))]
        for path in sample:
            file, size = path.relative_to(lake), path.stat().st_size
            yield Harm(file, "deleted")
            yield Harm(file, "cut", size // 2)
            yield Harm(file, "emptied")
            yield from (Harm(file, "flipped", self.random.randrange(_checked_end(path)), bit) for bit in range(flips))

    def follow(self, harm: Harm) -> str:
        """How a run goes on behind a harm. Raises Wrong where it goes on as it must not."""
        home = self.folder / "harmed"
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(self.undamaged, home)
        pipeline = runs.pipeline_in(home, self.layout)
        content = harm.apply(home / "lake")
        outcome = self._run_damaged(pipeline, harm)
        if outcome == "went on":
            outcome = self._rebuild(pipeline, harm)
        # Whatever was said: with the file in its place again a run makes all of it right.
        if harm.name != "flipped" or "commit" not in harm.kind:
            self._repair(pipeline, home / "lake" / harm.file, content, harm)
        return outcome

    def restored(self, layer: str) -> str:
        """How runs go on with a layer as it was some runs ago. Raises Wrong."""
        pipeline = runs.pipeline_in(self.undamaged, self.layout)
        folder = self.undamaged / "lake" / layer
        shutil.rmtree(folder)
        shutil.copytree(self.folder / "backup" / layer, folder)
        if layer == "bronze":
            try:
                runs.run(pipeline, 1)
            except StratalogError as error:
                if "is not the bronze that the tables came from" not in str(error):
                    raise Wrong(str(error)) from error
        else:
            runs.run_until_current(pipeline, 1)
        self.log.checks.require_rows(pipeline)
        self._grow(self.undamaged, _STEPS - 1)
        runs.run_until_current(pipeline, 2)
        self.log.checks.require_rows(pipeline, self.log.bronze[-1][1])
        return "is right"

    def _run_damaged(self, pipeline: Pipeline, harm: Harm) -> str:
        try:
            stopped = runs.run(pipeline, 5)
        except StratalogError as error:
            self._require_stated(str(error), harm)
            return "ended with a message"
        except Exception as error:
            raise Wrong(f"{harm}: {type(error).__name__}: {error}") from error
        if stopped:
            self._require_stated("\n".join(stopped.values()), harm)
            return "stopped a table"
        return "went on"

    def _require_stated(self, text: str, harm: Harm) -> None:
        """The message names the table's folder and what to do."""
        table = str(harm.file).partition("/_delta_log/")[0]
        folder = table if "_delta_log" in harm.file.parts else str(harm.file.parent)
        if not ("restore" in text and folder in text):
            raise Wrong(f"{harm}: {text}")

    def _rebuild(self, pipeline: Pipeline, harm: Harm) -> str:
        """Downstream again from silver, so that all of it is read. Nothing may be wrong that is not told."""
        if harm.name == "flipped" and "commit" in harm.kind:
            return "went on"  # a number in a commit is as good as another one
        if harm.file.parts[0] == "silver":
            shutil.rmtree(Path(str(pipeline.lake)) / "downstream")
            outcome = self._run_damaged(pipeline, harm)
            if outcome != "went on":
                return f"went on; rebuilt, it {outcome}"
        try:
            self.log.checks.require_rows(pipeline)
        except StratalogError as error:
            self._require_stated(str(error), harm)
            return "went on; readers get a message"
        return "went on, and is right"

    def _repair(self, pipeline: Pipeline, path: Path, content: bytes, harm: Harm) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_superseded = path.exists() and path.suffix == ".json" and harm.name == "deleted"
        if not is_superseded:  # a later run has made that version again
            path.write_bytes(content)
        try:
            runs.run_until_current(pipeline, 9)
        except AssertionError as error:
            raise Wrong(f"{harm}: {error}") from error
        self.log.checks.require_rows(pipeline, self.log.bronze[-1][1])

    def _grow(self, folder: Path, step: int) -> None:
        """Bronze has the log up to a step."""
        bronze = folder / "lake" / "bronze" / SOURCE
        shutil.rmtree(bronze, ignore_errors=True)
        shutil.copytree(self.log.bronze[step][0], bronze)


def _checked_end(path: Path) -> int:
    """Offset where what checksums cover ends: the footer of Parquet, and the first and the last bytes, have none."""
    if path.suffix != ".parquet" or "_delta_log" in path.parts:
        return path.stat().st_size
    content = path.read_bytes()
    return len(content) - 8 - int.from_bytes(content[-8:-4], "little")


def play(
    seed: int, folder: Path, layout: str = "mirrors", *, flips: int = 2, files: int = 1000
) -> tuple[Counter[str], list[str]]:
    """How runs went on behind each harm to some files of a lake, so many of each kind; and what was wrong."""
    logging.disable(logging.CRITICAL)
    counts, wrong = Counter[str](), list[str]()
    with runs.without_spark():
        lake = DamagedLake(seed, folder, layout)
        for harm in lake.harms(flips, files):
            try:
                outcome = lake.follow(harm)
            except Wrong as error:
                wrong.append(f"seed {seed}: {error}")
                outcome = "WRONG"
            counts[f"{harm.kind} {harm.name}: {outcome}"] += 1
    logging.disable(logging.NOTSET)
    return counts, wrong
