"""The corpus doctor: check parallel text before training on it.

`examine` runs every check, for `dragoman check`. `check_corpus` runs the quick ones before training. The text is read
in passes: over the lines of each file, over the pairs, and over both sides to compare them. Memory grows by at most 32
bytes per pair, for the fingerprints of pairs and sources.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import compress, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dragoman.config.recipes import CorpusSize
from dragoman.counting import count_items
from dragoman.errors import DataError
from dragoman.records import SentencePair
from dragoman.text.corpus.corpus import Corpus, SizeCounter
from dragoman.text.corpus.json_lines import JsonFields
from dragoman.text.corpus.splitting import FingerprintSet, Overlap, chunks, fingerprints
from dragoman.text.corpus.tmx import ReadReport
from dragoman.text.doctor.findings import (
    IDENTICAL,
    SAME_LINE,
    CorpusFinding,
    Examination,
    Tallies,
    Tally,
    repeated_side,
    shorten,
)
from dragoman.text.doctor.languages import (
    LANGUAGE_SAMPLE_LINES,
    SKIP_SETTING,
    SURE_SHARE,
    EncodingGuess,
    guess_encoding,
    is_utf16,
    language_of_side,
)
from dragoman.text.doctor.side_findings import SLIDE, UNRELATED, comparison_findings, language_findings, mismatches
from dragoman.text.doctor.slides import SideComparison, compare_sides
from dragoman.text.lines import read_lines

_Progress = Callable[[str], None]
LENGTHS, ENCODING, LEAK, NEAR_LEAK = "different lengths", "wrong encoding", "leak", "near leak"
REPEATED, AMBIGUOUS, IN_TWO_CORPORA = "repeated pair", "repeated source", "in two corpora"
ONE_LANGUAGE = "one language only"

_CHUNK_PAIRS = 1 << 13
_SAMPLE_PAIRS = 5000
_SCATTER_RANGE = 1 << 32
_SERIOUS_LEAK = 0.01
"""The share of a set from which a leak is serious: its scores then say little about new text."""
_TRAINABLE = {IDENTICAL}
_WHOLE = {SLIDE, UNRELATED, SAME_LINE}


def examine(
    corpus: Corpus,
    held_out: Mapping[str, Corpus] | None = None,
    progress: _Progress = lambda stage: None,
    earlier: dict[str, FingerprintSet] | None = None,
) -> Examination:
    """Examine a training corpus and its overlap with the corpora in `held_out` (name -> corpus).

    `earlier` has the pairs of training corpora that were examined before, by name, and receives those of this one.

    If a file is not UTF-8, or the files differ in length, only this is reported: other findings would be wrong.
    `progress` is called with the name of each stage. Raises DataError if a file cannot be read or has no pair.
    """
    progress("reading the files")
    counts, blocking = _check_files(corpus)
    if not blocking and len(set(counts)) > 1:
        blocking = _misaligned(corpus, counts, progress)
    if blocking:
        return Examination(str(corpus), min(counts), (0, 0), ("", ""), ("", ""), tuple(blocking))
    progress("reading the pairs")
    report = ReadReport()
    pass_ = _Pass(corpus.pairs(report), counts[0] if len(counts) > 1 else 0, held_out or {}, earlier or {})
    if earlier is not None:
        earlier[str(corpus)] = pass_.seen
    pairs = pass_.tallies.pairs
    progress("comparing the sides line by line")
    compared = compare_sides(corpus.sides, pairs, pairs)
    findings = [
        *_skipped_units(corpus, report),
        *_compare_findings(corpus, compared, pass_.tallies),
        *repeated_side(pass_.sample.pairs),
        *pass_.repeats(),
        *pass_.leaks(),
    ]
    progress("detecting the languages")
    declared = corpus.src_lang, corpus.tgt_lang
    languages, scripts, found = language_findings(pass_.sample.pairs, declared, corpus.swap_advice())
    return Examination(
        str(corpus),
        pairs,
        (pass_.tallies.characters[0], pass_.tallies.characters[1]),
        languages,
        scripts,
        tuple(sorted([*findings, *found], key=lambda finding: (not finding.serious, -finding.share))),
    )


def check_corpus(
    corpus: Corpus,
    note: Callable[[str], None] = lambda text: None,
    with_languages: bool = True,
    counter: SizeCounter | None = None,
) -> CorpusSize:
    """Check a corpus before training and return its size. Reads it once and compares a sample of the sides.

    With a `counter`, the size is that of all corpora that it has counted.

    Calls `note` with a message for units that the reader skipped and for languages similar to the stated ones. Raises
    DataError with the first serious finding.
    """
    counter = counter or SizeCounter()
    tallies, report, sample = Tallies(), ReadReport(), _Sample(LANGUAGE_SAMPLE_LINES)
    for chunk in chunks(corpus.pairs(report), _CHUNK_PAIRS):
        for each in (tallies, counter, sample):
            each.add(chunk)
        count_items(len(chunk))
    if with_languages:
        _check_languages(corpus, sample, note)
    _raise_or_note(corpus, repeated_side(sample.pairs), note)
    for finding in _skipped_units(corpus, report):
        note(f"{corpus}: {finding.count:,} of {report.units:,} {finding.message}. {finding.advice}")
    pairs = tallies.pairs
    compared = compare_sides(corpus.sides, pairs, pairs, thorough=False)
    if any(slide.line > 1 for slide in compared.slides[:1]):  # the line is only as exact as the sample is dense
        thorough = compare_sides(corpus.sides, pairs, pairs)
        compared = thorough if thorough.slides else compared
    for finding in _compare_findings(corpus, compared, tallies):
        if finding.serious and finding.kind not in _TRAINABLE:
            counted = "" if finding.kind in _WHOLE else f"{finding.count:,} of {pairs:,} "
            first = "" if finding.kind in _WHOLE else f" (first: {finding.lines[0]:,})"
            raise DataError(
                f"{corpus}: {counted}{finding.message}{first}. {finding.advice} `dragoman check` shows more."
            )
    return counter.size()


def detect_languages(corpus: Corpus) -> tuple[str, str]:
    """The languages of a corpus: those that it states, else those of its first lines. "" if they are not clear."""
    stated = corpus.src_lang, corpus.tgt_lang
    pairs = list(islice(corpus.pairs(), LANGUAGE_SAMPLE_LINES))
    sides = [language_of_side([pair.src for pair in pairs]), language_of_side([pair.tgt for pair in pairs])]
    found = [side.language if side.share >= SURE_SHARE else "" for side in sides]
    src_lang, tgt_lang = (one or other for one, other in zip(stated, found, strict=True))
    return (src_lang, tgt_lang) if src_lang != tgt_lang else stated


def check_corpus_languages(corpus: Corpus, note: Callable[[str], None] = lambda text: None) -> None:
    """Raise DataError if a side of a corpus is clearly in another language than its settings say.

    Calls `note` with a message if it looks like a similar language.
    """
    sample = _Sample(LANGUAGE_SAMPLE_LINES)
    for chunk in chunks(corpus.pairs(), _CHUNK_PAIRS):
        sample.add(chunk)
    _check_languages(corpus, sample, note)


def _check_languages(corpus: Corpus, sample: "_Sample", note: Callable[[str], None]) -> None:
    found = mismatches(sample.pairs, (corpus.src_lang, corpus.tgt_lang), corpus.swap_advice())
    _raise_or_note(corpus, found, note, f" If it is right, add {SKIP_SETTING}.")


def _raise_or_note(
    corpus: Corpus, findings: Iterable[CorpusFinding], note: Callable[[str], None], advice: str = ""
) -> None:
    """Raise DataError with the first serious finding, which also gets `advice`. Call `note` with the others."""
    for finding in findings:
        part = f"{finding.share:.0%} of the " if finding.share < 1 else ""
        where = f" (first: {finding.lines[0]:,})" if finding.lines else ""
        said = f"{corpus}: {part}{finding.message}{where}. {finding.advice}"
        if finding.serious:
            raise DataError(said + advice)
        note(said)


def _skipped_units(corpus: Corpus, report: ReadReport) -> list[CorpusFinding]:
    """A finding for the units of a translation memory, or JSON records, that lack one of the languages."""
    keys = isinstance(corpus.fields, JsonFields) and (corpus.fields.src, corpus.fields.tgt)
    one, other = keys or (corpus.src_lang, corpus.tgt_lang)
    message = f"{'records' if keys else 'units'} lack a text in {one} or {other}"
    advice = "They are skipped. If there are too many, check how the file writes its "
    advice += "keys." if keys else "language codes."
    return Tally(report.skipped).finding(ONE_LANGUAGE, message, advice, report.units)


def _compare_findings(corpus: Corpus, compared: SideComparison, tallies: Tallies) -> list[CorpusFinding]:
    """The findings of the comparison and the counts. A serious count explains unrelated sides, so only it is kept."""
    tallied = list(tallies.findings())
    compared = replace(compared, related=compared.related or any(finding.serious for finding in tallied))
    return [*comparison_findings(corpus, compared, tallies.pairs, tallies.pairs), *tallied]


class _Sample:
    """A sample of a corpus of unknown length: line numbers and pairs, spread evenly, up to twice `wanted`.

    A hash of the line number decides whether a pair is taken, so that a pattern in the lines, such as every second one,
    does not bias the sample.
    """

    def __init__(self, wanted: int, total: int = 0) -> None:
        self.pairs: list[tuple[int, SentencePair]] = []
        self._wanted, self._seen = wanted, 0
        self._below = _SCATTER_RANGE * wanted // max(total, wanted)

    def add(self, chunk: Sequence[SentencePair]) -> None:
        """Sample from the next pairs."""
        places = np.flatnonzero(_scatter(np.arange(self._seen, self._seen + len(chunk))) < self._below)
        self.pairs += [(self._seen + place + 1, chunk[place]) for place in places.tolist()]
        self._seen += len(chunk)
        while len(self.pairs) > 2 * self._wanted:
            self._below //= 2
            kept = _scatter(np.array([number - 1 for number, _ in self.pairs])) < self._below
            self.pairs = list(compress(self.pairs, kept.tolist()))


def _scatter(places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Pseudo-random numbers below `_SCATTER_RANGE` (multiplicative hashing, Knuth)."""
    return places * 2_654_435_761 % _SCATTER_RANGE


