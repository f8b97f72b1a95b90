"""The SentencePiece tokenizer of models trained by Marian (Kudo and Richardson 2018), without its library.

Characters are mapped, spaces become U+2581, and unigram scores or merges cut the text into pieces, exactly as
SentencePiece does (tests compare every id). A separate vocabulary, which both sides of a model may share, gives the
pieces their ids. A piece outside the vocabulary is unknown. For models with several target languages, a text may start
with the name of one, such as ``>>fra<<``.

SentencePiece's character map, which replaces characters of a text before it is cut into pieces.

A .spm file has the map "precompiled": the size of a trie in bytes, the trie (a double array of 32-bit units, as
Darts-clone writes it), then the replacements, each ended by a zero byte. At each place of a text the longest matching
key is replaced. A character without a key stays.

The file is untrusted, so every step in the trie checks its bounds. `tokenizers.normalizers.Precompiled` is not used: it
replaces whole grapheme clusters by the replacement of their first characters, which SentencePiece does not.
"""

import base64
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any, Literal

import numpy as np
from tokenizers import Tokenizer, models

from dragoman.records import NUM_CONTROL_IDS
from dragoman.text.tokenization.pipelines import CONTROL_TOKENS, SPACE_SYMBOL, byte_token

_UNKNOWN = "<unk> "  # has a space, which normalized text never has
_UNK_ID = CONTROL_TOKENS.index("<unk>")
_MAX_PIECE_CHARACTERS = 1000
_LANGUAGE = re.compile(r">>.*?<<", re.DOTALL)
_SPACES = re.compile(" {2,}")
_BYTES = {byte_token(byte): byte for byte in range(256)}


def is_language(token: str) -> bool:
    """Whether a token names a target language: ``>>fra<<``."""
    return _LANGUAGE.fullmatch(token) is not None


@dataclass(frozen=True, slots=True)
class PieceModel:
    """The content of a .spm file: how SentencePiece cuts text.

    `pieces` are (piece, score). `character_map` has the bytes that `CharacterMap` reads.
    """

    algorithm: Literal["unigram", "bpe"]
    pieces: tuple[tuple[str, float], ...]
    character_map: bytes = b""
    space_in_front: bool = True
    single_spaces: bool = True
    byte_fallback: bool = False


@dataclass(frozen=True, slots=True)
class Encoding:
    """The ids of one text."""

    ids: list[int]


class SentencePieceTokenizer:
    """SentencePiece with the methods of `tokenizers.Tokenizer` that Dragoman uses.

    `vocabulary` has the tokens in the order of their ids, control tokens first. Raises ValueError for an invalid model
    or vocabulary.
    """

    def __init__(self, model: PieceModel, vocabulary: Sequence[str]) -> None:
        self.model = model
        self.vocabulary = tuple(vocabulary)
        _check(model, self.vocabulary)
        self._map = _cached_map(model.character_map)
        # The unknown piece has the lowest score, from which the score of unknown characters follows.
        scored = [(_UNKNOWN, min(score for _, score in model.pieces)), *model.pieces]
        is_unigram = model.algorithm == "unigram"
        self._library = Tokenizer(models.Unigram(scored, 0, False) if is_unigram else _bpe(model.pieces))
        self._ids = {token: index for index, token in enumerate(self.vocabulary) if index >= NUM_CONTROL_IDS}
        self._piece_ids = [_UNK_ID, *(self._ids.get(piece, _UNK_ID) for piece, _ in model.pieces)]

    def get_vocab_size(self, with_added_tokens: bool = True) -> int:
        """The number of ids."""
        return len(self.vocabulary)

    def id_to_token(self, index: int) -> str | None:
        """The token of an id, or None if there is no such id."""
        return self.vocabulary[index] if 0 <= index < len(self.vocabulary) else None

    def encode_batch_fast(self, texts: Sequence[str], add_special_tokens: bool = False) -> list[Encoding]:
        """The ids of many texts, on all cores. Raises TypeError or UnicodeEncodeError for text that is not Unicode."""
        codes = [_LANGUAGE.match(text) for text in texts]
        starts = [code.end() if code else 0 for code in codes]
        normalized = [self.normalize(text[start:]) for text, start in zip(texts, starts, strict=True)]
        cut = self._library.encode_batch(normalized, add_special_tokens=False)
        rows = [self._known(one.ids, one.offsets, text) for one, text in zip(cut, normalized, strict=True)]
        return [
            Encoding([self._ids.get(code[0], _UNK_ID), *row] if code else row)
            for code, row in zip(codes, rows, strict=True)
        ]

    def normalize(self, text: str) -> str:
        """The text as it is cut into pieces: characters mapped, spaces marked, none doubled or at the ends."""
        model, mapped = self.model, self._map.replace(text)
        if model.single_spaces:
            mapped = _SPACES.sub(" ", mapped).lstrip(" ")
        marked = mapped.replace(" ", SPACE_SYMBOL)
        if model.space_in_front and marked:
            marked = SPACE_SYMBOL + marked
        return marked.rstrip(SPACE_SYMBOL) if model.single_spaces else marked

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of ids, without spaces at its ends. Bytes that form no character become U+FFFD."""
        tokens = [self.vocabulary[index] for index in ids]
        shown = [token for token in tokens if token not in CONTROL_TOKENS]
        joined = "".join(_with_bytes(shown) if self.model.byte_fallback else shown)
        return joined.replace(SPACE_SYMBOL, " ").strip()

    def to_str(self) -> str:
        """The content of a tokenizer.json."""
        model = self.model
        document = {
            "kind": "sentencepiece",
            "algorithm": model.algorithm,
            "space_in_front": model.space_in_front,
            "single_spaces": model.single_spaces,
            "byte_fallback": model.byte_fallback,
            "character_map": base64.b64encode(model.character_map).decode("ascii"),
            "pieces": [list(piece) for piece in model.pieces],
            "vocabulary": list(self.vocabulary),
        }
        return json.dumps(document, ensure_ascii=False)

    def _known(self, piece_ids: Sequence[int], offsets: Sequence[tuple[int, int]], text: str) -> list[int]:
        """The vocabulary's ids of pieces. Characters outside all pieces become bytes, a token of that text, or unk."""
        if 0 not in piece_ids:
            return [self._piece_ids[index] for index in piece_ids]
        ids: list[int] = []
        for index, (start, end) in zip(piece_ids, offsets, strict=True):
            if index:
                ids.append(self._piece_ids[index])
            elif self.model.byte_fallback:
                ids += (self._ids.get(byte_token(byte), _UNK_ID) for byte in text[start:end].encode("utf-8"))
            else:
                ids.append(self._ids.get(text[start:end], _UNK_ID))
        return ids


