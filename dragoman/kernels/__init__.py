"""Machine code for CPUs, shared by training (`training/step/fused.py`) and the compiled search (`engines/compiled`).

The functions of the search are compiled when the package is built, for several kinds of processors. numba compiles the
functions of training for the processor at hand when they are first called, and the code is kept on disk.

| file | content |
|---|---|
| `processor.py` | the processor's instruction sets and registers, and the kinds of processors code is compiled for |
| `library.py` | find and load the machine code of the search, and call its functions |
| `compiling.py` | compile on this machine, with a cache on disk, and build the libraries of the package |
| `jit.py` | the decorators `jit_compile`, `jit_without_nan`, and `jit_cached`, which keeps compiled code on disk |
| `llvm.py` | building blocks for instructions on vectors, written in LLVM's language |
| `vectors.py` | operations on single numbers and on vectors of 16: sums, products, powers, a tile of float32 products |
| `matrix_products.py` | instructions of the search: the tile of its matrix products, attention, prefetching |
| `training.py` | complete operations of a training step, forward and backward |

Why machine code: between matrix products, torch reads and writes all numbers once for each operation, and each call
costs microseconds. Measured gains over the definition in `model/` (docs/explanation/internals.md):

| | with these functions | with torch alone |
|---|---:|---:|
| gradient, tiny model, bfloat16 | 1.49 | 1.37 |
| gradient, base model, bfloat16 | 2.57 | 1.75 |
| beam search, tiny model, int8 | 36.5 | 7.3 |
"""

VECTOR_WIDTH = 16
"""Numbers that `vectors.py` computes at once. The width of an attention head must be a multiple."""
