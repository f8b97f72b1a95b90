"""Records of the corpus doctor: a finding, and the examination of a corpus. `dragoman check` prints them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from dragoman.display import html_table

MOST_EXAMPLES = 3
_SHOWN_CHARACTERS = 48


def shorten(text: str) -> str:
    """The first 48 characters of a text on one line. A tab becomes a space, other control characters U+FFFD."""
    start = text[:_SHOWN_CHARACTERS].replace("\t", " ")
    shown = "".join(char if char.isprintable() else "\ufffd" for char in start)
    return shown if len(text) <= _SHOWN_CHARACTERS else f"{shown[:-1]}…"


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

    def add(self, line: int) -> None:
        """Count one case."""
        self.count += 1
        if len(self.lines) < MOST_EXAMPLES:
            self.lines.append(line)

    def finding(self, kind: str, message: str, advice: str, total: int, serious: bool = False) -> CorpusFinding:
        """The finding that these cases are, among `total` pairs."""
        return CorpusFinding(kind, message, advice, self.count, self.count / total, tuple(self.lines), serious)


@dataclass(frozen=True, slots=True, repr=False)
class Examination:
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

    def __repr__(self) -> str:
        blocks = [f"{self.name}\n{_size(self)}", *map(_block, self.findings)]
        if self.serious:
            blocks.append("Fix the findings marked WRONG before you train on this corpus.")
        else:
            blocks.append("No finding is serious: you can train on this corpus.")
        return "\n\n".join(blocks)

    def _repr_html_(self) -> str:
        rows = [
            (one.kind, f"{one.count:,} {one.message}", "yes" if one.serious else "no", one.advice)
            for one in self.findings
        ]
        table = html_table(("finding", "pairs", "serious", "advice"), rows) if rows else "<p>No findings.</p>"
        return f"<p>{escape(self.name)}: {self.pairs:,} pairs</p>{table}"


def _size(examination: Examination) -> str:
    parts = [f"{examination.pairs:,} pair{'s' * (examination.pairs != 1)}"]
    if all(examination.characters):
        means = [characters / examination.pairs for characters in examination.characters]
        parts.append(f"{means[0]:.0f} and {means[1]:.0f} characters on average")
        parts += _describe_sides("languages", examination.languages)
        parts += _describe_sides("scripts", examination.scripts)
    return "; ".join(parts)


def _describe_sides(name: str, sides: tuple[str, str]) -> list[str]:
    return [f"{name} {sides[0] or '?'} and {sides[1] or '?'}"] if any(sides) else []


def _block(finding: CorpusFinding) -> str:
    mark = "WRONG" if finding.serious else "note "
    share = f"{finding.share:.1%}" if finding.share >= 0.0005 else "<0.1%"
    lines = [f"{mark}  {finding.kind}: {finding.count:,} ({share})  {finding.message}"]
    lines += [f"         {row}" for row in finding.preview]
    if finding.lines and not finding.preview:
        lines.append(f"       at {', '.join(f'{line:,}' for line in finding.lines)}")
    return "\n".join([*lines, f"       {finding.advice}"])
