"""The two sizes, the training recipe of all contenders, and the operations per token."""

from dataclasses import dataclass

DROPOUT = 0.3
LABEL_SMOOTHING = 0.1
LEARNING_RATE = 5e-4
ADAM_BETAS = (0.9, 0.98)
BATCH_TOKENS = 4096
"""The largest number of rows times the longest side in a peer's batch, with padding and end of sentence."""

FORCED_TOKENS = 15
"""Output tokens of every sentence when untrained weights are compared."""


@dataclass(frozen=True, slots=True)
class Size:
    """One shape of the Transformer, and how long it must be measured.

    `dropped_steps` are the first training steps, which are not counted; toolkits log every `dropped_steps` steps.
    """

    name: str
    layers: int
    d_model: int
    d_ff: int
    num_heads: int
    training_seconds: float
    dropped_steps: int
    toolkit_sentences: int

    def training_flops(self, vocab_size: int, src_length: float, tgt_length: float) -> float:
        """Operations per target token, forward and backward, for these mean lengths with end of sentence."""
        return 3 * self.forward_flops(vocab_size, src_length, tgt_length, 1) / tgt_length

    def forward_flops(self, vocab_size: int, src_length: float, tgt_length: float, beam: int) -> float:
        """Matrix products of one sentence: two operations a weight and position, scores and weighted sums included.

        The decoder's positions count once a hypothesis of the beam.
        """
        width, inner = self.d_model, self.d_ff
        encoder = src_length * (8 * width**2 + 4 * width * inner + 4 * src_length * width)
        memory = src_length * 4 * width**2
        attention = 4 * width * (src_length + (tgt_length + 1) / 2)
        decoder = tgt_length * (12 * width**2 + 4 * width * inner + attention)
        projection = tgt_length * 2 * width * vocab_size
        return self.layers * (encoder + memory + beam * decoder) + beam * projection


SIZES = {
    "tiny": Size("tiny", 4, 128, 256, 4, training_seconds=15, dropped_steps=5, toolkit_sentences=1000),
    "base": Size("base", 6, 512, 2048, 8, training_seconds=40, dropped_steps=1, toolkit_sentences=256),
}
