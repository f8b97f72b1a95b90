"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017) in plain PyTorch.

Reading order, with sections of the paper: `attention.py` (3.2, masks included), `embedding.py` (3.4, 3.5), `layers.py`
(3.1, 3.3) and `transformer.py` (3.1, figure 1). `shapes.py` names and counts parameters without building a
model, and `trace.py` records every intermediate tensor of a pass.
"""

from typing import TYPE_CHECKING

from dragoman.lazy import import_lazily

if TYPE_CHECKING:
    from dragoman.model.attention import (
        MultiHeadAttention,
        attention_scores,
        attention_weights,
        causal_mask,
        padding_mask,
    )
    from dragoman.model.embedding import Embedding, marian_positions, sinusoidal_positions
    from dragoman.model.layers import DecoderLayer, EncoderLayer, FeedForward, Residual
    from dragoman.model.transformer import AttentionWeights, Decoder, Encoder, Transformer

__all__ = ["attention_scores", "attention_weights", "MultiHeadAttention", "causal_mask", "padding_mask"]
__all__ += ["Embedding", "sinusoidal_positions", "marian_positions"]
__all__ += ["FeedForward", "Residual", "EncoderLayer", "DecoderLayer"]
__all__ += ["Encoder", "Decoder", "Transformer", "AttentionWeights"]

_MODULES = {
    "attention": ("attention_scores", "attention_weights", "MultiHeadAttention", "causal_mask", "padding_mask"),
    "embedding": ("Embedding", "sinusoidal_positions", "marian_positions"),
    "layers": ("FeedForward", "Residual", "EncoderLayer", "DecoderLayer"),
    "transformer": ("Encoder", "Decoder", "Transformer", "AttentionWeights"),
}

import_lazily(__name__, __all__, _MODULES)
