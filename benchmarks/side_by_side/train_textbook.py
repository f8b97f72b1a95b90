"""Training throughput of a textbook Transformer: every formula of the paper written out, nothing fused.

Attention keeps its scores and probabilities, the norm is spelt out, and the loss is a KL divergence from a dense
smoothed distribution. Pre-norm, tied embeddings.
"""

import math

import torch
from torch import Tensor, nn

from side_by_side.batches import training_steps
from side_by_side.corpus import PAD_ID, Corpus
from side_by_side.shapes import DROPOUT, LABEL_SMOOTHING, Size
from side_by_side.timing import print_result, timed_training, training_arguments

LONGEST = 512


class LayerNorm(nn.Module):
    """(x - mean) / deviation, scaled and shifted."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, hidden: Tensor) -> Tensor:
        mean, deviation = hidden.mean(-1, keepdim=True), hidden.std(-1, keepdim=True)
        return self.scale * (hidden - mean) / (deviation + 1e-6) + self.shift


class Attention(nn.Module):
    """The softmax of scaled products, with every intermediate result in memory."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.num_heads, self.head_width = size.num_heads, size.d_model // size.num_heads
        self.query, self.key, self.value, self.output = (nn.Linear(size.d_model, size.d_model) for _ in range(4))
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, hidden: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        query, key, value = self.query(hidden), self.key(memory), self.value(memory)
        query, key, value = (
            part.view(part.size(0), -1, self.num_heads, self.head_width).transpose(1, 2) for part in (query, key, value)
        )
        scores = query @ key.transpose(-2, -1) / math.sqrt(self.head_width)
        weights = self.dropout(scores.masked_fill(~mask[:, None], -1e9).softmax(dim=-1))
        return self.output((weights @ value).transpose(1, 2).contiguous().flatten(2))


class Layer(nn.Module):
    """An encoder layer, or a decoder layer if `cross`."""

    def __init__(self, size: Size, cross: bool) -> None:
        super().__init__()
        self.self_attention = Attention(size)
        self.cross_attention = Attention(size) if cross else None
        self.inner, self.outer = nn.Linear(size.d_model, size.d_ff), nn.Linear(size.d_ff, size.d_model)
        self.norms = nn.ModuleList(LayerNorm(size.d_model) for _ in range(3))
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, hidden: Tensor, mask: Tensor, memory: Tensor | None, memory_mask: Tensor | None) -> Tensor:
        normed = self.norms[0](hidden)
        hidden = hidden + self.dropout(self.self_attention(normed, normed, mask))
        if self.cross_attention is not None:
            hidden = hidden + self.dropout(self.cross_attention(self.norms[1](hidden), memory, memory_mask))
        inner = self.dropout(self.inner(self.norms[2](hidden)).relu())
        return hidden + self.dropout(self.outer(inner))


class Model(nn.Module):
    """Return log-probabilities of every target position."""

    def __init__(self, vocab_size: int, size: Size) -> None:
        super().__init__()
        self.scale = math.sqrt(size.d_model)
        self.embedding = nn.Embedding(vocab_size, size.d_model)
        nn.init.normal_(self.embedding.weight, std=size.d_model**-0.5)
        places = torch.arange(LONGEST)[:, None]
        rates = torch.exp(torch.arange(0, size.d_model, 2) * (-math.log(10_000) / size.d_model))
        positions = torch.zeros(LONGEST, size.d_model)
        positions[:, 0::2], positions[:, 1::2] = (places * rates).sin(), (places * rates).cos()
        self.register_buffer("positions", positions)
        self.dropout = nn.Dropout(DROPOUT)
        self.encoder = nn.ModuleList(Layer(size, cross=False) for _ in range(size.layers))
        self.decoder = nn.ModuleList(Layer(size, cross=True) for _ in range(size.layers))
        self.encoder_norm, self.decoder_norm = LayerNorm(size.d_model), LayerNorm(size.d_model)
        self.projection = nn.Linear(size.d_model, vocab_size)
        self.projection.weight = self.embedding.weight

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) * self.scale + self.positions[: ids.size(1)])

    def forward(self, src: Tensor, decoder_input: Tensor) -> Tensor:
        src_mask = (src != PAD_ID)[:, None]
        length = decoder_input.size(1)
        tgt_mask = (decoder_input != PAD_ID)[:, None] & torch.ones(length, length, dtype=torch.bool).tril()
        memory, hidden = self.embed(src), self.embed(decoder_input)
        for layer in self.encoder:
            memory = layer(memory, src_mask, None, None)
        memory = self.encoder_norm(memory)
        for layer in self.decoder:
            hidden = layer(hidden, tgt_mask, memory, src_mask)
        return self.projection(self.decoder_norm(hidden)).log_softmax(dim=-1)


class SmoothedLoss(nn.Module):
    """KL divergence from the smoothed distribution over the whole vocabulary, written out row by row."""

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.divergence, self.vocab_size = nn.KLDivLoss(reduction="sum"), vocab_size

    def forward(self, log_probs: Tensor, labels: Tensor) -> Tensor:
        wanted = torch.full_like(log_probs, LABEL_SMOOTHING / (self.vocab_size - 2))
        wanted.scatter_(1, labels[:, None], 1 - LABEL_SMOOTHING)
        wanted[:, PAD_ID] = 0
        wanted[labels == PAD_ID] = 0
        return self.divergence(log_probs, wanted)


def main() -> None:
    given = training_arguments(__doc__).parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(1)
    corpus = Corpus(given.data)
    model, criterion = Model(corpus.vocab_size, given.size), SmoothedLoss(corpus.vocab_size)

    def loss_of(src: Tensor, decoder_input: Tensor, labels: Tensor) -> Tensor:
        return criterion(model(src, decoder_input).flatten(0, 1), labels.flatten())

    print_result(
        timed_training(training_steps(corpus, model, loss_of), given.size, given.seconds), "float32", ["torch"]
    )


if __name__ == "__main__":
    main()
