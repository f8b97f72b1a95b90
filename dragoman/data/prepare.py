"""Prepare the data of a run: tokenizers, and one store each for training, validation and test.

Everything is kept in one folder. Every part has a key, a hash of its inputs, and is made again only if the corpus, the
tokenizer or a relevant setting changes. Text is read in passes and never held in memory.
"""

import gc
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from dragoman.config import CORPUS_FILES, Config
from dragoman.data.store import IDENTITY, PairStore, files_of_pairs, open_if_current, read_identity, write_store
from dragoman.data.stream import Encode
from dragoman.errors import DataError, ModelError
from dragoman.files import (
    VerifiedFolder,
    disk_errors,
    hash_json,
    remove_leftovers,
    sha256_of,
    verify_folder,
    write_file,
    write_folder,
)
from dragoman.records import SentencePair
from dragoman.text.corpus.cleaning import EMPTY, SHARED, Cleaner, CleaningReport, augment, is_augmented
from dragoman.text.corpus.corpus import Corpora, Corpus
from dragoman.text.corpus.splitting import HeldOut, chunks, hold_out, only_shared_sources_error, source_fingerprints
from dragoman.text.lexicon import LEXICON, LEXICON_VERSION, Coverage, Lexicon, choose_pairs, learn_tried_lexicon
from dragoman.text.tokenization.encoding import (
    BatchEncoderPair,
    BpeDropout,
    EncodedChunk,
    RaggedIds,
    concatenate_texts,
)
from dragoman.text.tokenization.encoding_processes import ProcessEncoderPair
from dragoman.text.tokenization.tokenizer import TokenizerPair, train_tokenizers

VERSION = 1
"""Part of every key. Raise it when a change of the code gives other stores for the same inputs."""

PreparationProgress: TypeAlias = Callable[[str, int], None]
"""``progress(stage, pairs)``: the name of the current stage, and the number of pairs that it has processed."""

_Encoded: TypeAlias = Callable[[tuple[str, str], int, int], tuple[list[int], list[int]]]
"""The ids of both texts of a pair in an epoch; the last number is the pair's index."""

_OR_NEW_RUN = "or start a new run in another `--out`, with this run as `--from` to keep what it learned."
_CHUNK_PAIRS = 10_000
_TESTS = ("test", "replay_test")
_HELD_OUT_SEED = 1
"""Not `train.seed`: models that differ only in it share tokenizers and validation text, and can be ensembled."""
_AUGMENTATIONS = ("augment_case", "augment_punctuation", "augment_noise")
# Settings of [data] that do not affect which pairs and ids are stored, so they are not part of the keys.
_OTHER_SETTINGS = {*CORPUS_FILES, "check_languages", *_AUGMENTATIONS, "replay_share"}


@dataclass(frozen=True, slots=True)
class PreparedData:
    """The data of a run.

    `dev` and `test` are None if not requested, and keep the text. `train` keeps the text only if it is encoded again in
    each epoch. `cleaning` counts the pairs removed from the training text, also if the store was made earlier.
    `lexicon` was learned from the training pairs, and `coverage` says whether they were enough. `late_tests` names the
    tests ("test", "replay_test") that were added after training started: their sources may be in the training pairs.
    """

    tokenizers: TokenizerPair
    train: PairStore
    dev: PairStore | None
    test: PairStore | None
    cleaning: CleaningReport
    lexicon: Lexicon
    coverage: Coverage
    late_tests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Requirements:
    """Conditions that prepared data must meet.

    `same_pairs`: the pairs equal those that the folder was prepared with, because a resumed training continues at a
    position among them.
    """

    same_pairs: bool = False


