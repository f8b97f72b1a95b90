"""Each corpus under DRAGOMAN_DATA has the number of pairs that its README states."""

import pytest

from dragoman.config import DataSettings, TokenizerSettings
from dragoman.errors import DataError
from dragoman.text.corpus.cleaning import Cleaner
from dragoman.text.corpus.opening import open_aligned, open_corpus
from dragoman.text.corpus.tmx import ReadReport
from dragoman.text.tokenization.tokenizer import train_tokenizers
from tests.unit.text.corpus.holding_out import hold_out

pytestmark = pytest.mark.data


@pytest.mark.parametrize(
    ("src", "tgt", "count"),
    [
        ("multi30k/train.en.gz", "multi30k/train.de.gz", 29_000),
        ("multi30k/val.en.gz", "multi30k/val.fr.gz", 1_014),
        ("multi30k/test_2016_flickr.de.gz", "multi30k/test_2016_flickr.fr.gz", 1_000),
        ("small_enja/train.en.gz", "small_enja/train.ja.gz", 50_000),
        ("small_enja/dev.en", "small_enja/dev.ja", 500),
        ("small_enja/test.en", "small_enja/test.ja", 500),
    ],
)
def test_aligned(data_folder, src, tgt, count):
    corpus = open_aligned(data_folder / src, data_folder / tgt)
    assert corpus.count() == count
    assert {corpus.src_lang, corpus.tgt_lang} <= {"en", "de", "fr", "ja"}


@pytest.mark.parametrize(
    ("name", "count", "distinct_sources", "distinct_pairs"),
    [
        ("tatoeba_en_de/deu.txt.gz", 169_197, 134_922, None),
        ("english_telugu/trainp.tsv.gz", 14_752, None, 10_572),
        ("english_telugu/devp.tsv", 1_347, None, None),
        ("english_telugu/testp.tsv", 2_112, None, None),
    ],
)
def test_tsv(data_folder, name, count, distinct_sources, distinct_pairs):
    pairs = list(open_corpus(data_folder / name).pairs())
    assert len(pairs) == count
    assert distinct_sources in (None, len({pair.src for pair in pairs}))
    if distinct_pairs:
        assert sum(1 for _ in Cleaner(DataSettings()).clean_texts(pairs)) == distinct_pairs


def test_tmx(data_folder):
    corpus = open_corpus(data_folder / "omegat_en_de/project_save.tmx.gz")
    assert (corpus.src_lang, corpus.tgt_lang) == ("en", "de")
    report = ReadReport()
    pairs = list(corpus.pairs(report))
    assert report.units == 10_720
    assert len(pairs) + report.skipped == report.units
    assert sum(pair.src == pair.tgt for pair in pairs) == 1_186


def test_a_line_missing_in_the_middle(data_folder, tmp_path):
    pairs = list(open_aligned(data_folder / "multi30k/val.en.gz", data_folder / "multi30k/val.de.gz").pairs())
    (tmp_path / "a.en").write_text("".join(f"{pair.src}\n" for pair in pairs), encoding="utf-8")
    (tmp_path / "a.de").write_text("".join(f"{p.tgt}\n" for n, p in enumerate(pairs) if n != 500), encoding="utf-8")
    with pytest.raises(DataError, match=r"1014 lines.*1013") as caught:
        open_aligned(tmp_path / "a.en", tmp_path / "a.de").count()
    assert abs(int(str(caught.value).split("near line ")[1].split(".")[0]) - 501) <= 20


def test_tatoeba_does_not_leak(data_folder):
    pairs = list(open_corpus(data_folder / "tatoeba_en_de/deu.txt.gz").pairs())
    settings = DataSettings(test_fraction=0.01)
    held = hold_out(pairs, settings, 1)
    train = {pair.src.casefold() for pair in Cleaner(settings, held).clean_texts(pairs)}
    assert (len(held.dev), len(held.test)) == (1000, 1000)
    assert not train & {pair.src.casefold() for pair in (*held.dev, *held.test)}


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_tokenizers_give_back_real_text(data_folder, kind):
    pairs = list(open_corpus(data_folder / "english_telugu/testp.tsv").pairs())
    settings = TokenizerSettings(kind=kind, vocab_size=2000)
    trained = train_tokenizers(settings, (pair.src for pair in pairs), (pair.tgt for pair in pairs))
    assert trained.src.vocab_size == 2000
    texts = [pair.tgt for pair in open_corpus(data_folder / "english_telugu/devp.tsv").pairs()]
    assert [trained.tgt.detokenize(ids) for ids in trained.tgt.encode_batch(texts)] == texts
