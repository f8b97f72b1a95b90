"""Register sizes of the processor, and the tile shapes of the search's matrix products.

A tile is the block of a product's result that is summed entirely in registers. `matrix_products.multiply` computes one
tile of PRODUCT_ROWS x PRODUCT_COLUMNS. Tiles of 4 x 64, 5 x 64, 6 x 64 and 8 x 48 are equally fast with AVX-512
(docs/log.md).
"""

import math
import platform

from dragoman.kernels.processor import FEATURES

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
VECTORS = 4 if _WIDE else 2
PRODUCT_ROWS = 4
"""Rows of a tile. Its sums fill as many registers as the factors leave free."""
PRODUCT_COLUMNS = VECTORS * REGISTER_LANES
"""Columns of a tile, and of a panel of packed weights (`inference/compiled/weights.py`)."""
VOCABULARY_BAND = 64
"""Logits of a row that are reduced to one maximum: the columns of one wide panel, or of several narrow ones."""
MULTIPLIED_TOGETHER = {"int8": 4, "int16": 2, "float32": 1}
"""Numbers of a row that share one 32-bit lane, by precision. A row's length is padded to a multiple."""
CACHE_LINE_BYTES = 64
"""Size of a cache line."""
HEAD_WIDTH_MULTIPLE = 16
"""Numbers that the attention instructions of the search compute at once. Heads are padded to a multiple."""


def largest_integer(precision: str, depth: int) -> int:
    """The integer that the largest magnitude of a row or column of `depth` numbers is scaled to.

    int8: 127, because sums of products of bytes are exact. int16: small enough that the sum of `depth` products stays
    below 2^31.
    """
    return 127 if precision == "int8" else min(32767, math.isqrt((2**31 - 1) // depth))
