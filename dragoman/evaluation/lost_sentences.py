"""Sentences that a translation lost, found from the texts alone."""

from collections.abc import Callable

from dragoman.text.tokenization.sentence_splitting import split_sentences

_ENDS = frozenset(".!?…।॥؟۔։።។。！？｡")
_SHARE = 0.5
"""The output must be shorter by this share of the lost sentences. People who join sentences keep their words."""


def loses_sentence(src: str, tgt: str, length: Callable[[str], int]) -> bool:
    """Whether the translation has fewer sentences than the source, and is too short to have joined them.

    Languages without marks at the end of a sentence cannot be judged, so an output without one never counts.
    """
    sentences = _sentences(src)
    if len(sentences) < 2 or _ENDS.isdisjoint(tgt):
        return False
    lost = len(sentences) - len(_sentences(tgt))
    return lost > 0 and length(tgt) <= length(src) - _SHARE * sum(sorted(map(length, sentences))[:lost])


def count_sentences(text: str) -> int:
    """The number of sentences in a text, 0 if it is blank."""
    return len(_sentences(text))


def _sentences(text: str) -> list[str]:
    return [sentence for sentence in split_sentences(text) if sentence.strip()]
