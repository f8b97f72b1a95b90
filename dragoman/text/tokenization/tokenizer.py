"""Tokenizers: text to ids and back, with a vocabulary trained on the user's own text.

The kinds are byte-level BPE, BPE or unigram with byte fallback, and words. The algorithms are those of the `tokenizers`
library: BPE (Sennrich et al. 2016), unigram language model (Kudo 2018).

`detokenize(encode(text))` returns

- ``bpe``: the text, for every string;
- ``bpe`` with byte fallback and ``unigram``: the text, with U+2581 turned into a space;
- ``word``: the same, without words outside the vocabulary;
- ``sentencepiece`` (imported models): the text after its character map, without unknown pieces, with runs of spaces
  reduced to one and none at the ends.

Lone surrogates in Python strings, which are not valid Unicode, are encoded as U+FFFD.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as LibraryTokenizer
from tokenizers import models, trainers

from dragoman.config import TokenizerSettings
from dragoman.errors import ConfigError, DataError
from dragoman.records import NUM_CONTROL_IDS, UNK_ID
from dragoman.text.lines import replace_surrogates
from dragoman.text.tokenization import pipelines
from dragoman.text.tokenization.pipelines import CONTROL_TOKENS, TokenizerKind, TokenizerModel, assemble
from dragoman.text.tokenization.sentencepiece import SentencePieceTokenizer, is_language
from dragoman.text.tokenization.tokenizer_file import fallback_bpe, read_tokenizer

_JOINT_FILE, _SIDE_FILES = "tokenizer.json", ("src.tokenizer.json", "tgt.tokenizer.json")


class Tokenizer:
    """A trained tokenizer. Immutable and thread-safe."""

    def __init__(self, kind: TokenizerKind, library: LibraryTokenizer | SentencePieceTokenizer) -> None:
        self.kind: TokenizerKind = kind
        self.library = library
        self.vocab_size = int(library.get_vocab_size(with_added_tokens=False))

    def encode(self, text: str) -> list[int]:
        """The ids of a text. No control ids, except unk for the kinds word and sentencepiece. "" has no ids."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, encoded on all cores."""
        try:
            encodings = self.library.encode_batch_fast(list(texts), add_special_tokens=False)
        except (TypeError, UnicodeEncodeError):
            rows = list(map(replace_surrogates, texts))
            encodings = self.library.encode_batch_fast(rows, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def detokenize(self, ids: Sequence[int]) -> str:
        """The text of ids. Control ids are skipped. Bytes that form no character become U+FFFD."""
        kept = [int(index) for index in ids if index >= NUM_CONTROL_IDS]
        text: str = self.library.decode(kept, skip_special_tokens=False)
        return text

    def language_token(self, ids: Sequence[int]) -> list[int]:
        """The first id if it names a target language (kind sentencepiece: ``>>fra<<``), else nothing."""
        names_one = self.kind == "sentencepiece" and any(map(is_language, self.tokens(ids[:1])))
        return list(ids[:1]) if names_one else []

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """One printable string per id: U+2581 stands for a space, ``<0xE3>`` for a byte."""
        return list(map(self._name, ids))

    def has_new_characters(self, text: str) -> bool:
        """Whether a character (kind word: a word) has no token, so that training has hardly or never seen it.

        Printable ASCII characters always have tokens in vocabularies with a token for every byte.
        """
        if self.kind in ("word", "sentencepiece"):
            return UNK_ID in self.encode(text)
        return not self._characters.issuperset(text)

    @cached_property
    def _characters(self) -> frozenset[str]:
        names = self.tokens(range(NUM_CONTROL_IDS, self.vocab_size))
        whole = (name for name in names if not name.startswith("<0x"))
        return frozenset(char for name in whole for char in name if char >= " " and char != "\x7f") | {" "}

    @cached_property
    def _name(self) -> Callable[[int], str]:
        """A function that names a token. It keeps the names that were needed: a short text needs few of many."""
        is_byte_level, library = self.kind == "byte_bpe", self.library

        @cache
        def name(index: int) -> str:
            token = str(library.id_to_token(index))
            return pipelines.show_byte_level(token) if is_byte_level and index >= NUM_CONTROL_IDS else token

        return name

    def save(self, path: str | Path) -> None:
        """Write one JSON file in the format of the `tokenizers` library."""
        Path(path).write_text(
            json.dumps(json.loads(self.library.to_str()), ensure_ascii=False, indent=1), encoding="utf-8"
        )

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Read a file that `save` wrote. The file is not trusted. Raises ModelError if it is missing or invalid."""
        return cls(*read_tokenizer(Path(path)))


@dataclass(frozen=True, slots=True)
class TokenizerPair:
    """The tokenizers of both sides. Both are the same object if the vocabulary is joint."""

    src: Tokenizer
    tgt: Tokenizer
    joint: bool

    def same_as(self, other: "TokenizerPair") -> bool:
        """Whether every id stands for the same token, on both sides."""
        return all(
            one is another or one.tokens(range(one.vocab_size)) == another.tokens(range(another.vocab_size))
            for one, another in ((self.src, other.src), (self.tgt, other.tgt))
        )

    def save(self, folder: str | Path) -> None:
        """Write tokenizer.json, or src.tokenizer.json and tgt.tokenizer.json, into a folder."""
        self.src.save(Path(folder) / (_JOINT_FILE if self.joint else _SIDE_FILES[0]))
        if not self.joint:
            self.tgt.save(Path(folder) / _SIDE_FILES[1])

    @classmethod
    def load(cls, folder: str | Path) -> "TokenizerPair":
        """Read the files that `save` wrote. Raises ModelError that names the missing or invalid file."""
        names = _SIDE_FILES if Path(folder, _SIDE_FILES[0]).exists() else (_JOINT_FILE,)
        loaded = [Tokenizer.load(Path(folder, name)) for name in names]
        return cls(loaded[0], loaded[-1], joint=len(loaded) == 1)


def train_tokenizers(
    settings: TokenizerSettings, src_texts: Iterable[str], tgt_texts: Iterable[str], *, strict: bool = False
) -> TokenizerPair:
    """Train one joint tokenizer or one per side (`tokenizer.joint`). Raises as `train_tokenizer` does."""
    if settings.joint:
        shared = train_tokenizer(settings, (text for texts in (src_texts, tgt_texts) for text in texts), strict=strict)
        return TokenizerPair(shared, shared, joint=True)
    src = train_tokenizer(settings, src_texts, strict=strict)
    return TokenizerPair(src, train_tokenizer(settings, tgt_texts, strict=strict), joint=False)


def train_tokenizer(settings: TokenizerSettings, texts: Iterable[str], *, strict: bool = False) -> Tokenizer:
    """Train a vocabulary of at most `settings.vocab_size` entries.

    The same texts give the same tokenizer. Only the scores of a unigram model differ, by about 0.001 from run to run.

    Raises
    ------
    ConfigError
        If `vocab_size` is too small for the entries that every vocabulary needs, or, with `strict`, if the text
        supports fewer entries than `vocab_size`.
    DataError
        If there is no text.
    """
    kind = kind_of(settings)
    if kind == "sentencepiece":
        raise ConfigError(
            '`tokenizer.kind` must be bpe, unigram or word for training, but is "sentencepiece". Only imported models '
            "have such tokenizers."
        )
    smallest = NUM_CONTROL_IDS + (1 if kind == "word" else 256 if kind == "byte_bpe" else 257)
    if settings.vocab_size < smallest:
        raise ConfigError(
            f"`tokenizer.vocab_size` must be at least {smallest} for this kind of tokenizer "
            f"(control tokens and bytes included), but is {settings.vocab_size}. Set a larger value."
        )
    model = _train_model(kind, settings, _check_not_empty(texts))
    tokenizer = Tokenizer(kind, assemble(kind, model))
    if strict and tokenizer.vocab_size < settings.vocab_size:
        raise ConfigError(
            f"`tokenizer.vocab_size` is {settings.vocab_size}, but the text supports only {tokenizer.vocab_size} "
            f"entries. Set it to {tokenizer.vocab_size} or less, or add more text."
        )
    return tokenizer


def kind_of(settings: TokenizerSettings) -> TokenizerKind:
    """The kind of tokenizer that the settings select."""
    if settings.kind == "bpe":
        return "fallback_bpe" if settings.byte_fallback else "byte_bpe"
    return settings.kind


def _check_not_empty(texts: Iterable[str]) -> Iterator[str]:
    empty = True
    for text in texts:
        empty = empty and not text.strip()
        yield replace_surrogates(text)
    if empty:
        raise DataError("There is no text to train a tokenizer on. Check that the training data is not empty.")


def _train_model(kind: TokenizerKind, settings: TokenizerSettings, texts: Iterator[str]) -> TokenizerModel:
    size, frequency, unknown = settings.vocab_size, settings.min_frequency, CONTROL_TOKENS[UNK_ID]
    byte_tokens = [pipelines.byte_token(byte) for byte in range(256)]
    special_tokens = [*CONTROL_TOKENS, *(byte_tokens if kind == "fallback_bpe" else ())]
    common: dict[str, Any] = {"special_tokens": special_tokens, "show_progress": False}
    if kind == "word":
        words = trainers.WordLevelTrainer(vocab_size=size, min_frequency=frequency, **common)
        trained = _run(assemble(kind, models.WordLevel(unk_token=unknown)), words, texts)
        return models.WordLevel(trained["vocab"], unk_token=unknown)
    if kind == "unigram":
        unigram = trainers.UnigramTrainer(vocab_size=size - 256, unk_token=unknown, **common)
        try:
            trained = _run(assemble(kind, models.Unigram()), unigram, texts)
        except Exception as error:  # the library raises no narrower class
            if "vocabulary is not large enough" not in str(error):
                raise
            raise ConfigError(
                f"`tokenizer.vocab_size` is {size}, too small for a unigram vocabulary of this text: it has too many "
                'different characters. Set a larger value, or set `tokenizer.kind` to "bpe".'
            ) from None
        return _with_byte_pieces(trained["vocab"], byte_tokens)
    byte_level = kind == "byte_bpe"
    merges = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=frequency,
        initial_alphabet=sorted(pipelines.BYTE_LEVEL_ALPHABET) if byte_level else [],
        # Scripts with thousands of characters must leave space for merges; rarer characters are spelled in bytes.
        limit_alphabet=256 if byte_level else max(1, (size - 260) // 2),
        **common,
    )
    trained = _run(assemble(kind, models.BPE(byte_fallback=not byte_level)), merges, texts)
    pairs = [(left, right) for left, right in trained["merges"]]
    return models.BPE(trained["vocab"], pairs) if byte_level else fallback_bpe(trained["vocab"], pairs)


def _run(library: LibraryTokenizer, trainer: trainers.Trainer, texts: Iterator[str]) -> dict[str, Any]:
    """Train, and return the model as in the library's JSON: vocabulary, merges, scores."""
    library.train_from_iterator(texts, trainer)
    model: dict[str, Any] = json.loads(library.to_str())["model"]
    return model


def _with_byte_pieces(pieces: list[tuple[str, float]], byte_tokens: list[str]) -> models.Unigram:
    """A unigram model that spells unknown characters in bytes.

    The library sums scores in an order that differs from run to run. Rounding and sorting keep the ids the same.
    """
    scored = sorted((piece, round(score, 3)) for piece, score in pieces[NUM_CONTROL_IDS:])
    lowest = min((score for _, score in scored), default=0.0)
    controls = [(token, 0.0) for token in CONTROL_TOKENS]
    return models.Unigram([*controls, *((token, lowest) for token in byte_tokens), *scored], UNK_ID, True)
