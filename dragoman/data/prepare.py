"""Prepare the data of a run: tokenizers, and one store each for training, validation and test.

Everything is kept in one folder. Every part has a key, a hash of its inputs, and is made again only if the corpus, the
tokenizer or a relevant setting changes. Text is read in passes and never held in memory.
"""

import gc
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from dragoman.config import CORPUS_FILES, Config, CorpusSettings
from dragoman.config.corpora import num_controls
from dragoman.data.mixing import MixedCorpus, MixedPairs
from dragoman.data.store import IDENTITY, Pairs, PairStore, files_of_pairs, open_if_current, read_identity, write_store
from dragoman.data.stream import Encode
from dragoman.data.training_text import (
    HELD_OUT_SEED,
    PreparationProgress,
    TrainingText,
    control_tokens,
    corpora_in_order,
    require_controls,
)
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
from dragoman.text.corpus.cleaning import CleaningReport, augment, is_augmented
from dragoman.text.corpus.corpus import Corpora, Corpus
from dragoman.text.corpus.splitting import CHUNK_PAIRS, chunks
from dragoman.text.lexicon import LEXICON, LEXICON_VERSION, Coverage, Lexicon, choose_pairs, learn_tried_lexicon
from dragoman.text.tokenization.encoding import (
    BatchEncoderPair,
    BpeDropout,
    EncodedChunk,
    RaggedIds,
)
from dragoman.text.tokenization.encoding_processes import ProcessEncoderPair
from dragoman.text.tokenization.pipelines import BACK_TRANSLATION, tag_token
from dragoman.text.tokenization.tokenizer import TokenizerPair, train_tokenizers

VERSION = 1
"""Part of every key. Raise it when a change of the code gives other stores for the same inputs."""

_Encoded: TypeAlias = Callable[[tuple[str, str], int, int], tuple[list[int], list[int]]]
"""The ids of both texts of a pair in an epoch; the last number is the pair's index."""

_OR_NEW_RUN = "or start a new run in another `--out`, with this run as `--from` to keep what it learned."
_TESTS = ("test", "replay_test")
_AUGMENTATIONS = ("augment_case", "augment_punctuation", "augment_noise")
# Settings of [data] that do not affect which pairs and ids are stored, so they are not part of the keys.
_OTHER_SETTINGS = {*CORPUS_FILES, "check_languages", *_AUGMENTATIONS, "replay_share"}


@dataclass(frozen=True, slots=True)
class PreparedData:
    """The data of a run.

    `dev` and `test` are None if not requested, and keep the text. `train` keeps the text only if it is encoded again in
    each epoch. `cleaning` counts the pairs removed from the training text, also if the store was made earlier.
    `lexicon` was learned from the training pairs, and `coverage` says whether they were enough. `corpora` has the parts
    of `train` in order, if there are several or one needs control tokens. `own` has held-out pairs of each of several
    corpora, one corpus after the other. `late_tests` names the tests ("test", "replay_test") that were added after
    training started: their sources may be in the training pairs.
    """

    tokenizers: TokenizerPair
    train: PairStore
    dev: PairStore | None
    test: PairStore | None
    cleaning: CleaningReport
    lexicon: Lexicon
    coverage: Coverage
    corpora: tuple["PreparedCorpus", ...] = ()
    own: PairStore | None = None
    late_tests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PreparedCorpus:
    """One of several training corpora.

    Parameters
    ----------
    name
        The names of its files.
    settings
        Its weight, tag and stage.
    cleaning
        The counts of its pairs.
    num_own
        The number of its pairs in `PreparedData.own`.
    is_replay
        Whether it is replay data, whose weight follows from `data.replay_share`.
    """

    name: str
    settings: CorpusSettings
    cleaning: CleaningReport
    num_own: int
    is_replay: bool


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
        if tokenizers:
            require_controls(config, tokenizers.src)
        tokenizers = tokenizers or preparation.tokenizers()
        key = hash_json([preparation.key, tokenizers.src.library.to_str(), tokenizers.tgt.library.to_str()])
        train = preparation.train_store(tokenizers, key)
        dev = preparation.held_out_store("dev", tokenizers, key)
        test = preparation.held_out_store("test", tokenizers, key)
        own = preparation.held_out_store("own", tokenizers, key)
        learned = preparation.lexicon(train, tokenizers)
    cleaning = CleaningReport.of_notes(train.notes)
    several = _several_corpora(config, corpora, train, own)
    return PreparedData(tokenizers, train, dev, test, cleaning, *learned, several, own, preparation.late_tests)


