import gzip
import json
import random
from dataclasses import replace

import pytest

from dragoman.config import Config, DataSettings
from dragoman.errors import ConfigError, DataError
from dragoman.records import SentencePair
from dragoman.text.corpus.corpus import Corpus
from dragoman.text.corpus.opening import open_aligned, open_corpora, open_corpus

PAIRS = [SentencePair("a house", "ein Haus"), SentencePair("", "leer"), SentencePair("x\u2028y\u0085z", "ü")]


def write_aligned(folder, src="a house\n\nx\u2028y\u0085z\n", tgt="ein Haus\r\nleer\r\nü"):
    (folder / "train.en").write_bytes(src.encode())
    (folder / "train.de.gz").write_bytes(gzip.compress(tgt.encode()))
    return open_aligned(folder / "train.en", folder / "train.de.gz")


def write(path, content):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def translation(**sides):
    return json.dumps({"id": 1, "translation": sides}) + "\n"


def refused(corpus, match):
    with pytest.raises(DataError, match=match) as caught:
        list((corpus() if callable(corpus) else corpus).pairs())
    assert "\n" not in str(caught.value)


def test_aligned_files(tmp_path):
    corpus = write_aligned(tmp_path)
    assert list(corpus.pairs()) == PAIRS
    assert (corpus.src_lang, corpus.tgt_lang, corpus.format) == ("en", "de", "aligned")
    assert corpus.count() == 3


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("a.pt-BR", "pt-BR"),
        ("a.zh_Hans.gz", "zh_Hans"),
        ("a.en.txt", "en"),
        ("a.txt", ""),
        ("a", ""),
        ("a.src", ""),
        ("news.2014", ""),
    ],
)
def test_languages_of_file_names(name, language):
    assert open_aligned(name, "b.de").src_lang == language
    assert open_aligned(name, "b.de", src_lang="fr").src_lang == "fr"


def test_tsv(tmp_path):
    path = write(tmp_path / "news.en-de.tsv", "a house\tein Haus\tCC BY\n\n\tleer\nx\u2028y\u0085z\tü\r\n")
    corpus = open_corpus(path)
    assert list(corpus.pairs()) == PAIRS
    assert (corpus.src_lang, corpus.tgt_lang) == ("en", "de")
    assert open_corpus(path, src_lang="xx").src_lang == "xx"


@pytest.mark.parametrize(
    ("name", "languages"),
    [
        ("news_en_de.tsv", ("en", "de")),
        ("news.eng_deu.tsv.gz", ("eng", "deu")),
        ("news.hsb-gsw.tsv", ("hsb", "gsw")),
        ("news.hsb-xyz.tsv", ("", "")),
        ("new_set.tsv", ("", "")),
        ("to_do.tsv", ("", "")),
    ],
)
def test_languages_of_table_names(tmp_path, name, languages):
    text = b"a\tb\n"
    corpus = open_corpus(write(tmp_path / name, gzip.compress(text) if name.endswith(".gz") else text.decode()))
    assert (corpus.src_lang, corpus.tgt_lang) == languages


def test_tsv_without_tab(tmp_path):
    refused(open_corpus(write(tmp_path / "a.tsv", "a\tb\nno tab here\n")), r"a\.tsv, line 2 has no tab.*'no tab here'")


def test_json_lines(tmp_path):
    lines = [translation(en=pair.src, de=pair.tgt) for pair in PAIRS]
    corpus = open_corpus(write(tmp_path / "a.jsonl.gz", gzip.compress("\n".join(lines).encode())))
    assert (corpus.src_lang, corpus.tgt_lang) == ("en", "de")
    assert list(corpus.pairs()) == PAIRS
    turned = open_corpus(tmp_path / "a.jsonl.gz", src_lang="de")
    assert (turned.src_lang, turned.tgt_lang) == ("de", "en")
    assert next(turned.pairs()) == SentencePair("ein Haus", "a house")


