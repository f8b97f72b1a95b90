"""A lexicon of token ids: which source token and which target token translate each other, and how often.

It is learned from encoded sentence pairs by IBM model 1 (Brown et al. 1993) with three additions. Both directions agree
in every iteration (Liang et al. 2006). Tokens at similar relative positions are preferred (Dyer et al. 2013), and links
beside other links, as in the hidden Markov model of Vogel et al. (1996).

References
----------
Brown et al. (1993), "The Mathematics of Statistical Machine Translation", https://aclanthology.org/J93-2003
Vogel, Ney, Tillmann (1996), "HMM-Based Word Alignment in Statistical Translation", https://aclanthology.org/C96-2141
Liang, Taskar, Klein (2006), "Alignment by Agreement", https://aclanthology.org/N06-1014
Dyer, Chahuneau, Smith (2013), "A Simple, Fast, and Effective Reparameterization of IBM Model 2",
https://aclanthology.org/N13-1073
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

if TYPE_CHECKING:
    from dragoman.text.tokenization.encoding import RaggedIds

LEXICON = "lexicon.safetensors"
"""The file of a lexicon in a model folder."""
MAX_PAIRS = 200_000
"""Pairs that a lexicon is learned from. Of more pairs, it takes evenly spaced ones."""
_MAX_CELLS = 16_000_000  # source tokens times target tokens of all pairs; each takes about 35 bytes
LEXICON_VERSION = 1
"""To be raised if the same text gives another lexicon."""
_MAX_SIDE_TOKENS = 100
_ITERATIONS = 5
_CACHED_CELLS = 2500  # of the prior for a pair of lengths: 10 kB
_POSITION_WEIGHT = np.float32(1.0)
_NO_NEIGHBOR = np.float32(0.5)  # added to the probabilities of the links before and after a link
_LEAST_PROBABILITY = 1e-3
_MAX_ENTRIES = 350_000
_LEAST_TOTAL = 1e-3
_FLOOR = np.float32(1e-10)  # the count of a pair of tokens without an entry
_UNSEEN = 0.01  # added to the number of unlinked occurrences of each token
LEAST_LINK = 0.5
"""The lowest probability of a link. It has few errors on validation pairs of the phrasebook, and in French."""
_MOST_TRIED = 500
_LEAST_OF_SHIFTED, _LEAST_OF_SEEN = 1.5, 0.87

_Ids: TypeAlias = Sequence[int] | NDArray[np.integer]
_Floats: TypeAlias = NDArray[np.float32]
_Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Lexicon:
    """Expected numbers of links between source and target tokens. An entry is a pair of ids that may be linked.

    Attributes
    ----------
    entries
        ``src_id * tgt_vocab_size + tgt_id`` of each entry, sorted, (entries,).
    counts
        The expected number of links of each entry, (entries,).
    src_alone, tgt_alone
        The probability of each id among unlinked tokens, (src_vocab_size,) and (tgt_vocab_size,).
    """

    entries: _Ints
    counts: _Floats
    src_alone: _Floats
    tgt_alone: _Floats

    @cached_property
    def totals(self) -> tuple[_Floats, _Floats]:
        """The number of links of each source token and of each target token, above 0."""
        owners = np.divmod(self.entries, len(self.tgt_alone))
        sums = (np.bincount(owner, self.counts, size) for owner, size in zip(owners, self.vocab_sizes, strict=True))
        src, tgt = (np.maximum(each, _LEAST_TOTAL).astype(np.float32) for each in sums)
        return src, tgt

    @property
    def vocab_sizes(self) -> tuple[int, int]:
        """The sizes of the source and the target vocabulary."""
        return len(self.src_alone), len(self.tgt_alone)

    def link_probabilities(
        self, src: _Ids, tgt: _Ids, same: NDArray[np.bool_] | None = None, apart: NDArray[np.bool_] | None = None
    ) -> _Floats:
        """The probability (S, T) that each source token is linked to each target token.

        It is the geometric mean of both directions, so a row or column can sum to more than 1: links are many to many.

        Parameters
        ----------
        src, tgt
            Ids of both sides, without control ids.
        same
            True where two tokens are spelled the same, (S, T). It counts as one more link, so it decides about names
            and numbers that the training text hardly has.
        apart
            True where two tokens must not be linked, such as a word and a comma, (S, T).
        """
        src_ids, tgt_ids = np.asarray(src, np.int64), np.asarray(tgt, np.int64)
        wanted = src_ids[:, None] * len(self.tgt_alone) + tgt_ids
        if not wanted.size or not len(self.entries):
            return np.zeros(wanted.shape, np.float32)
        places = np.minimum(np.searchsorted(self.entries, wanted), len(self.entries) - 1)
        counts = np.where(self.entries[places] == wanted, self.counts[places], _FLOOR)
        if same is not None:
            counts = counts + same
        if apart is not None:
            counts = np.where(apart, _FLOOR, counts)
        return self.agreed(counts, src_ids, tgt_ids)

    def agreed(self, counts: _Floats, src: _Ints, tgt: _Ints) -> _Floats:
        """Link probabilities (..., S, T) of source ids (..., S) and target ids (..., T) with counts (..., S, T)."""
        shape = counts.shape[-2:]
        make = _position_prior if math.prod(shape) <= _CACHED_CELLS else _position_prior.__wrapped__
        counts = counts * make(*shape)
        found = self._in_both_directions(counts, src, tgt)
        beside = np.full_like(found, _NO_NEIGHBOR)
        beside[..., 1:, 1:] += found[..., :-1, :-1]
        beside[..., :-1, :-1] += found[..., 1:, 1:]
        beside[..., 0, 0] += 1  # the ends of the sentences are linked
        beside[..., -1, -1] += 1
        return self._in_both_directions(counts * beside, src, tgt)

    def _in_both_directions(self, counts: _Floats, src: _Ints, tgt: _Ints) -> _Floats:
        """The geometric mean of the probabilities in both directions for counts (..., S, T)."""
        src_totals, tgt_totals = self.totals
        forward = counts / src_totals[src][..., :, None]
        backward = counts / tgt_totals[tgt][..., None, :]
        forward /= forward.sum(-2, keepdims=True) + self.tgt_alone[tgt][..., None, :]
        backward /= backward.sum(-1, keepdims=True) + self.src_alone[src][..., :, None]
        found: _Floats = np.sqrt(forward * backward)
        return found

    def merged(self, other: "Lexicon") -> "Lexicon":
        """A lexicon with the counts of both, which have the same vocabularies."""
        entries, places = np.unique(np.concatenate((self.entries, other.entries)), return_inverse=True)
        counts = np.bincount(places, np.concatenate((self.counts, other.counts)), len(entries)).astype(np.float32)
        half = np.float32(0.5)
        src_alone, tgt_alone = half * (self.src_alone + other.src_alone), half * (self.tgt_alone + other.tgt_alone)
        return _without_rare(Lexicon(entries, counts, src_alone, tgt_alone))

    def to_bytes(self) -> bytes:
        """The lexicon in the safetensors format."""
        content: bytes = save({name: getattr(self, name) for name in _TYPES})
        return content

    @classmethod
    def from_bytes(cls, content: bytes) -> "Lexicon":
        """Read what `to_bytes` wrote. Raises ValueError if the content is that of no lexicon."""
        try:
            arrays = load(content)
        except SafetensorError as error:
            raise ValueError(f"it is not in the safetensors format ({error})") from None
        if {name: (array.dtype.type, array.ndim) for name, array in arrays.items()} != dict.fromkeys(
            _TYPES, (np.float32, 1)
        ) | {"entries": (np.int64, 1)}:
            raise ValueError("it does not have the arrays of a lexicon")
        entries, *numbers = (arrays[name] for name in _TYPES)
        size = len(arrays["src_alone"]) * len(arrays["tgt_alone"])
        is_sorted = bool((np.diff(entries) > 0).all()) and (not len(entries) or 0 <= entries[0] <= entries[-1] < size)
        if len(entries) != len(arrays["counts"]) or not is_sorted or not all((each >= 0).all() for each in numbers):
            raise ValueError("its numbers cannot be those of a lexicon")
        return cls(entries, *numbers)


_TYPES = ("entries", "counts", "src_alone", "tgt_alone")


@dataclass(frozen=True)
class Coverage:
    """Shares of target tokens that a lexicon links, which tell whether it was learned from enough parallel text.

    Attributes
    ----------
    pairs
        The number of pairs that the lexicon was learned from.
    seen
        The share in pairs that the lexicon was learned from.
    unseen
        The share in pairs that were left out for this purpose.
    shifted
        The share if each of these sources is paired with the target of the next pair.
    """

    pairs: int
    seen: float
    unseen: float
    shifted: float

    @property
    def parallel(self) -> bool:
        """Whether the sides seem to translate each other: whether a target fits its own source better than another."""
        return self.unseen > _LEAST_OF_SHIFTED * self.shifted

    @property
    def sufficient(self) -> bool:
        """Whether there was enough text to link about as many tokens in new pairs.

        With less text, attention of the model places marked words better (`docs/explanation/word-alignments.md`).
        """
        return self.parallel and self.unseen >= _LEAST_OF_SEEN * self.seen


def learn_tried_lexicon(src: "RaggedIds", tgt: "RaggedIds", vocab_sizes: tuple[int, int]) -> tuple[Lexicon, Coverage]:
    """Learn a lexicon as `learn_lexicon` does, without the `left_out` pairs, and try it on these."""
    tried = left_out(src.lengths, tgt.lengths)
    kept = _mask(len(src), choose_pairs(src.lengths, tgt.lengths)) & ~tried
    lexicon = learn_lexicon(src.select(kept), tgt.select(kept), vocab_sizes)
    rows = np.flatnonzero(kept)
    seen = _mask(len(src), rows[:: max(1, len(rows) // _MOST_TRIED)])
    sources, targets = src.select(tried).to_lists(), tgt.select(tried).to_lists()
    return lexicon, Coverage(
        pairs=len(rows),
        seen=linked_share(lexicon, src.select(seen).to_lists(), tgt.select(seen).to_lists()),
        unseen=linked_share(lexicon, sources, targets),
        shifted=linked_share(lexicon, sources, targets[-1:] + targets[:-1]),
    )


def left_out(src_lengths: NDArray[np.integer], tgt_lengths: NDArray[np.integer]) -> NDArray[np.bool_]:
    """True for the pairs that a lexicon is tried on: 500 evenly spaced ones, or a tenth of fewer pairs, (pairs,)."""
    rows = choose_pairs(src_lengths, tgt_lengths)
    return _mask(len(src_lengths), _evenly_spaced(rows, min(_MOST_TRIED, len(rows) // 10)))


def _mask(size: int, rows: _Ints) -> NDArray[np.bool_]:
    chosen = np.zeros(size, bool)
    chosen[rows] = True
    return chosen


def _evenly_spaced(rows: _Ints, count: int) -> _Ints:
    return rows[np.linspace(0, len(rows), count, endpoint=False, dtype=np.int64)]


def improve_lexicon(known: Lexicon | None, learned: Lexicon, coverage: Coverage) -> Lexicon | None:
    """The lexicon `known` with what was learned from more text, or without it if that text is not good enough."""
    if known is None or known.vocab_sizes != learned.vocab_sizes:
        return learned if coverage.sufficient else None
    return known.merged(learned) if coverage.parallel else known


def linked_share(lexicon: Lexicon, sources: Sequence[_Ids], targets: Sequence[_Ids]) -> float:
    """The share of target tokens with a link, in pairs of ids of both sides."""
    pairs = list(zip(sources, targets, strict=True))
    linked = sum(int((lexicon.link_probabilities(*pair) > LEAST_LINK).any(0).sum()) for pair in pairs)
    return linked / max(sum(len(tgt) for _, tgt in pairs), 1)


def learn_lexicon(src: "RaggedIds", tgt: "RaggedIds", vocab_sizes: tuple[int, int]) -> Lexicon:
    """Learn a lexicon from sentence pairs, which need not be sorted.

    Pairs with an empty side or with more than 100 tokens on a side are left out. The result depends only on the
    arguments. Takes about 1 s for each million of pairs of tokens.

    Parameters
    ----------
    src, tgt
        Ids of both sides, without control ids. Row n of one is the translation of row n of the other.
    vocab_sizes
        Sizes of both vocabularies.
    """
    keep = _mask(len(src), choose_pairs(src.lengths, tgt.lengths))
    blocks = _blocks_by_shape(src.select(keep), tgt.select(keep))
    if not blocks:
        nothing = np.zeros(0, np.float32)
        return Lexicon(np.zeros(0, np.int64), nothing, *(np.full(size, 1 / size, np.float32) for size in vocab_sizes))
    number: type[np.signedinteger] = np.int32 if math.prod(vocab_sizes) < 1 << 31 else np.int64  # half the memory
    wanted = np.concatenate(
        [(s[:, :, None] * vocab_sizes[1] + t[:, None, :]).astype(number).ravel() for s, t in blocks]
    )
    entries, places = np.unique(wanted, return_inverse=True)
    del wanted
    src_alone, tgt_alone = (np.full(size, 1 / size, np.float32) for size in vocab_sizes)
    lexicon = Lexicon(entries.astype(np.int64), np.ones(len(entries), np.float32), src_alone, tgt_alone)
    cells = places.astype(np.int32)
    for _ in range(_ITERATIONS):
        lexicon = _updated(lexicon, blocks, cells)
    return _without_rare(lexicon)


def choose_pairs(src_lengths: NDArray[np.integer], tgt_lengths: NDArray[np.integer]) -> _Ints:
    """The numbers of the pairs to learn from: evenly spaced, up to the limits, without empty and very long ones.

    If all of these are too many pairs of tokens, the longest are left out.
    """
    usable = (np.minimum(src_lengths, tgt_lengths) > 0) & (np.maximum(src_lengths, tgt_lengths) <= _MAX_SIDE_TOKENS)
    numbers = np.flatnonzero(usable)
    if len(numbers) > MAX_PAIRS:
        numbers = _evenly_spaced(numbers, MAX_PAIRS)
    cells = src_lengths[numbers].astype(np.int64) * tgt_lengths[numbers]
    shortest = np.argsort(cells, kind="stable")
    return np.sort(numbers[shortest[: np.searchsorted(cells[shortest].cumsum(), _MAX_CELLS, side="right")]])


def _blocks_by_shape(src: "RaggedIds", tgt: "RaggedIds") -> list[tuple[_Ints, _Ints]]:
    """Source ids (n, S) and target ids (n, T) of the pairs with S and T tokens, for each S and T."""
    starts = [np.cumsum(side.lengths) - side.lengths for side in (src, tgt)]
    shapes = src.lengths * (_MAX_SIDE_TOKENS + 1) + tgt.lengths
    order = np.argsort(shapes, kind="stable")
    firsts = np.flatnonzero(np.diff(shapes[order], prepend=-1))
    return [
        (
            src.ids[starts[0][rows, None] + np.arange(src.lengths[rows[0]])].astype(np.int64),
            tgt.ids[starts[1][rows, None] + np.arange(tgt.lengths[rows[0]])].astype(np.int64),
        )
        for rows in np.split(order, firsts[1:])
        if len(rows)
    ]


def _updated(lexicon: Lexicon, blocks: Sequence[tuple[_Ints, _Ints]], cells: NDArray[np.int32]) -> Lexicon:
    """One step of expectation maximization. `cells` is the entry for each pair of tokens, in the order of blocks."""
    links = np.empty(len(cells), np.float32)
    alone = [np.full(size, _UNSEEN) for size in lexicon.vocab_sizes]
    start = 0
    for src, tgt in blocks:
        shape = (*src.shape, tgt.shape[1])
        stop = start + len(src) * shape[1] * shape[2]
        own = cells[start:stop].reshape(shape)
        found = lexicon.agreed(lexicon.counts[own], src, tgt)
        links[start:stop] = found.ravel()
        for side, ids, axis in ((0, src, 2), (1, tgt, 1)):
            np.add.at(alone[side], ids, np.clip(1 - found.sum(axis), 0, 1))
        start = stop
    counts = np.bincount(cells, links, len(lexicon.entries)).astype(np.float32)
    shares = (np.float32(side / side.sum()) for side in alone)
    return Lexicon(lexicon.entries, counts, *shares)  # type: ignore[arg-type]


@lru_cache(1024)
def _position_prior(num_src: int, num_tgt: int) -> _Floats:
    """exp(-w |i / S - j / T|), (S, T), for the centers of source token i and target token j."""
    src, tgt = ((np.arange(size, dtype=np.float32) + 0.5) / size for size in (num_src, num_tgt))
    prior: _Floats = np.exp(-_POSITION_WEIGHT * np.abs(src[:, None] - tgt))
    return prior


def _without_rare(lexicon: Lexicon) -> Lexicon:
    """The lexicon without entries that hardly ever link, and with at most 350,000 entries."""
    src, tgt = np.divmod(lexicon.entries, len(lexicon.tgt_alone))
    largest = lexicon.counts / np.minimum(lexicon.totals[0][src], lexicon.totals[1][tgt])
    least = _LEAST_PROBABILITY
    if len(largest) > _MAX_ENTRIES:
        least = max(least, float(np.partition(largest, -_MAX_ENTRIES)[-_MAX_ENTRIES]))
    keep = largest >= least
    return Lexicon(lexicon.entries[keep], lexicon.counts[keep], lexicon.src_alone, lexicon.tgt_alone)
