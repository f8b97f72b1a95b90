"""Sentences for the report: the best, the median and the worst of a test, their words shaded by attention."""

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.evaluation.metrics import sentence_chrf
from dragoman.visualization.report.word_weights import Alignment, WordWeights

NUM_SENTENCES = 20
_GROUPS = (("worst", 7), ("median", 7), ("best", 6))
_LONGEST_TEXT = 600
# So many words a side are shaded, and so many besides when they are pointed at: rules grow with the words.
_MOST_WORDS, _MOST_POINTED_AT = 120, 60
_HUES = 6
# Weights from these on are shaded in the first, second ... strength.
_STRENGTHS = (0.08, 0.18, 0.35, 0.6)


@dataclass(frozen=True, slots=True)
class ReportWord:
    """A word, whether a space stands before it, its style classes, and what it is most tied to."""

    text: str
    spaced: bool
    classes: str
    hint: str


@dataclass(frozen=True, slots=True)
class ReportSentence:
    """One sentence as the page has it. Without an alignment the word lists are empty and the texts stand alone."""

    identity: str
    group: str
    number: int
    chrf: float
    src: str
    reference: str
    output: str
    src_words: tuple[ReportWord, ...]
    tgt_words: tuple[ReportWord, ...]
    rules: str


def choose_rows(chrf: Sequence[float], lengths: Sequence[int]) -> list[tuple[str, int]]:
    """(group, row) of 20 sentences: the worst, the middle and the best by chrF, the longer first among equals.

    All of them, worst first, where there are not more.
    """
    order = sorted(range(len(chrf)), key=lambda row: (chrf[row], -lengths[row]))
    if len(order) <= NUM_SENTENCES:
        return [("all", row) for row in order]
    (worst, num_worst), (median, num_median), (best, num_best) = _GROUPS
    top = set(sorted(order[num_worst:], key=lambda row: (-chrf[row], -lengths[row]))[:num_best])
    others = [row for row in order if row not in top]
    start = (len(order) - num_median) // 2
    return [
        *((worst, row) for row in others[:num_worst]),
        *((median, row) for row in others[start : start + num_median]),
        *((best, row) for row in order if row in top),
    ]


def choose_sentences(
    sources: Sequence[str], references: Sequence[str], outputs: Sequence[str], alignment: Alignment | None
) -> list[ReportSentence]:
    """The chosen sentences of a test, ready for the page; numbers count the test's lines from 1."""
    chrf = sentence_chrf(outputs, references)
    shown = []
    for place, (group, row) in enumerate(choose_rows(chrf, [len(text) for text in sources])):
        source, output = sources[row], outputs[row]
        words = alignment(source, output) if alignment and source.strip() and output.strip() else None
        if words is not None and max(len(words.src_words), len(words.tgt_words)) > _MOST_WORDS:
            words = None
        identity = f"s{place}"
        src_words, tgt_words = _shade_words(words) if words else ((), ())
        rules = hover_rules(identity, words) if words else ""
        texts = clip_text(source), clip_text(references[row]), clip_text(output)
        shown.append(ReportSentence(identity, group, row + 1, chrf[row], *texts, src_words, tgt_words, rules))
    return shown


def clip_text(text: str) -> str:
    """The text, or its beginning and how long it is."""
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]} … ({len(text):,} characters)"


def shade_level(weight: float) -> int:
    """0 (not shaded) to 4."""
    return sum(weight >= least for least in _STRENGTHS)


def hover_rules(identity: str, words: WordWeights) -> str:
    """Style rules that shade, while a word is pointed at or focused, the words it is aligned with: no script needed.

    None for sentences of more than 60 words.
    """
    if max(len(words.src_words), len(words.tgt_words)) > _MOST_POINTED_AT:
        return ""
    rules = [f"#{identity}:has(.w:is(:hover,:focus)) .w{{background:none}}"]
    by_target = words.weights
    by_source = tuple(zip(*by_target, strict=True))
    for own, other, rows in (("t", "o", by_target), ("o", "t", by_source)):
        for place, row in enumerate(rows):
            pointed = f"#{identity}:has(.{own}{place}:is(:hover,:focus)) "
            rules.append(f"{pointed}.{own}{place}{{outline:2px solid var(--blue)}}")
            for level in range(1, len(_STRENGTHS) + 1):
                if places := [index for index, weight in enumerate(row) if shade_level(weight) == level]:
                    targets = ",".join(f".{other}{index}" for index in places)
                    rules.append(f"{pointed}:is({targets}){{background:var(--b{level})}}")
    return "\n".join(rules)


def _shade_words(words: WordWeights) -> tuple[tuple[ReportWord, ...], tuple[ReportWord, ...]]:
    """Each source word has a colour; each target word that of the source word it looked at most."""
    by_source = tuple(zip(*words.weights, strict=True))
    sources = []
    for place, (text, column) in enumerate(zip(words.src_words, by_source, strict=True)):
        level = shade_level(max(column))
        sources.append(_report_word(text, f"w o{place} h{place % _HUES} l{level}", _hint(words.tgt_words, column)))
    targets = []
    for place, (text, row) in enumerate(zip(words.tgt_words, words.weights, strict=True)):
        best = max(range(len(row)), key=row.__getitem__)
        classes = f"w t{place} h{best % _HUES} l{shade_level(row[best])}"
        targets.append(_report_word(text, classes, _hint(words.src_words, row)))
    return tuple(sources), tuple(targets)


def _report_word(text: str, classes: str, hint: str) -> ReportWord:
    return ReportWord(text.strip() or text, text.startswith(" "), classes, hint)


def _hint(words: Sequence[str], weights: Sequence[float]) -> str:
    best = sorted(zip(weights, words, strict=True), key=lambda pair: -pair[0])[:3]
    return ", ".join(f"{word.strip()} {weight:.0%}" for weight, word in best if shade_level(weight))
