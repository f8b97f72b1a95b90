"""Writes the tables of docs/reference/settings.md from the definitions of the settings.

    python tools/settings_page.py            # print the page as it should be
    python tools/settings_page.py --write    # replace the page

Only the text between `<!-- table NAME -->` and `<!-- end of table -->` is generated. A test compares the page with the
definitions.
"""

import argparse
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from dragoman.config import PRESETS, Setting, settings_of
from dragoman.config.fields import quote_value
from dragoman.config.recipes import chosen_keys
from dragoman.serving.settings import SERVE_SETTINGS

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "settings.md"
_TABLE = re.compile(r"(<!-- table (\w+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
_SHAPE = ("d_model", "d_ff", "num_heads", "num_encoder_layers", "num_decoder_layers", "dropout")


def updated(page: str) -> str:
    """The page with every table as the definitions have it."""
    return _TABLE.sub(lambda found: f"{found[1]}{''.join(_rows(found[2]))}{found[3]}", page)


def _rows(name: str) -> Iterator[str]:
    if name == "presets":
        yield from _markdown_rows(("preset", *_SHAPE), _preset_rows())
        return
    settings = SERVE_SETTINGS.values() if name == "serve" else settings_of(name)
    by_recipe = chosen_keys()
    rows = ((_name_of(each), _default_of(each, by_recipe), _range_of(each), _cell(each.help)) for each in settings)
    yield from _markdown_rows(("name", "default", "range", "meaning"), rows)


def _preset_rows() -> Iterator[tuple[str, ...]]:
    for name, shape in PRESETS.items():
        yield (f"`{name}`", *(quote_value(getattr(shape, column)) for column in _SHAPE))


def _markdown_rows(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    for row in (head, ("---",) * len(head), *rows):
        yield f"| {' | '.join(row)} |\n"


def _name_of(setting: Setting) -> str:
    return f"`--{setting.name.replace('_', '-')}`" if setting.table == "serve" else f"`{setting.name}`"


def _default_of(setting: Setting, by_recipe: frozenset[str]) -> str:
    if setting.table == "model" and setting.name in _SHAPE[:-1]:  # the recipe has its own dropout
        return "preset"
    if setting.key in by_recipe:
        return "recipe"
    return f"`{quote_value(setting.default)}`" if setting.default != "" else ""


def _range_of(setting: Setting) -> str:
    if setting.choices:
        return ", ".join(f"`{choice}`" for choice in setting.choices)
    if setting.kind is str:
        return "text"
    if setting.kind is bool:
        return "`true`, `false`"
    low = f"> {_number(setting.above)}" if setting.above is not None else ""
    low = f">= {_number(setting.minimum)}" if setting.minimum is not None else low
    high = f"<= {_number(setting.maximum)}" if setting.maximum is not None else ""
    return ", ".join(filter(None, (low, high))) or ("a whole number" if setting.kind is int else "a number")


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else quote_value(value)


def _cell(text: str) -> str:
    return (text[:1].upper() + text[1:]).replace("|", "\\|")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Writes the tables of the page about settings.")
    parser.add_argument("--write", action="store_true", help="replace the page instead of printing it")
    page = updated(PAGE.read_text(encoding="utf-8"))
    if parser.parse_args().write:
        PAGE.write_text(page, encoding="utf-8")
    else:
        print(page, end="")
