"""The targets of the fuzzer: what is read, and how inputs are changed.

Put here: the list. Not here: what must hold (oracle.py, judges.py), or changes (mutations.py).
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from tests.fuzz import mutations
from tests.fuzz.mutations import Change


def _by_engine(content: bytes, max_size: int, _chance: int, change: Change) -> bytes:
    return change(content, max_size)


@dataclass(frozen=True, slots=True)
class Target:
    """What the fuzzer reads.

    location: the judge, as module and function: it is imported while coverage is added to the project's modules.
    longest: bytes of an input. has_kernels: whether the decoder's coverage guides; else it is imported before. mutated:
    gets an input, its greatest length, a seed and the engine's own change, and returns the next input.
    """

    location: tuple[str, str]
    longest: int
    has_kernels: bool = False
    mutated: Callable[[bytes, int, int, Change], bytes] = _by_engine

    def judge(self) -> Callable[[bytes], None]:
        """Raises where an input is read as it must not be."""
        module, function = self.location
        judge: Callable[[bytes], None] = getattr(importlib.import_module(module), function)
        return judge


_ORACLE, _JUDGES = "tests.fuzz.oracle", "tests.fuzz.judges"
TARGETS = {
    "json": Target((_ORACLE, "judge_document"), 1 << 12, True, mutations.mutated_document),
    "log": Target((_ORACLE, "judge_log"), 1 << 13, True, mutations.mutated_log),
    "rows": Target((_ORACLE, "judge_rows"), 1 << 12, True, mutations.mutated_document),
    "statements": Target((_JUDGES, "judge_statement"), 1 << 11),
    "gtids": Target((_JUDGES, "judge_gtids"), 1 << 10),
    "configuration": Target((_JUDGES, "judge_configuration"), 1 << 12),
    "delta_log": Target((_JUDGES, "judge_delta_log"), 1 << 14),
    "deletion_vectors": Target((_JUDGES, "judge_deletion_vector"), 1 << 12, mutated=mutations.mutated_document),
}
