"""64-bit fingerprints of text, and a set of them that stays small.

Two different texts among ten million share a fingerprint with a probability of about 3 in a million
(birthday bound n ** 2 / 2 ** 65).
"""

import unicodedata
from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

Fingerprints = NDArray[np.uint64]
_SMALLEST_LEVEL = 1 << 16


def fingerprints(texts: Iterable[str], key: bytes = b"") -> Fingerprints:
    """One fingerprint a text, the same on every machine; another key gives an independent one."""
    keyed = blake2b(digest_size=8, key=key)

    def digest(text: str) -> bytes:
        hashed = keyed.copy()  # two thirds of the time that a new one with this key takes
        hashed.update(text.encode("utf-8", "surrogatepass"))
        return hashed.digest()

    return np.frombuffer(b"".join(map(digest, texts)), dtype="<u8").astype(np.uint64)


def normalize_text(text: str) -> str:
    """A text as the eye compares it: composed characters, no case, single spaces."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    return " ".join(text.casefold().split())


class FingerprintSet:
    """A growing set: sorted arrays, each at least twice as long as the next, merged as they fill.

    Holds 8 bytes a fingerprint, and at most 16 more in the moment of a merge.
    """

    def __init__(self) -> None:
        self._levels: list[Fingerprints] = []

    def __len__(self) -> int:
        return sum(map(len, self._levels))

    def contains(self, values: Fingerprints) -> NDArray[np.bool_]:
        """Which of the values are in the set."""
        order = np.argsort(values)
        found = np.zeros(len(values), np.bool_)
        found[order] = self._contains_sorted(values[order])
        return found

    def add(self, values: Fingerprints) -> NDArray[np.bool_]:
        """Adds the values; true where a value was not in the set nor earlier among the values."""
        distinct, first = np.unique(values, return_index=True)
        unseen = ~self._contains_sorted(distinct)
        new = np.zeros(len(values), np.bool_)
        new[first[unseen]] = True
        if unseen.any():
            self._push(distinct[unseen])
        return new

    def _contains_sorted(self, values: Fingerprints) -> NDArray[np.bool_]:
        found = np.zeros(len(values), np.bool_)
        for level in self._levels:
            places = np.minimum(np.searchsorted(level, values), len(level) - 1)
            found |= level[places] == values
        return found

    def _push(self, level: Fingerprints) -> None:
        while self._levels and (len(self._levels[-1]) < 2 * len(level) or len(self._levels[-1]) < _SMALLEST_LEVEL):
            level = np.concatenate([self._levels.pop(), level])
            level.sort()
        self._levels.append(level)
