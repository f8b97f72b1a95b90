"""The default recipes: settings for a corpus of a given size, and settings for fine-tuning.

Small corpora want small, strongly regularised models and few merges (Araabi & Monz 2020; Sennrich & Zhang 2019).
"""

import math
from dataclasses import asdict, dataclass, replace

from dragoman.config.settings import PRESETS, Config, DataSettings, TokenizerSettings, TrainSettings


@dataclass(frozen=True, slots=True)
class CorpusSize:
    """The amount of training text.

    `words` counts the target side; in scripts without spaces, two characters count as a word. `alphabet` is the number
    of most frequent characters of both sides that make up all but 0.05 % of the text. 0 means not counted.
    """

    pairs: int
    words: int = 0
    alphabet: int = 0


@dataclass(frozen=True, slots=True)
class Recipe:
    """The recipe for a corpus of up to `max_words` words on the target side, and the reason for it.

    Patience usually ends such a run after about `usual_epochs`. `max_epochs` is a hard limit.
    """

    max_words: float
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


RECIPES = (
    Recipe(
        100_000,
        "tiny",
        2_000,
        0.1,
        0.3,
        2048,
        0.003,
        500,
        60,
        200,
        "every word is rare: few merges, some skipped at random",
    ),
    Recipe(1_000_000, "tiny", 8_000, 0.0, 0.3, 4096, 0.004, 1000, 50, 150, "larger models learn so little by heart"),
    Recipe(5_000_000, "tiny", 10_000, 0.0, 0.1, 4096, 0.004, 2000, 25, 60, "enough text to need less dropout"),
    Recipe(40_000_000, "small", 16_000, 0.0, 0.1, 8192, 0.002, 4000, 15, 30, "enough text for twice the width"),
    Recipe(float("inf"), "base", 32_000, 0.0, 0.1, 25_000, 0.0007, 4000, 10, 20, "the paper's model and batch"),
)
"""The first recipe with enough `max_words` applies. A test compares docs/reference/default-recipe.md with it."""

WARMUP_SHARE = 0.2
"""The largest share of a run's steps that its warm-up may take.

Halving leaves between a tenth and a fifth. The warm-ups of `RECIPES` are 5 to 14 % of a run of usual length. A short
run needs a little more, because too steep a rise costs it more than some steps at a low rate.
"""

_ENTRIES_A_CHARACTER, _VOCABULARY_STEP = 2, 500

FREE_IN_FINE_TUNING = frozenset({"model.dropout", "model.attention_dropout", "model.activation_dropout"})
"""Settings of [model] and [tokenizer] that may differ from those of the model that is fine-tuned."""


def row_for(size: CorpusSize) -> Recipe:
    """The recipe for a corpus of this size."""
    return next(row for row in RECIPES if size.words <= row.max_words)


