"""How much each target word depends on each source word: attention, occlusion, and gradient times input.

*Occlusion*: the change of each target token's log-probability when a source word is left out. *Gradient times input*:
the derivative of the log-probability with respect to the word's embedding, times the embedding. Attention weights alone
do not explain a prediction (Jain and Wallace 2019), but they are more credible where all three measures agree.

Attention weights are encoded as bytes, and a head is summarized in three numbers.
"""

import base64
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from dragoman.data.batch import Batch
from dragoman.engines.tensors.engine import score_tokens
from dragoman.model.attention import padding_mask
from dragoman.model.transformer import AttentionWeights, Transformer
from dragoman.text.tokenization.words import Word
from dragoman.visualization.inspection import inspection

_TOKENS_AT_ONCE = 4096
_Matrix = NDArray[np.float64]
_Words = Sequence[Word]


def compute_attributions(
    model: Transformer, src_ids: Sequence[int], tgt_ids: Sequence[int], words: tuple[_Words, _Words], links: _Matrix
) -> inspection.Attributions:
    """Compute attention, occlusion and gradient between the words of both sides. Ids are without control ids.

    `links` is attention (target tokens, source tokens).
    """
    src_words, tgt_words = words
    attention = _sum_by_words(links, src_words, tgt_words)
    occlusion = _sum_by_word(np.abs(occlude_words(model, src_ids, tgt_ids, src_words)), tgt_words, axis=0)
    gradient = _sum_by_words(np.abs(gradient_times_input(model, src_ids, tgt_ids)), src_words, tgt_words)
    by_attention, by_occlusion, by_gradient = map(_normalize_rows, (attention, occlusion, gradient))
    correlations = _mean_correlation(attention, occlusion), _mean_correlation(attention, gradient)
    return inspection.Attributions(by_attention, by_occlusion, by_gradient, *correlations)


def pair_batch(sources: Sequence[Sequence[int]], tgt_ids: Sequence[int], device: torch.device) -> Batch:
    """A batch with one row per source, each with the same target. Ids are without control ids."""
    return Batch.from_ids(sources, [tgt_ids] * len(sources)).to(device)


