"""Labels that can be read: words of any script beside a picture, whatever fonts the machine has.

A character that the figure's own font lacks is looked for in all installed fonts. Where none has it, the word is
written in Latin letters from the characters' Unicode names (`は` is HIRAGANA LETTER HA, so `[ha]`), or as code points
where the names say nothing (`[U+65E5]`), and the figure says so below itself, once. No box ever stands for a letter.
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
# What would change the order or the place of what stands around it, or cannot be seen.
_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_TELLING_NAME = re.compile(r"(?:LETTER|SIGN|SYLLABLE|DIGIT|MARK) (?:SMALL |FINAL |INITIAL |VOWEL SIGN )*(.+)")


@dataclass(frozen=True, slots=True)
class Labels:
    """Texts ready to be drawn: in `fonts`, the first that has a character draws it. `note` is empty or for below."""

    texts: tuple[str, ...]
    fonts: tuple[str, ...]
    note: str


def readable_labels(words: Iterable[str]) -> Labels:
    """The words as they can be drawn on this machine, each at most 24 characters long.

    Invisible and direction-changing characters are written as code points; runs of combining marks are cut at three.
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
    """Puts each, or one in `every`, of the labels at its place on `side` ("x" or "y"), `$` not read as mathematics."""
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
    """A word that no font can draw, in Latin letters and code points, between brackets; the mark before it stays."""
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
    return f"No installed font has: {listed}. Words in [brackets] spell their characters' Unicode names."


def _registered_fonts() -> Sequence[tuple[str, str]]:
    """Family and file of every font that matplotlib knows, by name; the upright one of normal weight of each family."""
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
    """All fonts again, with those installed after matplotlib listed them: it does so once and keeps the list."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    known = {entry.fname for entry in fontManager.ttflist}
    for path in findSystemFonts():
        if path not in known:
            with suppress(RuntimeError, OSError, ValueError):  # not every file there is a font that can be read
                fontManager.addfont(path)
    return _registered_fonts()


def _font_path(name: str) -> str:
    from matplotlib.font_manager import FontProperties, findfont

    return str(findfont(FontProperties(family=name)))


@lru_cache(maxsize=256)
def _characters_of(path: str) -> frozenset[str]:
    """Every character that a font file has; none where it cannot be read."""
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(map(chr, FT2Font(path).get_charmap()))
    except (RuntimeError, OSError, ValueError):
        return frozenset()
