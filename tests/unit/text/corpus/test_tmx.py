import gzip
import tracemalloc

import pytest

from dragoman.errors import ConfigError, DataError
from dragoman.records import SentencePair
from dragoman.text.corpus.opening import open_corpus
from dragoman.text.corpus.tmx import ReadReport, matches_language
from dragoman.text.doctor.examine import ONE_LANGUAGE, check_corpus, examine

HEAD = '<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx11.dtd">\n'


def unit(**sides):
    variants = (f"<tuv lang='{lang.replace('_', '-')}'><seg>{text}</seg></tuv>" for lang, text in sides.items())
    return f"<tu>{''.join(variants)}</tu>"


def memory(folder, *units, head=HEAD, srclang="en", **languages):
    path = folder / "a.tmx"
    path.write_text(f'{head}<tmx version="1.4"><header srclang="{srclang}"/><body>{"".join(units)}</body></tmx>')
    return open_corpus(path, **languages)


def test_units_languages_and_report(tmp_path):
    corpus = memory(
        tmp_path,
        unit(DE="eins", EN_US="one"),
        unit(EN_US="two"),
        unit(EN_US="three", DE="drei"),
        '<tu><tuv xml:lang="en-us"><seg>four &lt;b0/> &amp;</seg></tuv><tuv xml:lang="de-AT"><seg/></tuv></tu>',
    )
    assert (corpus.src_lang, corpus.tgt_lang) == ("EN-US", "de")
    report = ReadReport()
    pairs = list(corpus.pairs(report))
    assert pairs == [SentencePair("one", "eins"), SentencePair("three", "drei"), SentencePair("four <b0/> &", "")]
    assert (report.units, report.skipped) == (4, 1)


def test_given_languages_match_by_prefix_and_exact_ones_first(tmp_path):
    corpus = memory(tmp_path, unit(pt_BR="um", pt="dois", EN_GB="one"), src_lang="en", tgt_lang="pt")
    assert list(corpus.pairs()) == [SentencePair("one", "dois")]
    assert matches_language("en_US", "EN")
    assert matches_language("ENG", "en")
    assert not matches_language("enm", "en")
    assert not matches_language("en", "en-US")


def test_codes_of_three_letters_are_those_of_two(tmp_path):
    corpus = memory(tmp_path, unit(fra="un", eng="one", DEU="eins"), src_lang="en-US", tgt_lang="de-AT")
    assert list(corpus.pairs()) == [SentencePair("one", "eins")], "the general code is the nearest one in the file"
    corpus = memory(tmp_path, unit(fra="un", eng="one", DEU="eins"), src_lang="en", tgt_lang="nl-BE")
    with pytest.raises(DataError, match=r"no unit with both en and nl-BE\. Its languages are eng, fra, DEU"):
        list(corpus.pairs())
    corpus = memory(tmp_path, unit(fra="un", eng="one", DEU="eins"), src_lang="en", tgt_lang="de")
    assert list(corpus.pairs()) == [SentencePair("one", "eins")]


def test_more_languages_need_a_choice(tmp_path):
    with pytest.raises(ConfigError, match="en, de, fr"):
        memory(tmp_path, unit(en="a", de="b", fr="c"))


def test_regional_forms_are_one_language_where_there_is_another(tmp_path):
    corpus = memory(tmp_path, unit(de="a", en_GB="b"), unit(de="c", en_US="d"), srclang="*all*")
    assert (corpus.src_lang, corpus.tgt_lang) == ("de", "en")
    assert corpus.count() == 2
    chinese = memory(tmp_path, unit(zh_CN="a", zh_TW="b"), srclang="zh-TW")
    assert (chinese.src_lang, chinese.tgt_lang) == ("zh-TW", "zh-CN")


def test_languages_that_are_not_there(tmp_path):
    corpus = memory(tmp_path, unit(en="a", de="b"), src_lang="en", tgt_lang="ja")
    with pytest.raises(DataError, match=r"no unit with both en and ja\. Its languages are en, de"):
        list(corpus.pairs())


