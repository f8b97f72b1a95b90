"""The reference page of the settings has the names, defaults, ranges and help texts of the definitions."""

from tools import settings_page


def test_the_page_is_generated_from_the_definitions() -> None:
    page = settings_page.PAGE.read_text(encoding="utf-8")
    assert page == settings_page.updated(page), "run `python tools/settings_page.py --write`"


def test_a_changed_cell_is_restored() -> None:
    page = settings_page.PAGE.read_text(encoding="utf-8")
    assert settings_page.updated(page.replace("| `beam_size` | `5` |", "| `beam_size` | `6` |")) == page