def test_json_text_is_one_line_of_valid_unicode(tmp_path):
    line = '{"translation": {"en": "a \\r\\n b\\ud83d", "de": "\\ud83d\\ude00"}}'
    corpus = open_corpus(write(tmp_path / "a.jsonl", line))
    assert list(corpus.pairs()) == [SentencePair("a b\ufffd", "😀")]


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("{not json", "line 2 is not JSON"),
        ("[" * 100_000, "line 2 is not JSON"),
        ('["a", "b"]', 'line 2 has no "translation" object'),
        ('{"translation": "a"}', 'line 2 has no "translation" object'),
        ('{"translation": {"en": "a", "fr": "b", "de": 5}}', 'line 2 has no text for "de". It has en, fr'),
    ],
)
def test_bad_json(tmp_path, line, match):
    refused(open_corpus(write(tmp_path / "a.json", translation(en="a", de="b") + line + "\n")), match)


def test_three_languages_need_a_choice(tmp_path):
    path = write(tmp_path / "a.jsonl", translation(en="a", de="b", fr="c"))
    with pytest.raises(
        ConfigError, match=r"has en, de, fr, and it is not clear which two to use\. Name them with `--src-lang`"
    ):
        open_corpus(path)
    assert next(open_corpus(path, src_lang="fr", tgt_lang="en").pairs()) == SentencePair("c", "a")


def test_unknown_extension(tmp_path):
    with pytest.raises(ConfigError, match=r"ends in \.abc"):
        open_corpus(tmp_path / "a.abc")
    for name in ("a.docx", "a.po", "film.srt.gz", "memory.xliff", "a.zip"):
        with pytest.raises(ConfigError, match=r"not sentences line by line\. Export its text as TMX"):
            open_corpus(tmp_path / name)
        with pytest.raises(ConfigError, match="not sentences line by line"):
            open_aligned(tmp_path / name, tmp_path / "a.de")
    with pytest.raises(DataError, match="is a directory, not a file"):
        open_corpus(tmp_path)


@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl"])
def test_empty_and_missing(tmp_path, name):
    languages = {"src_lang": "en", "tgt_lang": "de"}
    write(tmp_path / name, "")
    refused(lambda: open_corpus(tmp_path / name, **languages), "has no sentence pair")
    refused(lambda: open_corpus(tmp_path / f"no{name}", **languages), "does not exist")
    (tmp_path / "d.tsv").mkdir()
    refused(lambda: open_corpus(tmp_path / "d.tsv"), "is a directory")
    refused(lambda: open_corpus(tmp_path / name / "below.tsv"), "cannot be read")
    with pytest.raises(DataError, match="has no sentence pair"):
        open_corpus(write(tmp_path / "empty.jsonl", "\n"))


def test_one_file_for_both_sides_is_refused():
    with pytest.raises(ConfigError, match=r"a\.en is set for both sides"):
        open_aligned("a.en", "a.en")


@pytest.mark.parametrize(
    ("src", "tgt"),
    [("dev.de", "dev.en"), ("dev.de.gz", "dev.en-US.txt"), ("dev.de_AT", "dev.en"), ("dev.deu", "dev.eng")],
)
def test_exchanged_sides_are_refused_by_their_names(src, tgt):
    with pytest.raises(ConfigError, match=r"dev\.de\S* should be in en and dev\.en\S* in de, but"):
        open_aligned(src, tgt, src_lang="en", tgt_lang="de")
    with pytest.raises(ConfigError, match="their names say the opposite"):
        open_aligned(src, tgt, src_lang="en-GB", tgt_lang="de")


@pytest.mark.parametrize(
    ("src", "tgt", "src_lang", "tgt_lang"),
    [
        ("dev.de", "dev.en", "de", "en"),
        ("dev.de", "dev.en", "", ""),
        ("dev.de", "dev.fr", "en", "de"),
        ("dev.de", "dev.txt", "en", "de"),
        ("dev.en-GB", "dev.en-US", "en-US", "en-GB"),
    ],
)
def test_names_that_do_not_say_that_sides_are_exchanged(src, tgt, src_lang, tgt_lang):
    corpus = open_aligned(src, tgt, src_lang=src_lang, tgt_lang=tgt_lang)
    assert (corpus.src_lang, corpus.tgt_lang) == (src_lang or "de", tgt_lang or "en")