def test_inline_markup(tmp_path):
    text = (
        'Click <bpt i="1">&lt;b&gt;<sub>title</sub></bpt><hi>here</hi><ept i="1">&lt;/b&gt;</ept>, '
        'or<ph x="2">&lt;br/&gt;</ph> <it pos="begin">&lt;i&gt;</it>there<ut>{\\f}</ut>\n   now.'
    )
    assert next(memory(tmp_path, unit(en=text, de="b")).pairs()).src == "Click here, or there now."


def test_gzip_and_utf16(tmp_path):
    text = '<?xml version="1.0" encoding="UTF-16"?><tmx><header/><body>' + unit(en="ä", de="日") + "</body></tmx>"
    (tmp_path / "b.tmx.gz").write_bytes(gzip.compress(text.encode("utf-16")))
    assert list(open_corpus(tmp_path / "b.tmx.gz").pairs()) == [SentencePair("ä", "日")]


@pytest.mark.parametrize(
    ("head", "text"),
    [
        ('<!DOCTYPE t [<!ENTITY a "b"><!ENTITY c "&a;&a;&a;&a;">]>', "&c;"),
        ('<!DOCTYPE t [<!ENTITY a SYSTEM "file:///etc/hostname">]>', "&a;"),
        ('<!DOCTYPE t [<!ENTITY % a SYSTEM "http://localhost:9/x.dtd"> %a;]>', "x"),
    ],
)
def test_entities_are_refused(tmp_path, head, text):
    with pytest.raises(DataError, match="entities"):
        list(memory(tmp_path, unit(en=text, de="b"), head=head, src_lang="en", tgt_lang="de").pairs())


@pytest.mark.parametrize("text", ["&unknown;", "<b>", "\x01"])
def test_malformed(tmp_path, text):
    with pytest.raises(DataError, match=r"a\.tmx, line 3 is not well-formed"):
        list(memory(tmp_path, unit(en=text, de="b"), src_lang="en", tgt_lang="de").pairs())


def test_deep_nesting(tmp_path):
    text = "<hi>" * 9000 + "x" + "</hi>" * 9000
    assert next(memory(tmp_path, unit(en=text, de="b"), src_lang="en", tgt_lang="de").pairs()).src == "x"


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("<hi>" * 100_000 + "x" + "</hi>" * 100_000, "10,000 elements"),
        ("<hi>" * 100_000, "10,000 elements"),
        ("<hi/>" * 11_000, "10,000 elements"),
        ("x" * 3_000_000, "1,048,576 bytes"),
        (f'<hi x="{"x" * 3_000_000}"/>', "1,048,576 bytes"),
        (f"<!--{'x' * 3_000_000}-->", "1,048,576 bytes"),
    ],
)
def test_what_piles_up_is_refused(tmp_path, text, match):
    with pytest.raises(DataError, match=match):
        list(memory(tmp_path, unit(en=text, de="b"), src_lang="en", tgt_lang="de").pairs())


def test_many_large_units_are_read(tmp_path):
    corpus = memory(tmp_path, *(unit(en="x" * 400_000, de="<hi>b</hi>" * 500) for _ in range(30)))
    assert sum(1 for _ in corpus.pairs()) == 30


def test_no_units(tmp_path):
    with pytest.raises(DataError, match="no translation units"):
        list(memory(tmp_path, src_lang="en", tgt_lang="de").pairs())


def test_memory_stays_flat(tmp_path):
    corpus = memory(tmp_path, *(unit(en=f"sentence {n}" * 5, de=f"Satz {n}" * 5) for n in range(20_000)))
    tracemalloc.start()
    assert sum(1 for _ in corpus.pairs()) == 20_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3_000_000


def test_units_in_one_language_only_are_counted_by_check_and_train(tmp_path):
    units = [unit(en=f"one {n}", de=f"eins {n}") if n % 4 == 0 else unit(en=f"one {n}") for n in range(40)]
    corpus = memory(tmp_path, *units, src_lang="en", tgt_lang="de")
    found = [finding for finding in examine(corpus).findings if finding.kind == ONE_LANGUAGE]
    assert [(finding.count, finding.share, finding.serious) for finding in found] == [(30, 0.75, False)]
    notes: list[str] = []
    assert check_corpus(corpus, notes.append).pairs == 10
    assert [note.partition(". ")[0] for note in notes] == [f"{corpus}: 30 of 40 units lack a text in en or de"]
