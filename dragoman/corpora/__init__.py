"""Corpora as files that `dragoman train` reads: of the Hugging Face hub (extra `hub`), and the built-in phrasebook."""

from dragoman.corpora.fetching import FetchedCorpus, fetch, phrasebook
from dragoman.corpora.hub_dataset import KnownCorpora, KnownCorpus, names
from dragoman.demo.phrasebook import Phrasebook, PhrasebookPair
from dragoman.demo.phrasebook_file import load_phrasebook

__all__ = ["fetch", "names", "phrasebook", "FetchedCorpus", "KnownCorpora", "KnownCorpus"]
__all__ += ["load_phrasebook", "Phrasebook", "PhrasebookPair"]


def __dir__() -> list[str]:
    return sorted(__all__)
