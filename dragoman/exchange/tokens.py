"""The tokens of a vocabulary as other programs need them: one unique string per id.

CTranslate2 identifies a token by its string, and finds eos and unk by their names. So a vocabulary must have no string
twice. An imported Marian vocabulary may have ``<s>`` as an ordinary token beside Dragoman's own.
"""

from dragoman.text.tokenization.pipelines import CONTROL_TOKENS
from dragoman.text.tokenization.tokenizer import Tokenizer


def tokens_of(tokenizer: Tokenizer) -> list[str]:
    """Every token as in the tokenizer's file. A token with the text of a control token gets its id as a suffix."""
    names = [str(tokenizer.library.id_to_token(index)) for index in range(tokenizer.vocab_size)]
    return [
        f"{name}#{index}" if name in CONTROL_TOKENS and index >= len(CONTROL_TOKENS) else name
        for index, name in enumerate(names)
    ]
