"""Instruction sets and register sizes of the processor, and those that machine code is compiled for. Needs no numba.

A tile is the block of a matrix product's result that is summed entirely in registers. Tiles of 4 x 64, 5 x 64, 6 x 64
and 8 x 48 are equally fast with AVX-512 (docs/log/2026.md).

Names are LLVM's, such as avx512vnni. On Linux they are read from /proc/cpuinfo, elsewhere numba tells them.
"""

import math
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


HAS_FMA = "fma" in FEATURES or platform.machine().lower() in ("arm64", "aarch64")
"""Whether one instruction multiplies and adds. Without it, compiled code is slower than torch."""

_WIDE = "avx512f" in FEATURES
HAS_BYTE_PRODUCTS = ("avx512vnni" if _WIDE else "avxvnni") in FEATURES
"""Whether the processor has `vpdpbusd`, which adds four products of bytes to each of 16 or 8 sums."""
HAS_SHORT_PRODUCTS = "avx512bw" in FEATURES if _WIDE else "avx2" in FEATURES
"""Whether the processor has `pmaddwd`, which adds two products of 16-bit numbers: twice the rate of float32."""
WIDE_REGISTER_LANES = 16
REGISTER_LANES = WIDE_REGISTER_LANES if _WIDE else 8
"""32-bit numbers in one register."""
TILE_ROWS = 8 if _WIDE else 4
"""Rows of a training product computed at once. Their sums, 16 a row, must fit into the registers. Divides 16."""
VECTORS = 4 if _WIDE else 2
PRODUCT_ROWS = 4
"""Rows of a tile. Its sums fill as many registers as the factors leave free."""
PRODUCT_COLUMNS = VECTORS * REGISTER_LANES
"""Columns of a tile, and of a panel of packed weights (`engines/compiled/weights.py`)."""
VOCABULARY_BAND = 64
"""Logits of a row that are reduced to one maximum: the columns of one wide panel, or of several narrow ones."""
MULTIPLIED_TOGETHER = {"int8": 4, "int16": 2, "float32": 1}
"""Numbers of a row that share one 32-bit lane, by precision. A row's length is padded to a multiple."""
CACHE_LINE_BYTES = 64
"""Size of a cache line."""
HEAD_WIDTH_MULTIPLE = 16
"""Numbers that the attention instructions of the search compute at once. Heads are padded to a multiple."""


def to_multiple(count: int, of: int) -> int:
    """`count`, rounded up to a multiple of `of`."""
    return -(-count // of) * of


def largest_integer(precision: str, depth: int) -> int:
    """The integer that the largest magnitude of a row or column of `depth` numbers is scaled to.

    int8: 127, because sums of products of bytes are exact. int16: small enough that the sum of `depth` products stays
    below 2^31.
    """
    return 127 if precision == "int8" else min(32767, math.isqrt((2**31 - 1) // depth))
