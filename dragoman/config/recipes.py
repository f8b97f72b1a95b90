"""The default recipes: settings for a corpus of a given size, and settings for fine-tuning.

Small corpora need small, strongly regularized models and few merges (Araabi & Monz 2020; Sennrich & Zhang 2019).
"""

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from dragoman.config.settings import PRESETS, Config, DataSettings, TokenizerSettings, TrainSettings


@dataclass(frozen=True, slots=True)
class CorpusSize:
    """The amount of training text.

    `words` counts the target side. In scripts without spaces, two characters count as one word. `alphabet` is the
    number of characters of both sides that make up all but 0.05 % of the text. 0 means not counted.
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
    optimizer: Literal["adam", "muon"]
    learning_rate: float
    weight_decay: float
    sampled_softmax: float
    warmup_steps: int
    usual_epochs: int
    max_epochs: int
    why: str


RECIPES = (
    Recipe(
        5e4, "tiny", 2_000, 0.1, 0.3, 2048, "muon", 0.006, 0, 1, 500, 60, 200, "rare words: few merges, BPE dropout"
    ),
    Recipe(1e6, "tiny", 8_000, 0, 0.2, 4096, "muon", 0.008, 0.1, 0.125, 1000, 50, 150, "larger models overfit"),
    Recipe(5e6, "tiny", 10_000, 0, 0.1, 4096, "muon", 0.008, 0, 1, 2000, 25, 60, "enough text to need less dropout"),
    Recipe(4e7, "small", 16_000, 0, 0.1, 8192, "adam", 0.002, 0, 1, 4000, 15, 30, "enough text for twice the width"),
    Recipe(math.inf, "base", 32_000, 0, 0.1, 25_000, "adam", 7e-4, 0, 1, 4000, 10, 20, "the paper's model and batch"),
)
"""The first recipe with enough `max_words` applies. A test compares docs/reference/default-recipe.md with it."""

WARMUP_SHARE = 0.2
"""The largest share of the warm-up in the steps of a run.

