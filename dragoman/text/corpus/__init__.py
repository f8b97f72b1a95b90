"""Parallel text in files: what formats and layouts there are, and how they are read, one pair at a time."""

from dragoman.text.corpus.corpus import Corpora, Corpus
from dragoman.text.corpus.layout import Layout, layout_of
from dragoman.text.corpus.opening import (
    check_direction,
    has_both_sides,
    holds_pairs,
    open_aligned,
    open_corpora,
    open_corpus,
    read_side,
    texts_of_side,
)

__all__ = [
    "Corpora",
    "Corpus",
    "Layout",
    "check_direction",
    "has_both_sides",
    "holds_pairs",
    "layout_of",
    "open_aligned",
    "open_corpora",
    "open_corpus",
    "read_side",
    "texts_of_side",
]
