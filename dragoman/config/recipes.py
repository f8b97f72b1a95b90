"""The settings that suit a corpus of a given size, for whoever gives only the data, and those for fine-tuning.

Small corpora want small, strongly regularised models and few merges (Araabi & Monz 2020; Sennrich & Zhang 2019).
"""

import math
from dataclasses import asdict, dataclass, replace

from dragoman.config.settings import PRESETS, Config, DataSettings, TokenizerSettings, TrainSettings


@dataclass(frozen=True, slots=True)
class CorpusSize:
    """How much text there is to learn from.

    `words` are those of the target side, where a script without spaces has one in two characters; `alphabet` is how
    many characters, the most frequent ones of both sides, make up all but 0.05 % of the text. 0: not counted.
    """

    pairs: int
    words: int = 0
    alphabet: int = 0


@dataclass(frozen=True, slots=True)
class Recipe:
    """A row of the rule: what a corpus of up to `max_words` on the target side gets, and why.

    `usual_epochs` is about when patience ends such a run, as far as that can be known; `max_epochs` ends it for sure.
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


RULE = (
    Recipe(100_000, "tiny", 2_000, 0.1, 0.3, 2048, 0.003, 500, 60, 200, "every word is rare: few merges, drawn anew"),
    Recipe(1_000_000, "tiny", 8_000, 0.0, 0.3, 4096, 0.004, 1000, 50, 150, "larger models learn so little by heart"),
    Recipe(5_000_000, "tiny", 10_000, 0.0, 0.1, 4096, 0.004, 2000, 25, 60, "enough text to need less dropout"),
    Recipe(40_000_000, "small", 16_000, 0.0, 0.1, 8192, 0.002, 4000, 15, 30, "enough text for twice the width"),
    Recipe(float("inf"), "base", 32_000, 0.0, 0.1, 25_000, 0.0007, 4000, 10, 20, "the paper's model and batch"),
)
"""The first row whose `max_words` is not exceeded holds. docs/recipes.md shows it, and a test keeps both equal."""

WARMUP_SHARE = 0.2
"""The largest share of a run's steps that its warm-up may take.

Halving lands between a tenth and a fifth. The rule's own warm-ups are 5 to 14 % of a run of usual length; a short run
needs a little more, because too steep a rise costs it more than some steps at a low rate.
"""

_ENTRIES_A_CHARACTER, _VOCABULARY_STEP = 2, 500

FREE_IN_FINE_TUNING = frozenset({"model.dropout", "model.attention_dropout", "model.activation_dropout"})
"""What may differ from the model that is fine-tuned; the rest of [model] and [tokenizer] is the model itself."""


def row_for(size: CorpusSize) -> Recipe:
    """The row of the rule for a corpus of this size."""
    return next(row for row in RULE if size.words <= row.max_words)


def vocab_size_for(size: CorpusSize) -> int:
    """The row's, or where that is more two entries for each character of the alphabet, in steps of 500.

    With fewer a vocabulary of thousands of characters (Chinese, Japanese) has no room for words, or not even for them.
    """
    steps = -(-_ENTRIES_A_CHARACTER * size.alphabet // _VOCABULARY_STEP)
    return max(row_for(size).vocab_size, steps * _VOCABULARY_STEP)


def recipe_for(size: CorpusSize, tokenizer: TokenizerSettings) -> Config:
    """The configuration for a corpus of this size and the kind of tokenizer asked for."""
    return _recipe(row_for(size), vocab_size_for(size), tokenizer)


def every_recipe(tokenizer: TokenizerSettings) -> list[Config]:
    """The configuration that each row of the rule gives, for the kind of tokenizer asked for."""
    return [_recipe(row, row.vocab_size, tokenizer) for row in RULE]


def chosen_keys() -> frozenset[str]:
    """The settings, such as ``model.dropout``, that a row of the rule may set otherwise than their defaults."""
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


def adapted(recipe: Config, asked: Config, names_preset: bool) -> Config:
    """A recipe with what has to follow from what was asked for, and would else contradict it or make no sense of it.

    Who gives a limit means that one, and not the epochs. The rate of noam is a factor: the paper's, or a tenth of it
    where a model is fine-tuned. A rate that falls to 0 needs steps to fall in. The warm-up fits into the steps there
    are. No more is averaged than is kept. Text that teachers were asked about is not sampled again. And a model of
    another size (`names_preset`: `asked` names it) has the rate of the row that has such models, unless it is
    fine-tuned.
    """
    train, wanted = recipe.train, asked.train
    if names_preset and not wanted.start_from and asked.model.preset != recipe.model.preset:
        row = next((row for row in reversed(RULE) if row.preset == asked.model.preset), None)
        if row or asked.model.preset == "big":
            row = row or RULE[-1]
            train = replace(train, learning_rate=row.learning_rate, warmup_steps=row.warmup_steps)
    if wanted.max_steps or wanted.max_minutes:
        train = replace(train, max_epochs=0)
    if wanted.schedule == "noam":
        train = replace(train, learning_rate=0.1 if wanted.start_from else 1.0)
    if wanted.max_steps:
        train = replace(train, schedule=wanted.schedule)
        train = replace(with_fitting_warmup(train, wanted.max_steps), schedule=recipe.train.schedule)
    if wanted.teachers:
        recipe = replace(recipe, tokenizer=replace(recipe.tokenizer, bpe_dropout=0.0))
    return replace(recipe, train=replace(train, average_last=min(train.average_last, wanted.keep_checkpoints)))


def with_fitting_warmup(train: TrainSettings, steps: float) -> TrainSettings:
    """The settings with a warm-up that is halved until it is at most `WARMUP_SHARE` of `steps`.

    Halved, so that two runs whose numbers of steps are measured mostly have the same. The peak of the rate stays, which
    for noam follows from the warm-up.
    """
    warmup = train.warmup_steps
    while warmup > WARMUP_SHARE * steps:
        warmup //= 2
    if train.schedule != "noam" or warmup == train.warmup_steps:
        return replace(train, warmup_steps=warmup)
    factor = math.sqrt(max(warmup, 1) / train.warmup_steps)
    return replace(train, warmup_steps=warmup, learning_rate=train.learning_rate * factor)


def fine_tuning_recipe(base: Config, peak_rate: float, size: CorpusSize) -> Config:
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
            batch_tokens=row_for(size).batch_tokens,
            learning_rate=gentle,
            warmup_steps=100,
            max_epochs=20,
            patience=5,
        ),
        inference=base.inference,
    )
