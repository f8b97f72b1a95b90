"""Word alignments read off the decoder's attention to the source, for outputs that are already there.

The decoder writes target token i while it reads token i - 1, and reads token i one step later. Its attention can be
taken at either step: ``prediction``, or ``next`` (Shift-Att: Chen et al. 2020, https://arxiv.org/abs/2004.14837), where
the word is known and the model looks at what it has just translated.
`docs/explanation/word-alignments.md` has what was measured of both.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.data.batch import pad_ids
from dragoman.inference.segments import AnsweredText, SearchedText
from dragoman.model.transformer import Transformer
from dragoman.text.tokenization.sentence_splitting import Segment, separators
from dragoman.text.tokenization.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizer, TokenizerPair
from dragoman.text.tokenization.words import spaced_words

Reading = Literal["prediction", "next"]
Links = tuple[tuple[int, int], ...]
"""(source, target) numbers, ordered by target."""

DEFAULT_READING: Reading = "prediction"

_TOKENS_AT_ONCE = 2048


def alignment_layer(num_layers: int) -> int:
    """The decoder layer (from 0) to read alignments from: the last one, which has the fewest errors."""
    return num_layers - 1


def attention_links(
    cross: Float[Tensor, "H Q S"], num_src: int, num_tgt: int, reading: Reading
) -> Float[Tensor, "num_tgt num_src"]:
    """How much each target token looked at each source token, eos left out: the mean over the heads.

    The queries of `cross` are bos and the target tokens.
    """
    first = 1 if reading == "next" else 0
    return cross[:, first : first + num_tgt, :num_src].mean(0)


class Aligner:
    """Aligns sources with what was written for them: the mean attention of one model, or of several.

    `layer` counts from 0; None is each model's `alignment_layer`.
    """

    def __init__(
        self,
        models: Sequence[Transformer],
        tokenizers: TokenizerPair,
        reading: Reading = DEFAULT_READING,
        layer: int | None = None,
    ) -> None:
        self._models, self._tokenizers, self._reading, self._layer = tuple(models), tokenizers, reading, layer

    def links(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[Links]:
        """For every pair of source and target ids (without control ids) the source token of each target token."""
        return [
            tuple((src, tgt) for tgt, src in enumerate(weights.argmax(1).tolist())) if all(pair) else ()
            for pair, weights in zip(pairs, self.weights(pairs), strict=True)
        ]

    @torch.inference_mode()
    def weights(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[npt.NDArray[np.float32]]:
        """How much each target token (row) of every pair attended to each source token; zeros if one side has none."""
        sums = [np.zeros((len(tgt), len(src)), np.float32) for src, tgt in pairs]
        for batch in _batches(pairs):
            for model in self._models:
                for place, own in zip(batch, self._weights(model, [pairs[one] for one in batch]), strict=True):
                    sums[place] += own.float().cpu().numpy()
        return sums

    def word_links(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[Links]:
        """The same between words as `str.split` counts them."""
        return [
            _between_words(links, _words(self._tokenizers.src, src), _words(self._tokenizers.tgt, tgt))
            for (src, tgt), links in zip(pairs, self.links(pairs), strict=True)
        ]

    def add_alignments(self, answers: Sequence[AnsweredText]) -> list[AnsweredText]:
        """The answers with the alignment of their best candidates, words counted over the whole text.

        The alignment of an answer that is not plain is empty.
        """
        plain = [answer.searched for answer in answers if answer.is_plain]
        pairs = [pair for one in plain for pair in zip(_source_ids(one), one.best_ids(), strict=True)]
        links = iter(self.word_links(pairs))
        alignments = [self._join_segments(answer.searched, links) if answer.is_plain else () for answer in answers]
        return [
            replace(answer, translation=replace(answer.translation, alignment=alignment))
            for answer, alignment in zip(answers, alignments, strict=True)
        ]

    def _join_segments(self, searched: SearchedText, links: Iterator[Links]) -> Links:
        """One alignment of all segments, from the next of their `links`."""
        segments = searched.request.segments
        written = [self._tokenizers.tgt.detokenize(ids) for ids in searched.best_ids()]
        offsets = zip(
            _words_before(segments, [segment.text for segment in segments]),
            _words_before(segments, written),
            strict=True,
        )
        joined = {(i + src, j + tgt) for src, tgt in offsets for i, j in next(links)}
        return tuple(sorted(joined, key=_by_target))

    def _weights(self, model: Transformer, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[Tensor]:
        src_ids, src_lengths = pad_ids([[*src, EOS_ID] for src, _ in pairs], PAD_ID)
        decoder_input, _ = pad_ids([[BOS_ID, *tgt] for _, tgt in pairs], PAD_ID)
        device = model.device
        cross = model.attention(src_ids.to(device), src_lengths.to(device), decoder_input.to(device)).cross
        layer = alignment_layer(len(cross)) if self._layer is None else self._layer
        return [
            attention_links(cross[layer][row], len(src), len(tgt), self._reading)
            for row, (src, tgt) in enumerate(pairs)
        ]


def _source_ids(searched: SearchedText) -> list[list[int]]:
    return [source.ids for source in searched.request.sources]


def _batches(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[list[int]]:
    """The places of pairs with tokens on both sides, similar lengths together, few enough at once."""
    batches: list[list[int]] = []
    longest = 0
    for place in sorted(range(len(pairs)), key=lambda place: max(map(len, pairs[place]))):
        longest = max(map(len, pairs[place]))
        if all(pairs[place]):
            if not batches or (len(batches[-1]) + 1) * longest > _TOKENS_AT_ONCE:
                batches.append([])
            batches[-1].append(place)
    return batches


def _between_words(links: Links, src: Sequence[tuple[int, ...]], tgt: Sequence[tuple[int, ...]]) -> Links:
    found = {(one, other) for i, j in links for one in src[i] for other in tgt[j]}
    return tuple(sorted(found, key=_by_target))


def _words(tokenizer: Tokenizer, ids: Sequence[int]) -> list[tuple[int, ...]]:
    return spaced_words(tokenizer.tokens(ids))


def _by_target(link: tuple[int, int]) -> tuple[int, int]:
    return link[1], link[0]


def _words_before(segments: Sequence[Segment], texts: Sequence[str]) -> list[int]:
    """For each segment the words of the joined texts before its own; one that was cut in two counts once."""
    counts, words, last = [], 0, " "

    def goes_on(text: str) -> bool:
        """Whether the text begins in the middle of a word."""
        return bool(text) and not last.isspace() and not text[0].isspace()

    for text, separator in zip(texts, separators(segments, texts), strict=True):
        counts.append(words - goes_on(text))
        for part in (text, separator):
            words += len(part.split()) - goes_on(part)
            last = part[-1:] or last
    return counts