def prepare(
    config: Config,
    corpora: Corpora,
    folder: Path,
    tokenizers: TokenizerPair | None = None,
    progress: PreparationProgress = lambda stage, pairs: None,
    require: Requirements = Requirements(),
) -> PreparedData:
    """Make the tokenizers and stores of a corpus, or find them in `folder`. One process prepares, others wait.

    Each of these stages reads the training text once, because it needs the whole result of the stage before:

    1. hash the files, to find out what must be made;
    2. hold out validation and test pairs, unless files are given: those with the smallest fingerprints;
    3. train the tokenizers, in two passes if each side has its own. If stage 2 was skipped and the number of pairs is
       not known (`Corpus.count`), the pairs are counted first, to sample them evenly;
    4. encode the pairs that cleaning keeps. Cleaning decides once, in stage 3 or else in stage 4.

    The lexicon is learned last, from at most 200,000 encoded pairs.

    Parameters
    ----------
    tokenizers
        Use these instead of training new ones.
    progress
        Called with the name of the stage and the number of pairs processed.
    require
        Conditions that raise an error if they are not met.

    Raises
    ------
    DataError
        If the corpus cannot be read, no pair is left after cleaning, or the pairs are not the required ones.
    ConfigError
        If the vocabulary is too small.
    ResourceError
        If the disk is full.
    """
    remove_leftovers(folder)
    preparation = _Preparation(config, corpora, folder, progress)
    preparation.keep_identity(require.same_pairs)
    with _without_garbage_collector():
        tokenizers = tokenizers or preparation.tokenizers()
        key = hash_json([preparation.key, tokenizers.src.library.to_str(), tokenizers.tgt.library.to_str()])
        train = preparation.train_store(tokenizers, key)
        dev = preparation.held_out_store("dev", tokenizers, key)
        test = preparation.held_out_store("test", tokenizers, key)
        learned = preparation.lexicon(train, tokenizers)
    cleaning = CleaningReport(**train.notes)
    return PreparedData(tokenizers, train, dev, test, cleaning, *learned, preparation.late_tests)


