"""Records of the corpus doctor: counts of one pass, a finding, and the examination of a corpus.

Counts of one pass over the pairs, in constant memory: sizes, empty or identical sides, suspicious characters.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dragoman.display import Facts, ShownRecord
from dragoman.records import SentencePair

MOST_EXAMPLES = 3
_SHOWN_CHARACTERS = 48


def shorten(text: str, most: int = _SHOWN_CHARACTERS) -> str:
    """The first characters of a text on one line. A tab becomes a space, other control characters U+FFFD."""
    start = text[:most].replace("\t", " ")
    shown = "".join(char if char.isprintable() else "\ufffd" for char in start)
    return shown if len(text) <= most else f"{shown[:-1]}…"


@dataclass(frozen=True, slots=True)
class CorpusFinding:
    """One problem of a corpus.

    `message` is a predicate after `count` ("pairs have an empty side") or a sentence. `share` is the share of the
    pairs (0 to 1). `lines` are example lines, from 1. `serious`: do not train on the corpus as it is. `preview` has
    example texts.
    """

    kind: str
    message: str
    advice: str
    count: int
    share: float
    lines: tuple[int, ...] = ()
    serious: bool = False
    preview: tuple[str, ...] = ()


@dataclass(slots=True)
class Tally:
    """A count, and the line numbers (from 1) of the first three cases."""

    count: int = 0
    lines: list[int] = field(default_factory=list)

    @staticmethod
    def of(lines: Sequence[int]) -> "Tally":
        """The tally of cases in these lines."""
        return Tally(len(lines), list(lines[:MOST_EXAMPLES]))

    def add(self, *lines: int) -> None:
        """Count the cases in these lines."""
        self.count += len(lines)
        self.lines += lines[: MOST_EXAMPLES - len(self.lines)]

    def finding(self, kind: str, message: str, advice: str, total: int, serious: bool = False) -> list[CorpusFinding]:
        """The finding that these cases are, among `total` pairs. Empty if there is no case."""
        share, lines = self.count / max(total, 1), tuple(self.lines)
        return [CorpusFinding(kind, message, advice, self.count, share, lines, serious)] if self.count else []


@dataclass(frozen=True, slots=True, repr=False)
class Examination(ShownRecord):
    """Size, languages and findings of a corpus, the most important finding first.

    `characters`, `languages` and `scripts` are (source, target). An unknown language or script is "".
    """

    name: str
    pairs: int
    characters: tuple[int, int]
    languages: tuple[str, str]
    scripts: tuple[str, str]
    findings: tuple[CorpusFinding, ...]

    @property
    def serious(self) -> tuple[CorpusFinding, ...]:
        """The serious findings."""
        return tuple(finding for finding in self.findings if finding.serious)

    @property
    def verdict(self) -> str:
        """Whether to train on the corpus, as one sentence."""
        if self.serious:
            return "Fix the findings marked WRONG before you train on this corpus."
        return "No finding is serious: you can train on this corpus."

    def _facts(self) -> Facts:
        yield from (("corpus", self.name), ("size", _size(self)), ("verdict", self.verdict))
        for finding in self.findings:
            yield "WRONG" if finding.serious else "note", f"{_message(finding)}. {finding.advice}"

    def __str__(self) -> str:
        return "\n\n".join([f"{self.name}\n{_size(self)}", *map(_block, self.findings), self.verdict])


def _size(examination: Examination) -> str:
    parts = [f"{examination.pairs:,} pair{'s' * (examination.pairs != 1)}"]
    if all(examination.characters):
        means = [characters / examination.pairs for characters in examination.characters]
        parts.append(f"{means[0]:.0f} and {means[1]:.0f} characters on average")
        for name, (src, tgt) in (("languages", examination.languages), ("scripts", examination.scripts)):
            parts += [f"{name} {src or '?'} and {tgt or '?'}"] if src or tgt else []
    return "; ".join(parts)


def _block(finding: CorpusFinding) -> str:
    lines = [f"{'WRONG' if finding.serious else 'note '}  {_message(finding)}"]
    lines += [f"         {row}" for row in finding.preview]
    if finding.lines and not finding.preview:
        lines.append(f"       at {', '.join(f'{line:,}' for line in finding.lines)}")
    return "\n".join([*lines, f"       {finding.advice}"])


def _message(finding: CorpusFinding) -> str:
    share = f"{finding.share:.1%}" if finding.share >= 0.0005 else "<0.1%"
    return f"{finding.kind}: {finding.count:,} ({share})  {finding.message}"


MAX_CHARACTERS = 100_000
"""A longer line is not a sentence: line ends were lost, or the file is not text."""

_REPEATED_SHARE, _MOSTLY, _FEWEST_PARTNERS = 0.1, 0.5, 20
_RATIO, _RATIO_SLACK = 4.0, 20
_TRAIL = "\u0080-\u00bf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"  # how the later bytes of a character look in windows-1252

EMPTY, SAME_LINE, IDENTICAL, LONG, RATIO = "empty side", "all the same", "identical sides", "long line", "length ratio"
ONE_TEXT = "repeated text"
MISREAD, LOST, CONTROL, MARKUP = "wrong encoding", "lost characters", "control characters", "markup"

_PATTERNS = {
    MISREAD: re.compile(
        f"[ÂÃÐÑØÙ][{_TRAIL}]|â[€\u0080-\u00bf][{_TRAIL}]|ã[\u0080-\u0083€‚ƒ][{_TRAIL}]|à[¤-»][{_TRAIL}]"
        f"|[à-ï](?:[\u0080-\u009f][{_TRAIL}]|[{_TRAIL}][\u0080-\u009f])"
    ),
    LOST: re.compile("\ufffd"),
    CONTROL: re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]"),
    MARKUP: re.compile(r"</?[A-Za-z][^<>]{0,200}>|&(?:amp|lt|gt|quot|nbsp|apos|#\d{1,6}|#x[\da-fA-F]{1,6});"),
}
_SAID = {
    LONG: (
        f"have a side of more than {MAX_CHARACTERS:,} characters; the longest has {{longest:,}}",
        "Check them for lost line ends, then split or remove them.",
    ),
    EMPTY: ("have an empty side", "Training skips them."),
    IDENTICAL: ("have two identical sides", "Remove the untranslated ones, or the model learns to copy."),
    RATIO: ("have sides of very different lengths", "Check the examples. Training skips the most extreme pairs."),
    MISREAD: (
        "look like UTF-8 that was read as Windows-1252 (Ã¼ for ü)",
        "Use the original file, from before it was saved in the wrong encoding.",
    ),
    LOST: (
        "contain U+FFFD, which stands for a lost character",
        "Convert the original file again, with its correct encoding.",
    ),
    CONTROL: ("contain control or invisible characters", "Remove them, or some translations will contain them too."),
    MARKUP: (
        "contain markup or entities (<b>, &amp;)",
        "Replace them with plain text, unless you will translate texts with markup.",
    ),
}
"""Message and advice for each kind of finding."""
_SERIOUS_ABOVE = {LONG: 0.0, MISREAD: 0.02, IDENTICAL: 0.9}
"""The share of the pairs above which a finding is serious."""


def repeated_side(sample: Sequence[tuple[int, SentencePair]]) -> Iterator[CorpusFinding]:
    """Findings for one target that many sources share (such as N/A), or one source that many targets share.

    `sample` has line numbers and pairs.
    """
    for side, name in enumerate(("source", "target")):
        rows = [(number, (pair.src, pair.tgt)) for number, pair in sample if pair.src.strip() and pair.tgt.strip()]
        counts = Counter(texts[side] for _, texts in rows)
        text, _ = counts.most_common(1)[0] if counts else ("", 0)
        lines = [number for number, texts in rows if texts[side] == text]
        partners = {texts[1 - side] for _, texts in rows if texts[side] == text}
        if len(partners) < _FEWEST_PARTNERS or len(lines) < _REPEATED_SHARE * len(rows) or len(lines) == len(rows):
            continue
        message = f'sampled pairs have the {name} "{shorten(text)}"'
        advice = "Remove them, unless this is the right translation."
        yield from Tally.of(lines).finding(ONE_TEXT, message, advice, len(rows), len(lines) > _MOSTLY * len(rows))


@dataclass(slots=True)
class Tallies:
    """The counts of one corpus. Feed the pairs to `add` in order."""

    pairs: int = 0
    characters: list[int] = field(default_factory=lambda: [0, 0])
    kinds: dict[str, Tally] = field(default_factory=lambda: {kind: Tally() for kind in _SAID})
    longest: int = 0
    _usual: list[int] = field(default_factory=lambda: [0, 0])
    _first: SentencePair | None = None
    _same: list[bool] = field(default_factory=lambda: [True, True])

    def add(self, chunk: Sequence[SentencePair]) -> None:
        """Count more pairs."""
        self._first = self._first or chunk[0]
        sides = [[pair.src for pair in chunk], [pair.tgt for pair in chunk]]
        for side, first in enumerate((self._first.src, self._first.tgt)):
            self._same[side] = self._same[side] and sides[side].count(first) == len(chunk)
            self.characters[side] += sum(map(len, sides[side]))
        joined = "\n".join(map("\n".join, sides))
        suspects = [(self.kinds[kind], found) for kind, found in _PATTERNS.items() if found.search(joined)]
        # Languages need different numbers of characters for the same text: scale by the ratio of the pairs so far.
        usual = [(len(src), len(tgt)) for src, tgt in zip(*sides, strict=True) if src and tgt]
        usual = [sizes for sizes in usual if max(sizes) <= MAX_CHARACTERS]
        self._usual[0] += sum(src for src, _ in usual)
        self._usual[1] += sum(tgt for _, tgt in usual)
        scale = self._usual[1] / max(self._usual[0], 1)
        for line, (src, tgt) in enumerate(zip(*sides, strict=True), start=self.pairs + 1):
            for tally, pattern in suspects:
                if pattern.search(src) or pattern.search(tgt):
                    tally.add(line)
            if not src or not tgt or src.isspace() or tgt.isspace():
                self.kinds[EMPTY].add(line)
            else:
                self._compare_sides(line, src, tgt, scale)
        self.pairs += len(chunk)

    def _compare_sides(self, line: int, src: str, tgt: str, scale: float) -> None:
        if src == tgt:
            self.kinds[IDENTICAL].add(line)
        sizes = len(src) * scale, len(tgt)
        if max(sizes) > _RATIO * min(sizes) + _RATIO_SLACK:
            self.kinds[RATIO].add(line)
        if len(src) > MAX_CHARACTERS or len(tgt) > MAX_CHARACTERS:
            self.kinds[LONG].add(line)
            self.longest = max(self.longest, len(src), len(tgt))

    def findings(self) -> Iterator[CorpusFinding]:
        """The findings of all pairs added so far."""
        for side, same in zip(("source", "target"), self._same, strict=True):
            if same and self.pairs > 1:
                message, advice = f"every {side} is the same line", "Check how this side was made."
                yield from Tally(self.pairs, [1, 2]).finding(SAME_LINE, message, advice, self.pairs, serious=True)
        for kind, tally in self.kinds.items():
            message, advice = _SAID[kind]
            serious = tally.count > _SERIOUS_ABOVE.get(kind, 1.0) * self.pairs
            serious |= kind == EMPTY and tally.count == self.pairs
            message = f"pairs {message.format(longest=self.longest)}"
            yield from tally.finding(kind, message, advice, self.pairs, serious)
