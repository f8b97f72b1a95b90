"""Turn a comparison of the sides (`dragoman.text.doctor.slides`) into findings, with the pairs around each slide."""

from collections.abc import Iterator, Sequence
from itertools import islice

from dragoman.text.doctor.findings import CorpusFinding, shorten
from dragoman.text.doctor.slides import SideComparison, Sides, Slide

SLIDE, UNRELATED = "misalignment", "unrelated sides"
_PREVIEW_PAIRS = 2


def comparison_findings(
    sides: Sides, names: tuple[str, str], found: SideComparison, num_src: int, num_tgt: int
) -> Iterator[CorpusFinding]:
    """A finding if the sides are unrelated, and one finding for each slide."""
    if not found.related:
        message = "the sides are unrelated: a line matches its own partner no better than any other line"
        advice = (
            f"Check that {names[0]} and {names[1]} have the same text in the same order. Sorting or shuffling one of "
            "them alone breaks the pairs."
        )
        count = min(num_src, num_tgt)
        pairs = enumerate(islice(zip(*sides(), strict=False), _PREVIEW_PAIRS), 1)
        preview = tuple(f"{number} | {number}  {' | '.join(map(shorten, texts))}" for number, texts in pairs)
        yield CorpusFinding(UNRELATED, message, advice, count, count / num_src, (1,), serious=True, preview=preview)
    yield from _slide_findings(sides, names, found.slides, num_src, num_tgt)


def _slide_findings(
    sides: Sides, names: tuple[str, str], slides: Sequence[Slide], num_src: int, num_tgt: int
) -> Iterator[CorpusFinding]:
    """One finding for each slide. It counts the lines up to the next slide."""
    ends = [*(slide.line for slide in slides[1:]), num_src + 1]
    for slide, end in zip(slides, ends, strict=False):
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
            count, preview = end - slide.line, _preview(sides, slide)
        yield CorpusFinding(SLIDE, message, advice, count, count / num_src, (slide.line,), True, preview)


def _preview(sides: Sides, slide: Slide) -> tuple[str, ...]:
    """The pairs around a slide, paired as they are before it: source lines and their former target lines."""
    start = max(slide.line - 1 - _PREVIEW_PAIRS, -slide.before, 0)
    stop = slide.line + _PREVIEW_PAIRS
    # Read each side separately: in one pass, the text between the two positions would stay in memory.
    src, tgt = (islice(sides()[side], start + by, stop + by) for side, by in enumerate((0, slide.before)))
    rows = []
    for number, texts in enumerate(zip(src, tgt, strict=False), start=start + 1):
        mark = ">" if number == slide.line else " "
        rows.append(f"{mark} {number} | {number + slide.before}  {' | '.join(map(shorten, texts))}")
    return tuple(rows)
