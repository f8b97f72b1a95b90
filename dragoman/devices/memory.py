"""Freed memory: whether the C allocator keeps it or returns it to the system."""

import contextlib
import ctypes

# Parameters of mallopt: M_MMAP_THRESHOLD (32 MB, its maximum), M_TRIM_THRESHOLD (never trim) and M_TOP_PAD (64 MB).
_KEEP = ((-3, 32 << 20), (-1, 2**31 - 1), (-2, 64 << 20))


def return_freed_memory() -> None:
    """Return freed memory to the system, if the C library is glibc."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def keep_freed_memory() -> None:
    """Tell glibc to keep freed memory for later allocations. Other C libraries are left alone.

    Every step allocates and frees the same hundreds of megabytes. Returning them to the system and clearing new pages
    would take about a quarter of a small model's training time, and a tenth of its decoding time. Peak memory does not
    change.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        allocator = ctypes.CDLL(None)
        for parameter, value in _KEEP:
            allocator.mallopt(parameter, value)
