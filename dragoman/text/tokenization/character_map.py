"""SentencePiece's character map, which replaces characters of a text before it is cut into pieces.

A .spm file has the map "precompiled": the size of a trie in bytes, the trie (a double array of 32-bit units, as
Darts-clone writes it), then the replacements, each ended by a zero byte. At each place of a text the longest matching
key is replaced. A character without a key stays.

The file is untrusted, so every step in the trie checks its bounds. `tokenizers.normalizers.Precompiled` is not used: it
replaces whole grapheme clusters by the replacement of their first characters, which SentencePiece does not.
"""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

_ROOT = 0
_NOWHERE = -1
_MAX_STEPS = 2_000_000


@lru_cache(maxsize=4)
def character_map(precompiled: bytes) -> "CharacterMap":
    """The map in these bytes, cached because both sides of a model usually share it."""
    return CharacterMap(precompiled)


class CharacterMap:
    """Replaces characters, longest match first. Raises ValueError for bytes that are not a valid map."""

    def __init__(self, precompiled: bytes = b"") -> None:
        self.precompiled = precompiled
        size = int.from_bytes(precompiled[:4], "little")
        if precompiled and (size % 4 or not 0 < size < len(precompiled) - 4):
            raise ValueError("its character map is cut off")
        self._replacements = precompiled[4 + size :]
        self._trie = _Trie(np.frombuffer(precompiled, dtype="<u4", count=size // 4, offset=4 if size else 0))
        firsts = self._trie.characters(_ROOT)
        self._single = {ord(char): self._value(node) for char, node in firsts if self._trie.has_value[node]}
        self._later, nodes = self._trie.below({node for _, node in firsts})
        for node in nodes:
            if self._trie.has_value[node]:
                self._value(node)

    def replace(self, text: str) -> str:
        """The text with every key replaced."""
        if self._later.isdisjoint(text):
            return text.translate(self._single)
        return "".join(self._replaced(text))

    def _replaced(self, text: str) -> Iterator[str]:
        place = 0
        while place < len(text):
            end, node = self._trie.longest(text, place)
            yield text[place] if node == _NOWHERE else self._value(node)
            place = max(end, place + 1)

    def _value(self, node: int) -> str:
        start = self._trie.value(node)
        end = self._replacements.find(b"\0", start)
        if end < 0:
            raise ValueError("its character map points outside itself")
        return _decode(self._replacements[start:end])


class _Trie:
    """A double-array trie: a child is at the base of its parent XOR its label, the value of a node at its base."""

    def __init__(self, units: np.ndarray) -> None:
        wide, places = units.astype(np.int64), np.arange(len(units), dtype=np.int64)
        bases = places ^ ((wide >> 10) << ((wide & 512) >> 6))
        labels = wide & ((1 << 31) | 0xFF)
        self.has_value: list[bool] = (((wide >> 8) & 1) == 1).tolist()
        self._bases, self._labels, self._values = bases.tolist(), labels.tolist(), (wide & ((1 << 31) - 1)).tolist()
        # The children of each node, for walking the whole trie: units with a label, grouped by the base of the parent.
        children = places[(labels > 0) & (labels < 256)]
        parents = children ^ labels[children]
        order = np.argsort(parents, kind="stable")
        self._children = children[order].tolist()
        self._starts = np.searchsorted(parents[order], bases, side="left").tolist()
        self._ends = np.searchsorted(parents[order], bases, side="right").tolist()
        self._steps = 0

    def value(self, node: int) -> int:
        """The offset of the replacement of the key that ends at a node. Raises ValueError if it is out of bounds."""
        base = self._bases[node]
        if base >= len(self._values):
            raise ValueError("its character map points outside itself")
        return int(self._values[base])

    def longest(self, text: str, place: int) -> tuple[int, int]:
        """The end of the longest key at `place`, and its node. (place, -1) if no key matches."""
        found, node = (place, _NOWHERE), _ROOT
        for end in range(place, len(text)):
            for byte in text[end].encode("utf-8"):
                node = self._child(node, byte)
                if node == _NOWHERE:
                    return found
            if self.has_value[node]:
                found = (end + 1, node)
        return found

    def characters(self, node: int) -> list[tuple[str, int]]:
        """The characters that may follow a node, with the node that each leads to.

        Raises ValueError if the walk takes too many steps, as in a map with a cycle.
        """
        found, ways = [], [(node, b"")]
        while ways:
            current, written = ways.pop()
            for child in self._children_of(current):
                way = written + bytes((self._labels[child],))
                if len(way) < _num_bytes(way[0]):
                    ways.append((child, way))
                else:
                    found.append((_decode(way), child))
        return found

    def below(self, nodes: set[int]) -> tuple[frozenset[str], set[int]]:
        """All characters on paths from the nodes, and all nodes on these paths. Shared paths are walked once."""
        characters, seen, ahead = set(), set(nodes), list(nodes)
        while ahead:
            for char, node in self.characters(ahead.pop()):
                characters.add(char)
                if node not in seen:
                    seen.add(node)
                    ahead.append(node)
        return frozenset(characters), seen

    def _child(self, node: int, byte: int) -> int:
        place = self._bases[node] ^ byte
        return place if byte and place < len(self._labels) and self._labels[place] == byte else _NOWHERE

    def _children_of(self, node: int) -> list[int]:
        found: list[int] = self._children[self._starts[node] : self._ends[node]] if self._starts else []
        self._steps += len(found) + 1
        if self._steps > _MAX_STEPS:
            raise ValueError("its character map has no end")
        return found


def _num_bytes(first: int) -> int:
    """The length of a UTF-8 character that starts with this byte. 1 for a byte that cannot start one."""
    return 1 + (first >= 0xC0) + (first >= 0xE0) + (first >= 0xF0)


def _decode(way: bytes) -> str:
    try:
        return way.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("its character map has text that is not UTF-8") from None
