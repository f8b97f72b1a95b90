import random

import pytest

from dragoman.config import DataSettings
from dragoman.errors import DataError
from dragoman.records import SentencePair
from dragoman.text.corpus.cleaning import Cleaner
from dragoman.text.corpus.splitting import normalize_text
from tests.unit.text.corpus.holding_out import hold_out

SETTINGS = DataSettings(dev_fraction=0.05, test_fraction=0.1, max_held_out=60)


def corpus(count, sources):
    return [SentencePair(f"source {n % sources}", f"Ziel {n}") for n in range(count)]


def test_no_source_is_on_two_sides():
    pairs = corpus(1500, 400)
    held = hold_out(pairs, SETTINGS, 1)
    train = list(Cleaner(SETTINGS, held).clean_texts(pairs))
    dev, test, rest = ({pair.src for pair in part} for part in (held.dev, held.test, train))
    assert (len(held.dev), len(held.test)) == (60, 60)
    assert (len(dev), len(test)) == (60, 60)
    assert not dev & test
    assert not (dev | test) & rest
    assert len(dev | test | rest) == 400
    assert set(held.dev) <= set(pairs)


def test_case_spacing_and_composition_do_not_tell_sources_apart():
    assert normalize_text(" Caf\u0065\u0301 \u00a0 AU  lait\u2028") == normalize_text("café au LAIT")
    pairs = [SentencePair(text, "x") for n in range(50) for text in (f"Satz {n}", f"satz  {n}", f"SATZ {n} ")]
    held = hold_out(pairs, DataSettings(dev_fraction=0.1), 1)
    train = list(Cleaner(DataSettings(), held).clean_texts(pairs))
    assert len(train) == 3 * (50 - len(held.dev))


def test_seed_and_text_alone_decide():
    pairs = corpus(300, 300)
    shuffled = random.Random(2).sample(pairs, len(pairs))
    assert set(hold_out(pairs, SETTINGS, 1).dev) == set(hold_out(shuffled, SETTINGS, 1).dev)
    assert set(hold_out(pairs, SETTINGS, 1).dev) != set(hold_out(pairs, SETTINGS, 2).dev)
    dev = hold_out(pairs, SETTINGS, 1).dev
    assert list(dev) == [pair for pair in pairs if pair in dev]


def test_sources_are_chosen_evenly():
    pairs = corpus(2000, 2000)
    chosen = set(hold_out(pairs, DataSettings(dev_fraction=0.1), 1).dev)
    assert len(chosen) == 200
    assert 70 < len(chosen.intersection(pairs[:1000])) < 130


@pytest.mark.parametrize("count", [2, 3, 10, 200])
def test_small_corpora_hold_out_at_least_one(count):
    held = hold_out(corpus(count, count), DataSettings(), 1)
    assert len(held.dev) == max(1, round(count * 0.02))
    assert held.test == ()


def test_many_chunks_give_the_same(monkeypatch):
    pairs = corpus(3000, 1000)
    whole = hold_out(pairs, SETTINGS, 1)
    monkeypatch.setattr("dragoman.text.corpus.splitting.CHUNK_PAIRS", 37)
    assert (hold_out(pairs, SETTINGS, 1).dev, hold_out(pairs, SETTINGS, 1).test) == (whole.dev, whole.test)


def test_given_parts_are_kept_away_from_training():
    pairs = corpus(400, 400)
    dev, test = pairs[10:30], [SentencePair("SOURCE 7", "else")]
    held = hold_out(pairs, SETTINGS, 1, dev=dev, test=test)
    assert (held.dev, held.test) == ((), ())
    assert len(list(Cleaner(SETTINGS, held).clean_texts(pairs))) == 400 - 21


def test_a_held_out_test_shares_no_source_with_a_given_dev():
    pairs = corpus(400, 400)
    held = hold_out(pairs, SETTINGS, 1, dev=pairs[:300])
    assert held.dev == ()
    assert len(held.test) == 40
    assert not set(held.test) & set(pairs[:300])


def test_empty_sides_are_not_held_out():
    pairs = [SentencePair(f"{n}", "" if n % 2 else "x") for n in range(100)]
    assert all(pair.tgt for pair in hold_out(pairs, DataSettings(dev_fraction=0.4), 1).dev)


def test_too_few_sources():
    with pytest.raises(DataError, match="1 different source"):
        hold_out(corpus(50, 1), DataSettings(), 1)
    with pytest.raises(DataError, match="2 different source"):
        hold_out(corpus(50, 2), SETTINGS, 1)


def test_a_given_part_with_every_source_is_named():
    pairs = corpus(50, 50)
    with pytest.raises(DataError, match=r"every source sentence of a\.tsv is also in b\.tsv, so that no pair is left"):
        hold_out(pairs, DataSettings(), 1, test=pairs, names=("a.tsv", "b.tsv"))
    with pytest.raises(DataError, match=r"has 1 different source sentences besides those in b\.tsv, too few"):
        hold_out(pairs, DataSettings(), 1, test=pairs[1:], names=("a.tsv", "b.tsv"))


def test_nothing_to_hold_out_reads_nothing():
    def never():
        raise AssertionError
        yield

    assert hold_out(never(), DataSettings(dev_fraction=0.0), 1).dev == ()
