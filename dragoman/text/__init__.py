"""Text to ids and back: tokenizers and control ids."""

from typing import TYPE_CHECKING

from dragoman.lazy import import_lazily

if TYPE_CHECKING:
    from dragoman.records import BOS_ID, EOS_ID, PAD_ID, UNK_ID
    from dragoman.text.tokenization.tokenizer import Tokenizer, TokenizerPair, train_tokenizer, train_tokenizers

__all__ = ["Tokenizer", "TokenizerPair", "train_tokenizer", "train_tokenizers", "PAD_ID", "BOS_ID", "EOS_ID", "UNK_ID"]

_MODULES = {
    "tokenization.tokenizer": ("Tokenizer", "TokenizerPair", "train_tokenizer", "train_tokenizers"),
    ".records": ("PAD_ID", "BOS_ID", "EOS_ID", "UNK_ID"),
}

import_lazily(__name__, __all__, _MODULES)
