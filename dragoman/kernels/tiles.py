"""What the processor's registers hold, and the tiles of products that follow from it."""

import math
import platform

from dragoman.kernels.jit import FEATURES

HAS_FMA = "fma" in FEATURES or platform.machine().lower() in ("arm64", "aarch64")
"""Whether one instruction does both; where not, code for it is slower than torch's."""
HAS_BYTE_PRODUCTS = "avx512vnni" in FEATURES
"""Whether `vpdpbusd` is there, which adds four products of bytes to each of 16 sums."""

_WIDE = "avx512f" in FEATURES
HAS_SHORT_PRODUCTS = "avx512bw" in FEATURES if _WIDE else "avx2" in FEATURES
"""Whether `pmaddwd` is there, which adds two products of 16-bit numbers: twice as many as in float32 at a time."""
WIDE_REGISTER_LANES = 16
REGISTER_LANES = WIDE_REGISTER_LANES if _WIDE else 8
"""Numbers of 32 bits in a register."""
VECTORS = 4 if _WIDE else 2
PRODUCT_ROWS = 4
"""Rows of a tile: with `PRODUCT_COLUMNS`, as many sums as registers hold beside what is multiplied."""
PRODUCT_COLUMNS = VECTORS * REGISTER_LANES
"""Columns of a tile, and of a panel of packed weights."""
VOCABULARY_BAND = 64
"""Logits of a row that are looked at together: one panel, or several narrow ones."""
MULTIPLIED_TOGETHER = {"int8": 4, "int16": 2, "float32": 1}
"""Numbers of a row that are multiplied together, by the precision: 32 bits."""
CACHE_LINE_BYTES = 64
"""A line of the cache."""
HEAD_WIDTH_MULTIPLE = 16
"""The width of an attention head is a multiple of this."""


def largest_integer(precision: str, depth: int) -> int:
    """What the largest magnitude of a row or column of so many numbers becomes.

    The bytes of VNNI are summed exactly at any depth. Sums of 16-bit numbers must stay below 2^31.
    """
    return 127 if precision == "int8" else min(32767, math.isqrt((2**31 - 1) // depth))
