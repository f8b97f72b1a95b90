"""The site shows every setting once, with its range, and every flag of every verb. A code host shows the same text."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("myst_nb", reason="the extra docs is not installed")
from sphinx.application import Sphinx
from sphinx.domains.std import StandardDomain

from dragoman.cli.main import VERBS, import_verb
from dragoman.config import SETTINGS
from dragoman.config.names import RENAMED
from dragoman.config.settings import TABLES
from dragoman.serving.limits import SERVE_SETTINGS
from tools.reference_pages import filled, pages

DOCS = Path(__file__).parents[2] / "docs"
EXTENSIONS = DOCS / "_extensions"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Sphinx:
    """A small site with the settings and the commands."""
    sys.path.insert(0, str(EXTENSIONS))
    source = tmp_path_factory.mktemp("site")
    tables = "".join(f"# {table}\n\n```{{settings}} {table}\n```\n\n" for table in (*TABLES, "serve"))
    (source / "settings.md").write_text(f"# Settings\n\n{tables}", encoding="utf-8")
    for verb in VERBS:
        (source / f"{verb}.md").write_text(f"# {verb}\n\n```{{command}} {verb}\n```\n", encoding="utf-8")
    extensions = ["myst_parser", "settings_reference", "command_reference"]
    settings = {"extensions": extensions, "root_doc": "settings", "suppress_warnings": ["myst.xref_missing"]}
    built = source / "built"
    app = Sphinx(str(source), None, str(built), str(built), "dummy", confoverrides=settings, status=None, warning=None)
    app.build()
    sys.path.remove(str(EXTENSIONS))
    return app


def standard_objects(site: Sphinx) -> StandardDomain:
    return site.env.domains.standard_domain


def test_every_setting_is_an_object_with_its_range_and_help(site: Sphinx) -> None:
    names = {name for kind, name in standard_objects(site).objects if kind == "confval"}
    assert names == set(SETTINGS)
    text = site.env.get_doctree("settings").astext()
    for setting in SETTINGS.values():
        assert text.count(f"\n{setting.key}\n") == 1
    start = text.index("\nvalidate.beam_size\n")
    assert "Whole number, at least 1, at most 1,000; default: 1" in text[start : start + 200]


def test_a_setting_names_its_recipe_the_files_that_set_it_and_its_old_name(site: Sphinx) -> None:
    text = site.env.get_doctree("settings").astext()
    warmup = text[text.index("\ntrain.warmup_steps\n") :][:900]
    assert "500 up to 50,000, 1000 up to 1,000,000, 2000 up to 5,000,000, 4000 above" in warmup
    assert "1000 in demo_en_de, low_resource, multi30k_en_de" in warmup
    for old, new in RENAMED.items():
        assert f"Old name: {old}" in text[text.index(f"\n{new}\n") :][:700]


def test_every_flag_of_every_verb_is_an_object(site: Sphinx) -> None:
    found = set(standard_objects(site).progoptions)
    for verb in VERBS:
        actions = [action for group in import_verb(verb).build_parser().own_groups() for action in group._group_actions]
        flags = {name for action in actions for name in action.option_strings}
        assert flags <= {flag for program, flag in found if program == f"dragoman-{verb}"}
    assert {("dragoman-serve", f"--{name.replace('_', '-')}") for name in SERVE_SETTINGS} <= found


def test_every_verb_has_a_page() -> None:
    assert {page.stem for page in (DOCS / "reference" / "commands").glob("*.md")} == set(VERBS)


def test_the_text_of_each_reference_page_is_current() -> None:
    for page in pages():
        text = page.read_text(encoding="utf-8")
        assert text == filled(text), "run `python tools/reference_pages.py`"
    settings = (DOCS / "reference" / "settings.md").read_text(encoding="utf-8")
    assert all(f"\n{key}\n    " in settings for key in SETTINGS)
