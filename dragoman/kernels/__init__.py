"""Machine code for CPUs, shared by training and the compiled search.

numba compiles these functions for the processor when they are first called.
"""

VECTOR_WIDTH = 16
"""The numbers that `vectors.py` computes at once. The width of an attention head is a multiple of it."""
TILE_ROWS = 8
"""The rows of a product in training that are computed at once."""