The warm-up is halved until it fits, so a shortened one takes 10 to 20 % of the run. The warm-ups of `RECIPES` take 5 to
14 % of a run of usual length. Short runs need a larger share, because a steep rise costs more than a few slow steps.
"""

MUON_RATE = 2
"""The rate of Muon in `RECIPES`, divided by the rate that Adam gets instead."""

DECAY_SHARE = 0.5
"""The last share of a run, over which the rate falls to 0."""

_ENTRIES_A_CHARACTER, _VOCABULARY_STEP = 2, 500

FREE_IN_FINE_TUNING = frozenset({"model.dropout", "model.attention_dropout", "model.activation_dropout"})
"""Settings of [model] and [tokenizer] that fine-tuning may change."""


def row_for(size: CorpusSize) -> Recipe:
    """The recipe for a corpus of this size."""
    return next(row for row in RECIPES if size.words <= row.max_words)


def vocab_size_for(size: CorpusSize) -> int:
    """The vocabulary size of the recipe, or twice the alphabet rounded up to 500, whichever is larger.

    With thousands of characters (Chinese, Japanese), a smaller vocabulary has no entries left for words.
    """
    steps = -(-_ENTRIES_A_CHARACTER * size.alphabet // _VOCABULARY_STEP)
    return max(row_for(size).vocab_size, steps * _VOCABULARY_STEP)


def recipe_for(size: CorpusSize, tokenizer: TokenizerSettings) -> Config:
    """The configuration for a corpus of this size and the requested kind of tokenizer."""
    return _recipe(row_for(size), vocab_size_for(size), tokenizer)


def every_recipe(tokenizer: TokenizerSettings) -> list[Config]:
    """The configurations of all recipes, for the requested kind of tokenizer."""
    return [_recipe(row, row.vocab_size, tokenizer) for row in RECIPES]


def chosen_keys() -> frozenset[str]:
    """The keys, such as ``model.dropout``, that some recipe sets to another value than the default."""
    default, recipes = Config().by_key, every_recipe(TokenizerSettings())
    return frozenset(key for recipe in recipes for key, value in recipe.by_key.items() if value != default[key])


def _recipe(row: Recipe, vocab_size: int, tokenizer: TokenizerSettings) -> Config:
    bpe_dropout = row.bpe_dropout if tokenizer.kind == "bpe" else 0.0
    return Config(
        tokenizer=TokenizerSettings(vocab_size=vocab_size, bpe_dropout=bpe_dropout),
        model=replace(PRESETS[row.preset], dropout=row.dropout, tie="all" if tokenizer.joint else "decoder"),
        train=TrainSettings(
            batch_tokens=row.batch_tokens,
            optimizer=row.optimizer,
            learning_rate=row.learning_rate,
            weight_decay=row.weight_decay,
            warmup_steps=row.warmup_steps,
            max_epochs=row.max_epochs,
            decay_share=DECAY_SHARE,
            sampled_softmax=row.sampled_softmax,
        ),
    )


def adapt_recipe(recipe: Config, requested: Config, given: Collection[str]) -> Config:
    """The recipe, adapted to the settings that you request, whose keys are `given`.

    - A limit on steps or minutes replaces the limit on epochs.
    - The rate of noam is a factor: 1 as in the paper, or 0.1 for fine-tuning. Its optimizer is Adam.
    - Sharding needs Adam, too. The rate of Adam is that of Muon divided by `MUON_RATE`, without weight decay and
      without a sampled softmax.
    - The warm-up fits into the steps of the run.
    - At most `train.keep_checkpoints` checkpoints are averaged.
    - If you set a preset, a new model gets the optimizer, rate, weight decay and warm-up for that size.
    - If you set a schedule, the rate follows it to the end.
    """
    train, requested_train, preset = recipe.train, requested.train, requested.model.preset
    if "model.preset" in given and not requested_train.start_from and preset not in (recipe.model.preset, "custom"):
        row = next((row for row in reversed(RECIPES) if row.preset == preset), RECIPES[-1])
        asked = _recipe(row, row.vocab_size, recipe.tokenizer).train
        train = replace(asked, batch_tokens=train.batch_tokens, max_epochs=train.max_epochs)
    needs_adam = requested_train.schedule == "noam" or requested_train.sharding == "full"
    if "train.optimizer" in given:
        needs_adam = requested_train.optimizer == "adam"
    if needs_adam and train.optimizer == "muon":
        adam_rate = train.learning_rate / MUON_RATE
        train = replace(train, optimizer="adam", learning_rate=adam_rate, weight_decay=0.0, sampled_softmax=1.0)
    if requested_train.max_steps or requested_train.max_minutes:
        train = replace(train, max_epochs=0)
    if "train.schedule" in given:
        train = replace(train, decay_share=0.0)
    if requested_train.schedule == "noam":
        train = replace(train, learning_rate=0.1 if requested_train.start_from else 1.0)
    if requested_train.max_steps:
        train = replace(train, schedule=requested_train.schedule)
        train = replace(fit_warmup(train, requested_train.max_steps), schedule=recipe.train.schedule)
    return replace(recipe, train=replace(train, average_last=min(train.average_last, requested_train.keep_checkpoints)))


def fit_warmup(train: TrainSettings, steps: float) -> TrainSettings:
    """The settings, with the warm-up halved until it is at most `WARMUP_SHARE` of `steps`.

    Thanks to halving, most runs with a slightly different (measured) number of steps get the same warm-up. The peak
    rate does not change. The peak of noam depends on the warm-up, so its factor changes.
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

    The optimizer is Adam. The rate is a tenth of `peak_rate`, or `peak_rate` if the model is already fine-tuned. If
    `base` used Muon, the rate is divided by `MUON_RATE`. Training ends after 20 epochs, or after 5 validations without
    a better score.
    """
    gentle = peak_rate if base.train.start_from else peak_rate / 10
    if base.train.optimizer == "muon":
        gentle /= MUON_RATE
    return Config(
        data=DataSettings(max_tokens=base.data.max_tokens),
        tokenizer=base.tokenizer,
        model=base.model,
        train=TrainSettings(
            batch_tokens=row_for(size).batch_tokens, learning_rate=gentle, warmup_steps=100, max_epochs=20, patience=5
        ),
        inference=base.inference,
    )
