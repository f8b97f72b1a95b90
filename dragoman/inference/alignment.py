"""Word alignments of finished translations, from the decoder's attention to the source.

The decoder predicts target token i in the step whose input is token i - 1. Attention is read in that step, where the
model does not have the token yet. `docs/explanation/word-alignments.md` compares it with the next step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from dragoman.config import InferenceSettings
from dragoman.errors import require_torch
from dragoman.inference.scoring import force_in_threads
from dragoman.inference.searches import convert_once, reason_for_torch
from dragoman.inference.segments import AnsweredText, IdPair, SearchedText, pair_batches
from dragoman.model.trained import AnyTransformer, LazyTransformer
from dragoman.text.tokenization.control_ids import BOS_ID, EOS_ID, PAD_ID
from dragoman.text.tokenization.sentence_splitting import Segment, separators
from dragoman.text.tokenization.tokenizer import TokenizerPair
from dragoman.text.tokenization.words import spaced_words

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

_Weights = TypeVar("_Weights", npt.NDArray[np.float32], "Tensor")
Links = tuple[tuple[int, int], ...]
"""Pairs (source index, target index), sorted by target."""

_TOKENS_AT_ONCE = 2048


def alignment_layer(num_layers: int) -> int:
    """The decoder layer (from 0) to read alignments from: the last one, which has the fewest errors."""
    return num_layers - 1


def attention_links(
    cross: "Float[_Weights, 'H Q S']", num_src: int, num_tgt: int
) -> "Float[_Weights, 'num_tgt num_src']":
    """Attention from each target token to each source token without eos, averaged over the heads. Also of arrays.

    The queries (Q) of `cross` are bos and the target tokens.
    """
    return cross[:, :num_tgt, :num_src].mean(0)  # type: ignore[no-any-return]


class Aligner:
    """Aligns sources with their translations by the attention of a model, or the summed attention of several.

    Parameters
    ----------
    models
        One model or several. Several must share the tokenizers.
    tokenizers
        The tokenizers of both sides.
    """

    def __init__(self, models: Sequence[AnyTransformer], tokenizers: TokenizerPair) -> None:
        self._models, self._tokenizers = [LazyTransformer.of(model) for model in models], tokenizers

    def links(self, pairs: Sequence[IdPair]) -> list[Links]:
        """The source token of each target token, for every pair of source and target ids without control ids."""
        return [
            tuple((src, tgt) for tgt, src in enumerate(weights.argmax(1).tolist())) if all(pair) else ()
            for pair, weights in zip(pairs, self.weights(pairs), strict=True)
        ]

    def weights(self, pairs: Sequence[IdPair]) -> list[npt.NDArray[np.float32]]:
        """Attention from target tokens (rows) to source tokens (columns) of every pair."""
        if (found := self._compiled_weights(pairs)) is not None:
            return found
        sums = [np.zeros((len(tgt), len(src)), np.float32) for src, tgt in pairs]
        full = [place for place, pair in enumerate(pairs) if all(pair)]
        for batch in pair_batches([pairs[place] for place in full], _TOKENS_AT_ONCE):
            places = [full[one] for one in batch]
            for model in self._models:
                for place, own in zip(places, self._weights(model, [pairs[each] for each in places]), strict=True):
                    sums[place] += own
        return sums

    def word_links(self, pairs: Sequence[IdPair]) -> list[Links]:
        """Links between words, as `str.split` separates them."""
        src_tokens, tgt_tokens = self._tokenizers.src.tokens, self._tokenizers.tgt.tokens
        return [
            _between_words(links, spaced_words(src_tokens(src)), spaced_words(tgt_tokens(tgt)))
            for (src, tgt), links in zip(pairs, self.links(pairs), strict=True)
        ]

    def add_alignments(self, answers: Sequence[AnsweredText]) -> list[AnsweredText]:
        """Add word alignments of the best candidates to the answers. Words are counted over the whole text.

        Answers that are not plain get an empty alignment.
        """
        plain = [answer.searched for answer in answers if answer.is_plain]
        links = iter(self.word_links([pair for one in plain for pair in one.best_pairs()]))
        alignments = [self._join_segments(answer.searched, links) if answer.is_plain else () for answer in answers]
        return [
            replace(answer, translation=replace(answer.translation, alignment=alignment))
            for answer, alignment in zip(answers, alignments, strict=True)
        ]

    def _join_segments(self, searched: SearchedText, links: Iterator[Links]) -> Links:
        """Combine the links of all segments of a text, taken from the iterator `links`."""
        segments = searched.request.segments
        written = [self._tokenizers.tgt.detokenize(ids) for ids in searched.best_ids()]
        offsets = zip(
            _words_before(segments, [segment.text for segment in segments]),
            _words_before(segments, written),
            strict=True,
        )
        joined = {(i + src, j + tgt) for src, tgt in offsets for i, j in next(links)}
        return tuple(sorted(joined, key=_by_target))

    def _compiled_weights(self, pairs: Sequence[IdPair]) -> list[npt.NDArray[np.float32]] | None:
        """The weights of all pairs in machine code, on all threads. None if it does not support the models."""
        precision = self._models[0].stored_precision
        if reason_for_torch(self._models, precision, InferenceSettings(beam_size=1)):
            return None
        weights = convert_once(self._models[0], precision).now()
        if not weights.is_finite:
            return None
        passes = force_in_threads(weights, pairs, layer=alignment_layer(weights.num_layers), with_log_probs=False)
        return [
            attention_links(one.attention, len(src), len(tgt)) for one, (src, tgt) in zip(passes, pairs, strict=True)
        ]

    def _weights(self, model: LazyTransformer, pairs: Sequence[IdPair]) -> list[npt.NDArray[np.float32]]:
        """The weights of one batch by one model."""
        require_torch("the attention of a model")
        import torch

        from dragoman.data.batch import pad_ids

        src_ids, src_lengths = pad_ids([[*src, EOS_ID] for src, _ in pairs], PAD_ID)
        decoder_input, _ = pad_ids([[BOS_ID, *tgt] for _, tgt in pairs], PAD_ID)
        transformer = model.build()
        inputs = (each.to(transformer.device) for each in (src_ids, src_lengths, decoder_input))
        with torch.inference_mode():
            cross = transformer.attention(*inputs).cross
            weights = cross[alignment_layer(len(cross))]
            return [
                attention_links(weights[row], len(src), len(tgt)).float().cpu().numpy()
                for row, (src, tgt) in enumerate(pairs)
            ]


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
