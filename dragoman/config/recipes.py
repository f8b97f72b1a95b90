"""The settings that suit a corpus of a given size, for whoever gives only the data, and those for fine-tuning.

Small corpora want small, strongly regularised models and few merges (Araabi & Monz 2020; Sennrich & Zhang 2019).
"""

from dataclasses import dataclass, replace

from dragoman.config.settings import PRESETS, Config, DataSettings, TokenizerSettings, TrainSettings


@dataclass(frozen=True, slots=True)
class Recipe:
    """A row of the rule: what a corpus of up to `max_pairs` gets, and why.

    `usual_epochs` is about when patience ends such a run, as far as that can be known; `max_epochs` ends it for sure.
    """

    max_pairs: float
    preset: str
    vocab_size: int
    bpe_dropout: float
    dropout: float
    batch_tokens: int
    learning_rate: float
    warmup_steps: int
    usual_epochs: int
    max_epochs: int
    why: str


RULE = (
    Recipe(5_000, "tiny", 2_000, 0.1, 0.3, 2048, 0.003, 500, 60, 200, "every word is rare: few merges, drawn anew"),
    Recipe(50_000, "tiny", 8_000, 0.0, 0.3, 4096, 0.004, 1000, 50, 150, "larger models learn so little text by heart"),
    Recipe(250_000, "tiny", 10_000, 0.0, 0.1, 4096, 0.004, 2000, 25, 60, "enough text to need less dropout"),
    Recipe(2_000_000, "small", 16_000, 0.0, 0.1, 8192, 0.002, 4000, 15, 30, "enough text for twice the width"),
    Recipe(float("inf"), "base", 32_000, 0.0, 0.1, 25_000, 0.0007, 4000, 10, 20, "the paper's model and batch"),
)
"""The first row whose `max_pairs` is not exceeded holds. docs/recipes.md shows it, and a test keeps both equal."""

FREE_IN_FINE_TUNING = frozenset({"model.dropout", "model.attention_dropout", "model.activation_dropout"})
"""What may differ from the model that is fine-tuned; the rest of [model] and [tokenizer] is the model itself."""


def row_for(num_pairs: int) -> Recipe:
    """The row of the rule for a corpus of `num_pairs` sentence pairs."""
    return next(row for row in RULE if num_pairs <= row.max_pairs)


def recipe_for(num_pairs: int, tokenizer: TokenizerSettings) -> Config:
    """The configuration for a corpus of `num_pairs` sentence pairs and the kind of tokenizer asked for."""
    row = row_for(num_pairs)
    bpe_dropout = row.bpe_dropout if tokenizer.kind == "bpe" else 0.0
    return Config(
        tokenizer=TokenizerSettings(vocab_size=row.vocab_size, bpe_dropout=bpe_dropout),
        model=replace(PRESETS[row.preset], dropout=row.dropout, tie="all" if tokenizer.joint else "decoder"),
        train=TrainSettings(
            batch_tokens=row.batch_tokens,
            learning_rate=row.learning_rate,
            warmup_steps=row.warmup_steps,
            max_epochs=row.max_epochs,
        ),
    )


def fine_tuning_recipe(base: Config, peak_rate: float, num_pairs: int) -> Config:
    """The configuration to go on with a model trained as `base` says, with a rate that rose to `peak_rate`.

    The rate is a tenth of that, or the same where the model was fine-tuned already; at most 20 epochs, and an end
    after 5 without a better score.
    """
    gentle = peak_rate if base.train.start_from else peak_rate / 10
    return Config(
        data=DataSettings(max_tokens=base.data.max_tokens),
        tokenizer=base.tokenizer,
        model=base.model,
        train=TrainSettings(
            batch_tokens=row_for(num_pairs).batch_tokens,
            learning_rate=gentle,
            warmup_steps=100,
            max_epochs=20,
            patience=5,
        ),
        inference=base.inference,
    )
