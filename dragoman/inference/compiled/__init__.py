"""The search as machine code: a decoding step of all sentences is one call, from token ids to token ids.

Needs numba (extra `fast`), which compiles these functions for the processor at hand when they are first called.
"""
