"""Training's operations between the products as machine code, and what compiles code here.

Needs numba, which compiles these functions for the processor at hand when they are first called.
"""

VECTOR_WIDTH = 16
"""The numbers that `lines` takes at once; attention heads are as wide or a multiple of it."""
TILE_ROWS = 8
"""The rows of a product that are computed at once."""
