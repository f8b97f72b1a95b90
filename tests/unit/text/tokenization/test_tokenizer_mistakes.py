"""Mistakes with tokenizers: each is one line that names the argument, its value, and what to pass."""

from collections.abc import Callable

import pytest
import torch

from dragoman.config import TokenizerSettings
from dragoman.text.tokenization.encoding import BatchEncoder
from dragoman.text.tokenization.tokenizer import Tokenizer, train_tokenizer, train_tokenizers

TEXTS = ["the house and the garden", "das Haus und der Garten"] * 5
KINDS = {
    "bpe": TokenizerSettings(vocab_size=300),
    "unigram": TokenizerSettings(kind="unigram", vocab_size=290),
    "word": TokenizerSettings(kind="word"),
}
TEXT = "ConfigError: `texts` must be a list of texts, but"
IDS = "DataError: `ids` must be the ids of one text, whole numbers, but is"
RANGE = "DataError: `ids` must be from 0 to {last} for this tokenizer, but has"
SETTINGS = 'ConfigError: `settings` must be such as `TokenizerSettings(kind="word")`, but is'
LINES = "Pass a list, such as the lines of a file."

MISTAKES: list[tuple[Callable[[Tokenizer], object], str]] = [
    (lambda one: one.encode_batch("How are you?"), f"{TEXT} is 'How are you?'. For one text, call `encode`."),
    (
        lambda one: one.encode_batch({"text": ["a"]}),
        f"{TEXT} is {{{{'text': ['a']}}}}. For one text, call `encode`.",
    ),
    (lambda one: one.encode_batch([("a", "b")]), f"{TEXT} text 1 is ('a', 'b')."),  # type: ignore[list-item]
    (lambda one: one.encode_batch(["a", None]), f"{TEXT} text 2 is None."),  # type: ignore[list-item]
    (lambda one: one.encode_batch(5), f"{TEXT} is 5. For one text, call `encode`."),  # type: ignore[arg-type]
    (lambda one: BatchEncoder(one).encode("How?"), f"{TEXT} is 'How?'. For one text, call `encode`."),
    (
        lambda one: one.encode(["a"]),  # type: ignore[arg-type]
        "ConfigError: `text` must be one text, but is ['a']. For a list, call `encode_batch`.",
    ),
    (lambda one: one.tokens(5), f"{IDS} 5."),  # type: ignore[arg-type]
    (lambda one: one.detokenize("abc"), f"{IDS} 'abc'."),  # type: ignore[arg-type]
    (lambda one: one.detokenize([None]), f"{IDS} [None]."),  # type: ignore[list-item]
    (lambda one: one.tokens([[4]]), f"{IDS} [[4]]."),  # type: ignore[list-item]
    (lambda one: one.tokens(torch.zeros(2, 3, dtype=torch.int64)), f"{IDS} tensor([[0, 0, 0], [0, 0, 0]])."),
    (lambda one: one.detokenize([4.0]), f"{IDS} [4.0]."),  # type: ignore[list-item]
    (lambda one: one.detokenize([4, 10**9]), f"{RANGE} 1000000000."),
    (lambda one: one.tokens([4, -100]), f"{RANGE} -100."),
    (lambda one: train_tokenizer("word", TEXTS), f"{SETTINGS} 'word'."),  # type: ignore[arg-type]
    (lambda one: train_tokenizers("word", TEXTS, TEXTS), f"{SETTINGS} 'word'."),  # type: ignore[arg-type]
    (lambda one: train_tokenizer(KINDS["bpe"], "train.en"), f"{TEXT} is 'train.en'. {LINES}"),
    (lambda one: train_tokenizer(KINDS["word"], ["a", ["b"]]), f"{TEXT} text 2 is ['b']."),  # type: ignore[list-item]
    (
        lambda one: train_tokenizers(KINDS["bpe"], TEXTS, "Haus"),
        f"ConfigError: `tgt_texts` must be a list of texts, but is 'Haus'. {LINES}",
    ),
]


def outcome(call: Callable[[Tokenizer], object], tokenizer: Tokenizer) -> str:
    """The error of a call as one text, or what it returns."""
    try:
        return f"no error: {call(tokenizer)}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("number", range(len(MISTAKES)))
@pytest.mark.parametrize("kind", KINDS)
def test_a_mistake_is_one_line_that_names_the_argument(kind: str, number: int) -> None:
    tokenizer = train_tokenizer(KINDS[kind], TEXTS)
    call, error = MISTAKES[number]
    assert outcome(call, tokenizer) == error.format(last=tokenizer.vocab_size - 1)
