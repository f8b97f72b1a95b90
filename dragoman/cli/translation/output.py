"""The output of ``dragoman translate``: lines, streamed words and documents, and notes about single lines."""

import re
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict
from itertools import chain, islice
from typing import Any, BinaryIO, Self, cast

from dragoman.cli.translation.sources import InputLines
from dragoman.display import json_text, say
from dragoman.errors import DataError
from dragoman.evaluation.flags import count_sentences, is_unsure, text_flags
from dragoman.records import Details, Preserve, Translation
from dragoman.workflows.models import LoadedTranslator

_LINE_BREAK = re.compile(r"\r\n|\n|\r")
NAMED = 10
"""The number of printed notes of each kind. Further notes are only counted."""


class Notes:
    """A context manager that prints the first `NAMED` notes of each kind at once, and the number of all at its end.

    `by_sentence`: each sentence is translated alone. `says_unsure`: lines that the model is unsure of are noted.
    """

    def __init__(self, by_sentence: bool = False, says_unsure: bool = False) -> None:
        self._counts: Counter[str] = Counter()
        self._by_sentence, self._says_unsure = by_sentence, says_unsure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for kind, count in self._counts.items():
            if count > NAMED:
                say(f"in total, {count:,} {kind}.")

    def invalid(self, line: int) -> None:
        """Note that a line, counted from 1, is not UTF-8."""
        self._say("lines are not UTF-8", f"line {line} is not UTF-8; invalid bytes became U+FFFD.")

    def line(self, line: int, translation: Translation) -> None:
        """Note what the user should know about a line, counted from 1."""
        if translation.segments > (count_sentences(translation.src) if self._by_sentence else 1):
            split = f"line {line} is long and was split into {translation.segments} segments."
            self._say("lines were split into segments", split)
        if self._says_unsure and is_unsure(translation):
            advice = "Check it; `--flags` marks such lines."
            self._say("translations are unsure", f"the model is unsure of the translation of line {line}. {advice}")
        self.faults(f"line {line}", translation)

    def faults(self, name: str, translation: Translation) -> None:
        """Note what the translation of the text `name` cut off, lost or repeated."""
        if translation.cut:
            cause = ". Raise `--inference.max-extra-tokens`."
            if "loop" in text_flags(translation.src, translation.text):
                cause = ", because it repeats itself. Leave the line out, or train the model on such text."
            kind = "translations were cut at the limit (`cut` in `--format jsonl`)"
            self._say(kind, f"the translation of {name} was cut at the limit{cause}")
        if translation.lost:
            kind = "translations lost or repeated something (`lost` in `--format jsonl`)"
            lost = ", ".join(map(repr, translation.lost))
            self._say(kind, f"the translation of {name} lost or repeated {lost}.")

    def _say(self, kind: str, text: str) -> None:
        self._counts[kind] += 1
        if self._counts[kind] <= NAMED:
            say(text)
        if self._counts[kind] == NAMED:
            say("further notes of this kind are only counted.")


def translate_windows(
    source: InputLines, model: LoadedTranslator, notes: Notes, preserve: Preserve, details: Details
) -> Iterator[list[Translation]]:
    """Translate lines as they arrive, window by window. Notes about single lines go to `notes`.

    Raises DataError if the number of prefixes differs from the number of lines.
    """
    number, prefixes = 0, source.prefixes
    for texts in source.windows(notes.invalid):
        beginnings = list(islice(prefixes, len(texts))) if prefixes is not None else None
        if beginnings is not None and len(beginnings) < len(texts):
            count = number + len(beginnings)
            lines = f"only {count} line{'s' * (count != 1)}, fewer than {source.name}"
            raise DataError(f"{source.prefix_file} has {lines}. Give one prefix per line.")
        window = model.translator.translate_detailed(texts, preserve, details, beginnings, number)
        for line, translation in enumerate(window, start=number + 1):
            notes.line(line, translation)
        yield window
        number += len(texts)
    if prefixes is not None and next(prefixes, None) is not None:
        raise DataError(
            f"{source.prefix_file} has more lines than {source.name}, which has {number}. Give one prefix per line."
        )


def stream_lines(
    source: InputLines, output: BinaryIO, model: LoadedTranslator, notes: Notes, preserve: Preserve
) -> None:
    """Translate lines as they arrive, and write every word at once. Notes about single lines go to `notes`."""
    protect, terms, by_sentence = preserve.protect, preserve.terms, preserve.by_sentence
    for number, text in enumerate(chain.from_iterable(source.windows(notes.invalid)), start=1):
        parts = model.translator.stream(text, protect=protect, terms=terms, by_sentence=by_sentence)
        notes.line(number, _write_parts(parts, output))


def _write_parts(parts: Generator[str, None, Translation], output: BinaryIO) -> Translation:
    """Write the parts of a translation on one line, with spaces for line breaks, and return the translation."""
    while True:
        try:
            part = next(parts)
        except StopIteration as end:
            output.write(b"\n")
            output.flush()
            return cast(Translation, end.value)
        output.write(_LINE_BREAK.sub(" ", part).encode())
        output.flush()


def line_format(name: str, with_flags: bool) -> Callable[[Translation], str]:
    """The function that writes a translation as a line, for a value of ``--format``."""
    return json_line if name == "jsonl" else flagged_line if with_flags else text_line


def text_line(translation: Translation) -> str:
    """The translation on one line, with spaces for line breaks. An alignment follows ``|||``, in Pharaoh format."""
    text = _LINE_BREAK.sub(" ", translation.text)
    if translation.alignment is None:
        return text
    return f"{text} ||| {' '.join(f'{src}-{tgt}' for src, tgt in translation.alignment)}"


def flagged_line(translation: Translation) -> str:
    """`text_line`, a tab, and the flags, separated by commas. No tab follows it, but the text may have tabs."""
    return f"{text_line(translation)}\t{','.join(translation.flags)}"


def json_line(translation: Translation) -> str:
    """The translation with scores, tokens, flags and candidates, as one JSON object on one line.

    ``score``, ``log_prob``, ``tokens`` and ``token_log_probs`` belong to the first of ``candidates``. An empty line has
    none of them. ``alignment``, if requested, has pairs of source and target word. ``lost`` has the protected spans and
    terms that are missing or repeated.
    """
    candidates = [_candidate(asdict(candidate)) for candidate in translation.candidates]
    best = candidates[0] if candidates else {"translation": ""}
    rest: dict[str, Any] = {"segments": translation.segments, "cut": translation.cut, "flags": translation.flags}
    rest |= {"lost": translation.lost, "candidates": candidates}
    if translation.alignment is not None:
        rest["alignment"] = translation.alignment
    return json_text({"src": translation.src, **best, **rest})


def _candidate(fields: dict[str, Any]) -> dict[str, Any]:
    text = _LINE_BREAK.sub(" ", fields.pop("text"))
    return {"translation": text, "score": fields.pop("score"), "log_prob": fields.pop("log_prob"), **fields}