def _several_corpora(
    config: Config, corpora: Corpora, train: PairStore, own: PairStore | None
) -> tuple[PreparedCorpus, ...]:
    """The corpora of the training store, from its notes. Empty for one corpus without control tokens."""
    reports = [CleaningReport(**report) for report in train.notes.get("corpora", ())]
    if len(reports) < 2 and not control_tokens(config):
        return ()
    training = corpora_in_order(config, corpora)
    counts = own.notes["counts"] if own else [0] * len(training)
    paths = [one.corpus.paths for one in training]
    names = [" and ".join(path.name for path in each) for each in paths]
    if len(set(names)) < len(names):
        names = [" and ".join(f"{path.absolute().parent.name}/{path.name}" for path in each) for each in paths]
    found = zip(names, training, reports, counts, strict=True)
    return tuple(
        PreparedCorpus(name, one.settings, report, count, one.corpus is corpora.replay)
        for name, one, report, count in found
    )


def mix_corpora(data: PreparedData, config: Config) -> Pairs:
    """The training pairs, of several corpora by their weights, and with the ids of control tokens."""
    if not data.corpora:
        return data.train
    ids = data.tokenizers.src.control_id
    parts = []
    for each in data.corpora:
        tag = ids(tag_token(each.settings.tag)) if each.settings.tag else None
        mark = ids(BACK_TRANSLATION) if each.settings.synthetic else None
        parts.append(MixedCorpus(each.name, each.cleaning.kept, each.settings.weight, tag, mark))
    if not data.corpora[-1].is_replay:
        return MixedPairs(data.train, parts)
    *trained, replay = parts  # replay data makes an epoch longer only by its share
    num_trained, share = sum(part.num_pairs for part in trained), config.data.replay_share
    num_replayed = min(replay.num_pairs, round(num_trained * share / (1 - share)))
    weight = num_replayed / replay.num_pairs * sum(part.num_pairs * part.weight for part in trained) / num_trained
    return MixedPairs(data.train, [*trained, replace(replay, weight=weight)], num_trained + num_replayed)


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
    most = config.model.longest_text(sys.maxsize) - num_controls(config)

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
        self._excluded = {part: corpus for part in _TESTS if (corpus := getattr(corpora, part))}
        self._excluded_gone = False
        self.late_tests: tuple[str, ...] = ()
        settings = {name: value for name, value in asdict(config.data).items() if name not in _OTHER_SETTINGS}
        self._identities = {part: _identity(getattr(corpora, part)) for part in ("replay", "dev", *_TESTS)}
        self._train_identities = [_identity(corpus) for corpus in corpora.train]
        train = self._train_identities[0]
        if config.corpora:
            no_store = dict.fromkeys(("data", "src", "tgt", "tag", "from_", "until"))  # not part of the keys
            rules = [asdict(one) | no_store for one in config.corpora]
            train = [*rules, *self._train_identities]
        parts = [train, self._identities["dev"], self._identities["test"]]
        if corpora.replay:
            parts += ["by weight", self._identities["replay"]]
        if corpora.replay_test:
            parts += [self._identities["replay_test"]]
        self.key = hash_json([VERSION, HELD_OUT_SEED, settings, parts])

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
        recorded = dict(zip(files_of_pairs(self._config), files.values(), strict=False))  # no temporary names
        now = {"key": self.key, **{part: self._identities[part] for part in _TESTS}, "files": recorded}
        with disk_errors(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        write_file(path, json.dumps(now, indent=1) + "\n")

    def _files(self) -> dict[str, str]:
        """The digest of each file that determines the training pairs."""
        corpora, identities = self._corpora, self._identities
        known = [*zip(corpora.train, self._train_identities, strict=True)]
        known += [(one, identities[part]) for part in ("replay", "dev") if (one := getattr(corpora, part))]
        return {
            str(file): digest for one, (digests, *_) in known for file, digest in zip(one.paths, digests, strict=True)
        }

    def tokenizers(self) -> TokenizerPair:
        settings = asdict(self._config.tokenizer)
        del settings["bpe_dropout"]
        folder, key = self._folder / "tokenizer", hash_json([self.key, settings])
        with suppress(ModelError, OSError):
            if verify_folder(folder).get("key") == key:
                return TokenizerPair.load(folder).with_controls(control_tokens(self._config))
        try:
            most, joint = self._config.tokenizer.max_pairs, self._config.tokenizer.joint
            trained = train_tokenizers(self._config.tokenizer, *self._text.tokenizer_texts(joint, most))
        except DataError:
            self._text.check_left()
            raise
        with write_folder(folder, {"key": key}) as partial:
            trained.save(partial)
        return TokenizerPair.load(folder).with_controls(control_tokens(self._config))

    def train_store(self, tokenizers: TokenizerPair, key: str) -> PairStore:
        keep_text = self._config.tokenizer.bpe_dropout > 0 or is_augmented(self._config.data)
        folder, key = self._folder / "train", hash_json([key, "train", keep_text])
        if store := open_if_current(folder, key):
            return store
        stage = self._text.clean("encoding the training pairs")
        kept = (chunk for cleaner, pairs in stage for chunk in cleaner.clean(pairs, ProcessEncoderPair(tokenizers)))
        return self._write("train", key, kept, tokenizers, keep_text)

    def held_out_store(self, part: str, tokenizers: TokenizerPair, key: str) -> PairStore | None:
        """The store of "dev" or "test": all pairs of its file, else the held-out pairs, else None. Or that of "own"."""
        folder, key = self._folder / part, hash_json([key, part, self._identities.get(part)])
        corpus: Corpus | None = getattr(self._corpora, part, None)
        wanted = (
            len(self._config.corpora) > 1 if part == "own" else corpus or getattr(self._config.data, f"{part}_fraction")
        )
        if not wanted:
            return None
        if store := open_if_current(folder, key):
            return store
        pairs = corpus.pairs() if corpus else self._text.held_out_pairs(part)
        # No cleaning: line n of a validation file must match line n of its translation.
        encoded = BatchEncoderPair.of(tokenizers).encode_chunks(chunks(pairs, CHUNK_PAIRS))
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
        """Write a store. The notes of "train" are the counts of cleaning, complete when `encoded` is exhausted.

        With several corpora, those of "train" and "own" also have the counts of each.
        """
        folder = self._folder / part
        with write_store(folder, key, tokenizers.src.vocab_size, tokenizers.tgt.vocab_size, keep_text) as writer:
            for chunk in encoded:
                texts = chunk.pairs if keep_text else []
                writer.append(chunk.src, chunk.tgt, [pair.src for pair in texts], [pair.tgt for pair in texts])
            if part == "train":
                self._text.check_left()
                reports = [one.report for one in self._text.all]
                writer.notes = asdict(sum(reports[1:], reports[0]))
                if len(reports) > 1 or self._config.corpora:
                    writer.notes["corpora"] = [asdict(report) for report in reports]
            if part == "own":
                writer.notes["counts"] = [len(one.held_out.own) for one in self._text.all]
        return PairStore(folder, key)

    @cached_property
    def _text(self) -> TrainingText:
        """The training text. Raises DataError if it is needed, but a test set that was kept out of it is gone."""
        if self._excluded_gone:
            raise DataError(
                f"{self._folder} is incomplete and cannot be made again with the same pairs: the test set that was "
                f"kept out of training is not the one named now. Name the earlier one, {_OR_NEW_RUN}"
            )
        return TrainingText(self._config, self._corpora, self._excluded, self._progress)


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