@torch.inference_mode()
def occlude_words(model: Transformer, src_ids: Sequence[int], tgt_ids: Sequence[int], words: _Words) -> _Matrix:
    """The log-probability that each target token loses without each source word: (target tokens, source words)."""
    sources = [list(src_ids), *([*src_ids[: word.start], *src_ids[word.stop :]] for word in words)]
    size = max(1, _TOKENS_AT_ONCE // (len(src_ids) + len(tgt_ids) + 2))
    batches = (pair_batch(sources[at : at + size], tgt_ids, model.device) for at in range(0, len(sources), size))
    scores = torch.cat([score_tokens(model, batch) for batch in batches])[:, : len(tgt_ids)]
    return (scores[:1] - scores[1:]).T.cpu().double().numpy()


def gradient_times_input(model: Transformer, src_ids: Sequence[int], tgt_ids: Sequence[int]) -> _Matrix:
    """Gradient of the log-probability times the embedding, summed over its dimensions: (target tokens, source tokens).

    The embedding is the encoder's input without the position encoding.
    """
    size = max(1, _TOKENS_AT_ONCE // (len(src_ids) + len(tgt_ids) + 2))
    ranges = (range(at, min(at + size, len(tgt_ids))) for at in range(0, len(tgt_ids), size))
    parts = [_gradients(model, src_ids, tgt_ids, places) for places in ranges]
    return np.concatenate(parts) if parts else np.zeros((0, len(src_ids)))


def _gradients(model: Transformer, src_ids: Sequence[int], tgt_ids: Sequence[int], places: range) -> _Matrix:
    """The rows of the target tokens in `places`, from a batch with one copy of the sentence pair per row."""
    batch = pair_batch([src_ids] * len(places), tgt_ids, model.device)
    with torch.enable_grad():
        hidden = model.src_embedding(batch.src_ids).detach()
        positions = model.src_embedding.table(0, hidden.size(1)).detach()
        tokens = (hidden - positions).requires_grad_()
        mask = padding_mask(batch.src_lengths, hidden.size(1))
        memory = model.encoder(tokens + positions, mask)
        states = model.decode(batch.decoder_input, memory, batch.src_lengths)
        rows = torch.arange(len(places), device=model.device)
        chosen = torch.tensor(list(places), device=model.device)
        log_probs = torch.log_softmax(model.projection(states[rows, chosen]).float(), dim=-1)
        wanted = log_probs[rows, batch.labels[rows, chosen]].sum()
        (gradient,) = torch.autograd.grad(wanted, tokens)
    products: _Matrix = (gradient * tokens).sum(-1)[:, : len(src_ids)].detach().cpu().double().numpy()
    return products


def spearman(one: Sequence[float] | _Matrix, other: Sequence[float] | _Matrix) -> float | None:
    """Spearman's rank correlation. Ties share their mean rank. None for fewer than 3 values, or for constant values."""
    if len(one) < 3:
        return None
    x, y = (_ranks(np.asarray(values, dtype=np.float64)) for values in (one, other))
    return float(np.corrcoef(x, y)[0, 1]) if np.ptp(x) and np.ptp(y) else None


def _ranks(values: _Matrix) -> _Matrix:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def _mean_correlation(one: _Matrix, other: _Matrix) -> float | None:
    found = [value for value in map(spearman, one, other) if value is not None]
    return round(sum(found) / len(found), 4) if found else None


def _sum_by_words(matrix: _Matrix, src_words: _Words, tgt_words: _Words) -> _Matrix:
    return _sum_by_word(_sum_by_word(matrix, tgt_words, axis=0), src_words, axis=1)


def _sum_by_word(matrix: _Matrix, words: _Words, axis: int) -> _Matrix:
    return np.add.reduceat(matrix, [word.start for word in words], axis=axis)


def _normalize_rows(matrix: _Matrix) -> tuple[tuple[float, ...], ...]:
    """Divide each row by its sum, unless the sum is 0."""
    totals = matrix.sum(1, keepdims=True)
    shares = np.divide(matrix, totals, out=np.zeros_like(matrix), where=totals > 0)
    return tuple(tuple(round(float(share), 4) for share in row) for row in shares)


MOST_TOKENS_WITH_HEADS = 200
"""With more tokens on a side, a page only shows the mean of the heads."""


def collect_weights(
    attention: AttentionWeights, src_tokens: Sequence[str], tgt_tokens: Sequence[str]
) -> tuple[inspection.PackedAttention, ...]:
    """Pack the attention of one sentence pair by kind. `attention` belongs to bos and the target, without padding."""
    src, tgt = (*src_tokens, inspection.END), (inspection.START, *tgt_tokens)
    mean_only = not shows_heads(len(src_tokens), len(tgt_tokens))
    labels = {"cross": (tgt, src), "encoder_self": (src, src), "decoder_self": (tgt, tgt)}
    packed = []
    for kind in inspection.KIND_NAMES:
        stacked = torch.stack([layer[0] for layer in getattr(attention, kind)]).float().cpu()
        if mean_only:
            stacked = stacked.mean(1, keepdim=True)
        facts = tuple(tuple(_head_facts(head, kind) for head in layer) for layer in stacked)
        num_layers, num_heads, *_ = stacked.shape
        data = encode_weights(stacked)
        packed.append(inspection.PackedAttention(kind, num_layers, num_heads, *labels[kind], mean_only, data, facts))
    return tuple(packed)


def shows_heads(num_src: int, num_tgt: int) -> bool:
    """Whether the page shows single heads for these numbers of tokens, without control tokens."""
    return max(num_src, num_tgt) <= MOST_TOKENS_WITH_HEADS


def encode_weights(weights: Float[Tensor, "..."]) -> str:
    """Encode weights from 0 to 1 as one rounded byte each, in base64."""
    return base64.b64encode((weights.float().cpu() * 255).round().to(torch.uint8).numpy().tobytes()).decode("ascii")


def decode_weights(weights: inspection.PackedAttention) -> NDArray[np.float32]:
    """Decode the weights: (layers, heads, queries, keys), each with an error of at most 1 / 510."""
    flat = np.frombuffer(base64.b64decode(weights.data), np.uint8).astype(np.float32) / np.float32(255)
    return flat.reshape(weights.num_layers, weights.num_heads, len(weights.queries), len(weights.keys))


def _head_facts(weights: Float[Tensor, "Q S"], kind: str) -> inspection.HeadFacts:
    num_queries, num_keys = weights.shape
    entropy = -(weights * weights.clamp(min=1e-12).log2()).sum(1).mean()
    places = torch.arange(num_queries)[:, None] * (num_keys / num_queries if kind == "cross" else 1.0)
    distance = (weights * (torch.arange(num_keys)[None] - places).abs()).sum(1).mean()
    sink = weights[:, 0 if kind == "decoder_self" else -1].mean()
    return inspection.HeadFacts(*(round(float(value), 4) for value in (entropy.clamp(min=0), distance, sink)))