@pytest.mark.parametrize(
    ("src_lang", "tgt_lang"), [("de", "en"), ("de", ""), ("", "en"), ("de-AT", "fr"), ("deu", "eng")]
)
def test_columns_that_are_named_the_other_way_round_are_refused(tmp_path, src_lang, tgt_lang):
    path = write(tmp_path / "x.en-de.tsv", "a\tb\n")
    with pytest.raises(
        ConfigError, match=r"x\.en-de\.tsv should have .* in its columns, but its name or header says en and de"
    ):
        open_corpus(path, src_lang=src_lang, tgt_lang=tgt_lang)
    corpus = open_corpus(path, src_lang="en-GB")
    assert (corpus.src_lang, corpus.tgt_lang) == ("en-GB", "de")


def test_empty_aligned(tmp_path):
    refused(write_aligned(tmp_path, "", ""), "has no sentence pair")
    refused(write_aligned(tmp_path, "a\n", ""), r"train\.de\.gz is empty")
    refused(write_aligned(tmp_path, "", "a\n"), r"train\.en is empty")


def test_misaligned_files_name_both_counts_and_the_place(tmp_path):
    rng = random.Random(1)
    src = [f"{'word ' * rng.randrange(1, 15)}{n}" for n in range(400)]
    tgt = [line.replace("word", "Wort") for line in src]
    del tgt[250]
    with pytest.raises(DataError, match=r"train\.en has 400 lines, but .*de\.gz has 399\. .* alignment near") as caught:
        list(write_aligned(tmp_path, "\n".join(src) + "\n", "\n".join(tgt)).pairs())
    assert abs(int(str(caught.value).split("near line ")[1].split(".")[0]) - 251) <= 20
    with pytest.raises(DataError, match=r"has 399 lines, but .* has 400\."):
        write_aligned(tmp_path, "\n".join(tgt) + "\n", "\n".join(src)).count()


class TestSettings:
    def test_parts(self, tmp_path):
        write(tmp_path / "dev.tsv", "a\tb\n")
        files = {"train_src": "t.en", "train_tgt": "t.de"}
        corpora = open_corpora(
            Config(data=DataSettings(**files, dev=str(tmp_path / "dev.tsv"), test_src="x", test_tgt="y"))
        )
        assert corpora.train[0].format == "aligned"
        assert corpora.dev is not None
        assert corpora.test is not None
        assert (corpora.dev.src_lang, corpora.test.tgt_lang) == ("en", "de")
        assert open_corpora(Config(data=DataSettings(**files))).dev is None

    @pytest.mark.parametrize(
        ("settings", "match"),
        [
            (DataSettings(), "`data.train` is not set"),
            (DataSettings(train_src="a.en"), "`data.train_src` is given, but `data.train_tgt` is not"),
            (DataSettings(train="a.tsv", dev_tgt="a.en"), "`data.dev_tgt` is given, but `data.dev_src` is not"),
            (
                DataSettings(train="a.tsv", train_src="b", train_tgt="c"),
                "`data.train` and `data.train_src` must not both be given",
            ),
        ],
    )
    def test_contradictions(self, settings, match):
        with pytest.raises(ConfigError, match=match):
            open_corpora(Config(data=settings))


def test_sides_of_a_table_are_read_in_one_pass_however_far_apart(tmp_path, monkeypatch):
    (tmp_path / "a.tsv").write_text("".join(f"s{number}\tt{number}\n" for number in range(9)))
    corpus, readings, original = open_corpus(tmp_path / "a.tsv"), [], Corpus.pairs

    def pairs(self):
        readings.append(self)
        return original(self)

    monkeypatch.setattr(Corpus, "pairs", pairs)
    src, tgt = corpus.sides()
    assert [next(src), next(src), next(tgt)] == ["s0", "s1", "t0"]
    assert [*tgt] == [f"t{number}" for number in range(1, 9)]
    assert [*src] == [f"s{number}" for number in range(2, 9)]
    assert readings == [corpus]


def test_a_count_is_remembered_only_when_all_was_read(tmp_path):
    corpus = write_aligned(tmp_path)
    next(corpus.pairs())
    write_aligned(tmp_path, "a\nb\n", "x\ny\n")
    assert corpus.count() == 2
    write_aligned(tmp_path)
    assert corpus.count() == 2
    assert replace(corpus, src_lang="de").count() == 3
