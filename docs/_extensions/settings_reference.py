"""The settings on the reference page, from their definitions: the directive ``settings``.

``{settings} train`` shows every setting of [train] as an object of its own, so that it has an anchor, is found by the
search, and can be linked with ``{confval}`train.warmup_steps` ``. ``{settings} serve`` shows the limits of the server,
which are flags only. `tools/reference_pages.py` writes the same facts into the block, which the site replaces.
"""

import re
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from dragoman.config import CORPUS_KEYS, PRESETS, Setting, settings_of
from dragoman.config.fields import quote_value
from dragoman.config.names import RENAMED
from dragoman.config.recipes import RECIPES, chosen_keys, every_recipe
from dragoman.config.settings import TABLES, TokenizerSettings
from dragoman.serving.limits import SERVE_SETTINGS

_ROOT = Path(__file__).parents[2]
_CONFIGS = _ROOT / "configs"
_DEFINITIONS = [*(_ROOT / "dragoman" / "config").glob("*.py"), _ROOT / "dragoman" / "serving" / "limits.py"]
_SHAPE = ("d_model", "d_ff", "num_heads", "num_encoder_layers", "num_decoder_layers", "dropout")
COLUMNS = 100
_LINK = re.compile(r"\[(\w+)\]\([^)]*\)")
_KINDS = {bool: "`true` or `false`", int: "Whole number", float: "Number", str: "Text"}


class SettingsDirective(SphinxDirective):
    """Every setting of a table."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """The settings, as parsed Markdown."""
        table = self.arguments[0]
        if table not in (*TABLES, "serve"):
            raise self.error(f"`{table}` is not a table of settings. Use one of {', '.join((*TABLES, 'serve'))}.")
        for source in (Path(__file__), *_CONFIGS.glob("*.toml"), *_DEFINITIONS):
            self.env.note_dependency(source)
        head = "```{program} dragoman serve\n```\n\n" if table == "serve" else ""
        return self.parse_text_to_nodes(head + "\n".join(map(markdown_of, settings_of_table(table))))


def settings_of_table(table: str) -> list[Setting]:
    """The settings of a table in their order. ``serve`` stands for the limits of the server."""
    return list(SERVE_SETTINGS.values() if table == "serve" else settings_of(table))


def presets_table() -> str:
    """The sizes of the presets, as a table in Markdown."""
    rows = [("preset", *_SHAPE), ("---",) * (len(_SHAPE) + 1)]
    for name, preset in PRESETS.items():
        rows.append((f"`{name}`", *(quote_value(getattr(preset, column)) for column in _SHAPE)))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def plain_text_of(setting: Setting) -> str:
    """The setting as indented text, without links."""
    lines = [f"{setting.help[:1].upper()}{setting.help[1:]}.", f"{_value_facts(setting)}."]
    wrapped = (line for text in lines for line in textwrap.wrap(_LINK.sub(r"\1", text), COLUMNS - 4))
    name = f"--{setting.name.replace('_', '-')}" if setting.table == "serve" else setting.key
    return "\n".join((name, *(f"    {line}" for line in wrapped)))


def markdown_of(setting: Setting) -> str:
    """The setting as a directive of Sphinx, in Markdown."""
    is_limit = setting.table == "serve"
    head = f"{{option}} --{setting.name.replace('_', '-')}" if is_limit else f"{{confval}} {setting.key}"
    uses = "".join(f"- {use}\n" for use in ([] if is_limit else _uses(setting)))
    text = setting.help[:1].upper() + setting.help[1:]
    return f"```{head}\n:no-contents-entry:\n\n{text}.\n\n*{_value_facts(setting)}*\n\n{uses}\n```\n"


def _value_facts(setting: Setting) -> str:
    default = _default_of(setting)
    return range_of(setting) + (f"; default: {default}" if default else "; not set by default")


def range_of(setting: Setting) -> str:
    """The kind and the allowed values of a setting, such as ``Whole number, at least 0``."""
    if setting.choices:
        return f"One of {', '.join(f'`{choice}`' for choice in setting.choices)}"
    limits = (("more than", setting.above), ("at least", setting.minimum), ("at most", setting.maximum))
    return ", ".join(
        (_KINDS[setting.kind], *(f"{word} {_number(limit)}" for word, limit in limits if limit is not None))
    )


def _default_of(setting: Setting) -> str:
    if setting.table == "model" and setting.name in _SHAPE[:-1]:  # the recipe has its own dropout
        return "[preset](#presets)"
    if setting.key in chosen_keys():
        return "[recipe](default-recipe.md)"
    return f"`{quote_value(setting.default)}`" if setting.default != "" else ""


def _uses(setting: Setting) -> Iterator[str]:
    """Where the value of a setting comes from, apart from its default: recipe, configurations, old names."""
    if setting.key in chosen_keys():
        yield f"Recipe, by words of text: {_by_size(setting)}"
    for value, names in _set_by().get(setting.key, {}).items():
        links = ", ".join(f"[{name}](../../configs/{name}.toml)" for name in names)
        yield f"`{value}` in {links}"
    if old := [f"`{old}`" for old, new in RENAMED.items() if new == setting.key]:
        yield f"Old name: {', '.join(old)}"


def _by_size(setting: Setting) -> str:
    """The values of the default recipe, with the largest amount of text for each."""
    recipes = [asdict(recipe)[setting.table][setting.name] for recipe in every_recipe(TokenizerSettings())]
    parts = []
    for value, rows in groupby(zip(recipes, RECIPES, strict=True), key=lambda row: row[0]):
        most = [recipe.max_words for _, recipe in rows][-1]
        parts.append(f"`{quote_value(value)}` " + (f"up to {_number(most)}" if most < float("inf") else "above"))
    return ", ".join(parts)


@cache
def _set_by() -> dict[str, dict[str, list[str]]]:
    """The values of each key in configs/, with the names of the files. Names of corpora are left out."""
    found: dict[str, dict[str, list[str]]] = {}
    for path in sorted(_CONFIGS.glob("*.toml")):
        for table, values in tomllib.loads(path.read_text(encoding="utf-8")).items():
            for name, value in values.items() if isinstance(values, dict) else ():  # not of [[corpora]]
                if (key := f"{table}.{name}") not in CORPUS_KEYS:
                    found.setdefault(key, {}).setdefault(quote_value(value), []).append(path.stem)
    return found


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else quote_value(value)


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("settings", SettingsDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
