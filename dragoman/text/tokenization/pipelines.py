"""Pre-tokenization: the normalizer, pre-tokenizer and decoder of each kind of tokenizer.

All kinds that are trained here cut text the same way. `sentencepiece`, the kind of imported models, has its own way.

- A space belongs to the word after it. The text gets one more space in front, which the decoder removes, so that a word
  is the same token at the start of a text and inside it.
- Digits stand alone, so that numbers generalize.
- Letters keep their combining marks, so that words of Indic scripts stay whole.
- Control tokens and byte tokens (``</s>``, ``<0x41>``) straddle the cuts, so no text can spell one.
"""

from typing import Literal

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

TokenizerKind = Literal["byte_bpe", "fallback_bpe", "unigram", "word", "sentencepiece"]
TokenizerModel = models.BPE | models.Unigram | models.WordLevel

CONTROL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>")

BACK_TRANSLATION = "<bt>"
"""The control token before sources that a machine translated (Caswell et al. 2019)."""


def tag_token(tag: str) -> str:
    """The control token before the sources of a tagged corpus."""
    return f"<tag:{tag}>"


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
    """A library tokenizer with the pipeline of this kind around a model, without added tokens."""
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
    """The token for one byte in vocabularies with byte fallback."""
    return f"<0x{byte:02X}>"


_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHER_BYTES = [byte for byte in range(256) if byte not in _PRINTABLE]
BYTE_LEVEL_ALPHABET = {
    **{chr(byte): byte for byte in _PRINTABLE},
    **{chr(256 + index): byte for index, byte in enumerate(_OTHER_BYTES)},
}
"""The byte for each of the 256 printable characters of byte-level tokens (Radford et al. 2019)."""


def show_byte_level(token: str) -> str:
    """A byte-level token as text with marked spaces, or as bytes if it is not UTF-8."""
    raw = bytes(map(BYTE_LEVEL_ALPHABET.__getitem__, token))
    try:
        return raw.decode("utf-8").replace(" ", SPACE_SYMBOL)
    except UnicodeDecodeError:
        return "".join(map(byte_token, raw))
