"""Readable labels for figures: words of any script, with the fonts that the machine has.

A character that is missing in the figure's font is looked up in all installed fonts. If no font has it, the word is
spelled in Latin letters from the Unicode names of its characters (`は` is HIRAGANA LETTER HA, so `[ha]`), or as code
points if the names are no help (`[U+65E5]`). A note below the figure then explains the brackets. No label ever shows an
empty box.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from dragoman.text.tokenization.pipelines import SPACE_SYMBOL

OWN_FONT = "DejaVu Sans"
LONGEST_LABEL = 24
_NO_FONT = "Last Resort"
# Categories of characters that are invisible, or that change the direction or position of their neighbours.
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_TELLING_NAME = re.compile(r"(?:LETTER|SIGN|SYLLABLE|DIGIT|MARK) (?:SMALL |FINAL |INITIAL |VOWEL SIGN )*(.+)")


@dataclass(frozen=True, slots=True)
class Labels:
    """Texts ready to draw. The first of `fonts` that has a character draws it. `note` is the text below the figure."""

    texts: tuple[str, ...]
    fonts: tuple[str, ...]
    note: str


def readable_labels(words: Iterable[str]) -> Labels:
    """Convert words to labels that this machine can draw, each at most 24 characters long.

    Invisible and direction-changing characters become code points. Runs of combining marks are cut at three.
    """
    shown = [_clean_word(word) for word in words]
    needed = {character for word in shown for character in word}
    fonts, missing = [OWN_FONT], needed - _characters_of(_font_path(OWN_FONT))
    for known in (_registered_fonts, _all_fonts) if missing else ():
        for name, path in known():
            if found := missing & _characters_of(path):
                fonts.append(name)
                missing -= found
    texts = tuple(_spell_out(word) if missing & set(word) else word for word in shown)
    return Labels(texts, tuple(fonts), _note(missing))


def label_axis(axes: object, side: str, labels: Labels, fontsize: float, rotation: float = 0.0, every: int = 1) -> None:
    """Put every label, or one in `every`, on `side` ("x" or "y") of the axes. `$` does not start a formula."""
    ticks = getattr(axes, f"set_{side}ticks")
    ticks(range(0, len(labels.texts), every), labels.texts[::every], fontsize=fontsize, rotation=rotation)
    for text in getattr(axes, f"get_{side}ticklabels")():
        text.set_parse_math(False)
        text.set_fontfamily(list(labels.fonts))


def _clean_word(word: str) -> str:
    kept: list[str] = []
    marks = 0
    for character in word[: 40 * LONGEST_LABEL]:
        category = unicodedata.category(character)
        marks = marks + 1 if category == "Mn" else 0
        if marks > 3:
            continue
        kept.append(f"<U+{ord(character):04X}>" if category in _UNSEEN else character)
    text = "".join(kept)
    return text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1] + "…"


def _spell_out(word: str) -> str:
    """Spell a word that no font can draw in Latin letters and code points, in brackets after its space marker."""
    mark = SPACE_SYMBOL if word.startswith(SPACE_SYMBOL) else ""
    names = [_name_of(character) for character in word.removeprefix(mark) if character != "…"]
    spelled = mark + " ".join(name for name in names if name)
    return f"[{spelled if len(spelled) <= 2 * LONGEST_LABEL else spelled[: 2 * LONGEST_LABEL - 1] + '…'}]"


def _name_of(character: str) -> str:
    if character.isascii():
        return character
    found = _TELLING_NAME.search(unicodedata.name(character, ""))
    if found is None or character in "\u200c\u200d":
        return f"U+{ord(character):04X}"
    return found[1].lower().replace(" ", "-")


def _note(missing: Iterable[str]) -> str:
    scripts = sorted({unicodedata.name(character, "UNKNOWN").split()[0] for character in missing})
    scripts = [script if script == "CJK" else script.title() for script in scripts]
    if not scripts:
        return ""
    listed = ", ".join(scripts[:4]) + (" …" if len(scripts) > 4 else "")
    return f"No installed font has {listed}. Words in [brackets] are spelled with Unicode character names."


def _registered_fonts() -> Sequence[tuple[str, str]]:
    """Family and file of every font that matplotlib knows, sorted by name: the upright, normal font of each family."""
    from matplotlib.font_manager import FontEntry, fontManager

    def plainness(entry: FontEntry) -> tuple[bool, bool, str]:
        return entry.style != "normal", str(entry.weight) not in ("400", "normal"), entry.fname

    found: dict[str, str] = {}
    for entry in sorted(fontManager.ttflist, key=plainness):
        if _NO_FONT not in entry.name:
            found.setdefault(entry.name, entry.fname)
    return sorted(found.items())


@lru_cache(maxsize=1)
def _all_fonts() -> Sequence[tuple[str, str]]:
    """All fonts, including fonts installed after matplotlib cached its list."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    known = {entry.fname for entry in fontManager.ttflist}
    for path in findSystemFonts():
        if path not in known:
            with suppress(RuntimeError, OSError, ValueError):  # not every file is a readable font
                fontManager.addfont(path)
    return _registered_fonts()


def _font_path(name: str) -> str:
    from matplotlib.font_manager import FontProperties, findfont

    return str(findfont(FontProperties(family=name)))


@lru_cache(maxsize=256)
def _characters_of(path: str) -> frozenset[str]:
    """Every character of a font file. Empty if the file cannot be read."""
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(map(chr, FT2Font(path).get_charmap()))
    except (RuntimeError, OSError, ValueError):
        return frozenset()
