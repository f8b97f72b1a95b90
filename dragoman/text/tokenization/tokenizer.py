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
from itertools import chain
from operator import index
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as LibraryTokenizer
from tokenizers import models, trainers

from dragoman.config import Config, TokenizerSettings, check_config
from dragoman.display import Facts, ShownRecord, one_line
from dragoman.errors import ConfigError, DataError
from dragoman.records import NUM_CONTROL_IDS, UNK_ID
from dragoman.text.lines import checked_texts, replace_surrogates
from dragoman.text.tokenization import pipelines
from dragoman.text.tokenization.pipelines import CONTROL_TOKENS, TokenizerKind, TokenizerModel, assemble, tag_token
from dragoman.text.tokenization.sentencepiece import SentencePieceTokenizer, is_language
from dragoman.text.tokenization.tokenizer_file import CONTROLS, fallback_bpe, read_tokenizer

_LINES = "Pass a list, such as the lines of a file."
_JOINT_FILE, _SIDE_FILES = "tokenizer.json", ("src.tokenizer.json", "tgt.tokenizer.json")
_SHOWN_TOKENS = 40


class Tokenizer(ShownRecord):
    """A trained tokenizer. Immutable and thread-safe.

    `train_tokenizer` makes one, and `Tokenizer.load` reads one. `vocab_size` is the number of ids.

    Parameters
    ----------
    kind : str
        "byte_bpe", "fallback_bpe", "unigram", "word" or "sentencepiece".
    library
        The tokenizer of the library that does the work.
    controls : sequence of str
        Further control tokens, such as ``<tag:legal>``, whose ids follow those of the library. Training puts them
        before the sources of some corpora. No text is encoded as one, not even its name.
    """

    def __init__(
        self, kind: TokenizerKind, library: LibraryTokenizer | SentencePieceTokenizer, controls: Sequence[str] = ()
    ) -> None:
        self.kind: TokenizerKind = kind
        self.library, self.controls = library, tuple(controls)
        self._num_pieces = int(library.get_vocab_size(with_added_tokens=False))
        self.vocab_size = self._num_pieces + len(self.controls)

    def _facts(self) -> Facts:
        sample = self.tokens(range(NUM_CONTROL_IDS, self.vocab_size, self.vocab_size // _SHOWN_TOKENS + 1))
        yield from (("kind", self.kind), ("vocab_size", f"{self.vocab_size:,}"))
        yield from (("control tokens", " ".join(CONTROL_TOKENS)), ("some of the others", " ".join(sample)))

    def encode(self, text: str) -> list[int]:
        """Encode one text.

        Parameters
        ----------
        text : str
            The text.

        Returns
        -------
        list of int
            The ids. They have no control ids, except unk for the kinds word and sentencepiece. "" has no ids.

        Raises
        ------
        ConfigError
            If `text` is not a string.
        """
        if not isinstance(text, str):
            raise ConfigError(f"`text` must be one text, but is {one_line(text)}. For a list, call `encode_batch`.")
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Iterable[str]) -> list[list[int]]:
        """Encode many texts, on all cores.

        Parameters
        ----------
        texts : list of str
            The texts.

        Returns
        -------
        list of list of int
            The ids of each text.

        Raises
        ------
        ConfigError
            If `texts` are not strings.
        """
        rows = list(checked_texts(texts, advice="For one text, call `encode`."))
        try:
            encodings = self.library.encode_batch_fast(rows, add_special_tokens=False)
        except (TypeError, UnicodeEncodeError):
            encodings = self.library.encode_batch_fast(list(map(replace_surrogates, rows)), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def detokenize(self, ids: Iterable[int]) -> str:
        """Convert ids to their text.

        Parameters
        ----------
        ids : list of int
            The ids. Control ids are skipped.

        Returns
        -------
        str
            The text. Bytes that form no character become U+FFFD.

        Raises
        ------
        DataError
            If an id is not one of this vocabulary.
        """
        kept = [token_id for token_id in self._check_ids(ids) if NUM_CONTROL_IDS <= token_id < self._num_pieces]
        text: str = self.library.decode(kept, skip_special_tokens=False)
        return text

    def control_id(self, name: str) -> int | None:
        """Find the id of a control token.

        Parameters
        ----------
        name : str
            One of `controls`, such as ``<tag:legal>``.

        Returns
        -------
        int or None
            Its id, or None if it is not one of `controls`.
        """
        return self._num_pieces + self.controls.index(name) if name in self.controls else None

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags that translations can request, such as "legal" for the control token ``<tag:legal>``."""
        start, end = tag_token("\0").split("\0")
        return tuple(name[len(start) : -len(end)] for name in self.controls if name.startswith(start))

    def tag_ids(self, tag: str) -> list[int]:
        """Find the ids that request a tag, at the start of a source.

        Parameters
        ----------
        tag : str
            One of `tags`, or "" for none.

        Returns
        -------
        list of int
            One id, or nothing for no tag.

        Raises
        ------
        ConfigError
            If the tokenizer has no such tag.
        """
        if not tag:
            return []
        if (found := self.control_id(tag_token(tag))) is None:
            advice = f"Choose one of {', '.join(self.tags)}, or none." if self.tags else "Leave it out."
            problem = "the model has no such tag" if self.tags else "the model has no tags"
            raise ConfigError(f"`inference.tag` (`--tag`) is {one_line(tag)}, but {problem}. {advice}")
        return [found]

    def language_token(self, ids: Sequence[int]) -> list[int]:
        """Find the token at the start of a source that names a target language, such as ``>>fra<<``.

        Parameters
        ----------
        ids : list of int
            The ids of a source.

        Returns
        -------
        list of int
            The first id if it names a language (only kind sentencepiece), else nothing.
        """
        names_one = self.kind == "sentencepiece" and any(map(is_language, self.tokens(ids[:1])))
        return list(ids[:1]) if names_one else []

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Convert ids to printable tokens.

        Parameters
        ----------
        ids : list of int
            The ids.

        Returns
        -------
        list of str
            One string for each id. U+2581 stands for a space, and ``<0xE3>`` for a byte.

        Raises
        ------
        DataError
            If an id is not one of this vocabulary.
        """
        return list(map(self._name, self._check_ids(ids)))

    def _check_ids(self, ids: Any) -> list[int]:
        """The ids as a list, also of a tensor. Raises DataError unless they are ids of this vocabulary."""
        try:
            found = list(map(index, ids.tolist() if hasattr(ids, "tolist") else ids))
        except TypeError:
            raise DataError(f"`ids` must be the ids of one text, whole numbers, but is {one_line(ids)}.") from None
        if found and not 0 <= min(found) <= max(found) < self.vocab_size:
            wrong = next(one for one in found if not 0 <= one < self.vocab_size)
            raise DataError(f"`ids` must be from 0 to {self.vocab_size - 1} for this tokenizer, but has {wrong}.")
        return found

    def has_new_characters(self, text: str) -> bool:
        """Find out whether a character has no token, so that training has hardly or never seen it.

        Printable ASCII characters always have tokens in vocabularies with a token for every byte.

        Parameters
        ----------
        text : str
            The text.

        Returns
        -------
        bool
            Whether it has such a character, or for kind word, such a word.
        """
        if self.kind in ("word", "sentencepiece"):
            return UNK_ID in self.encode(text)
        return not self._characters.issuperset(text)

    @cached_property
    def _characters(self) -> frozenset[str]:
        names = self.tokens(range(NUM_CONTROL_IDS, self._num_pieces))
        whole = (name for name in names if not name.startswith("<0x"))
        return frozenset(char for name in whole for char in name if char >= " " and char != "\x7f") | {" "}

    @cached_property
    def _name(self) -> Callable[[int], str]:
        """A function that names a token. It keeps the names that were needed: a short text needs few of many."""
        is_byte_level, library = self.kind == "byte_bpe", self.library

        @cache
        def name(token_id: int) -> str:
            if token_id >= self._num_pieces:
                return self.controls[token_id - self._num_pieces]
            token = str(library.id_to_token(token_id))
            return pipelines.show_byte_level(token) if is_byte_level and token_id >= NUM_CONTROL_IDS else token

        return name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.kind, self.library, self.controls)  # `_name` is a function of its own

    def save(self, path: str | Path) -> None:
        """Write one JSON file in the format of the `tokenizers` library, with one more key for `controls`, if any.

        Parameters
        ----------
        path : str or Path
            The file.
        """
        document = json.loads(self.library.to_str()) | ({CONTROLS: self.controls} if self.controls else {})
        text = json.dumps(document, ensure_ascii=False, indent=1)
        Path(path).write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Read a file that `save` wrote. The file is not trusted.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        Tokenizer

        Raises
        ------
        ModelError
            If the file is missing or invalid.
        """
        return cls(*read_tokenizer(Path(path)))


@dataclass(frozen=True, slots=True, repr=False)
class TokenizerPair(ShownRecord):
    """The tokenizers of both sides.

    Parameters
    ----------
    src, tgt : Tokenizer
        The tokenizers of sources and targets. Both are the same object if the vocabulary is joint.
    joint : bool
        Whether both sides share one vocabulary.
    """

    src: Tokenizer
    tgt: Tokenizer
    joint: bool

    def _facts(self) -> Facts:
        yield "src tokens", f"{self.src.vocab_size:,}, {self.src.kind}"
        yield "tgt tokens", "the same tokenizer" if self.joint else f"{self.tgt.vocab_size:,}, {self.tgt.kind}"

    def with_controls(self, controls: Sequence[str]) -> "TokenizerPair":
        """Add control tokens to the source vocabulary, which is also that of the target if it is joint.

        Parameters
        ----------
        controls : sequence of str
            Names of the tokens, such as ``<tag:legal>``.

        Returns
        -------
        TokenizerPair
        """
        src = Tokenizer(self.src.kind, self.src.library, controls)
        return TokenizerPair(src, src if self.joint else self.tgt, self.joint)

    def same_as(self, other: "TokenizerPair") -> bool:
        """Compare with other tokenizers.

        Parameters
        ----------
        other : TokenizerPair
            The other tokenizers.

        Returns
        -------
        bool
            Whether every id stands for the same token, on both sides.
        """
        return all(
            one is another or one.tokens(range(one.vocab_size)) == another.tokens(range(another.vocab_size))
            for one, another in ((self.src, other.src), (self.tgt, other.tgt))
        )

    def save(self, folder: str | Path) -> None:
        """Write tokenizer.json, or src.tokenizer.json and tgt.tokenizer.json.

        Parameters
        ----------
        folder : str or Path
            A folder that exists.
        """
        folder = Path(folder)
        self.src.save(folder / (_JOINT_FILE if self.joint else _SIDE_FILES[0]))
        if not self.joint:
            self.tgt.save(Path(folder) / _SIDE_FILES[1])

    @classmethod
    def load(cls, folder: str | Path) -> "TokenizerPair":
        """Read the files that `save` wrote.

        Parameters
        ----------
        folder : str or Path
            The folder.

        Returns
        -------
        TokenizerPair

        Raises
        ------
        ModelError
            If a file is missing or invalid. The message names it.
        """
        folder = Path(folder)
        names = _SIDE_FILES if (folder / _SIDE_FILES[0]).exists() else (_JOINT_FILE,)
        loaded = [Tokenizer.load(folder / name) for name in names]
        return cls(loaded[0], loaded[-1], joint=len(loaded) == 1)


def train_tokenizers(settings: TokenizerSettings, src_texts: Iterable[str], tgt_texts: Iterable[str]) -> TokenizerPair:
    """Train one joint tokenizer or one per side.

    Parameters
    ----------
    settings : TokenizerSettings
        The kind of tokenizer, its size, and whether it is joint.
    src_texts, tgt_texts : iterable of str
        The texts to learn from.

    Returns
    -------
    TokenizerPair

    Raises
    ------
    ConfigError, DataError
        As `train_tokenizer`.
    """
    _check_settings(settings)
    src, tgt = checked_texts(src_texts, "src_texts", _LINES), checked_texts(tgt_texts, "tgt_texts", _LINES)
    if settings.joint:
        check_config(Config(tokenizer=settings))  # no sizes of single sides
        shared = train_tokenizer(settings, chain(src, tgt))
        return TokenizerPair(shared, shared, joint=True)
    return TokenizerPair(train_tokenizer(settings, src, "src"), train_tokenizer(settings, tgt, "tgt"), joint=False)


def train_tokenizer(settings: TokenizerSettings, texts: Iterable[str], side: str = "") -> Tokenizer:
    """Train a vocabulary of at most `vocab_size` entries. It has fewer if the text supports fewer.

    The same texts give the same tokenizer. Only the scores of a unigram model differ, by about 0.001 from run to run.

    Parameters
    ----------
    settings : TokenizerSettings
        The kind of tokenizer and its size.
    texts : iterable of str
        The texts to learn from, such as the lines of a file.
    side : str
        "src" or "tgt" for a vocabulary of at most `src_vocab_size` or `tgt_vocab_size` entries, if that is set.

    Returns
    -------
    Tokenizer

    Raises
    ------
    ConfigError
        If the size is too small for the entries that every vocabulary needs, or if an argument has another type.
    DataError
        If there is no text.
    """
    _check_settings(settings)
    kind = kind_of(settings)
    if kind == "sentencepiece":
        raise ConfigError(
            '`tokenizer.kind` must be bpe, unigram or word for training, but is "sentencepiece". Only imported models '
            "have such tokenizers."
        )
    smallest = NUM_CONTROL_IDS + (1 if kind == "word" else 256 if kind == "byte_bpe" else 257)
    name, size = settings.vocab_size_of(side)
    if size < smallest:
        raise ConfigError(
            f"`tokenizer.{name}` must be at least {smallest} for this kind of tokenizer "
            f"(control tokens and bytes included), but is {size}. Set a larger value."
        )
    model = _train_model(kind, settings, side, _check_not_empty(checked_texts(texts, advice=_LINES)))
    return Tokenizer(kind, assemble(kind, model))


def vocabulary_notes(settings: TokenizerSettings, tokenizers: TokenizerPair) -> Iterator[str]:
    """Yield a note for each new vocabulary that is smaller than its maximum."""
    sides = [("", tokenizers.src)] if tokenizers.joint else [("src", tokenizers.src), ("tgt", tokenizers.tgt)]
    for side, tokenizer in sides:
        name, most = settings.vocab_size_of(side)
        if tokenizer.vocab_size < most:
            which = {"": "vocabulary", "src": "source vocabulary", "tgt": "target vocabulary"}[side]
            yield (
                f"the {which} has {tokenizer.vocab_size:,} entries, all that the text supports; "
                f"`tokenizer.{name}` is a maximum of {most:,}"
            )


def _check_settings(settings: object) -> None:
    if not isinstance(settings, TokenizerSettings):
        raise ConfigError(f'`settings` must be such as `TokenizerSettings(kind="word")`, but is {one_line(settings)}.')


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


def _train_model(kind: TokenizerKind, settings: TokenizerSettings, side: str, texts: Iterator[str]) -> TokenizerModel:
    (name, size), frequency, unknown = settings.vocab_size_of(side), settings.min_frequency, CONTROL_TOKENS[UNK_ID]
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
                f"`tokenizer.{name}` is {size}, too small for a unigram vocabulary of this text: it has too many "
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
