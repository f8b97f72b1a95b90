"""The training text of a run: one corpus or several, what is held out of each, and the pairs that cleaning keeps.

Several corpora are read in the order of their weights, because the first corpus with a pair keeps it. They share the
fingerprints of pairs and of held-out sources, so a pair that one corpus holds out or keeps is in no other.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeAlias

from dragoman.config import Config, CorpusSettings, DataSettings
from dragoman.errors import ConfigError, DataError
from dragoman.records import SentencePair
from dragoman.text.corpus.cleaning import DUPLICATE, EMPTY, SHARED, Cleaner, CleaningReport
from dragoman.text.corpus.corpus import Corpora, Corpus
from dragoman.text.corpus.splitting import (
    CHUNK_PAIRS,
    FingerprintSet,
    HeldOut,
    HeldOutShares,
    chunks,
    only_shared_sources_error,
    source_fingerprints,
    take_held_out,
)
from dragoman.text.tokenization.encoding import concatenate_texts
from dragoman.text.tokenization.pipelines import BACK_TRANSLATION, tag_token
from dragoman.text.tokenization.tokenizer import Tokenizer

PreparationProgress: TypeAlias = Callable[[str, int], None]
"""``progress(stage, pairs)``: the name of the current stage, and the number of pairs that it has processed."""

HELD_OUT_SEED = 1
"""Not `train.seed`: models that differ only in it share tokenizers and validation text, and can be ensembled."""
_OWN_PAIRS = 200
"""The most held-out pairs of each of several corpora, for its loss in the report."""


@dataclass(slots=True)
class TrainingCorpus:
    """A training corpus with its settings and its cleaning rules.

    `place` is its number in the settings. `held_out` and `cleaner` are set by `TrainingText.hold_out`.
    """

    corpus: Corpus
    settings: CorpusSettings
    rules: DataSettings
    place: int
    held_out: HeldOut = field(default_factory=HeldOut)
    cleaner: Cleaner | None = None

    @property
    def report(self) -> CleaningReport:
        """The counts of cleaning so far."""
        return self.cleaner.report if self.cleaner else CleaningReport()


class TrainingText:
    """The training corpora of a run, and the replay data as the last one.

    Parameters
    ----------
    config
        The settings.
    corpora
        All corpora of the run.
    excluded
        The tests, by name, whose sources are kept out of training.
    progress
        Receives the number of pairs read in each stage.
    """

    def __init__(
        self, config: Config, corpora: Corpora, excluded: Mapping[str, Corpus], progress: PreparationProgress
    ) -> None:
        self._config, self._corpora, self._excluded, self._progress = config, corpora, excluded, progress
        self._is_held_out = False
        self.corpora = corpora_in_order(config, corpora)
        self._replay = [self.corpora.pop()] if corpora.replay else []

    @property
    def all(self) -> list[TrainingCorpus]:
        """All corpora in the order of the pairs: the heavier first, replay data last."""
        return [*self.corpora, *self._replay]

    def hold_out(self) -> None:
        """Choose the held-out pairs of each corpus, and make the cleaners. The first call reads the text.

        Validation and test pairs are held out of text that people translated, not of back-translations.
        """
        if self._is_held_out:
            return
        data, dev, test = self._config.data, self._corpora.dev, self._excluded.get("test")
        sources = FingerprintSet()
        _add_sources(sources, *filter(None, (dev, test)))
        several, passed = len(self.corpora) > 1, 0
        parts = [
            one.settings.weight * one.corpus.count() * (not one.settings.synthetic) if several else 1.0
            for one in self.corpora
        ]
        for one, part in zip(self.corpora, parts, strict=True):
            shares = HeldOutShares(
                dev=data.dev_fraction * (part > 0 and dev is None),
                test=data.test_fraction * (part > 0 and test is None),
                most=max(1, round(data.max_held_out * part / (sum(parts) or 1.0))),
                own=_OWN_PAIRS * several,
            )
            pairs = self._counted(one.corpus.pairs(), "choosing the held-out pairs", passed)
            one.held_out = take_held_out(pairs, shares, sources, HELD_OUT_SEED, None if several else self._names())
            passed += sum(map(len, one.held_out.read))
        if several and dev is None and data.dev_fraction and not any(one.held_out.dev for one in self.corpora):
            raise DataError(
                "The corpora have too few pairs to hold some out for validation. Add more text, or set `data.dev` to a "
                "file."
            )
        if replay_test := self._excluded.get("replay_test"):  # a test must not be trained on either
            _add_sources(sources, replay_test)
        seen = FingerprintSet()
        for one in self._replay:
            one.held_out = HeldOut(sources=sources, seed=HELD_OUT_SEED)
        for one in self.all:
            one.cleaner = Cleaner(one.rules, one.held_out, one.held_out.read, seen)
        self._is_held_out = True

    def held_out_pairs(self, part: str) -> list[SentencePair]:
        """The held-out pairs of all corpora: "dev" or "test" in the order of the settings, "own" in that of `all`."""
        self.hold_out()
        corpora = self.all if part == "own" else sorted(self.all, key=lambda one: one.place)
        return [pair for one in corpora for pair in getattr(one.held_out, part)]

    def clean(self, stage: str, with_replay: bool = True) -> Iterator[tuple[Cleaner, Iterator[SentencePair]]]:
        """The cleaner and the pairs of each corpus. Each corpus must be read before the next one."""
        self.hold_out()
        passed = 0
        for one in self.all if with_replay else self.corpora:
            assert one.cleaner is not None
            yield one.cleaner, self._counted(one.corpus.pairs(), stage, passed)
            passed += one.report.read

    def check_left(self) -> None:
        """Raise DataError if cleaning has read a corpus and removed all of its pairs."""
        for one in self.all:
            if one.report.read == one.report.num_dropped > 0:
                raise self._nothing_left(one)

    def tokenizer_texts(self, joint: bool, most: int) -> tuple[Iterable[str], Iterable[str]]:
        """The texts to train the tokenizers on, source and target, of at most `most` pairs. 0: of all.

        A joint tokenizer reads the corpora once.
        """
        if joint:
            return concatenate_texts(text for pair in self._sample(most) for text in (pair.src, pair.tgt)), ()
        src = concatenate_texts(pair.src for pair in self._sample(most))
        return src, concatenate_texts(pair.tgt for pair in self._sample(most))

    def _sample(self, most: int) -> Iterator[SentencePair]:
        """The pairs that cleaning keeps, or an even sample of them.

        The sampling rate is `most` over all pairs read: if cleaning removes many, the sample is smaller.
        """
        self.hold_out()
        total = sum(one.corpus.count() for one in self.corpora) if most else 0
        stage = self.clean("training the tokenizer", with_replay=False)
        kept = chain.from_iterable(cleaner.clean_texts(pairs) for cleaner, pairs in stage)
        if total <= most:
            return kept
        return (pair for index, pair in enumerate(kept) if index * most // total != (index - 1) * most // total)

    def _names(self) -> tuple[str, str]:
        """Names for errors: the training text, and the files whose sources are kept out of it."""
        kept_out = [self._corpora.dev, *self._excluded.values()]
        train = " and ".join(map(str, self._corpora.train))
        return train, " and ".join(dict.fromkeys(str(corpus) for corpus in kept_out if corpus))

    def _counted(self, pairs: Iterable[SentencePair], stage: str, passed: int) -> Iterator[SentencePair]:
        for chunk in chunks(pairs, CHUNK_PAIRS):
            yield from chunk
            passed += len(chunk)
            self._progress(stage, passed)

    def _nothing_left(self, one: TrainingCorpus) -> DataError:
        report, is_alone = one.report, len(self.corpora) == 1
        if is_alone and report.dropped[SHARED] and report.dropped[SHARED] + report.dropped[EMPTY] == report.read:
            return only_shared_sources_error(*self._names())
        dropped = ", ".join(f"{rule}: {count}" for rule, count in report.dropped.items() if count)
        advice = "Check the corpus with `dragoman check`, or relax the rules in [data]."
        if not is_alone and report.dropped[DUPLICATE] > report.read / 2:
            advice = "Its pairs are also in another corpus. Leave it out, or give it the larger `weight`."
        place = "" if is_alone else f" in `corpora[{one.place}]` ({one.corpus})"
        place = f" in the replay data ({one.corpus})" if one in self._replay else place
        return DataError(
            f"No training pair is left{place}: cleaning removed all {report.read} pairs ({dropped}). {advice}"
        )


def corpora_in_order(config: Config, corpora: Corpora) -> list[TrainingCorpus]:
    """The training corpora, the heavier first, and replay data last."""
    found = []
    for place, corpus in enumerate(corpora.train):
        one, data = config.corpora[place] if config.corpora else CorpusSettings(), config.data
        limits = one.max_tokens or data.max_tokens, one.max_length_ratio or data.max_length_ratio
        found.append(
            TrainingCorpus(corpus, one, replace(data, max_tokens=limits[0], max_length_ratio=limits[1]), place)
        )
    found.sort(key=lambda one: -one.settings.weight)
    if corpora.replay:
        found.append(TrainingCorpus(corpora.replay, CorpusSettings(), config.data, len(found)))
    return found


def _add_sources(sources: FingerprintSet, *corpora: Corpus) -> None:
    for corpus in corpora:
        for chunk in chunks(corpus.pairs(), CHUNK_PAIRS):
            sources.add(source_fingerprints(chunk, HELD_OUT_SEED))


def control_tokens(config: Config) -> tuple[str, ...]:
    """The control tokens that the corpora need: one for each tag, and the mark of back-translation, in this order."""
    tags = dict.fromkeys(tag_token(corpus.tag) for corpus in config.corpora if corpus.tag)
    return (*tags, *([BACK_TRANSLATION] if any(corpus.synthetic for corpus in config.corpora) else []))


def require_controls(config: Config, tokenizer: Tokenizer) -> None:
    """Raise ConfigError for a corpus that needs a control token which the tokenizer of a trained model lacks."""
    for place, corpus in enumerate(config.corpora):
        wanted = {f"corpora[{place}].tag": tag_token(corpus.tag) if corpus.tag else ""}
        wanted |= {f"corpora[{place}].synthetic": BACK_TRANSLATION if corpus.synthetic else ""}
        for key, token in wanted.items():
            if token and token not in tokenizer.controls:
                raise ConfigError(
                    f"`{key}` needs the control token {token}, which the model to start from does not have. Leave it "
                    "out, or train without `train.start_from` (`--from`)."
                )
