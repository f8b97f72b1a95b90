"""Corpora as files that `dragoman train` reads: of the Hugging Face hub (extra `hub`), and the built-in phrasebook."""

from dragoman.corpora.fetching import FetchedCorpus, fetch, phrasebook
from dragoman.corpora.hub_dataset import KnownCorpora, KnownCorpus, names

__all__ = ["fetch", "names", "phrasebook", "FetchedCorpus", "KnownCorpora", "KnownCorpus"]
