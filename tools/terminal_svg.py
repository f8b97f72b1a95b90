"""Draws the text of a terminal session as an SVG that is readable on light and on dark pages.

    python tools/terminal_svg.py docs/images/terminal.txt docs/images/terminal.svg

Lines that start with `$ ` are commands; a command that ends in `\\` continues on the next line. All other lines are
output, and `...` stands for output that was left out. The picture loads no font and no other file.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

FONT_SIZE = 13
CHARACTER_WIDTH = 7.8
LINE_HEIGHT = 19
MARGIN = 18
BAR_HEIGHT = 30
MIN_COLUMNS = 80

STYLE = """
.window { fill: #fbfbfa; stroke: #d0d4d9; }
.bar { fill: #ecedef; }
.dot { fill: #c3c8ce; }
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre; }
.output { fill: #3d444d; }
.prompt { fill: #0b6e4f; font-weight: 700; }
.command { fill: #11161c; font-weight: 700; }
.omitted { fill: #8a929b; }
@media (prefers-color-scheme: dark) {
  .window { fill: #161b22; stroke: #343b44; }
  .bar { fill: #22282f; }
  .dot { fill: #4b535d; }
  .output { fill: #c3cad2; }
  .prompt { fill: #4ac29a; }
  .command { fill: #f2f5f8; }
  .omitted { fill: #737c87; }
}
"""


def draw(session: str) -> str:
    """Return the SVG of a session."""
    lines = session.rstrip("\n").split("\n")
    width = 2 * MARGIN + CHARACTER_WIDTH * max(MIN_COLUMNS, *map(len, lines))
    height = BAR_HEIGHT + 2 * MARGIN + LINE_HEIGHT * len(lines) - (LINE_HEIGHT - FONT_SIZE)
    frame = f'width="{width - 1:.1f}" height="{height - 1}" rx="8"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.1f} {height}" width="{width:.1f}" role="img">',
        f"<title>{escape(commands_of(session))}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="window" x="0.5" y="0.5" {frame}/>',
        f'<path class="bar" d="M1 {BAR_HEIGHT} V9 a8 8 0 0 1 8 -8 H{width - 9:.1f} a8 8 0 0 1 8 8 V{BAR_HEIGHT} Z"/>',
        *(f'<circle class="dot" cx="{18 + 16 * n}" cy="{BAR_HEIGHT / 2 + 0.5}" r="5"/>' for n in range(3)),
    ]
    for number, spans in enumerate(styled_lines(lines)):
        y = BAR_HEIGHT + MARGIN + FONT_SIZE - 2 + number * LINE_HEIGHT
        x: float = MARGIN
        for style, text in spans:
            length = CHARACTER_WIDTH * len(text)
            place = f'x="{x:.1f}" y="{y}" textLength="{length:.1f}"'
            parts.append(f'<text class="{style}" {place}>{escape(text, quote=False)}</text>')
            x += length
    return "\n".join([*parts, "</svg>", ""])


def styled_lines(lines: Sequence[str]) -> Iterator[list[tuple[str, str]]]:
    """Yield the spans of each line, as style and text; none for an empty line."""
    in_command = False
    for line in lines:
        if line.startswith("$ "):
            yield [("prompt", "$ "), ("command", line[2:])]
        elif line:
            yield [("command" if in_command else "omitted" if line == "..." else "output", line)]
        else:
            yield []
        in_command = line.endswith("\\") and (in_command or line.startswith("$ "))


def commands_of(session: str) -> str:
    """Return the commands of a session, separated by semicolons: the title of the picture."""
    joined = session.replace("\\\n", "")
    return "; ".join(" ".join(line[2:].split()) for line in joined.split("\n") if line.startswith("$ "))


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the session in a text file."""
    parser = argparse.ArgumentParser(description="Draw the text of a terminal session as an SVG.")
    parser.add_argument("session", type=Path, help="text file with commands and output")
    parser.add_argument("picture", type=Path, help="SVG to write")
    given = parser.parse_args(arguments)
    given.picture.write_text(draw(given.session.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
