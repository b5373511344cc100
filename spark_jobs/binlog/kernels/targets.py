"""Processors for which machine code is made before it is needed, and which of them this one is like.

Put here: targets, and the features of this processor. Not here: their machine code (machine_code.py).
"""

import platform
from dataclasses import dataclass

import numba
from numba.core.codegen import get_host_cpu_features


@dataclass(frozen=True, slots=True)
class CodeTarget:
    """A kind of processor: its code has instructions of ``features``, and of no other.

    machine: as the operating system calls it. cpu, features: as LLVM calls them; cpu decides alone between instructions
    that the features have.
    """

    name: str
    machine: str
    cpu: str
    features: frozenset[str]

    def options(self) -> dict[str, str]:
        """The environment in which numba compiles for it."""
        features = ",".join(f"+{feature}" for feature in sorted(self.features))
        return {"NUMBA_CPU_NAME": self.cpu, "NUMBA_CPU_FEATURES": features}


_AVX2 = frozenset(
    [
        *("64bit", "avx", "avx2", "bmi", "bmi2", "cmov", "crc32", "cx16", "cx8", "f16c", "fma", "fxsr", "lzcnt", "mmx"),
        *("movbe", "pclmul", "popcnt", "sahf", "sse", "sse2", "sse3", "sse4.1", "sse4.2", "ssse3", "xsave"),
    ]
)
"""The level x86-64-v3, and PCLMULQDQ, by which checksums are made: Intel's since Haswell, AMD's since Zen."""
_PAIRS = _AVX2 | {"vpclmulqdq"}
"""Two products at once: AMD's Zen 3, Intel's clients since Alder Lake. By _AVX2's code they would take 10 % longer."""
_AVX512 = _PAIRS | {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"}
"""The level x86-64-v4, and four products at once: Intel's servers since Ice Lake, AMD's since Zen 4. Intel's
servers before have no VPCLMULQDQ; code with AVX-512 for them is 1 % faster than that of _AVX2, which they use."""
TARGETS = (
    CodeTarget("x86-64-avx512", "x86_64", "x86-64-v4", _AVX512),
    CodeTarget("x86-64-avx2-vpclmulqdq", "x86_64", "x86-64-v3", _PAIRS),
    CodeTarget("x86-64-avx2", "x86_64", "x86-64-v3", _AVX2),
)
"""The best first."""


def compiler_features() -> frozenset[str]:
    """Features for which numba compiles: of this processor and its system, or those that it is told."""
    features = numba.config.CPU_FEATURES  # type: ignore[attr-defined]
    if features is None:
        features = "" if is_named() else get_host_cpu_features()
    return frozenset(feature[1:] for feature in features.split(",") if feature.startswith("+"))


def is_named() -> bool:
    """True if numba is told for which processor it compiles."""
    return bool(numba.config.CPU_NAME or numba.config.CPU_FEATURES)  # type: ignore[attr-defined]


def machine_targets() -> list[CodeTarget]:
    """Targets of this kind of machine, whatever its processor has."""
    return [target for target in TARGETS if target.machine == platform.machine()]


def fitting_target() -> CodeTarget | None:
    """The best target whose instructions this processor and its system have all; none where numba is told of one."""
    if is_named():
        return None
    features = compiler_features()
    return next((target for target in machine_targets() if target.features <= features), None)
