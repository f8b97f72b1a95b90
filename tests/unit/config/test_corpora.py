from pathlib import Path

import pytest

from dragoman.config import Config, CorpusSettings, DataSettings, dump_config, load_config, read_given
from dragoman.config.corpora import read_corpora
from dragoman.errors import ConfigError

THREE = """
[[corpora]]
data = ["a.tmx", "b.tmx"]
weight = 2
tag = "legal"
[[corpora]]
src = "crawl.en"
tgt = "crawl.de"
synthetic = "src"
from = 0.25
until = 0.8
[train]
max_epochs = 10
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_corpora_are_read_and_written_as_tables(tmp_path: Path) -> None:
    config = load_config([write(tmp_path / "run.toml", THREE)])
    one = CorpusSettings(data="a.tmx", weight=2.0, tag="legal")
    other = CorpusSettings(src="crawl.en", tgt="crawl.de", synthetic="src", from_=0.25, until=0.8)
    assert config.corpora == (one, CorpusSettings(data="b.tmx", weight=2.0, tag="legal"), other)
    written = dump_config(config)
    assert load_config([write(tmp_path / "again.toml", written)]) == config
    assert "corpora" not in dump_config(Config())
    assert config.corpus_paths == {
        "corpora[0].data": "a.tmx",
        "corpora[1].data": "b.tmx",
        "corpora[2].src": "crawl.en",
        "corpora[2].tgt": "crawl.de",
    }
    moved = config.with_corpus_paths({"corpora[2].src": "other.en"})
    assert moved.corpora[2].files == ("other.en", "crawl.de")


def test_a_later_source_replaces_the_training_text_of_an_earlier_one(tmp_path: Path) -> None:
    several, one = write(tmp_path / "a.toml", THREE), write(tmp_path / "b.toml", '[data]\ntrain = "x.tsv"\n')
    assert load_config([several, one]).corpora == ()
    later = load_config([one, several])
    assert (len(later.corpora), later.data.train) == (3, "")
    assert load_config([several], {"data.train": "y.tsv"}).corpora == ()
    flags = read_given([one], {}, (CorpusSettings(data="f.tsv"), CorpusSettings(data="g.tsv"))).over(Config()).config
    assert (flags.data.train, [each.data for each in flags.corpora]) == ("", ["f.tsv", "g.tsv"])
    base = Config(data=DataSettings(train="old.tsv"))
    assert load_config([several], base=base).data.train == ""


TWO = '[[corpora]]\ndata = "a.tsv"\n[[corpora]]\ndata = "b.tsv"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TWO + "weight = -1", r"`corpora\[1\].weight` \(b.tsv\) in .*x.toml must be greater than 0, but is -1"),
        (TWO + "weight = 0", "must be greater than 0, but is 0"),
        (TWO + "weight = nan", "must be a finite number"),
        (TWO + "weight = inf", "must be a finite number, but is inf"),
        (TWO + 'weight = "2"', 'must be a number, but is "2"'),
        (TWO + "weights = 2", r"`corpora\[1\].weights` in .* is not a setting of a corpus. Did you mean `weight`"),
        (TWO + 'tag = "my tag"', r"`corpora\[1\].tag` in .*x.toml \(b.tsv\) must be a word .* but is \"my tag\""),
        (TWO + 'synthetic = "tgt"', "must be one of"),
        (TWO + "from = 0.5\nuntil = 0.5", r"`corpora\[1\].from` .*\(b.tsv\) must be less than `until` \(0.5\)"),
        (TWO + "max_tokens = 500", r"must be at most `data.max_tokens` \(128\), but is 500"),
        (TWO + "max_length_ratio = 0.5", "must be 0 or at least 1, but is 0.5"),
        (TWO + 'src = "c.en"', r"`corpora\[1\]` .* must have one file as `data`, or two aligned files"),
        ("[[corpora]]\nweight = 2", r"`corpora\[0\]` .* must have one file as `data`, or two aligned files"),
        ('[[corpora]]\nsrc = "a.en"', "must have one file as `data`, or two aligned files"),
        ('[[corpora]]\nsrc = ["a", "b"]\ntgt = "c"', "has 2 files in `src`, but 1 in `tgt`"),
        (TWO.replace("b.tsv", "./a.tsv"), r"`corpora\[1\]` .* has a file that `corpora\[0\]` has too"),
        (TWO + "[data]\ntrain = 'c.tsv'", r"`data.train` in .* must not be set beside \[\[corpora\]\]"),
        ("corpora = 3", "`corpora` in .* must be a list of tables, but is 3"),
        ("[corpora]\ndata = 'a.tsv'", "must be a list of tables, but is a table"),
        ("corpora = ['a.tsv']", r"`corpora\[0\]` in .* must be a table"),
        (
            '[[corpora]]\ndata = "a.tsv"\nuntil = 0.5\n[[corpora]]\ndata = "b.tsv"\nfrom = 0.7',
            "no corpus to use after 50% of the run",
        ),
        ('[[corpora]]\ndata = "a.tsv"\nfrom = 0.1', "no corpus to use after 0% of the run"),
        ('[[corpora]]\ndata = "a.tsv"\nsynthetic = "src"', "none can be used to validate. Set `data.dev`"),
        (TWO + 'tag = "x"\n[model]\npositions = "learned"\nmax_positions = 129', "must be at least 130, .* but is 129"),
    ],
)
def test_mistakes_name_the_corpus_and_its_place(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path / "x.toml", text)
    with pytest.raises(ConfigError, match=message) as error:
        load_config([path])
    assert "\n" not in str(error.value)


def test_python_gives_tables_or_records(tmp_path: Path) -> None:
    record = CorpusSettings(data="a.tsv", until=0.5)
    table = {"data": tmp_path / "b.tsv", "from": 0.5, "weight": 3}
    found = read_corpora([record, table])
    assert found == (record, CorpusSettings(data=str(tmp_path / "b.tsv"), from_=0.5, weight=3.0))
    with pytest.raises(ConfigError, match=r"^`corpora\[0\].weight` \(a\) must be greater than 0, but is -1\.$"):
        read_corpora([{"data": "a", "weight": -1}])


def test_a_folder_may_have_braces_in_its_name(tmp_path: Path) -> None:
    path = tmp_path / "a{x}" / "{1}.toml"
    path.parent.mkdir()
    write(path, TWO + 'tag = "a b"')
    with pytest.raises(ConfigError, match=r"`corpora\[1\].tag` in .*a\{x\}/\{1\}.toml"):
        load_config([path])
    write(path, "[model]\nd_model = 7\nnum_heads = 2")
    with pytest.raises(ConfigError, match=r"a\{x\}/\{1\}.toml"):
        load_config([path])
