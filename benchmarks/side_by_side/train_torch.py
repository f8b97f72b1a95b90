"""Training throughput of torch.nn.Transformer with its own layers, padding and nn.CrossEntropyLoss; pre-norm, tied."""

import math

import torch
from torch import Tensor, nn

from side_by_side.batches import training_steps
from side_by_side.corpus import PAD_ID, Corpus
from side_by_side.shapes import DROPOUT, LABEL_SMOOTHING, Size
from side_by_side.timing import print_result, timed_training, training_arguments

LONGEST = 512


class Model(nn.Module):
    """Embeddings, sinusoids, nn.Transformer and a tied projection."""

    def __init__(self, vocab_size: int, size: Size, dropout: float = DROPOUT, norm_first: bool = True) -> None:
        super().__init__()
        self.scale = math.sqrt(size.d_model)
        self.embedding = nn.Embedding(vocab_size, size.d_model, padding_idx=PAD_ID)
        nn.init.normal_(self.embedding.weight, std=size.d_model**-0.5)
        angles = torch.arange(LONGEST)[:, None] * torch.exp(
            torch.arange(0, size.d_model, 2) * (-math.log(10_000) / size.d_model)
        )
        self.register_buffer("positions", torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1))
        self.dropout = nn.Dropout(dropout)
        self.transformer = nn.Transformer(
            size.d_model,
            size.num_heads,
            size.layers,
            size.layers,
            size.d_ff,
            dropout,
            batch_first=True,
            norm_first=norm_first,
        )
        self.projection = nn.Linear(size.d_model, vocab_size, bias=False)
        self.projection.weight = self.embedding.weight

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) * self.scale + self.positions[: ids.size(1)])

    def forward(self, src: Tensor, decoder_input: Tensor) -> Tensor:
        padding = src == PAD_ID
        causal = nn.Transformer.generate_square_subsequent_mask(decoder_input.size(1))
        hidden = self.transformer(
            self.embed(src),
            self.embed(decoder_input),
            tgt_mask=causal,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return self.projection(hidden)


def main() -> None:
    parser = training_arguments(__doc__)
    parser.add_argument("--bfloat16", action="store_true", help="forward pass under torch.autocast")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(1)
    corpus = Corpus(given.data)
    model = Model(corpus.vocab_size, given.size)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD_ID, label_smoothing=LABEL_SMOOTHING, reduction="sum")

    def loss_of(src: Tensor, decoder_input: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=given.bfloat16):
            return criterion(model(src, decoder_input).float().flatten(0, 1), labels.flatten())

    result = timed_training(training_steps(corpus, model, loss_of), given.size, given.seconds)
    print_result(result, "bfloat16" if given.bfloat16 else "float32", ["torch"])


if __name__ == "__main__":
    main()
