"""Corpora as files that `dragoman train` reads: of the Hugging Face hub (extra `hub`), and the built-in phrasebook."""

from dragoman.corpora.catalog import KnownCorpora, KnownCorpus, names
from dragoman.corpora.fetching import FetchedCorpus, fetch, phrasebook

__all__ = ["fetch", "names", "phrasebook", "FetchedCorpus", "KnownCorpora", "KnownCorpus"]