def vocab_size_for(size: CorpusSize) -> int:
    """The recipe's vocabulary size, or twice the alphabet rounded up to 500, whichever is larger.

    A smaller vocabulary for thousands of characters (Chinese, Japanese) leaves no entries for words.
    """
    steps = -(-_ENTRIES_A_CHARACTER * size.alphabet // _VOCABULARY_STEP)
    return max(row_for(size).vocab_size, steps * _VOCABULARY_STEP)


def recipe_for(size: CorpusSize, tokenizer: TokenizerSettings) -> Config:
    """The configuration for a corpus of this size and the requested kind of tokenizer."""
    return _recipe(row_for(size), vocab_size_for(size), tokenizer)


def every_recipe(tokenizer: TokenizerSettings) -> list[Config]:
    """The configuration of each recipe, for the requested kind of tokenizer."""
    return [_recipe(row, row.vocab_size, tokenizer) for row in RECIPES]


def chosen_keys() -> frozenset[str]:
    """The settings, such as ``model.dropout``, that a recipe may set to other values than their defaults."""
    default = asdict(Config())
    return frozenset(
        f"{table}.{name}"
        for recipe in every_recipe(TokenizerSettings())
        for table, values in asdict(recipe).items()
        for name, value in values.items()
        if value != default[table][name]
    )


def _recipe(row: Recipe, vocab_size: int, tokenizer: TokenizerSettings) -> Config:
    bpe_dropout = row.bpe_dropout if tokenizer.kind == "bpe" else 0.0
    return Config(
        tokenizer=TokenizerSettings(vocab_size=vocab_size, bpe_dropout=bpe_dropout),
        model=replace(PRESETS[row.preset], dropout=row.dropout, tie="all" if tokenizer.joint else "decoder"),
        train=TrainSettings(
            batch_tokens=row.batch_tokens,
            learning_rate=row.learning_rate,
            warmup_steps=row.warmup_steps,
            max_epochs=row.max_epochs,
        ),
    )


def adapt_recipe(recipe: Config, requested: Config, names_preset: bool) -> Config:
    """Change a recipe where settings that the user requested would contradict it or make it meaningless.

    - A limit on steps or minutes replaces the recipe's limit on epochs.
    - The rate of noam is a factor: 1 as in the paper, or 0.1 if a model is fine-tuned.
    - The warm-up fits into the steps of the run.
    - No more checkpoints are averaged than are kept.
    - With teachers there is no BPE dropout: they score each text once.
    - A model of another size (`names_preset`: `requested` names a preset) gets the rate of the recipe for that size,
      unless it is fine-tuned.
    """
    train, requested_train = recipe.train, requested.train
    if names_preset and not requested_train.start_from and requested.model.preset != recipe.model.preset:
        row = next((row for row in reversed(RECIPES) if row.preset == requested.model.preset), None)
        if row or requested.model.preset == "big":
            row = row or RECIPES[-1]
            train = replace(train, learning_rate=row.learning_rate, warmup_steps=row.warmup_steps)
    if requested_train.max_steps or requested_train.max_minutes:
        train = replace(train, max_epochs=0)
    if requested_train.schedule == "noam":
        train = replace(train, learning_rate=0.1 if requested_train.start_from else 1.0)
    if requested_train.max_steps:
        train = replace(train, schedule=requested_train.schedule)
        train = replace(fit_warmup(train, requested_train.max_steps), schedule=recipe.train.schedule)
    if requested_train.teachers:
        recipe = replace(recipe, tokenizer=replace(recipe.tokenizer, bpe_dropout=0.0))
    return replace(recipe, train=replace(train, average_last=min(train.average_last, requested_train.keep_checkpoints)))


def fit_warmup(train: TrainSettings, steps: float) -> TrainSettings:
    """The settings with the warm-up halved until it is at most `WARMUP_SHARE` of `steps`.

    Halving gives most runs with slightly different (measured) numbers of steps the same warm-up. The peak rate does not
    change; noam's peak follows from the warm-up, so its factor changes.
    """
    warmup = train.warmup_steps
    while warmup > WARMUP_SHARE * steps:
        warmup //= 2
    if train.schedule != "noam" or warmup == train.warmup_steps:
        return replace(train, warmup_steps=warmup)
    factor = math.sqrt(max(warmup, 1) / train.warmup_steps)
    return replace(train, warmup_steps=warmup, learning_rate=train.learning_rate * factor)


def fine_tuning_recipe(base: Config, peak_rate: float, size: CorpusSize) -> Config:
    """The configuration for fine-tuning a model that was trained with `base` and a peak rate of `peak_rate`.

    The rate is a tenth of `peak_rate`, or `peak_rate` if the model was fine-tuned already. Training ends after 20
    epochs, or after 5 without a better score.
    """
    gentle = peak_rate if base.train.start_from else peak_rate / 10
    return Config(
        data=DataSettings(max_tokens=base.data.max_tokens),
        tokenizer=base.tokenizer,
        model=base.model,
        train=TrainSettings(
            batch_tokens=row_for(size).batch_tokens, learning_rate=gentle, warmup_steps=100, max_epochs=20, patience=5
        ),
        inference=base.inference,
    )
