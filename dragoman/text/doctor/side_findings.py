"""Turn what is known about both sides into findings: their languages and scripts, and where the sides slide apart."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from dragoman.languages import language_name, name_with_code
from dragoman.records import SentencePair
from dragoman.text.corpus.corpus import Corpus
from dragoman.text.doctor import languages
from dragoman.text.doctor.findings import CorpusFinding, Tally, shorten
from dragoman.text.doctor.slides import SideComparison, Slide

LANGUAGE, SWAPPED, SCRIPT = "other language", "swapped languages", "other script"

_FEWEST_LETTERS, _MOST_CHARACTERS = 30, 1000
"""The fewest letters of a line whose language is detected on its own, and the most characters that are read."""
_MOST_DIRECTED = 2000
_MOST_MISTAKEN = 0.02
_MIXED_SHARE, _SERIOUS_SHARE, _NEARLY_ALL = 0.05, 0.25, 0.9
_REVERSED_SHARE = 0.2
"""The share of reversed pairs in a sample that is serious: a quarter of all pairs is more than that in any sample."""
_FEWEST_LINES = 20
_Sample = Sequence[tuple[int, SentencePair]]
"""Line numbers and pairs."""


def language_findings(
    sample: _Sample, declared: tuple[str, str], swap_advice: str = "Swap them."
) -> tuple[tuple[str, str], tuple[str, str], list[CorpusFinding]]:
    """The languages and the scripts of both sides ("" if unknown), and findings about lines that do not fit.

    `swap_advice` tells how to swap the sides of this corpus.
    """
    numbers = [number for number, _ in sample]
    sides = [pair.src for _, pair in sample], [pair.tgt for _, pair in sample]
    found = [languages.language_of_side(lines, code) for lines, code in zip(sides, declared, strict=True)]
    # The detector cannot judge a side in a language that it does not know.
    is_known = [not code or languages.can_detect(code) for code in declared]
    main = [side.language if known else "" for side, known in zip(found, is_known, strict=True)]
    findings = _mixtures(sample, declared) or _contradictions(found, declared, len(sample), swap_advice)
    scripts = [[languages.script_of(line) for line in lines] for lines in sides]
    for side, name in enumerate(("source", "target")):
        told = [_language_of(line, main[side]) for line in sides[side]] if main[side] and not findings else []
        for kind, values, least in ((LANGUAGE, told, _MOST_MISTAKEN), (SCRIPT, scripts[side], 0.0)):
            usual = main[side] if kind == LANGUAGE else _majority(values)
            odd = [number for number, value in zip(numbers, values, strict=False) if value not in ("", usual)]
            looked_at = sum(map(bool, values))
            if usual and len(odd) > least * looked_at:
                message = f"of {looked_at:,} sampled {name} sides are not in {usual}, unlike the others"
                advice = "Check the examples, and remove untranslated pairs."
                findings += Tally.of(odd).finding(kind, message, advice, looked_at)
    return (main[0], main[1]), (_majority(scripts[0]), _majority(scripts[1])), findings


def mismatches(sample: _Sample, declared: tuple[str, str], swap_advice: str) -> list[CorpusFinding]:
    """Findings for sides in another language than stated, in some of their lines or else in all.

    `swap_advice` tells how to swap the sides of this corpus.
    """
    src = languages.language_of_side([pair.src for _, pair in sample], declared[0])
    tgt = languages.language_of_side([pair.tgt for _, pair in sample], declared[1])
    return _mixtures(sample, declared) or _contradictions((src, tgt), declared, len(sample), swap_advice)


def _mixtures(sample: _Sample, declared: tuple[str, str]) -> list[CorpusFinding]:
    """Findings for swapped pairs, and for sides with some lines in the other side's or a third language.

    Nothing is a mixture if it affects nearly all lines. Swapped pairs are found without stated languages too.
    """
    wanted = languages.detector_code(declared[0]), languages.detector_code(declared[1])
    is_known = [not code or languages.can_detect(code) for code in wanted]
    if not all(is_known) or (all(wanted) and languages.are_similar(*wanted)):
        return []
    if swapped := _swapped_pairs(sample, wanted if all(wanted) else None):
        return swapped
    if not all(wanted):
        return []
    all_told = [(_language_of(pair.src, wanted[0]), _language_of(pair.tgt, wanted[1])) for _, pair in sample]
    pairs = [(number, told) for (number, _), told in zip(sample, all_told, strict=True) if all(told)]
    if len(pairs) < _FEWEST_LINES:
        return []
    findings = []
    for side, name in enumerate(("source", "target")):
        others = Counter(told[side] for _, told in pairs if told[side] != wanted[side])
        other, count = others.most_common(1)[0] if others else ("", 0)
        if _is_mixture(count, len(pairs)):
            lines = [number for number, told in pairs if told[side] == other]
            untranslated = other == wanted[1 - side]
            message = f"sampled {name} sides are in {name_with_code(other)}, not in {language_name(declared[side])}"
            advice = "Remove the untranslated pairs." if untranslated else "Remove them, or train a model per language."
            serious = count / len(pairs) >= _SERIOUS_SHARE
            findings += Tally.of(lines).finding(LANGUAGE, message, advice, len(pairs), serious)
    return findings


def _swapped_pairs(sample: _Sample, declared: tuple[str, str] | None) -> list[CorpusFinding]:
    sample = sample[:: -(-len(sample) // _MOST_DIRECTED) or 1]
    found = languages.find_directions([pair for _, pair in sample], declared) if sample else None
    if found is None:
        return []
    src, tgt, signs = found
    lines = [number for (number, _), sign in zip(sample, signs.tolist(), strict=True) if sign < 0]
    total = int(np.count_nonzero(signs))
    if not _is_mixture(len(lines), total):
        return []
    direction = f"they run from {language_name(tgt)} to {language_name(src)}, unlike the others"
    message = f"sampled pairs have source and target swapped: {direction}"
    advice = "Swap these pairs back, or remove them."
    return Tally.of(lines).finding(SWAPPED, message, advice, total, len(lines) >= _REVERSED_SHARE * total)


def _is_mixture(count: int, total: int) -> bool:
    return _MIXED_SHARE <= count / total < _NEARLY_ALL


def _contradictions(
    found: Sequence[languages.SideLanguage], declared: tuple[str, str], count: int, swap_advice: str
) -> list[CorpusFinding]:
    """Findings for sides that are clearly swapped, or clearly in another language than declared."""
    wrong = [languages.contradiction(found[side], declared[side], declared[1 - side]) for side in (0, 1)]
    if all(wrong) and wrong == [languages.detector_code(code) for code in declared[::-1]]:
        names = [language_name(code) for code in wrong]
        message = f"the source looks like {names[0]} and the target like {names[1]}: they are swapped"
        return Tally(count).finding(SWAPPED, message, swap_advice, count, serious=not languages.are_similar(*wrong))
    findings = []
    for language, stated, name in zip(wrong, declared, ("source", "target"), strict=True):
        if language:
            message = languages.describe_contradiction(f"the {name}", language, stated)
            near = languages.are_similar(language, stated)
            advice = "The two are similar: check the text yourself." if near else "Name the right file or language."
            findings += Tally(count).finding(LANGUAGE, message, advice, count, serious=not near)
    return findings


def _majority(values: Sequence[str]) -> str:
    """The value of most non-empty values, or "" if there are fewer than 20 or no majority."""
    counts = Counter(filter(None, values))
    value, count = counts.most_common(1)[0] if counts else ("", 0)
    return value if counts.total() >= _FEWEST_LINES and 2 * count > counts.total() else ""


def _language_of(line: str, usual: str) -> str:
    """The language of a line, or "" for a short line. It is the `usual` one unless another is clearly more likely."""
    if sum(map(str.isalpha, line[:_MOST_CHARACTERS])) < _FEWEST_LETTERS:
        return ""
    scores = languages.language_scores(line)
    best = max(scores, key=scores.__getitem__)
    is_other = usual not in scores or (
        scores[best] - scores[usual] > languages.SURE_NATS and not languages.are_similar(best, usual)
    )
    return best if is_other else usual


SLIDE, UNRELATED = "misalignment", "unrelated sides"
_PREVIEW_PAIRS = 2


def comparison_findings(corpus: Corpus, found: SideComparison, num_src: int, num_tgt: int) -> Iterator[CorpusFinding]:
    """A finding if the sides are unrelated, and one for each slide, which counts the lines up to the next slide."""
    names = corpus.side_names()
    if not found.related:
        message = "the sides are unrelated: a line matches its own partner no better than any other line"
        advice = (
            f"Check that {names[0]} and {names[1]} have the same text in the same order. Sorting or shuffling one of "
            "them alone breaks the pairs."
        )
        count = min(num_src, num_tgt)
        pairs = enumerate(islice(zip(*corpus.sides(), strict=False), _PREVIEW_PAIRS), 1)
        preview = tuple(f"{number} | {number}  {' | '.join(map(shorten, texts))}" for number, texts in pairs)
        yield CorpusFinding(UNRELATED, message, advice, count, count / num_src, (1,), serious=True, preview=preview)
    ends = [*(slide.line for slide in found.slides[1:]), num_src + 1]
    for slide, end in zip(found.slides, ends, strict=False):
        jump = slide.after - slide.before
        longer, shorter = names[::-1] if jump > 0 else names
        lines = f"{abs(jump):,} line{'s' if abs(jump) > 1 else ''}"
        if slide.line > min(num_src, num_tgt - slide.before):
            message = f"{shorter} ends {lines} before {longer}, after source line {slide.line - 1:,}"
            advice = "Add the missing end, or cut the other side there."
            count, preview = abs(jump), tuple[str, ...]()
        else:
            partner = f"n{slide.after:+d}" if slide.after else "n again"
            message = (
                f"near line {slide.line:,} the sides shift: from there on, source line n belongs to target line "
                f"{partner}"
            )
            advice = f"Compare the sides there: {longer} has {lines} too many, or {shorter} has {lines} too few."
            count, preview = end - slide.line, _preview(corpus, slide)
        yield CorpusFinding(SLIDE, message, advice, count, count / num_src, (slide.line,), True, preview)


def _preview(corpus: Corpus, slide: Slide) -> tuple[str, ...]:
    """The pairs around a slide, paired as they are before it: source lines and their former target lines."""
    start = max(slide.line - 1 - _PREVIEW_PAIRS, -slide.before, 0)
    stop = slide.line + _PREVIEW_PAIRS
    # Read each side separately: in one pass, the text between the two positions would stay in memory.
    src, tgt = (islice(corpus.sides()[side], start + by, stop + by) for side, by in enumerate((0, slide.before)))
    rows = []
    for number, texts in enumerate(zip(src, tgt, strict=False), start=start + 1):
        mark = ">" if number == slide.line else " "
        rows.append(f"{mark} {number} | {number + slide.before}  {' | '.join(map(shorten, texts))}")
    return tuple(rows)
