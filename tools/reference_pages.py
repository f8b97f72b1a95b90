"""Write the generated text of the reference pages into their Markdown, for readers on a code host.

Run ``python tools/reference_pages.py`` after every change of a setting, a preset or a flag. It fills the blocks
```{settings} train and ```{command} train, which the documentation site shows with links and anchors, and the table
between ``<!-- presets -->`` and ``<!-- end of presets -->``.
"""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from dragoman.cli.arguments import ArgumentParser
from dragoman.cli.main import import_verb

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_extensions"))
from settings_reference import (  # type: ignore[import-not-found]  # noqa: E402
    COLUMNS,
    plain_text_of,
    presets_table,
    settings_of_table,
)

_BLOCK = re.compile(r"^```\{(settings|command)\} (\S+)\n.*?^```$", re.MULTILINE | re.DOTALL)
_PRESETS = re.compile(r"(?<=<!-- presets -->\n).*?(?=<!-- end of presets -->)", re.DOTALL)


def pages() -> Iterator[Path]:
    """The pages with generated text."""
    yield ROOT / "docs" / "reference" / "settings.md"
    yield from sorted((ROOT / "docs" / "reference" / "commands").glob("*.md"))


def filled(text: str) -> str:
    """The Markdown of a page with all generated text as it is now."""
    text = _BLOCK.sub(lambda block: f"```{{{block[1]}}} {block[2]}\n{_body(block[1], block[2])}\n```", text)
    return _PRESETS.sub(lambda _: presets_table(), text)


def _body(kind: str, name: str) -> str:
    if kind == "command":
        parser: ArgumentParser = import_verb(name).build_parser()
        parser.usage = parser.usage_line()
        with patch.dict(os.environ, COLUMNS=str(COLUMNS)):
            return parser.format_help().strip()
    return "\n\n".join(map(plain_text_of, settings_of_table(name)))


def main() -> None:
    """Rewrite the pages that changed."""
    for path in pages():
        text = path.read_text(encoding="utf-8")
        if (new := filled(text)) != text:
            path.write_text(new, encoding="utf-8")
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
