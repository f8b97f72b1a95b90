"""Holding out of one corpus, as data preparation does it."""

from collections.abc import Iterable

from dragoman.config import DataSettings
from dragoman.records import SentencePair
from dragoman.text.corpus.splitting import FingerprintSet, HeldOut, HeldOutShares, source_fingerprints, take_held_out


def hold_out(
    train: Iterable[SentencePair],
    settings: DataSettings,
    seed: int,
    dev: list[SentencePair] | None = None,
    test: list[SentencePair] | None = None,
    names: tuple[str, str] = ("the training data", "the validation or test data"),
) -> HeldOut:
    sources = FingerprintSet()
    sources.add(source_fingerprints([*(dev or ()), *(test or ())], seed))
    shares = HeldOutShares(
        settings.dev_fraction if dev is None else 0.0,
        settings.test_fraction if test is None else 0.0,
        settings.max_held_out,
    )
    return take_held_out(train, shares, sources, seed, names)