def read_sentencepiece(document: dict[str, Any]) -> SentencePieceTokenizer:
    """Read a tokenizer that `to_str` wrote. Raises ValueError that names the invalid part of the document."""
    fields = {name: document.get(name) for name in ("space_in_front", "single_spaces", "byte_fallback")}
    if not all(isinstance(value, bool) for value in fields.values()):
        raise ValueError("its options are not true or false")
    pieces, vocabulary, algorithm = (document.get(name) for name in ("pieces", "vocabulary", "algorithm"))
    if algorithm not in ("unigram", "bpe"):
        raise ValueError(f"its algorithm is {algorithm!r}")
    if not isinstance(vocabulary, list) or not isinstance(pieces, list):
        raise ValueError("its pieces or its vocabulary are not a list")
    if not all(isinstance(row, list) and [type(one) for one in row] in ([str, float], [str, int]) for row in pieces):
        raise ValueError("its pieces are not pairs of text and score")
    if not all(isinstance(token, str) for token in vocabulary):
        raise ValueError("its vocabulary has more than text")
    scored = tuple((piece, float(score)) for piece, score in pieces)
    character_map = base64.b64decode(str(document.get("character_map")), validate=True)
    model = PieceModel(algorithm, scored, character_map, **fields)  # type: ignore[arg-type]
    return SentencePieceTokenizer(model, vocabulary)


def _check(model: PieceModel, vocabulary: Sequence[str]) -> None:
    if tuple(vocabulary[:NUM_CONTROL_IDS]) != CONTROL_TOKENS:
        raise ValueError(f"its first tokens are not {', '.join(CONTROL_TOKENS)}")
    tokens = vocabulary[NUM_CONTROL_IDS:]
    for what, texts in (("token", tokens), ("piece", [piece for piece, _ in model.pieces])):
        if not texts or not all(0 < len(text) <= _MAX_PIECE_CHARACTERS for text in texts):
            raise ValueError(f"it has a {what} that is empty or too long, or none")
        if len(set(texts)) < len(texts):
            raise ValueError(f"it repeats a {what}")
        "".join(texts).encode("utf-8")
    if not all(math.isfinite(score) for _, score in model.pieces):
        raise ValueError("it has a score that is not finite")


def _bpe(pieces: Sequence[tuple[str, float]]) -> models.BPE:
    """A BPE model with a merge for every way to join two pieces to a third, in the order of falling scores."""
    ids = {_UNKNOWN: 0} | {piece: index for index, (piece, _) in enumerate(pieces, start=1)}
    ranked = [piece for piece, _ in sorted(pieces, key=lambda one: -one[1])]
    halves = ((piece[:place], piece[place:]) for piece in ranked for place in range(1, len(piece)))
    merges = [(left, right) for left, right in halves if left in ids and right in ids]
    return models.BPE(ids, merges, unk_token=_UNKNOWN, fuse_unk=True)


def _with_bytes(tokens: Iterable[str]) -> Iterator[str]:
    """The tokens, with each run of byte tokens replaced by the text that it spells."""
    for is_bytes, group in groupby(tokens, _BYTES.__contains__):
        run = list(group)
        yield bytes(map(_BYTES.__getitem__, run)).decode("utf-8", "replace") if is_bytes else "".join(run)


_ROOT = 0
_NOWHERE = -1
_MAX_STEPS = 2_000_000


class CharacterMap:
    """Replaces characters, longest match first. Raises ValueError for bytes that are not a valid map."""

    def __init__(self, precompiled: bytes) -> None:
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


_cached_map = lru_cache(maxsize=4)(CharacterMap)
"""The map in some bytes, cached because both sides of a model usually share it."""


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
                # The first byte of a UTF-8 character tells its length. A wrong one counts as a character.
                if len(way) < 1 + (way[0] >= 0xC0) + (way[0] >= 0xE0) + (way[0] >= 0xF0):
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


def _decode(way: bytes) -> str:
    try:
        return way.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("its character map has text that is not UTF-8") from None
