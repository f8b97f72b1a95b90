"""`phrasebook`: sentence pairs of the built-in phrasebook as files for `dragoman train`, without a network."""

import os
from pathlib import Path

from dragoman.corpora.fetching import FetchedCorpus, open_or_write
from dragoman.corpora.hub_dataset import HubDataset, WantedCorpus
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.errors import ConfigError
from dragoman.workflows.api.notebook import default_progress

_HELD_OUT = 200


def phrasebook(out: str | os.PathLike[str] = "phrasebook", pairs: int = 3000, seed: int = 1) -> FetchedCorpus:
    """Write an English-German corpus of the built-in phrasebook, to learn and to try things without a network.

    A grammar of a hundred sentence patterns writes the pairs. The test and validation sets have 200 pairs each. They
    use the same patterns, so scores are much higher than on real text. No pair is in two parts. If `out` holds the
    same corpus, only the checksums of its files are verified.

    Parameters
    ----------
    out : str or Path
        The folder to write.
    pairs : int
        The number of training pairs.
    seed : int
        The choice of sentences. The same numbers give the same files.

    Returns
    -------
    FetchedCorpus
        The files and counts. ``dragoman.train(**corpus.files)`` trains on it.

    Raises
    ------
    ConfigError
        If an argument is out of range.
    DataError
        If the phrasebook has fewer pairs, or if `out` exists and is something else or was changed.
    ResourceError
        If the files cannot be written.

    Examples
    --------
    >>> corpus = phrasebook(pairs=1000)
    >>> corpus.pairs
    {'train': 1000, 'dev': 200, 'test': 200}
    >>> run = dragoman.train(**corpus.files, out="run", max_minutes=5)
    """
    for name, value, least in (("pairs", pairs, 1), ("seed", seed, 0)):
        if type(value) is not int or value < least:
            raise ConfigError(f"`{name}` must be a whole number of at least {least}, but is {value!r:.60}.")
    config = f"{pairs} pairs, seed {seed}"

    def generate() -> HubDataset:
        found = load_phrasebook().generate(seed, pairs + 2 * _HELD_OUT)
        parts = {"train": found[:pairs], "dev": found[pairs:-_HELD_OUT], "test": found[-_HELD_OUT:]}
        return HubDataset(
            config, "", "Apache-2.0", {part: ((pair.src, pair.tgt) for pair in rows) for part, rows in parts.items()}
        )

    wanted = WantedCorpus("phrasebook", "en", "de", config)
    return open_or_write(Path(out), wanted, generate, default_progress())
