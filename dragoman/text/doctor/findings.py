"""What an examination found, for people and for programs."""

from dataclasses import dataclass, field

MOST_EXAMPLES = 3
_SHOWN_CHARACTERS = 48


def shorten(text: str) -> str:
    """The beginning of a text, in one line that no control character can spoil."""
    shown = "".join(char if char.isprintable() else "\ufffd" for char in text[:_SHOWN_CHARACTERS])
    return shown if len(text) <= _SHOWN_CHARACTERS else f"{shown[:-1]}…"


@dataclass(slots=True)
class Tally:
    """How often something was met, and the numbers (from 1) of the first few pairs where it was."""

    count: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, line: int) -> None:
        """Counts one more."""
        self.count += 1
        if len(self.lines) < MOST_EXAMPLES:
            self.lines.append(line)


@dataclass(frozen=True, slots=True)
class CorpusFinding:
    """One thing to know. `serious`: the corpus cannot be right as it is. `lines`: examples, from 1; `share` of all."""

    kind: str
    message: str
    advice: str
    count: int
    share: float
    lines: tuple[int, ...] = ()
    serious: bool = False
    preview: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Examination:
    """A corpus in numbers, and the findings, the most important first. Languages not examined are ""."""

    name: str
    pairs: int
    characters: tuple[int, int]
    languages: tuple[str, str]
    scripts: tuple[str, str]
    findings: tuple[CorpusFinding, ...]

    @property
    def serious(self) -> tuple[CorpusFinding, ...]:
        """The findings with which the corpus cannot be right."""
        return tuple(finding for finding in self.findings if finding.serious)