@contextmanager
def _without_garbage_collector() -> Iterator[None]:
    """Turn off the cyclic garbage collector: millions of pairs have no cycles, and searching takes 10 % of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def epoch_encoder(store: PairStore, tokenizers: TokenizerPair, config: Config) -> Encode | None:
    """A function that encodes a pair in each epoch, with augmentation and BPE dropout. None if both are off.

    A pair stays unchanged if augmentation makes it longer than `data.max_tokens`. The stored ids are used if BPE
    dropout gives more ids than the model has learned positions. `store` must keep the text.
    """
    augmented, probability, seed = is_augmented(config.data), config.tokenizer.bpe_dropout, config.train.seed
    if not augmented and not probability:
        return None
    encoded = _encoder(tokenizers, probability, seed)
    most = config.model.longest_text(sys.maxsize)

    def encode(index: int, epoch: int) -> tuple[Sequence[int], Sequence[int]]:
        before = store.src_text(index), store.tgt_text(index)
        texts = augment(config.data, *before, seed, epoch, index) if augmented else before
        if texts != before:
            ids = encoded(texts, epoch, index)
            if ids[0] and ids[1] and max(map(len, ids)) <= config.data.max_tokens:
                return ids
        if probability:
            ids = encoded(before, epoch, index)
            if max(map(len, ids)) <= most:
                return ids
        return store.src_ids(index).tolist(), store.tgt_ids(index).tolist()

    return encode


def _encoder(tokenizers: TokenizerPair, probability: float, seed: int) -> _Encoded:
    if not probability:
        return lambda texts, epoch, index: (tokenizers.src.encode(texts[0]), tokenizers.tgt.encode(texts[1]))
    src = BpeDropout(tokenizers.src, probability)
    tgt = src if tokenizers.joint else BpeDropout(tokenizers.tgt, probability)

    def encode(texts: tuple[str, str], epoch: int, index: int) -> tuple[list[int], list[int]]:
        return src.encode(texts[0], seed, epoch, index, 0), tgt.encode(texts[1], seed, epoch, index, 1)

    return encode


class _Preparation:
    """One call of `prepare`: what its stages share."""

    def __init__(self, config: Config, corpora: Corpora, folder: Path, progress: PreparationProgress) -> None:
        self._config, self._corpora, self._folder, self._progress = config, corpora, folder, progress
        self._held_out: HeldOut | None = None
        self._cleaner: Cleaner | None = None
        self._excluded = {part: corpus for part in _TESTS if (corpus := getattr(corpora, part))}
        self._excluded_gone = False
        self.late_tests: tuple[str, ...] = ()
        settings = {name: value for name, value in asdict(config.data).items() if name not in _OTHER_SETTINGS}
        self._identities = {part: _identity(getattr(corpora, part)) for part in ("train", "replay", "dev", *_TESTS)}
        parts = [self._identities[part] for part in ("train", "dev", "test")]
        if corpora.replay:
            parts += [config.data.replay_share, self._identities["replay"]]
        if corpora.replay_test:
            parts += [self._identities["replay_test"]]
        self.key = hash_json([VERSION, _HELD_OUT_SEED, settings, parts])

    def keep_identity(self, same_pairs: bool) -> None:
        """Record the files of the training. Raises DataError if `same_pairs` is set and a file has changed.

        A changed test set does not change the pairs of a started training: the key of its stores is kept. If the
        stores must be made again, a test set added since is ignored, and a test set that is no longer named is an
        error (see `held_out`).
        """
        path, files = self._folder / IDENTITY, self._files()
        if same_pairs and path.exists():
            before = read_identity(path)
            for (file, digest), (name, was) in zip(files.items(), before["files"].items(), strict=False):
                if digest != was and Path(file).name != Path(name).name:
                    raise DataError(
                        f"{file} is not the text that this run started with, which was {name}. Name that text, "
                        f"{_OR_NEW_RUN}"
                    )
                if digest != was:
                    raise DataError(
                        f"{file} has changed since this run started, and a run cannot continue with other pairs. "
                        f"Restore it, {_OR_NEW_RUN}"
                    )
            self.key = before["key"]
            changed = [part for part in _TESTS if _recorded_test(before, part) != self._identities[part]]
            self.late_tests = tuple(part for part in changed if self._identities[part] is not None)
            self._excluded_gone = any(_recorded_test(before, part) is not None for part in changed)
            self._excluded = {part: corpus for part, corpus in self._excluded.items() if part not in changed}
            return
        recorded = dict(zip(files_of_pairs(self._config.data), files.values(), strict=False))  # no temporary names
        now = {"key": self.key, **{part: self._identities[part] for part in _TESTS}, "files": recorded}
        with disk_errors(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        write_file(path, json.dumps(now, indent=1) + "\n")

    def _files(self) -> dict[str, str]:
        """The digest of each file that determines the training pairs."""
        return {
            str(file): digest
            for part in ("train", "replay", "dev")
            if (identity := self._identities[part])
            for file, digest in zip(getattr(self._corpora, part).paths, identity[0], strict=True)
        }

    def tokenizers(self) -> TokenizerPair:
        settings = asdict(self._config.tokenizer)
        del settings["bpe_dropout"]
        folder, key = self._folder / "tokenizer", hash_json([self.key, settings])
        with suppress(ModelError, OSError):
            if verify_folder(folder).get("key") == key:
                return TokenizerPair.load(folder)
        try:
            trained = train_tokenizers(self._config.tokenizer, *self._tokenizer_texts())
        except DataError:
            report = self.cleaner().report
            if report.read == report.num_dropped > 0:
                raise _nothing_left_error(report, self._names()) from None
            raise
        with write_folder(folder, {"key": key}) as partial:
            trained.save(partial)
        return TokenizerPair.load(folder)

    def train_store(self, tokenizers: TokenizerPair, key: str) -> PairStore:
        keep_text = self._config.tokenizer.bpe_dropout > 0 or is_augmented(self._config.data)
        folder, key = self._folder / "train", hash_json([key, "train", keep_text])
        if store := open_if_current(folder, key):
            return store
        pairs = self._counted(self._with_replay_pairs(), "encoding the training pairs")
        kept = self.cleaner().clean(pairs, ProcessEncoderPair(tokenizers))
        return self._write("train", key, kept, tokenizers, keep_text)

    def held_out_store(self, part: str, tokenizers: TokenizerPair, key: str) -> PairStore | None:
        """The store of "dev" or "test": all pairs of its file, else the held-out pairs, else None."""
        folder, key = self._folder / part, hash_json([key, part, self._identities[part]])
        corpus: Corpus | None = getattr(self._corpora, part)
        if corpus is None and not getattr(self._config.data, f"{part}_fraction"):
            return None
        if store := open_if_current(folder, key):
            return store
        pairs = corpus.pairs() if corpus else getattr(self.held_out(), part)
        # No cleaning: line n of a validation file must match line n of its translation.
        encoded = BatchEncoderPair.of(tokenizers).encode_chunks(chunks(pairs, _CHUNK_PAIRS))
        return self._write(part, key, encoded, tokenizers, keep_text=True)

    def lexicon(self, train: PairStore, tokenizers: TokenizerPair) -> tuple[Lexicon, Coverage]:
        """Learn a lexicon from the training pairs as they are stored, without BPE dropout, or find it."""
        folder, key = self._folder / "lexicon", f"{train.key} {LEXICON_VERSION}"
        with suppress(ModelError, OSError, ValueError):
            if (found := VerifiedFolder(folder)).manifest.get("key") == key:
                return Lexicon.from_bytes(found.read(LEXICON)), Coverage(**found.manifest["coverage"])
        rows = choose_pairs(train.src_counts, train.tgt_counts).tolist()
        self._progress("learning the lexicon", len(rows))
        src, tgt = (RaggedIds.of([ids(row).tolist() for row in rows]) for ids in (train.src_ids, train.tgt_ids))
        lexicon, coverage = learn_tried_lexicon(src, tgt, (tokenizers.src.vocab_size, tokenizers.tgt.vocab_size))
        with write_folder(folder, {"key": key, "coverage": asdict(coverage)}) as partial:
            (partial / LEXICON).write_bytes(lexicon.to_bytes())
        return lexicon, coverage

    def _write(
        self, part: str, key: str, encoded: Iterable[EncodedChunk], tokenizers: TokenizerPair, keep_text: bool
    ) -> PairStore:
        """Write a store. The notes of "train" are the counts of cleaning, complete when `encoded` is exhausted."""
        folder = self._folder / part
        with write_store(folder, key, tokenizers.src.vocab_size, tokenizers.tgt.vocab_size, keep_text) as writer:
            for chunk in encoded:
                texts = chunk.pairs if keep_text else []
                writer.append(chunk.src, chunk.tgt, [pair.src for pair in texts], [pair.tgt for pair in texts])
            if part == "train":
                report = self.cleaner().report
                writer.notes = asdict(report)
                if not writer.num_pairs:
                    raise _nothing_left_error(report, self._names())
        return PairStore(folder, key)

    def held_out(self) -> HeldOut:
        if self._held_out is None:
            if self._excluded_gone:
                raise DataError(
                    f"{self._folder} is incomplete and cannot be made again with the same pairs: the test set that was "
                    f"kept out of training is not the one named now. Name the earlier one, {_OR_NEW_RUN}"
                )
            train, dev, test = self._corpora.train, self._corpora.dev, self._excluded.get("test")
            self._held_out = hold_out(
                self._counted(train.pairs(), "choosing the held-out pairs"),
                self._config.data,
                _HELD_OUT_SEED,
                dev=dev.pairs() if dev else None,
                test=test.pairs() if test else None,
                names=self._names(),
            )
            if replay_test := self._excluded.get("replay_test"):  # a test must not be trained on either
                for chunk in chunks(replay_test.pairs(), _CHUNK_PAIRS):
                    self._held_out.sources.add(source_fingerprints(chunk, _HELD_OUT_SEED))
        return self._held_out

    def _names(self) -> tuple[str, str]:
        """Names for errors: the training text, and the files whose sources are kept out of it."""
        kept_out = [self._corpora.dev, *self._excluded.values()]
        return str(self._corpora.train), " and ".join(dict.fromkeys(str(corpus) for corpus in kept_out if corpus))

    def _with_replay_pairs(self) -> Iterator[SentencePair]:
        """The training pairs, then evenly spread replay pairs, up to a share of `data.replay_share` of all pairs."""
        yield from self._corpora.train.pairs()
        if replay := self._corpora.replay:
            share, total = self._config.data.replay_share, replay.count()
            wanted = min(total, round(self._corpora.train.count() * share / (1 - share)))
            for index, pair in enumerate(replay.pairs()):
                if (index + 1) * wanted // total > index * wanted // total:
                    yield pair

    def cleaner(self) -> Cleaner:
        if self._cleaner is None:
            self._cleaner = Cleaner(self._config.data, self.held_out(), self.held_out().read)
        return self._cleaner

    def _tokenizer_texts(self) -> tuple[Iterable[str], Iterable[str]]:
        """The texts to train the tokenizers on, source and target. A joint tokenizer reads the corpus once."""
        if self._config.tokenizer.joint:
            return concatenate_texts(text for pair in self._training_texts() for text in (pair.src, pair.tgt)), ()
        src = concatenate_texts(pair.src for pair in self._training_texts())
        return src, concatenate_texts(pair.tgt for pair in self._training_texts())

    def _training_texts(self) -> Iterator[SentencePair]:
        """The pairs that cleaning keeps, or an even sample of them.

        The sampling rate is `tokenizer.max_pairs` over all pairs read: if cleaning removes many, the sample is smaller.
        """
        cleaner, most = self.cleaner(), self._config.tokenizer.max_pairs
        total = self._corpora.train.count() if most else 0
        kept = cleaner.clean_texts(self._counted(self._corpora.train.pairs(), "training the tokenizer"))
        if total <= most:
            return kept
        return (pair for index, pair in enumerate(kept) if index * most // total != (index - 1) * most // total)

    def _counted(self, pairs: Iterable[SentencePair], stage: str) -> Iterator[SentencePair]:
        passed = 0
        for chunk in chunks(pairs, _CHUNK_PAIRS):
            yield from chunk
            passed += len(chunk)
            self._progress(stage, passed)


def _nothing_left_error(report: CleaningReport, names: tuple[str, str]) -> DataError:
    if report.dropped[SHARED] and report.dropped[SHARED] + report.dropped[EMPTY] == report.read:
        return only_shared_sources_error(*names)
    dropped = ", ".join(f"{rule}: {count}" for rule, count in report.dropped.items() if count)
    return DataError(
        f"No training pair is left: cleaning removed all {report.read} pairs ({dropped}). "
        "Check the corpus with `dragoman check`, or relax the rules in [data]."
    )


def _recorded_test(record: dict[str, Any], part: str) -> Any:
    """The identity of a test in a run's record. Earlier versions called the replay test "old_test"."""
    return record.get(part, record.get("old_test") if part == "replay_test" else None)


def _identity(corpus: Corpus | None) -> Any:
    """The identity of a corpus: content, format and languages, but not its path."""
    if corpus is None:
        return None
    try:
        files = [sha256_of(path) for path in corpus.paths]
    except OSError as error:
        raise DataError(f"{error.filename} cannot be read: {error.strerror}. Check the path.") from None
    return [files, corpus.format, corpus.src_lang, corpus.tgt_lang]
