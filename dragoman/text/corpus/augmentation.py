"""Training pairs as careless people write them: in capitals, without capitals, without a final dot, with typing errors.

A model that has seen only clean text stumbles over each. What happens to a pair follows from (seed, epoch, index)
alone, so that a continued run sees the same text as an uninterrupted one.
"""

import random
from dataclasses import dataclass

from dragoman.config import DataSettings

_DOTS = (".", "。", "।")
_LETTERS_AN_ERROR = 20
_STREAM = 0x5EED << 129  # a random stream apart from that of BPE dropout, which has the same key


@dataclass(frozen=True, slots=True)
class Augmentation:
    """Shares of the pairs, 0 to 1 each and independent of each other, that are changed in an epoch."""

    case: float = 0.0
    punctuation: float = 0.0
    noise: float = 0.0

    @staticmethod
    def of(settings: DataSettings) -> "Augmentation":
        """As [data] says."""
        return Augmentation(settings.augment_case, settings.augment_punctuation, settings.augment_noise)

    @property
    def is_on(self) -> bool:
        """Whether any pair is ever changed."""
        return max(self.case, self.punctuation, self.noise) > 0

    def apply(self, src: str, tgt: str, seed: int, epoch: int, index: int) -> tuple[str, str]:
        """The pair as this epoch shows it. A side that is not empty stays so.

        Capitals and the missing dot are on both sides: the answer is written as the question is. Lower case and
        typing errors are in the source alone: the answer is to be right.
        """
        rng = random.Random(_STREAM + (seed << 96) + (epoch << 64) + index)
        without_dot, other_case, capitals, noisy = (rng.random() for _ in range(4))
        if without_dot < self.punctuation and _ends_in_one_dot(src) and _ends_in_one_dot(tgt):
            src, tgt = src.rstrip()[:-1].rstrip(), tgt.rstrip()[:-1].rstrip()
        if noisy < self.noise:
            src = add_typos(src, rng)
        if other_case < self.case:
            src, tgt = (src.upper(), tgt.upper()) if capitals < 0.5 else (src.lower(), tgt)
        return src, tgt


def add_typos(text: str, rng: random.Random) -> str:
    """The text with about one error in 20 letters: two swapped, one left out, one twice, or one for another."""
    written, place = [], 0
    letters = [char for char in text if char.isalpha()]
    while place < len(text):
        char, following = text[place], text[place + 1 : place + 2]
        place += 1
        if not (char.isalpha() and following.isalpha()) or rng.random() * _LETTERS_AN_ERROR >= 1:
            written.append(char)
            continue
        kind = rng.randrange(4)
        if kind == 0:
            written += [following, char]
            place += 1
        elif kind == 1:
            written += [char, char]
        elif kind == 2:
            written.append(rng.choice(letters))
    return "".join(written)


def _ends_in_one_dot(text: str) -> bool:
    text = text.rstrip()
    rest = text[:-1].rstrip()
    return text.endswith(_DOTS) and bool(rest) and not rest.endswith(_DOTS)
