"""Data augmentation: all capitals, all lower case, no final full stop, typing errors.

A model trained on clean text alone translates such text badly. How a pair changes depends only on (seed, epoch,
index), so a resumed run sees the same text as an uninterrupted one.
"""

import random

from dragoman.config import DataSettings

_DOTS = (".", "。", "।")
_LETTERS_AN_ERROR = 20
_STREAM = 0x5EED << 129  # separates the random numbers from those of BPE dropout, which uses the same key


def is_augmented(settings: DataSettings) -> bool:
    """Whether any pair can change."""
    return max(settings.augment_case, settings.augment_punctuation, settings.augment_noise) > 0


def augment(settings: DataSettings, src: str, tgt: str, seed: int, epoch: int, index: int) -> tuple[str, str]:
    """The pair for this epoch. A side that is not empty never becomes empty.

    Each kind of change applies to its share of the pairs, independently of the others. Capitals and the missing full
    stop apply to both sides, so that the model keeps the style of the source. Lower case and typing errors apply to the
    source alone, so that the model learns to correct them.
    """
    rng = random.Random(_STREAM + (seed << 96) + (epoch << 64) + index)
    without_dot, other_case, capitals, noisy = (rng.random() for _ in range(4))
    if without_dot < settings.augment_punctuation and _ends_in_one_dot(src) and _ends_in_one_dot(tgt):
        src, tgt = src.rstrip()[:-1].rstrip(), tgt.rstrip()[:-1].rstrip()
    if noisy < settings.augment_noise:
        src = add_typos(src, rng)
    if other_case < settings.augment_case:
        src, tgt = (src.upper(), tgt.upper()) if capitals < 0.5 else (src.lower(), tgt)
    return src, tgt


def add_typos(text: str, rng: random.Random) -> str:
    """The text with about one error per 20 letters: a swap, a missing, a doubled or a wrong letter."""
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
