"""Words of no language. They tell a test what must be translated, and what must stay.

The first letter tells it: words with t are translated and visible, those with s are translated and not printed, such as
the alternative text of a picture, and those with k are kept. No other letter of a word is one of these, so words are
found even where no space is between them.
"""

import random
import re
import unicodedata

_LETTERS = "abdeginoru"  # without f, because printed letters may be joined with it
_OTHER_LETTERS = ("é", "ü", "ж", "ø", "e\u0301")
_WORD = re.compile(rf"[tsk][{_LETTERS}{''.join(_OTHER_LETTERS)}]{{4,}}", re.IGNORECASE)
_BETWEEN = (
    *(" ",) * 24,
    *(", ", ". ", "  ", "\u00a0", " \u2014 ", "/", " 3.5 "),
    *(" & ", " < ", "\u2009", "\u2003", " \u201c", "; ", ") ", "-"),
    *("... ", "\u00a0\u2013 ", "\u202f", " - ", " \u05e9\u05dc\u05d5\u05dd ", " 100\u00a0% ", " \U0001f600 "),
    *(" \n ", " ' "),
)


class Words:
    """Makes new words, and remembers them.

    Attributes
    ----------
    visible, unseen, kept
        The words made so far. Visible and unseen ones are translated.
    """

    def __init__(self, chance: random.Random) -> None:
        self._random = chance
        self._number = 0
        self.visible: list[str] = []
        self.unseen: list[str] = []
        self.kept: list[str] = []

    def _new(self, first: str) -> str:
        self._number += 1
        tail = "".join(_LETTERS[int(digit)] for digit in f"{self._number:04}")
        if self._random.random() < 0.1:
            tail += self._random.choice(_OTHER_LETTERS) + self._random.choice(("", "n"))
        word = first + tail
        return word.capitalize() if self._random.random() < 0.15 else word

    def word(self) -> str:
        """A word that is translated and visible."""
        self.visible.append(self._new("t"))
        return self.visible[-1]

    def unseen_word(self) -> str:
        """A word that is translated, but not printed."""
        self.unseen.append(self._new("s"))
        return self.unseen[-1]

    def kept_word(self) -> str:
        """A word that is not translated."""
        self.kept.append(self._new("k"))
        return self.kept[-1]

    def sentence(self, most_words: int = 5) -> str:
        """Words with white space, punctuation, numbers and signs between them."""
        text = self.word()
        for _ in range(self._random.randrange(most_words)):
            text += self._random.choice(_BETWEEN) + self.word()
        return text + self._random.choice(("", "", ".", "!", ":"))


def words_in(text: str) -> list[str]:
    """The words of this module in a text, in order, whatever their case."""
    return _WORD.findall(text)


def capital_words(text: str) -> str:
    """The text with the words that must be translated in capitals."""
    return _WORD.sub(lambda match: match[0] if match[0][0] in "kK" else match[0].upper(), text)


def composed(text: str) -> str:
    """The text with one character for a letter and its accent, as it is printed."""
    return unicodedata.normalize("NFC", text)
