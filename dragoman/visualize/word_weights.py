"""How much each word of an output looked at each word of its source, for shading them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dragoman.bundle import Bundle
from dragoman.data.stream import collate
from dragoman.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class WordWeights:
    """Words of both sides and, a row a target word, its weights on the source words: at least 0, at most 1 in all."""

    src_words: tuple[str, ...]
    tgt_words: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]


Alignment = Callable[[str, str], WordWeights | None]
"""``alignment(source, output)``; None where there is nothing to align."""


def cross_attention_of(bundle: Bundle) -> Alignment:
    """Reads the mean of the heads of the last decoder layer, at the steps that write the words.

    The output is given to the decoder as if it were writing it. Subwords of a source word are added up, those of a
    target word averaged; what goes to the end token belongs to no word. Sides longer than the model was trained on,
    which the translator splits, are not aligned.
    """

    @torch.inference_mode()
    def align(source: str, output: str) -> WordWeights | None:
        src_ids = bundle.tokenizers.src.encode(source)
        tgt_ids = bundle.tokenizers.tgt.encode(output)
        longest = bundle.config.data.max_tokens
        if not src_ids or not tgt_ids or max(len(src_ids), len(tgt_ids)) > longest:
            return None
        if bundle.model.max_positions is not None and max(len(src_ids), len(tgt_ids)) >= bundle.model.max_positions:
            return None
        batch = collate([src_ids], [tgt_ids]).to(bundle.model.device)  # type: ignore[list-item]
        cross = bundle.model.attention(batch.src_ids, batch.src_lengths, batch.decoder_input).cross[-1]
        weights = cross[0].float().mean(0)[: len(tgt_ids), : len(src_ids)].cpu()
        src_words, src_places = words_of(bundle.tokenizers.src, src_ids)
        tgt_words, tgt_places = words_of(bundle.tokenizers.tgt, tgt_ids)
        merged = _merged(weights, src_places, len(src_words), tgt_places, len(tgt_words))
        return WordWeights(src_words, tgt_words, tuple(map(tuple, merged.tolist()))) if merged.numel() else None

    return align


def words_of(tokenizer: Tokenizer, ids: Sequence[int]) -> tuple[tuple[str, ...], list[int]]:
    """The words between spaces of what the ids stand for, and each token's word.

    Where a language writes no spaces the tokens themselves are the words.
    """
    beginnings = [tokenizer.detokenize(ids[: end + 1]) for end in range(len(ids))]
    words = tuple(beginnings[-1].split()) if ids else ()
    if len(ids) <= 6 * len(words):
        return words, [min(max(len(text.split()), 1), len(words)) - 1 for text in beginnings]
    return tuple(tokenizer.detokenize([token]).strip() or "·" for token in ids), list(range(len(ids)))


def _merged(weights: Tensor, src_places: list[int], num_src: int, tgt_places: list[int], num_tgt: int) -> Tensor:
    """(target tokens, source tokens) to (target words, source words)."""
    src_sums = torch.zeros(weights.size(0), num_src).index_add_(1, torch.tensor(src_places), weights)
    sums = torch.zeros(num_tgt, num_src).index_add_(0, torch.tensor(tgt_places), src_sums)
    counts = torch.bincount(torch.tensor(tgt_places), minlength=num_tgt).clamp(min=1)
    return sums / counts[:, None]
