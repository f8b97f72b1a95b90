import random
from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from dragoman.config import TokenizerSettings
from dragoman.errors import ConfigError
from dragoman.text.tokenization.encoding import BpeDropout
from dragoman.text.tokenization.tokenizer import train_tokenizer

TEXTS = ["The house is small, and the garden isn't large.", "日本語 </s> 😀 تست", "x" * 3000, "", "  \n "]
WORDS = ["house", "mouse", "use", "hose", "so"]
BPE_KINDS = ["byte_bpe", "fallback_bpe"]


@pytest.mark.parametrize("kind", BPE_KINDS)
def test_the_text_stays_the_same(tokenizer_of, kind):
    tokenizer = tokenizer_of(kind)
    dropout = BpeDropout(tokenizer, 0.5)
    for index, text in enumerate(TEXTS * 5):
        assert tokenizer.detokenize(dropout.encode(text, 1, 0, index, 0)) == text


@pytest.mark.parametrize("kind", BPE_KINDS)
@pytest.mark.parametrize("probability", [0.0, 1e-12])
def test_without_dropped_merges_it_is_the_tokenizer(tokenizer_of, kind, probability):
    tokenizer = tokenizer_of(kind)
    dropout = BpeDropout(tokenizer, probability)
    rng = random.Random(3)
    texts = [*TEXTS[:2], *("".join(rng.choices("thehousegrdn .,", k=60)) for _ in range(200))]
    assert [dropout.encode(text, 1, 2, 3, 1) for text in texts] == tokenizer.encode_batch(texts)


def test_it_is_a_pure_function_of_its_arguments(tokenizer_of):
    text = "The house is small, and the garden isn't large."
    first, second = BpeDropout(tokenizer_of("byte_bpe"), 0.3), BpeDropout(tokenizer_of("byte_bpe"), 0.3)
    second.encode("something else", 9, 9, 9, 1)
    keys = [(seed, epoch, index, side) for seed in (1, 2) for epoch in (0, 1) for index in (0, 7) for side in (0, 1)]
    rows = [first.encode(text, *key) for key in keys]
    assert rows == [second.encode(text, *key) for key in keys]
    assert len({tuple(row) for row in rows}) > len(rows) // 2


def test_segmentations_are_distributed_as_enumerated(tokenizer_of):
    """Compared with all outcomes of the procedure of Provilkov et al. 2020, weighted by their probabilities."""
    tokenizer = train_tokenizer(TokenizerSettings(vocab_size=275, min_frequency=1), WORDS)
    probability, draws = 0.3, 6000
    dropout = BpeDropout(tokenizer, probability)
    expected: dict[tuple[int, ...], float] = defaultdict(float)
    start = tuple(dropout._segment("Ġhouse")[0])
    enumerate_outcomes(start, dropout._merges, probability, 1.0, expected)
    seen = Counter(tuple(dropout.encode("house", 5, 0, index, 0)) for index in range(draws))
    assert len(expected) > 5
    assert sum(expected.values()) == pytest.approx(1.0)
    assert set(seen) <= set(expected)
    for outcome, chance in expected.items():
        deviation = (draws * chance * (1 - chance)) ** 0.5
        assert abs(seen[outcome] - draws * chance) < 5 * deviation + 1


def enumerate_outcomes(symbols, merges, probability, weight, outcomes):
    pairs = enumerate(pairwise(symbols))
    possible = sorted((merges[pair], place) for place, pair in pairs if pair in merges)
    for dropped, ((_, merged), place) in enumerate(possible):
        after = (*symbols[:place], merged, *symbols[place + 2 :])
        enumerate_outcomes(after, merges, probability, weight * probability**dropped * (1 - probability), outcomes)
    outcomes[symbols] += weight * probability ** len(possible)


def test_segmentations_are_distributed_as_the_librarys(tokenizer_of):
    tokenizer = tokenizer_of("byte_bpe")
    library = type(tokenizer.library).from_str(tokenizer.library.to_str())
    library.model.dropout = 0.25
    dropout, draws = BpeDropout(tokenizer, 0.25), 3000
    ours = Counter(len(dropout.encode("house garden", 1, 0, index, 0)) for index in range(draws))
    theirs = Counter(len(library.encode("house garden").ids) for _ in range(draws))
    for length in ours | theirs:
        chance = (ours[length] + theirs[length]) / (2 * draws)
        assert abs(ours[length] - theirs[length]) < 6 * (2 * draws * chance) ** 0.5 + 1


@pytest.mark.parametrize("kind", ["unigram", "word"])
def test_kinds_without_merges_are_refused(tokenizer_of, kind):
    with pytest.raises(ConfigError, match=r"`tokenizer.bpe_dropout`.*no merges"):
        BpeDropout(tokenizer_of(kind), 0.1)
