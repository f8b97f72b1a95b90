"""What the processor's registers hold, and the tiles of products that follow from it."""

import platform

from dragoman.model.compiled.jit import FEATURES

MULTIPLIES_AND_ADDS = "fma" in FEATURES or platform.machine().lower() in ("arm64", "aarch64")
"""Whether one instruction does both; where not, code for it is slower than torch's."""
MULTIPLIES_BYTES = "avx512vnni" in FEATURES
"""Whether `vpdpbusd` is there, which adds four products of bytes to each of 16 sums."""

_WIDE = "avx512f" in FEATURES
LANES = 16 if _WIDE else 8
"""Numbers of 32 bits in a register."""
VECTORS = 4 if _WIDE else 2
ROWS = 4
"""Rows of a tile: with `COLUMNS`, as many sums as registers hold beside what is multiplied."""
COLUMNS = VECTORS * LANES
"""Columns of a tile, and of a panel of packed weights."""
BYTES_AT_ONCE = 4
NUMBERS_AT_ONCE = 16
"""The width of an attention head is a multiple of this."""
