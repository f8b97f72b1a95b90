"""Checks of phenomena that translators often get wrong. A score rates the whole test; these checks show what is wrong.

Some checks use the test's own sentences: numbers, names, negation, questions, long and short sentences. Others are
probes made from them: the same sentence in capitals or without its final full stop must give the same translation, and
an empty text an empty one.

The two kinds are the minimum functionality tests and the invariance tests of CheckList (Ribeiro et al. 2020).
The report of a run and `dragoman evaluate --checklist` call `check_phenomena`. All checks are rules on
strings, so a failure is a hint to read the sentence, not a proof.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dragoman.evaluation.metrics import sentence_chrf
from dragoman.evaluation.quantities import count_numbers
from dragoman.languages import main_language

_Texts = Sequence[str]
Translate = Callable[[_Texts], _Texts]

# Sentences per kind of probe. All probes are translated, so this limits the time.
MOST_PROBES = 50
# Failures shown for each check.
_SHOWN = 2
# The short sentences have at most 3 words, the long ones are the longest tenth of the test, by characters.
_SHORT_WORDS = 3
_LONGEST_SHARE = 0.1
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_DOTS = (".", "。", "।")
_QUESTIONS = ("?", "？", "؟", "\u037e")
"""For Greek only U+037E: its usual question mark is a semicolon in other languages."""
_NEGATIONS: dict[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "cs": "ne není nejsem nemá nikdy nic nikdo žádný žádná žádné",
        "de": "nicht nichts nie niemals niemand niemanden niemandem nirgends kein keine keinen keinem keiner keines",
        "en": "not no never nothing nobody nowhere none neither nor cannot without",
        "es": "no nunca nada nadie ningún ninguna ninguno jamás tampoco",
        "fr": "pas ne n jamais rien personne aucun aucune",
        "it": "non mai niente nulla nessuno nessuna",
        "nl": "niet nooit niets niemand geen nergens",
        "pl": "nie nigdy nic nikt żaden żadna żadne",
        "pt": "não nunca nada ninguém nenhum nenhuma jamais",
        "ru": "не нет никогда ничего никто нельзя",
        "sv": "inte aldrig inget ingen inga ingenting",
    }.items()
}


@dataclass(frozen=True, slots=True)
class Failure:
    """A sentence that fails a check. `expected` is its reference, or the expected output of a probe."""

    src: str
    expected: str
    output: str


@dataclass(frozen=True, slots=True)
class PhenomenonCount:
    """The result of one check.

    Attributes
    ----------
    name, check
        The phenomenon, and the condition for passing as a clause.
    asked, passed
        The number of sentences checked, and of those that passed.
    chrf
        The mean sentence chrF2 of the sentences checked, 0 to 100; None for probes and if there are none.
    failures
        Up to two failures: those with the lowest chrF2, or the first ones of a probe.
    note
        The reason if the check is not available, else "".
    """

    name: str
    check: str
    asked: int
    passed: int
    chrf: float | None
    failures: tuple[Failure, ...]
    note: str = ""


def check_phenomena(
    sources: _Texts, references: _Texts, outputs: _Texts, translate: Translate, src_lang: str = "", tgt_lang: str = ""
) -> list[PhenomenonCount]:
    """Run all checks on one test, in a fixed order.

    Parameters
    ----------
    sources, references, outputs
        The test and its translations, of equal length.
    translate
        Translates the sentences of the probes.
    src_lang, tgt_lang
        Language codes. Negation is only checked for languages with a list of negations.
    """
    test = _Test(tuple(sources), tuple(references), tuple(outputs), tuple(sentence_chrf(outputs, references)))
    names_stay = "the output keeps the names that the reference keeps"
    return [
        test.finding("numbers", "the output has the numbers of the reference", test.with_numbers(), _same_numbers),
        test.finding("names", names_stay, test.with_names(), _names),
        _negation(test, src_lang, tgt_lang),
        test.finding("questions", "the output ends with a question mark", test.questions(), _is_question),
        test.finding("long", "the output is half to twice as long as the reference", test.longest(), _length_fits),
        test.finding("short", "the output is not empty and at most three times as long", test.shortest(), _stays_short),
        *_probes(test, translate),
    ]


@dataclass(frozen=True, slots=True)
class _Test:
    """The lines of a test with the chrF2 of each, and the rows that each check is about."""

    sources: tuple[str, ...]
    references: tuple[str, ...]
    outputs: tuple[str, ...]
    chrf: tuple[float, ...]

    def finding(
        self, name: str, check: str, rows: Sequence[int], passes: Callable[["_Test", int], bool], note: str = ""
    ) -> PhenomenonCount:
        """The result of a check of these rows."""
        failed = [row for row in rows if not passes(self, row)]
        worst = sorted(failed, key=lambda row: self.chrf[row])[:_SHOWN]
        shown = tuple(Failure(self.sources[row], self.references[row], self.outputs[row]) for row in worst)
        mean = sum(self.chrf[row] for row in rows) / len(rows) if rows else None
        return PhenomenonCount(name, check, len(rows), len(rows) - len(failed), mean, shown, note)

    def with_numbers(self) -> list[int]:
        return [row for row, text in enumerate(self.references) if _NUMBER.search(text)]

    def with_names(self) -> list[int]:
        return [row for row in range(len(self.sources)) if self.names(row)]

    def names(self, row: int) -> set[str]:
        """Capitalized words that are the same on both sides, except the first word of the source."""
        inner = _WORD.findall(self.sources[row])[1:]
        written = {word for word in inner if len(word) > 1 and word[0].isupper() and not word.isupper()}
        return written & set(_WORD.findall(self.references[row]))

    def questions(self) -> list[int]:
        """Rows that end with a question mark on both sides."""
        both = zip(self.sources, self.references, strict=True)
        return [row for row, pair in enumerate(both) if all(text.rstrip().endswith(_QUESTIONS) for text in pair)]

    def longest(self) -> list[int]:
        """The longest tenth of the sources that are not empty, at least one."""
        filled = [row for row, text in enumerate(self.sources) if text.strip()]
        count = max(1, round(_LONGEST_SHARE * len(filled)))
        return sorted(sorted(filled, key=lambda row: -len(self.sources[row]))[:count])

    def shortest(self) -> list[int]:
        """Rows whose source has one to three words. Long sources without spaces do not count."""
        rows = [row for row, text in enumerate(self.sources) if 0 < len(text.split()) <= _SHORT_WORDS]
        return [row for row in rows if len(self.sources[row]) < 12 * _SHORT_WORDS]

    def filled(self) -> list[int]:
        """At most `MOST_PROBES` rows, evenly spread, whose source and output are not empty."""
        rows = [row for row in range(len(self.sources)) if self.sources[row].strip() and self.outputs[row].strip()]
        return rows[:: max(1, -(-len(rows) // MOST_PROBES))]


def _same_numbers(test: _Test, row: int) -> bool:
    return count_numbers(test.outputs[row]) == count_numbers(test.references[row])


def _names(test: _Test, row: int) -> bool:
    return test.names(row) <= set(_WORD.findall(test.outputs[row]))


def _is_question(test: _Test, row: int) -> bool:
    return test.outputs[row].rstrip().endswith(_QUESTIONS)


def _length_fits(test: _Test, row: int) -> bool:
    expected = len(test.references[row])
    return expected / 2 <= len(test.outputs[row]) <= 2 * expected


def _stays_short(test: _Test, row: int) -> bool:
    return 0 < len(test.outputs[row].strip()) <= 3 * max(len(test.references[row]), 4)


def _negation(test: _Test, src_lang: str, tgt_lang: str) -> PhenomenonCount:
    """Check the rows whose source and reference are both negated. A free translation may negate only one of them."""
    check = "the output is negated, as the reference is"
    src, tgt = (_NEGATIONS.get(main_language(language)) for language in (src_lang, tgt_lang))
    if src is None or tgt is None:
        unknown = src_lang if src is None else tgt_lang
        return test.finding("negation", check, [], _same_numbers, f"no list of negations for {unknown or '?'}")

    def denies(text: str, words: frozenset[str]) -> bool:
        found = _WORD.findall(text.lower().replace("’", "'"))
        return any(word in words or word.endswith("n't") or word.split("'")[0] in words for word in found)

    both = zip(test.sources, test.references, strict=True)
    rows = [row for row, texts in enumerate(both) if denies(texts[0], src) and denies(texts[1], tgt)]
    return test.finding("negation", check, rows, lambda test, row: denies(test.outputs[row], tgt))


def _probes(test: _Test, translate: Translate) -> Iterator[PhenomenonCount]:
    """The three probes. Their sentences are translated in one call, so that they share batches."""
    rows = test.filled()
    dotted = [row for row in rows if test.sources[row].rstrip().endswith(_DOTS)]
    capitals = [test.sources[row].upper() for row in rows]
    bare = [test.sources[row].rstrip()[:-1].rstrip() for row in dotted]
    answers = list(translate([*capitals, *bare, ""]))
    in_capitals, without_dot, of_nothing = answers[: len(rows)], answers[len(rows) : -1], answers[-1]
    expected = [test.outputs[row] for row in rows]
    check = "the source in capitals gives the same words"
    yield _probe("ALL CAPS", check, capitals, expected, in_capitals, str.casefold)
    expected = [test.outputs[row] for row in dotted]
    check = "the source without its full stop gives the same words"
    yield _probe("no final dot", check, bare, expected, without_dot, strip_final_dots)
    yield _probe("empty", "an empty source gives an empty output", [""], [""], [of_nothing], str)


def _probe(
    name: str, check: str, asked: _Texts, expected: _Texts, got: _Texts, reduced: Callable[[str], str]
) -> PhenomenonCount:
    rows = zip(asked, expected, got, strict=True)
    failed = [Failure(*row) for row in rows if reduced(row[1]) != reduced(row[2])]
    return PhenomenonCount(name, check, len(asked), len(asked) - len(failed), None, tuple(failed[:_SHOWN]))


def strip_final_dots(text: str) -> str:
    """The text without its final full stops and the white space around them."""
    return text.rstrip().rstrip("".join(_DOTS)).rstrip()