class _Pass:
    """One pass over the pairs: counts, duplicates, leaks and a sample. `total` is their number, or 0 if unknown."""

    def __init__(
        self,
        pairs: Iterable[SentencePair],
        total: int,
        held_out: Mapping[str, Corpus],
        earlier: Mapping[str, FingerprintSet],
    ) -> None:
        self.tallies, self.sample = Tallies(), _Sample(_SAMPLE_PAIRS, total)
        self._repeated, self._ambiguous = Tally(), Tally()
        # The targets too, because the sides of a set may be swapped: then its targets are in the training sources.
        sets = {name: [(pair.src, pair.tgt) for pair in other.pairs()] for name, other in held_out.items()}
        self._texts_of = {name: [pair[side] for side in (0, 1) for pair in pairs] for name, pairs in sets.items()}
        self._overlaps = {name: Overlap(texts) for name, texts in self._texts_of.items()}
        self._shared = {name: (others, Tally()) for name, others in earlier.items()}
        self.seen, seen_sources = FingerprintSet(), FingerprintSet()
        for chunk in chunks(pairs, _CHUNK_PAIRS):
            before = self.tallies.pairs
            self.tallies.add(chunk)
            sources = [pair.src for pair in chunk]
            values = fingerprints(f"{len(pair.src)} {pair.src}{pair.tgt}" for pair in chunk)
            new_pair = self.seen.add(values)
            new_source = seen_sources.add(fingerprints(sources))
            filled = np.array([bool(pair.src.strip() and pair.tgt.strip()) for pair in chunk])
            self._repeated.add(*(before + 1 + np.flatnonzero(~new_pair & filled)).tolist())
            self._ambiguous.add(*(before + 1 + np.flatnonzero(new_pair & ~new_source & filled)).tolist())
            for others, shared in self._shared.values():
                shared.add(*(before + 1 + np.flatnonzero(others.contains(values) & filled)).tolist())
            for overlap in self._overlaps.values():
                overlap.add(sources)
            self.sample.add(chunk)
            count_items(len(chunk))

    def repeats(self) -> Iterator[CorpusFinding]:
        message, advice, pairs = "pairs repeat an earlier one", "Training skips them.", self.tallies.pairs
        yield from self._repeated.finding(REPEATED, message, advice, pairs)
        for name, (_, shared) in self._shared.items():
            advice = "Training keeps such a pair in the corpus with the larger weight, or else in the first one."
            yield from shared.finding(IN_TWO_CORPORA, f"pairs are also in {name}", advice, pairs)
        message = "pairs repeat an earlier source with another target"
        advice = "Alternative translations are fine. Check that names and numbers do not differ."
        yield from self._ambiguous.finding(AMBIGUOUS, message, advice, pairs)

    def leaks(self) -> Iterator[CorpusFinding]:
        for name, overlap in self._overlaps.items():
            texts, size = self._texts_of[name], len(self._texts_of[name]) // 2
            exact, near = overlap.exact(), overlap.near()
            is_swapped = np.count_nonzero(exact[size:]) > np.count_nonzero(exact[:size])
            part = slice(size, None) if is_swapped else slice(size)
            texts, exact, near = texts[part], exact[part], near[part]
            side, where = ("targets", "training sources") if is_swapped else ("sources", "the training text")
            message = f"{side} of the {name} set are in {where}"
            advice = (
                f"Training skips them if you name the {name} set there too (`--data.{name}`, or `--data.{name}-src` "
                f"and `--data.{name}-tgt`). Otherwise remove them."
            )
            if is_swapped:
                advice = f"The sides of the {name} set seem to be swapped: swap its files, then check again."
            tally = Tally.of((np.flatnonzero(exact) + 1).tolist())
            leaks = tally.finding(LEAK, message, advice, size, tally.count >= _SERIOUS_LEAK * size)
            near[exact > 0] = 0
            message = f"{side} of the {name} set differ from a training source by one word, case or punctuation"
            advice = "Remove these training pairs, or score without the sources: `dragoman evaluate --train`."
            leaks += Tally.of((np.flatnonzero(near) + 1).tolist()).finding(NEAR_LEAK, message, advice, size)
            for leak in leaks:
                places = [(line, (exact + near)[line - 1], texts[line - 1]) for line in leak.lines]
                shown = (f"{name} {line}, training {known}: {shorten(text)}" for line, known, text in places)
                yield replace(leak, preview=tuple(shown))


