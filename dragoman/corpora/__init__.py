"""Corpora of the Hugging Face hub, as files that `dragoman train` reads (extra `hub`)."""

from dragoman.corpora.catalog import KnownCorpora, KnownCorpus, names
from dragoman.corpora.fetching import FetchedCorpus, fetch

__all__ = ["fetch", "names", "FetchedCorpus", "KnownCorpora", "KnownCorpus"]
