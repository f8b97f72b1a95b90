"""The recipe for a corpus' size is complete and consistent, whatever the size and the tokenizer."""

from dataclasses import replace

import pytest

from dragoman.config import TokenizerSettings, check_config
from dragoman.config.recipes import recipe_for


@pytest.mark.parametrize("num_pairs", [1, 5_000, 5_001, 29_000, 169_000, 1_000_000, 10_000_000])
@pytest.mark.parametrize("kind", ["bpe", "unigram", "word"])
@pytest.mark.parametrize("joint", [True, False])
def test_every_recipe_is_consistent(num_pairs: int, kind: str, joint: bool) -> None:
    asked = TokenizerSettings(kind=kind, joint=joint)
    recipe = recipe_for(num_pairs, asked)
    tokenizer = TokenizerSettings(
        kind=kind, joint=joint, vocab_size=recipe.tokenizer.vocab_size, bpe_dropout=recipe.tokenizer.bpe_dropout
    )
    check_config(replace(recipe, tokenizer=tokenizer))


def test_larger_corpora_get_larger_models() -> None:
    sizes = [recipe_for(num_pairs, TokenizerSettings()) for num_pairs in (1_000, 30_000, 1_000_000, 20_000_000)]
    assert [recipe.model.preset for recipe in sizes] == ["tiny", "tiny", "small", "base"]
    vocabularies = [recipe.tokenizer.vocab_size for recipe in sizes]
    assert vocabularies == sorted(vocabularies)
