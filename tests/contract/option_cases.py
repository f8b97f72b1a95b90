"""Translations of real sentences with every option of a Translator, as JSON. Does not import torch.

`test_engines_over_options.py` runs this file in a process without torch, and its functions in a process with torch.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dragoman.inference.translator import Translator
from dragoman.records import PRESERVE_NOTHING, Details, Preserve
from dragoman.text.documents.markers import MarkedText, Marker
from dragoman.text.documents.terms import Terms

Answers = list[dict[str, Any]]
Case = Callable[..., Answers]
_TERMS = Terms((("you", "Sie"), ("the", "diese"), ("Tom", "Thomas"), ("house", "Haus"), ("have to", "muss")))
_PREFIXES = ("", "Ich", "Das ist", "Wir haben nicht")
_PROTECTED = ("{name}", "https://example.org/a?b=1", "<b>", "me@example.org", "%s")


def _plain(translator: Translator, texts: Sequence[str], **settings: Any) -> Answers:
    return list(map(asdict, translator.translate_detailed(texts, PRESERVE_NOTHING, **settings)))


def _preserving(change: Callable[[int, str], str], preserve: Preserve) -> Case:
    """Translate changed texts. `change` gets the number of a text, which a part of the texts must keep."""

    def case(translator: Translator, texts: Sequence[str], numbers: Sequence[int], **settings: Any) -> Answers:
        changed = [change(number, text) for number, text in zip(numbers, texts, strict=True)]
        return list(map(asdict, translator.translate_detailed(changed, preserve, Details(), **settings)))

    return case


def _with_settings(**options: Any) -> Case:
    def case(translator: Translator, texts: Sequence[str], numbers: Sequence[int], **settings: Any) -> Answers:
        return _plain(translator, texts, **options, **settings)

    return case


def _prefixed(translator: Translator, texts: Sequence[str], numbers: Sequence[int], **settings: Any) -> Answers:
    prefixes = [_PREFIXES[number % len(_PREFIXES)] for number in numbers]
    return _plain(translator, texts, prefixes=prefixes, n_best=2, **settings)


def _marked(translator: Translator, texts: Sequence[str], numbers: Sequence[int], **settings: Any) -> Answers:
    """A tag around the second word and a line break after it, or a tag around the first word."""
    marked = []
    for text in texts:
        start = text.find(" ") + 1
        stop = end if (end := text.find(" ", start)) > 0 else len(text)
        tags = Marker(start, stop, "<b>", "</b>"), Marker(stop, stop, "<br>")
        marked.append(MarkedText(text, tags))
    return list(map(asdict, translator.translate_marked(marked, Preserve(by_sentence=True), **settings)))


def _insert(number: int, text: str) -> str:
    words = text.split(" ")
    words.insert(number % (len(words) + 1), _PROTECTED[number % len(_PROTECTED)])
    return " ".join(words)


def _scored(translator: Translator, texts: Sequence[str], numbers: Sequence[int], **settings: Any) -> Answers:
    """Scores of the texts as translations of themselves."""
    return list(map(asdict, translator.score(texts, texts, **settings)))


CASES: Mapping[str, Case] = {
    "beam search": _with_settings(beam_size=4),
    "greedy": _with_settings(beam_size=1),
    "n-best": _with_settings(beam_size=5, n_best=5),
    "power penalty": _with_settings(beam_size=3, length_penalty="power", length_penalty_alpha=1.0, min_tokens=4),
    "short outputs": _with_settings(beam_size=4, max_extra_tokens=1, n_best=2),
    "prefixes": _prefixed,
    "alignment and flags": _with_settings(beam_size=4, details=Details(alignment=True)),
    "terms": _preserving(lambda _, text: text, Preserve(False, _TERMS)),
    "protected spans": _preserving(_insert, Preserve()),
    "markup": _marked,
    "capitals": _preserving(lambda _, text: text.upper(), PRESERVE_NOTHING),
    "sentences": _preserving(lambda number, text: f"{text} {text}  No. {number}!", Preserve(by_sentence=True)),
    "scores": _scored,
}


def all_answers(translator: Translator, texts: Sequence[str], **settings: Any) -> dict[str, Answers]:
    """The answers of every case."""
    return {name: case(translator, texts, range(len(texts)), **settings) for name, case in CASES.items()}


if __name__ == "__main__":
    loaded = Translator.load(Path(sys.argv[1]), "cpu", sys.argv[2])
    print(json.dumps(all_answers(loaded, json.load(sys.stdin))))
    assert not sys.modules.get("torch")
