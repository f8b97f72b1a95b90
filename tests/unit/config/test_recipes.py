"""The recipes are complete and consistent for all corpus sizes and tokenizers."""

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import PRESETS, Config, TokenizerSettings, TrainSettings, check_config
from dragoman.config.recipes import RECIPES, CorpusSize, adapt_recipe, fine_tuning_recipe, recipe_for
from dragoman.training.step.optimizer import learning_rate


@pytest.mark.parametrize("num_words", [1, 100_000, 100_001, 320_000, 1_100_000, 20_000_000, 200_000_000])
@pytest.mark.parametrize("kind", ["bpe", "unigram", "word"])
@pytest.mark.parametrize("joint", [True, False])
def test_every_recipe_is_consistent(num_words: int, kind: str, joint: bool) -> None:
    asked = TokenizerSettings(kind=kind, joint=joint)
    recipe = recipe_for(CorpusSize(1, num_words), asked)
    tokenizer = TokenizerSettings(
        kind=kind, joint=joint, vocab_size=recipe.tokenizer.vocab_size, bpe_dropout=recipe.tokenizer.bpe_dropout
    )
    check_config(replace(recipe, tokenizer=tokenizer))


def test_larger_corpora_get_larger_models() -> None:
    words = (20_000, 400_000, 20_000_000, 400_000_000)
    sizes = [recipe_for(CorpusSize(1_000, count), TokenizerSettings()) for count in words]
    assert [recipe.model.preset for recipe in sizes] == ["tiny", "tiny", "small", "base"]
    vocabularies = [recipe.tokenizer.vocab_size for recipe in sizes]
    assert vocabularies == sorted(vocabularies)


@pytest.mark.parametrize(("alphabet", "entries"), [(70, 2_000), (1_000, 2_000), (1_001, 2_500), (3_100, 6_500)])
def test_many_characters_get_a_larger_vocabulary(alphabet: int, entries: int) -> None:
    assert recipe_for(CorpusSize(3_000, 40_000, alphabet), TokenizerSettings()).tokenizer.vocab_size == entries


def test_the_table_in_the_documentation_is_current() -> None:
    text = (Path(__file__).parents[3] / "docs" / "reference" / "default-recipe.md").read_text(encoding="utf-8")
    lines = text[text.index("<!-- rule -->") : text.index("<!-- end of rule -->")].split("\n")[3:-1]
    shown = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert shown == [
        [
            "more" if math.isinf(row.max_words) else f"{row.max_words:,.0f}",
            row.preset,
            f"{row.vocab_size:,}",
            f"{row.bpe_dropout:g}",
            f"{row.dropout:g}",
            f"{row.batch_tokens:,}",
            row.optimizer,
            f"{row.learning_rate:g}",
            f"{row.warmup_steps:,}",
            f"{row.max_epochs}",
            row.why,
        ]
        for row in RECIPES
    ]
    decayed = [
        (f"{before.max_words:,.0f} to {row.max_words:,.0f} words", row.weight_decay, row.sampled_softmax)
        for before, row in pairwise(RECIPES)
        if row.weight_decay or row.sampled_softmax < 1
    ]
    assert decayed == [("50,000 to 1,000,000 words", 0.1, 0.125)]
    assert f"| weight decay | 0.1 for {decayed[0][0]}, else 0 |" in text
    assert f"#sampled-softmax) | 0.125 for {decayed[0][0]}, else 1 (off) |" in text


def test_the_documentation_names_every_configuration() -> None:
    root = Path(__file__).parents[3]
    pages = (root / "docs" / "how-to" / name for name in ("choose-settings.md", "low-resource.md"))
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    assert [path.name for path in (root / "configs").glob("*.toml") if f"(../../configs/{path.name})" not in text] == []


def asked(**train: Any) -> Config:
    return Config(train=replace(TrainSettings(), **train))


