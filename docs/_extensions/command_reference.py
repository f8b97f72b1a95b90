"""The reference of the commands, from their parsers: the directive ``command``.

``{command} train`` shows usage, arguments, flags and examples of a verb. Settings, which are flags as well, are links
to their reference. Link to a flag with ``{option}`dragoman train --out` ``.
`tools/reference_pages.py` writes the help text into the block, which the site replaces.
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from dragoman.cli.arguments import ArgumentParser
from dragoman.cli.main import VERBS, import_verb
from dragoman.config.settings import TABLES
from dragoman.serving.limits import SERVE_SETTINGS

_PARSERS = list((Path(__file__).parents[2] / "dragoman" / "cli").glob("*.py"))
_LIMITS = {f"--{name.replace('_', '-')}" for name in SERVE_SETTINGS}
_SETTINGS = "../settings.md"


class CommandDirective(SphinxDirective):
    """A verb of the command line."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        """The description of the verb, as parsed Markdown."""
        verb = self.arguments[0]
        if verb not in VERBS:
            raise self.error(f"`{verb}` is not a verb of dragoman. Use one of {', '.join(VERBS)}.")
        for source in (Path(__file__), *_PARSERS):
            self.env.note_dependency(source)
        return [node for title, text in parts_of(verb) for node in self._part(title, text)]

    def _part(self, title: str, text: str) -> list[nodes.Node]:
        """The parsed Markdown, as a section if it has a title."""
        content = self.parse_text_to_nodes(text)
        if not title:
            return content
        section = nodes.section("", nodes.title("", title), *content, ids=[], names=[nodes.fully_normalize_name(title)])
        self.state.document.note_implicit_target(section, section)
        return [section]


def parts_of(verb: str) -> Iterator[tuple[str, str]]:
    """The parts of the description of a verb, each with its title, in Markdown. The first has no title."""
    parser: ArgumentParser = import_verb(verb).build_parser()
    yield "", f"{parser.description}\n\n```text\n{parser.usage_line()}\n```\n\n```{{program}} {parser.prog}\n```\n"
    yield "Examples", "```sh\n" + "\n".join(parser.examples) + "\n```\n"
    for group in parser.own_groups():
        shown = [action for action in group._group_actions if not _LIMITS.intersection(action.option_strings)]
        if shown:
            yield str(group.title).replace("`", ""), "\n".join(map(_option, shown))
        elif group._group_actions:
            yield (
                str(group.title).replace("`", ""),
                f"The limits are flags, too: see [settings]({_SETTINGS}#limits-of-dragoman-serve).\n",
            )
    if keys := parser.setting_keys():
        yield "Settings", _settings(parser.prog, keys)


def _option(action: argparse.Action) -> str:
    """An argument or a flag, in Markdown."""
    if action.option_strings:
        value = "" if action.nargs == 0 else f" {action.metavar}{' ...' if action.nargs == '+' else ''}"
        names = ", ".join(f"{name}{value}" for name in action.option_strings)
    else:
        names = str(action.metavar or action.dest).replace(" ", "-")
    required = " Required." if action.option_strings and action.required else ""
    return f"```{{option}} {names}\n:no-contents-entry:\n\n{_sentence(action)}{required}\n```\n"


def _sentence(action: argparse.Action) -> str:
    """The help text as Markdown, with the default in a sentence of its own."""
    text = (action.help or "").replace("%%", "%")
    text, _, default = text.partition(" [default: ")
    escaped = re.sub(r"([<*_|\[])(?=[^`]*(?:`[^`]*`[^`]*)*$)", r"\\\1", text)
    return f"{escaped}." + (f" Default: {default.removesuffix(']')}." if default else "")


def _settings(prog: str, keys: dict[str, bool]) -> str:
    """The settings that a verb takes as flags, as links."""
    tables = [table for table in TABLES if any(key.startswith(f"{table}.") for key in keys)]
    links = ", ".join(f"[`[{table}]`]({_SETTINGS}#{table})" for table in tables)
    common = "\n".join(f"- {{confval}}`{key}`" for key, is_common in keys.items() if is_common)
    return f"The settings of {links} are flags, too. `{prog} --help-all` prints them. Often used:\n\n{common}\n"


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_directive("command", CommandDirective)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
