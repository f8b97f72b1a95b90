"""The tokens of a vocabulary as other programs need them: one string an id, none twice."""

from dragoman.text.tokenization.pipelines import CONTROL_TOKENS
from dragoman.text.tokenization.tokenizer import Tokenizer


def tokens_of(tokenizer: Tokenizer) -> list[str]:
    """Every token as it stands in the tokeniser's file; one that is called like a control token gets its id behind."""
    names = [str(tokenizer.library.id_to_token(index)) for index in range(tokenizer.vocab_size)]
    return [
        f"{name}#{index}" if name in CONTROL_TOKENS and index >= len(CONTROL_TOKENS) else name
        for index, name in enumerate(names)
    ]
