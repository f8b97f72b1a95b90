"""Positional encodings without torch (Vaswani et al. 2017, section 3.5), the same as in `model/embedding.py`."""

import math
from collections.abc import Callable

import numpy as np

from dragoman.config import ModelSettings
from dragoman.errors import DataError
from dragoman.inference.compiled.layout import Floats
from dragoman.model.shapes import Arrays

PositionTable = Callable[[int, int], Floats]
"""Function (first position, number of positions) to the positional encodings (positions, D)."""
_POSITIONS_AHEAD = 512


def position_tables(settings: ModelSettings, arrays: Arrays) -> tuple[PositionTable, PositionTable]:
    """The position tables of source and target, equal to those of `model/embedding.py` to the last bit.

    So both round sinusoids from float64. float32 functions of NumPy and torch differ in their last bits.
    """
    if settings.positions == "learned":
        src, tgt = (_learned(arrays[f"{side}_embedding.positions"], f"{side}_ids") for side in ("src", "tgt"))
        return src, tgt
    return (_sinusoids(settings.d_model, settings.positions == "marian"),) * 2


def _learned(table: Floats, ids_name: str) -> PositionTable:
    def positions(start: int, length: int) -> Floats:
        if start + length > len(table):
            raise DataError(
                f"`{ids_name}` must have at most {len(table)} tokens, the learned positions (`max_positions`), "
                f"but has {start + length}."
            )
        return table[start : start + length]

    return positions


def _sinusoids(width: int, sines_first: bool) -> PositionTable:
    """Sines and cosines in turn, or all sines before all cosines."""
    exponents = np.arange(0, width, 2, dtype=np.float32) * np.float32(-math.log(10000.0) / width)
    rates = np.exp(exponents, dtype=np.float64).astype(np.float32)

    def positions(start: int, length: int) -> Floats:
        angles = np.arange(start, start + length, dtype=np.float32)[:, None] * rates
        waves = np.sin(angles, dtype=np.float64), np.cos(angles, dtype=np.float64)
        joined = np.concatenate(waves, 1) if sines_first else np.stack(waves, 2).reshape(length, width)
        return joined.astype(np.float32)

    return positions


class KnownPositions:
    """Positional encodings, computed up to the longest length so far, with some positions in reserve."""

    def __init__(self, table: PositionTable, width: int, limit: int | None) -> None:
        self._table, self._limit = table, limit
        self._known = np.zeros((0, width), np.float32)

    def up_to(self, length: int) -> Floats:
        """Encodings of at least `length` positions. Raises DataError if there are fewer learned positions."""
        known = self._known
        if known.shape[0] < length:
            end = length + min(length, _POSITIONS_AHEAD)
            end = end if self._limit is None else max(min(end, self._limit), length)
            self._known = known = self._table(0, end)
        return known
