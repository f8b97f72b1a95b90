import os
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.config import TokenizerSettings
from dragoman.text.tokenization.tokenizer import Tokenizer, train_tokenizer

TEXTS = [
    "The house is small, and the garden isn't large.",
    "Das Haus ist klein, und der Garten ist nicht groß.",
    "It cost 1,250 euros in 1998; that's a lot!",
    "Im Jahr 1998 kostete es 1.250 Euro; das ist viel!",
    "これは小さい家です。庭は大きくないです。",
    "ఇది చిన్న ఇల్లు మరియు తోట పెద్దది కాదు",
    "این خانه کوچک است و باغ بزرگ نیست.",
    "The </s> house <pad> and <s> <unk> <0x41> words",
    "The </s> house <pad> and <s> <unk> <0x41> words again",
] * 4

SETTINGS = {
    "byte_bpe": TokenizerSettings(vocab_size=500),
    "fallback_bpe": TokenizerSettings(vocab_size=500, byte_fallback=True),
    "unigram": TokenizerSettings(kind="unigram", vocab_size=460),
    "word": TokenizerSettings(kind="word", vocab_size=300),
}


@pytest.fixture(scope="session")
def tokenizer_of() -> Callable[[str], Tokenizer]:
    """A small trained tokenizer of each kind, trained once."""
    trained: dict[str, Tokenizer] = {}

    def get(kind: str) -> Tokenizer:
        if kind not in trained:
            trained[kind] = train_tokenizer(SETTINGS[kind], TEXTS)
        return trained[kind]

    return get


@pytest.fixture(scope="session")
def data_folder() -> Path:
    folder = os.environ.get("DRAGOMAN_DATA")
    if not folder:
        pytest.skip("DRAGOMAN_DATA does not point to the corpora")
    return Path(folder)
