"""Instruction sets of the processor, and those that machine code is compiled for ahead of time. Needs no numba.

Names are LLVM's, such as avx512vnni. On Linux they are read from /proc/cpuinfo, elsewhere numba tells them.
"""

import os
import platform
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

_CPU_INFO = Path("/proc/cpuinfo")
_KERNEL_NAMES = {
    "abm": "lzcnt",
    "amxbf16": "amx-bf16",
    "asimd": "neon",
    "bmi1": "bmi",
    "sse41": "sse4.1",
    "sse42": "sse4.2",
}
"""LLVM's names of the instruction sets that Linux calls differently, apart from underscores."""


class Target(NamedTuple):
    """A kind of processor that code is compiled for.

    Attributes
    ----------
    name
        A name for files.
    cpu
        LLVM's name of the processor.
    features
        The instruction sets that the code may use. A processor needs them all.
    """

    name: str
    cpu: str
    features: tuple[str, ...]


_AVX2 = ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "popcnt")
_AVX512 = (*_AVX2, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
FLOAT_TARGETS = (Target("avx512", "x86-64-v4", _AVX512), Target("avx2", "x86-64-v3", _AVX2))
BYTE_TARGETS = (
    Target("avx512vnni", "x86-64-v4", (*_AVX512, "avx512vnni")),
    FLOAT_TARGETS[0],
    Target("avxvnni", "x86-64-v3", (*_AVX2, "avxvnni")),
    FLOAT_TARGETS[1],
)
TARGETS = {"float32": FLOAT_TARGETS, "int16": FLOAT_TARGETS, "int8": BYTE_TARGETS}
"""The targets of code that is compiled ahead of time, the fastest first. VNNI multiplies bytes, so it is for int8."""


def find_target(precision: str) -> Target | None:
    """The fastest target that this processor supports. None: code must be compiled for exactly this processor."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return None
    return next((target for target in TARGETS[precision] if FEATURES.issuperset(target.features)), None)


def _find_features() -> frozenset[str]:
    """Instruction sets of the processor, or those of NUMBA_CPU_FEATURES if it is set."""
    listed = os.environ.get("NUMBA_CPU_FEATURES")
    if listed is None and sys.platform == "linux":
        return _features_of_linux()
    if listed is None and find_spec("llvmlite"):
        from numba.core.codegen import get_host_cpu_features

        listed = get_host_cpu_features()
    return frozenset(name[1:] for name in (listed or "").split(",") if name.startswith("+"))


def _features_of_linux() -> frozenset[str]:
    """The instruction sets, or none in a root without /proc."""
    try:
        text = _CPU_INFO.read_text(encoding="utf-8")
    except OSError:
        return frozenset()
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    names = (name.replace("_", "") for name in found[1].split()) if found else ()
    return frozenset(_KERNEL_NAMES.get(name, name) for name in names)


FEATURES = _find_features()
"""LLVM's names of the processor's instruction sets."""
