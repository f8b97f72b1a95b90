"""Word alignments of finished translations, by the model's lexicon, or else by the decoder's attention.

A lexicon needs no pass through the model. A model without one is read at its attention to the source. The decoder
predicts target token i in the step whose input is token i - 1, and token i is the input of the next step. In
``prediction``, the first of these steps is read. In ``next``, the second is, which has the token already (Shift-Att:
Chen et al. 2020, https://arxiv.org/abs/2004.14837). `docs/explanation/word-alignments.md` compares all of them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from dragoman.bundle import Weights
from dragoman.engines.choice import Engines
from dragoman.engines.interface import IdPair
from dragoman.inference.segments import SearchedText
from dragoman.text.lexicon import LEAST_LINK, Lexicon
from dragoman.text.tokenization.sentence_splitting import Segment, separators
from dragoman.text.tokenization.tokenizer import TokenizerPair
from dragoman.text.tokenization.words import is_punctuation, spaced_words

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

_Weights = TypeVar("_Weights", npt.NDArray[np.float32], "Tensor")
Reading = Literal["prediction", "next"]
Links = tuple[tuple[int, int], ...]
"""Pairs (source index, target index), sorted by target."""

DEFAULT_READING: Reading = "prediction"


def alignment_layer(num_layers: int) -> int:
    """The decoder layer (from 0) to read alignments from: the last one, which has the fewest errors."""
    return num_layers - 1


def attention_links(
    cross: "Float[_Weights, 'H Q S']", num_src: int, num_tgt: int, reading: Reading
) -> "Float[_Weights, 'num_tgt num_src']":
    """Attention from each target token to each source token without eos, averaged over the heads. Also of arrays.

    The queries (Q) of `cross` are bos and the target tokens.
    """
    first = 1 if reading == "next" else 0
    return cross[:, first : first + num_tgt, :num_src].mean(0)  # type: ignore[no-any-return]


class Aligner:
    """Aligns sources with their translations: by a lexicon, or by the attention of a model, summed over several models.

    Parameters
    ----------
    models
        One model or several. Several must share the tokenizers.
    tokenizers
        The tokenizers of both sides.
    reading
        The step in which attention is read (see above).
    layer
        The decoder layer, from 0, or -1 for each model's `alignment_layer`.
    lexicon
        Returns the lexicon of the models, or None. It is called once, when an alignment is needed.
    """

    def __init__(
        self,
        models: Sequence[Weights],
        tokenizers: TokenizerPair,
        reading: Reading = DEFAULT_READING,
        layer: int = -1,
        lexicon: Callable[[], Lexicon | None] = lambda: None,
    ) -> None:
        self._engines, self._precision = Engines(models), models[0].stored_precision
        self._tokenizers, self._reading, self._layer, self._read_lexicon = tokenizers, reading, layer, lexicon

    @cached_property
    def _lexicon(self) -> Lexicon | None:
        return self._read_lexicon()

    @cached_property
    def _spelling(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """For each source id, the target token spelled the same, or -1. Then the punctuation of both vocabularies."""
        src, tgt = (side.tokens(range(side.vocab_size)) for side in (self._tokenizers.src, self._tokenizers.tgt))
        ids = {token: number for number, token in enumerate(tgt)}
        same = np.array([ids.get(token, -1) for token in src])
        return same, np.array(list(map(is_punctuation, src))), np.array(list(map(is_punctuation, tgt)))

    def links(self, pairs: Sequence[IdPair]) -> list[Links]:
        """Links between tokens, for every pair of source and target ids without control ids.

        By the lexicon, links are many to many. By attention, each target token has the source token it attends to most.
        """
        if self._lexicon:
            likely = (np.argwhere(weights > LEAST_LINK).tolist() for weights in self.weights(pairs))
            return [tuple((src, tgt) for tgt, src in rows) for rows in likely]
        return [
            tuple((src, tgt) for tgt, src in enumerate(weights.argmax(1).tolist())) if all(pair) else ()
            for pair, weights in zip(pairs, self.weights(pairs), strict=True)
        ]

    def weights(self, pairs: Sequence[IdPair]) -> list[npt.NDArray[np.float32]]:
        """Link probabilities, or attention, from target tokens (rows) to source tokens (columns) of every pair."""
        if lexicon := self._lexicon:
            same, src_marks, tgt_marks = self._spelling
            found = []
            for src, tgt in (tuple(np.asarray(side, np.int64) for side in pair) for pair in pairs):
                is_same, is_apart = np.equal.outer(same[src], tgt), np.not_equal.outer(src_marks[src], tgt_marks[tgt])
                found.append(lexicon.link_probabilities(src, tgt, is_same, is_apart).T)
            return found
        passes = self._engines.force(pairs, self._precision, self._layer, with_log_probs=False)
        return [
            attention_links(one.attention, len(src), len(tgt), self._reading)
            for one, (src, tgt) in zip(passes, pairs, strict=True)
        ]

    def word_links(self, pairs: Sequence[IdPair]) -> list[Links]:
        """Links between words, as `str.split` separates them.

        By the lexicon, a link between punctuation marks counts only if both stand alone. So the final dots of two
        sentences do not link the words before them.
        """
        found = []
        for pair, links in zip(pairs, self.links(pairs), strict=True):
            src, tgt = (
                spaced_words(side.tokens(ids))
                for side, ids in zip((self._tokenizers.src, self._tokenizers.tgt), pair, strict=True)
            )
            if self._lexicon:
                sides = zip(pair, (src, tgt), self._spelling[1:], strict=True)
                attached, attached_tgt = (_attached_marks(ids, words, marks) for ids, words, marks in sides)
                links = tuple(link for link in links if not (link[0] in attached or link[1] in attached_tgt))
            found.append(_between_words(links, src, tgt))
        return found

    def add_alignments(self, texts: Sequence[SearchedText]) -> list[SearchedText]:
        """Add word alignments of the best candidates to the translations. Words are counted over the whole text.

        Translations that are not plain get an empty alignment.
        """
        links = iter(self.word_links([pair for text in texts if text.is_plain for pair in text.best_pairs()]))
        alignments = [self._join_segments(text, links) if text.is_plain else () for text in texts]
        return [
            replace(text, translation=replace(text.translation, alignment=alignment))
            for text, alignment in zip(texts, alignments, strict=True)
        ]

    def _join_segments(self, searched: SearchedText, links: Iterator[Links]) -> Links:
        """Combine the links of all segments of a text, taken from the iterator `links`."""
        segments, written = searched.segments, searched.written(self._tokenizers.tgt)
        offsets = zip(
            _words_before(segments, [segment.text for segment in segments]),
            _words_before(segments, written),
            strict=True,
        )
        joined = {(i + src, j + tgt) for src, tgt in offsets for i, j in next(links)}
        return tuple(sorted(joined, key=_by_target))


def _attached_marks(ids: Sequence[int], words: Sequence[tuple[int, ...]], marks: npt.NDArray[np.bool_]) -> set[int]:
    """The places of punctuation marks in words that have other characters, too."""
    with_letters = {word for token, own in zip(ids, words, strict=True) if not marks[token] for word in own}
    return {place for place, own in enumerate(words) if marks[ids[place]] and not with_letters.isdisjoint(own)}


def _between_words(links: Links, src: Sequence[tuple[int, ...]], tgt: Sequence[tuple[int, ...]]) -> Links:
    found = {(one, other) for i, j in links for one in src[i] for other in tgt[j]}
    return tuple(sorted(found, key=_by_target))


def _by_target(link: tuple[int, int]) -> tuple[int, int]:
    return link[1], link[0]


def _words_before(segments: Sequence[Segment], texts: Sequence[str]) -> list[int]:
    """Number of words before each segment in the joined text. A word that was split in two counts once."""
    counts, words, last = [], 0, " "

    def continues_word(text: str) -> bool:
        """Whether the text starts in the middle of a word."""
        return bool(text) and not last.isspace() and not text[0].isspace()

    for text, separator in zip(texts, separators(segments, texts), strict=True):
        counts.append(words - continues_word(text))
        for part in (text, separator):
            words += len(part.split()) - continues_word(part)
            last = part[-1:] or last
    return counts
