"""How text is cut before the vocabulary is consulted: normaliser, pre-tokeniser and decoder of each kind of tokeniser.

All kinds that are trained here share one cut; `sentencepiece`, which imported models have, has its own. A space
belongs to the word after it and the text gets one more space in front (taken off again by the decoder), so that a word
is the same token at the start of a text and inside it; digits stand alone, so that numbers generalise; letters keep
their combining marks, so that the words of Indic scripts stay whole. Control tokens and byte tokens (``</s>``,
``<0x41>``) straddle the cut, so no text can ever spell one.
"""

from collections.abc import Callable
from typing import Literal

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

TokenizerKind = Literal["byte_bpe", "fallback_bpe", "unigram", "word", "sentencepiece"]
TokenizerModel = models.BPE | models.Unigram | models.WordLevel

CONTROL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")

SPACE_SYMBOL = "\u2581"
"""Stands for a space inside tokens (SentencePiece's convention)."""

_LETTERS = "\\p{L}\\p{M}\u200c\u200d"
WORD_PATTERN = (
    f"['’](?:s|t|re|ve|m|ll|d)(?![{_LETTERS}])"  # English clitics, as in GPT-2
    f"| ?[{_LETTERS}]+"
    "| ?\\p{N}"
    f"| ?[^\\s\\p{{N}}{_LETTERS}]+"
    "|\\s+(?!\\S)|\\s+"
)


def assemble(kind: TokenizerKind, model: TokenizerModel) -> Tokenizer:
    """A library tokeniser with this kind's pipeline around a model, without added tokens."""
    tokenizer = Tokenizer(model)
    split = pre_tokenizers.Split(Regex(WORD_PATTERN), "isolated")
    tokenizer.normalizer = normalizers.Prepend(" ")
    strip = decoders.Strip(" ", 1, 0)
    if kind == "byte_bpe":
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
        tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), strip])
    else:
        mark = pre_tokenizers.Metaspace(SPACE_SYMBOL, prepend_scheme="never", split=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, mark])
        unmark = decoders.Replace(SPACE_SYMBOL, " ")
        tokenizer.decoder = decoders.Sequence([unmark, decoders.ByteFallback(), decoders.Fuse(), strip])
    return tokenizer


def byte_token(byte: int) -> str:
    """The token of one byte in vocabularies with byte fallback."""
    return f"<0x{byte:02X}>"


def byte_level_alphabet() -> dict[str, int]:
    """Printable character -> byte, the 256 characters byte-level tokens are written with (Radford et al. 2019)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(256 + index): byte for index, byte in enumerate(others)}


def printable_byte_level(alphabet: dict[str, int]) -> Callable[[str], str]:
    """A function that shows a byte-level token: as text with spaces marked, or its bytes where it is none."""

    def show(token: str) -> str:
        raw = bytes(alphabet[char] for char in token)
        try:
            return raw.decode("utf-8").replace(" ", SPACE_SYMBOL)
        except UnicodeDecodeError:
            return "".join(byte_token(byte) for byte in raw)

    return show