def _check_files(corpus: Corpus) -> tuple[list[int], list[CorpusFinding]]:
    """The number of lines of each file, and findings for files that are not UTF-8."""
    counts, findings = [], []
    languages = (corpus.src_lang, corpus.tgt_lang)
    if corpus.format == "tmx":  # an XML file declares its encoding
        return [0], []
    for side, path in enumerate(corpus.paths):
        bad = Tally()
        reading = read_lines(path, encoding=corpus.encoding, report_invalid=bad.add)
        count = sum(1 for _ in reading)
        counts.append(count)
        if not corpus.encoding and is_utf16(path):
            bad = Tally(count, [1])
        if bad.count:
            guess = guess_encoding(path, languages[side : side + 1] if len(corpus.paths) > 1 else languages)
            preview = tuple(map(": ".join, guess.readings.items()))
            message, advice = _encoding_message(path, guess)
            (finding,) = bad.finding(ENCODING, message, advice, count, serious=True)
            findings.append(replace(finding, preview=preview))
    return counts, findings


def _encoding_message(path: Path, guess: EncodingGuess) -> tuple[str, str]:
    """Message and advice for a file that is not UTF-8. They name one encoding only if the guess is certain."""
    said, names = f"lines of {path} are not UTF-8", list(guess.readings)
    if guess.is_utf8:
        advice = "Correct or remove these lines: no single encoding fits the whole file."
        return f"{said}, but its other lines are: they are damaged or in another encoding", advice
    if not names:
        return f"{said}, and no other encoding fits", "Find out how the file was made, and save it again as UTF-8."
    if len(names) == 1:
        return f"{said}, but {names[0]}", f"Read it with `--encoding {names[0].lower()}`."
    advice = "Choose the one whose line above reads correctly, and set it with `--encoding`."
    return f"{said}; several encodings are possible: {', '.join(names)}", advice


def _misaligned(corpus: Corpus, counts: Sequence[int], progress: _Progress) -> list[CorpusFinding]:
    """Findings for files of different lengths: the lengths and the slides. Raises DataError if a file is empty."""
    if not min(counts):
        raise DataError(f"{corpus.paths[counts.index(0)]} is empty. Check that it is the right file.")
    progress("searching for missing or extra lines")
    compared = compare_sides(corpus.sides, counts[0], counts[-1])
    (src, tgt), difference = corpus.paths, Tally(abs(counts[0] - counts[1]))
    message = f"{src} has {counts[0]:,} lines, but {tgt} has {counts[1]:,}"
    lengths = difference.finding(LENGTHS, message, "Fix the places listed below.", max(counts), serious=True)
    return [*lengths, *comparison_findings(corpus, compared, *counts)]