def test_a_recipe_is_adapted_to_requested_settings() -> None:
    recipe = recipe_for(CorpusSize(10_000, 200_000), TokenizerSettings())
    assert adapt_recipe(recipe, Config(), ()) == recipe
    assert recipe.train.decay_share > 0
    assert adapt_recipe(recipe, asked(max_steps=50), ()).train.max_epochs == 0
    # The rate of noam is a factor: with the rate of another schedule, training would not progress.
    assert adapt_recipe(recipe, asked(schedule="noam"), ()).train.learning_rate == 1.0
    for wanted in (asked(schedule="noam"), asked(sharding="full")):
        assert adapt_recipe(recipe, wanted, ()).train.optimizer == "adam"
        assert adapt_recipe(recipe, wanted, ()).train.weight_decay == 0
        assert adapt_recipe(recipe, wanted, ()).train.sampled_softmax == 1
    assert (recipe.train.optimizer, recipe.train.weight_decay, recipe.train.sampled_softmax) == ("muon", 0.1, 0.125)
    chosen = adapt_recipe(recipe, asked(optimizer="adam"), {"train.optimizer"}).train
    assert (chosen.optimizer, chosen.learning_rate) == ("adam", 0.004), "half the rate of Muon"
    assert adapt_recipe(recipe, asked(optimizer="muon"), {"train.optimizer"}) == recipe
    falling = adapt_recipe(recipe, asked(schedule="cosine", max_steps=400), {"train.schedule"})
    assert falling.train.decay_share == 0, "the schedule falls to 0 itself"
    check_config(replace(falling, train=replace(falling.train, schedule="cosine", max_steps=400)))
    assert falling.train.warmup_steps == 62, "1,000 halved until it is a fifth at most"
    assert adapt_recipe(recipe, asked(keep_checkpoints=3), ()).train.average_last == 3


@pytest.mark.parametrize(("steps", "warmup"), [(5000, 1000), (4999, 500), (310, 62), (83, 15), (5, 1), (4, 0)])
@pytest.mark.parametrize("schedule", ["inverse_sqrt", "constant", "linear", "noam"])
def test_a_long_warmup_is_halved_and_the_peak_stays(steps: int, warmup: int, schedule: str) -> None:
    recipe = recipe_for(CorpusSize(10_000, 200_000), TokenizerSettings())
    long, short = (adapt_recipe(recipe, asked(schedule=schedule, max_steps=each), ()).train for each in (90_000, steps))
    assert (long.warmup_steps, short.warmup_steps) == (1000, warmup)
    peaks = [
        learning_rate(max(1, each.warmup_steps), replace(each, schedule=schedule, max_steps=90_000), 128)
        for each in (long, short)
    ]
    assert peaks[0] == pytest.approx(peaks[1])


def test_a_model_of_another_size_gets_the_rate_of_that_size() -> None:
    recipe = recipe_for(CorpusSize(10_000, 200_000), TokenizerSettings())
    for preset, rate in (("tiny", 0.008), ("small", 0.002), ("base", 0.0007), ("big", 0.0007), ("custom", 0.008)):
        wanted = Config(model=replace(PRESETS["tiny"], preset=preset))
        train = adapt_recipe(recipe, wanted, {"model.preset"}).train
        assert (train.learning_rate, train.weight_decay) == (rate, 0.1 if rate == 0.008 else 0), preset
        assert adapt_recipe(recipe, wanted, ()) == recipe


def test_fine_tuning_keeps_the_model_and_is_gentle_once() -> None:
    base = recipe_for(CorpusSize(100_000, 2_000_000), TokenizerSettings())
    tuned = fine_tuning_recipe(base, 0.008, CorpusSize(3_000, 40_000))
    assert (tuned.model, tuned.tokenizer, tuned.inference) == (base.model, base.tokenizer, base.inference)
    assert tuned.train.learning_rate == pytest.approx(0.0004)
    assert tuned.train.batch_tokens == 2048
    again = fine_tuning_recipe(
        replace(tuned, train=replace(tuned.train, start_from="one")), 0.0004, CorpusSize(3_000, 40_000)
    )
    assert again.train.learning_rate == pytest.approx(0.0004)
