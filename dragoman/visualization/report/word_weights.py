"""Attention weights between the words of an output and its source, for shading words in the report."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dragoman.inference.alignment import Aligner
from dragoman.model.trained import TrainedModel
from dragoman.text.tokenization.pipelines import SPACE_SYMBOL
from dragoman.text.tokenization.tokenizer import Tokenizer
from dragoman.text.tokenization.words import Word, words_of


@dataclass(frozen=True, slots=True)
class WordWeights:
    """The words of both sides, and for each target word a row of weights on the source words. Rows sum to at most 1.

    A word starts with a space if the text has a space before it. Punctuation marks are words.
    """

    src_words: tuple[str, ...]
    tgt_words: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]


Alignment = Callable[[str, str], WordWeights | None]
"""``alignment(source, output)`` returns word weights, or None if there is nothing to align."""


def cross_attention_of(trained: TrainedModel) -> Alignment:
    """A function that computes word weights from the attention that `translate --alignment` uses.

    The output is fed to the decoder (teacher forcing). Weights are summed over the tokens of a source word and averaged
    over the tokens of a target word. Weight on the end token belongs to no word. Texts longer than the training limit,
    which the translator splits, are not aligned.
    """
    longest = trained.config.model.longest_text(trained.config.data.max_tokens)
    aligner = Aligner([trained.lazy], trained.tokenizers)

    def align(source: str, output: str) -> WordWeights | None:
        src_ids = trained.tokenizers.src.encode(source)
        tgt_ids = trained.tokenizers.tgt.encode(output)
        if not src_ids or not tgt_ids or max(len(src_ids), len(tgt_ids)) > longest:
            return None
        [links] = aligner.weights([(src_ids, tgt_ids)])
        src, src_texts = _words(trained.tokenizers.src, src_ids)
        tgt, tgt_texts = _words(trained.tokenizers.tgt, tgt_ids)
        return WordWeights(src_texts, tgt_texts, tuple(map(tuple, _sum_by_word(links, src, tgt).tolist())))

    return align


def _sum_by_word(weights: NDArray[np.float32], src: tuple[Word, ...], tgt: tuple[Word, ...]) -> NDArray[np.float32]:
    """Convert token weights (T, S) to word weights: sum over source tokens, mean over target tokens."""
    by_source = np.stack([weights[:, word.start : word.stop].sum(1) for word in src], 1)
    return np.stack([by_source[word.start : word.stop].mean(0) for word in tgt])


def _words(tokenizer: Tokenizer, ids: list[int]) -> tuple[tuple[Word, ...], tuple[str, ...]]:
    tokens = tokenizer.tokens(ids)
    words = words_of(tokens)
    texts = ((" " if tokens[word.start].startswith(SPACE_SYMBOL) else "") + word.text for word in words)
    return words, tuple(texts)
