"""`--bilingual` and `--review` with the built-in model: both sides of a translation, to read or to use again."""

import gzip
import inspect
import os
import re
from collections.abc import Callable
from html import escape, unescape
from itertools import product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import dragoman
from dragoman.cli.main import run_command
from dragoman.errors import ConfigError
from dragoman.text.corpus.tmx import ReadReport, read_tmx
from tests.unit.text.documents.office.office_files import docx, odt, word_part

LATE, STATION = ("It is late.", "Es ist spät."), ("Where is the station?", "Wo ist der Bahnhof?")
GUITAR = "A woman in a red shirt plays guitar.", "Eine Frau in einem roten Hemd spielt Gitarre."
# Bold starts in the middle of a sentence and ends in that of the next one.
REPORT = docx(
    '<w:p><w:r><w:t xml:space="preserve">A woman in a </w:t></w:r><w:r><w:rPr><w:b/></w:rPr>'
    '<w:t xml:space="preserve">red shirt plays guitar. Where</w:t></w:r><w:r><w:t xml:space="preserve"> is the station?'
    '</w:t></w:r></w:p><w:p><w:pPr><w:pStyle w:val="Code"/></w:pPr><w:r><w:t>print(1)</w:t></w:r></w:p>'
    "<w:p><w:r><w:t>It is late.</w:t></w:r><w:r><w:tab/></w:r><w:r><w:t>Where is the station?</w:t></w:r></w:p>",
    word__styles=word_part(
        '<w:style w:type="paragraph" w:styleId="Code"><w:name w:val="HTML Preformatted"/></w:style>', "styles"
    ),
)
NOTE = odt("<text:p>A woman in a <text:span>red shirt</text:span> plays guitar. It is late.</text:p>")
PAGE = (
    "<h1>It is late.</h1><pre>one = 1</pre><p>A woman in a <b>red shirt plays guitar. Where</b> is the station?</p>"
    '<p translate="no">Nothing.</p>'
)
CUES = (
    "1\n00:00:01,000 --> 00:00:02,000\n- <i>It is late.</i>\n- Where is\nthe station?\n\n"
    "2\n00:00:03,000 --> 00:00:04,000\nWhere is the station?\n"
)
DOCUMENTS: dict[str, tuple[bytes, list[list[tuple[str, str]]]]] = {
    "a.docx": (REPORT, [[GUITAR, STATION], [LATE, STATION]]),
    "a.odt": (NOTE, [[GUITAR, LATE]]),
    "a.html": (PAGE.encode(), [[LATE], [GUITAR, STATION]]),
    "a.srt": (CUES.encode(), [[LATE], [STATION], [STATION]]),
    "a.txt": ("\n".join([LATE[0], "", f"{STATION[0]} {LATE[0]}", ""]).encode(), [[LATE], [STATION, LATE]]),
    "a.tsv": (f"{LATE[0]}\tx\n{STATION[0]}\ty\n".encode(), [[LATE], [STATION]]),
}
HOSTILE = "</td><script>window.hacked=1</script>\t& \x07 <b>שלום</b> \u2028\u202e ]]> \"one\" 'two'"


def translate(source: Path, *flags: object, model: str = "demo", expected: int = 0) -> None:
    command = ["translate", model, "--input", source, *flags]
    assert run_command([str(part) for part in command]) == expected


def rows_of(page: Path) -> list[tuple[str, ...]]:
    """The cells of each row of the page: number, source, translation and flags. White space is single spaces."""
    rows = re.findall(r'<tr(?: class="flagged")?><td.*?</tr>', page.read_text(encoding="utf-8"), re.DOTALL)
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in rows]
    return [tuple(" ".join(unescape(re.sub("<[^<>]*>", "", cell)).split()) for cell in row) for row in cells]


def units_of(content: bytes) -> list[dict[str, str]]:
    """The texts of each translation unit by language, and its flags, as an independent parser reads them."""
    root = ElementTree.fromstring(content)
    assert (root.tag, root.get("version")) == ("tmx", "1.4")
    header = root.find("header")
    assert header is not None
    needed = {"creationtool", "creationtoolversion", "segtype", "o-tmf", "adminlang", "srclang", "datatype"}
    assert needed <= set(header.attrib), "TMX 1.4 requires these attributes"
    assert (header.get("creationtool"), header.get("creationtoolversion")) == ("dragoman", dragoman.__version__)
    assert [child.tag for child in root] == ["header", "body"]
    units = []
    for unit in root.iterfind("body/tu"):
        texts = {one.get("{http://www.w3.org/XML/1998/namespace}lang", ""): one for one in unit.iterfind("tuv")}
        found = {language: one.findtext("seg", "") for language, one in texts.items()}
        units.append(found | {f"{one.get('type')}": one.text or "" for one in unit.iterfind("prop")})
    return units


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_sentence_stands_beside_its_translation(name: str, tmp_path: Path) -> None:
    content, segments = DOCUMENTS[name]
    source, pairs = tmp_path / name, [pair for segment in segments for pair in segment]
    source.write_bytes(content)
    outputs = []
    for ending in ("tsv", "html", "tmx.gz"):
        outputs.append(tmp_path / f"out-{ending}{source.suffix}")
        flags = ["--split"] * (name == "a.txt")
        translate(source, "--output", outputs[-1], "--bilingual", tmp_path / f"both.{ending}", *flags)
    translate(source, "--output", tmp_path / name.replace(".", "-alone."), *flags)
    alone = (tmp_path / name.replace(".", "-alone.")).read_bytes()
    assert [path.read_bytes() for path in outputs] == [alone] * 3, "the translation is the same"
    assert (tmp_path / "both.tsv").read_text(encoding="utf-8") == "".join(f"{src}\t{tgt}\n" for src, tgt in pairs)
    packed = tmp_path / "both.tmx.gz"
    assert [(pair.src, pair.tgt) for pair in read_tmx(packed, "en", "de", ReadReport())] == pairs
    assert units_of(gzip.decompress(packed.read_bytes())) == [{"en": src, "de": tgt} for src, tgt in pairs]
    rows = rows_of(tmp_path / "both.html")
    assert [row[1:] for row in rows] == [
        (*(" ".join(side) for side in zip(*segment, strict=True)), "") for segment in segments
    ]


TEXT = '<w:r><w:t xml:space="preserve">%s</w:t></w:r>'
FIELD = "".join(
    f"<w:r>{content}</w:r>"
    for content in (
        '<w:fldChar w:fldCharType="begin"/>',
        "<w:instrText>PAGEREF a</w:instrText>",
        '<w:fldChar w:fldCharType="separate"/>',
        "<w:t>12</w:t>",
        '<w:fldChar w:fldCharType="end"/>',
    )
)


@pytest.mark.parametrize(
    ("name", "content", "shown"),
    [
        ("a.html", b"<p>Use <code>ls</code> now. It is late.</p>", "Use … now. It is late."),
        ("b.html", b'<p>A <img src="a"> dog runs. It is late.</p>', "A dog runs. It is late."),
        (
            "c.docx",
            docx(f"<w:p>{TEXT % 'See page '}{FIELD}{TEXT % ' now. It is late.'}</w:p>"),
            "See page … now. It is late.",
        ),
    ],
)
def test_a_sentence_with_a_gap_is_no_pair(name: str, content: bytes, shown: str, tmp_path: Path) -> None:
    """Code, or a page number: a translation memory would have a sentence that nobody wrote."""
    (tmp_path / name).write_bytes(content)
    for ending in ("tsv", "html"):
        translate(
            tmp_path / name, "--output", tmp_path / f"{ending}-{name}", "--bilingual", tmp_path / f"both.{ending}"
        )
    (row,) = rows_of(tmp_path / "both.html")
    assert row[1] == shown
    assert row[2].count("…") == shown.count("…")
    pairs = [line.split("\t")[0] for line in (tmp_path / "both.tsv").read_text(encoding="utf-8").splitlines()]
    assert pairs == (["It is late."] if "…" in shown else ["A dog runs.", "It is late."])


def test_what_a_reviewer_must_check_is_marked(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "a.html"
    page.write_text("<p>It is late.</p><p>Xqzzy <b>blorf</b> wug 17 tiktak.</p><p>Where is the station?</p>")
    translate(page, "--output", tmp_path / "b.html", "--bilingual", tmp_path / "both.html", "--review")
    said = capfd.readouterr().err.splitlines()[-1]
    found = re.fullmatch(r"dragoman: 3 segments: 1 flagged \((.*)\), none lost a placeholder or term\.", said)
    assert found, said
    rows = rows_of(tmp_path / "both.html")
    assert [row[0] for row in rows] == ["1", "2", "3"]
    flags = rows[1][3].split()
    assert "unsure" in flags
    assert found[1] == ", ".join(f"{flag} 1" for flag in flags)
    assert [rows[0][3], rows[2][3]] == ["", ""]
    shown = unescape((tmp_path / "both.html").read_text(encoding="utf-8"))
    meanings = dragoman.evaluation.flags.FLAGS
    assert [flag for flag, meaning in meanings.items() if f"<dd>{meaning}</dd>" in shown] == flags
    for text in ("a.html", "English (en)", "German (de)", "3 segments: 1 flagged"):
        assert text in shown
    translate(page, "--output", tmp_path / "b.html", "--bilingual", tmp_path / "both.tmx")
    assert [unit.get("x-flags") for unit in units_of((tmp_path / "both.tmx").read_bytes())] == [
        None,
        ",".join(flags),
        None,
    ]


def test_markup_and_escapes_cause_no_flags(tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_bytes(REPORT)
    translate(tmp_path / "a.docx", "--output", tmp_path / "b.docx", "--bilingual", tmp_path / "r.html")
    page = tmp_path / "a.html"
    page.write_text(
        '<p id="x1 2">It is <a href="https://a.b/1?c=2">late</a>.<br/><code>n = 3</code></p><p>It &lt; is.</p>'
    )
    translate(page, "--output", tmp_path / "b.html", "--bilingual", tmp_path / "s.html")
    flags = {flag for name in ("r.html", "s.html") for row in rows_of(tmp_path / name) for flag in row[3].split()}
    assert not flags & {"tag", "url", "number", "lost", "short", "long"}


def test_an_ampersand_that_becomes_a_word_is_not_lost(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The text loses its address in the first translation, and is translated again."""
    page = tmp_path / "a.html"
    page.write_text("<p>Please write to info@example.org &amp; wait.</p>")
    translate(page, "--output", tmp_path / "b.html")
    assert "info@example.org" in (tmp_path / "b.html").read_text()
    assert "&amp;" not in (tmp_path / "b.html").read_text(), "the model translates it"
    assert "lost or repeated" not in capfd.readouterr().err


def test_text_without_translations_of_its_sentences_is_one_pair(tmp_path: Path) -> None:
    """Protected spans that are inserted afterwards, and capitals. Terms leave the sentences."""
    (tmp_path / "terms.tsv").write_text("station\tHauptbahnhof\n")
    page = tmp_path / "a.html"
    address = "It is late. Please write to <b>info@example.org</b> now."
    capitals = "THE MUSEUM IS CLOSED ON MONDAY. IT IS LATE."
    page.write_text(f"<p>{address}</p><p>{capitals}</p><p>Where is the station? It is late.</p>")
    flags = "--terms", tmp_path / "terms.tsv", "--bilingual", tmp_path / "both.tsv"
    translate(page, "--output", tmp_path / "b.html", *flags)
    written = re.findall("<p>(.*?)</p>", (tmp_path / "b.html").read_text(encoding="utf-8"))
    pairs = [line.split("\t") for line in (tmp_path / "both.tsv").read_text(encoding="utf-8").splitlines()]
    plain = [re.sub("<.*?>", "", unescape(text)) for text in written]
    assert pairs == [
        [re.sub("<.*?>", "", address), plain[0]],
        [capitals, "DAS MUSEUM IST AM MONTAG GESCHLOSSEN. ES IST SPÄT."],
        ["Where is the station?", "Wo ist der Hauptbahnhof?"],
        ["It is late.", "Es ist spät."],
    ]
    assert "info@example.org" in plain[0]


@pytest.mark.parametrize("kind", ["text", "html"])
def test_hostile_text_stays_text(kind: str, tmp_path: Path) -> None:
    source = tmp_path / f"<b>a.{kind}"
    source.write_text(f"<p>{escape(HOSTILE)}</p>" if kind == "html" else f"{HOSTILE}\n")
    for ending in ("html", "tsv", "tmx"):
        flags = "--format", kind, "--output", tmp_path / f"{ending}-{kind}"
        translate(source, *flags, "--bilingual", tmp_path / f"both.{ending}")
    shown = (tmp_path / "both.html").read_text(encoding="utf-8")
    assert shown.count("<script") == 1, "the page's own"
    assert "<b>" not in shown
    assert [row[1] for row in rows_of(tmp_path / "both.html")] == [" ".join(HOSTILE.split())]
    lines = (tmp_path / "both.tsv").read_text(encoding="utf-8").splitlines()
    assert all(line.count("\t") == 1 for line in lines)
    units = units_of((tmp_path / "both.tmx").read_bytes())
    assert [(unit["en"], unit["de"]) for unit in units] == [tuple(line.split("\t")) for line in lines]
    sources = "".join(unit["en"] for unit in units)
    assert "".join(sources.split()) == "".join(HOSTILE.replace("\x07", "").split())


def test_a_summary_of_lines_folders_and_kept_paragraphs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "a.docx").write_bytes(REPORT)
    (tmp_path / "in" / "b.html").write_text("<p>Xqzzy blorf wug tiktak.</p>")
    (tmp_path / "in" / "sub" / "c.txt").write_text("It is late.\n\n")
    translate(tmp_path / "in", "--output", tmp_path / "out", "--review")
    said = [line for line in capfd.readouterr().err.splitlines() if "segments:" in line]
    assert said == ["dragoman: 4 segments: 1 flagged (unsure 1), 1 left as it is, none lost a placeholder or term."]
    (tmp_path / "p").write_text("Ich\n")
    flags = "--prefix", tmp_path / "p", "--output", tmp_path / "o", "--review"
    (tmp_path / "lines").write_text("See {a}.\n")
    translate(tmp_path / "lines", *flags)
    said = [line for line in capfd.readouterr().err.splitlines() if "segment:" in line]
    assert [re.sub(r"\(.*?\)", "", line) for line in said] == [
        "dragoman: 1 segment: 1 flagged , 1 lost a placeholder or term. `--bilingual review.html` shows the flagged "
        "ones."
    ]
    assert "lost 1" in said[0]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, bytes]]:
    """Some files in the working directory. Returns the content of all files."""
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    for name in ("a.html", "old.tsv", "folder/b.html"):
        Path(name).write_text("<p>It is late.</p>")
    Path("link.html").symlink_to("a.html")
    return lambda: {str(path): path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("a.html --bilingual both.txt", "`--bilingual` is both.txt, but must be a page to read (.html), or with"),
        ("a.html --bilingual both", "Change its ending."),
        ("a.html --bilingual a.html", "`--input` is a.html, which `--bilingual` a.html would replace."),
        ("a.html --bilingual link.html", "`--input` is link.html, which `--bilingual` link.html would replace."),
        (
            "a.html --bilingual old.tsv --terms old.tsv",
            "`--terms` is old.tsv, which `--bilingual` old.tsv would replace",
        ),
        ("a.html --bilingual new.html", "`--output` is new.html, which `--bilingual` new.html would replace."),
        ("a.html --bilingual ./new.html", "`--output` is new.html, which `--bilingual` new.html would replace."),
        ("a.html --bilingual none/both.tmx", "`--bilingual` is none/both.tmx, but none is not a folder. Create it"),
        ("a.html --bilingual folder", "`--bilingual` is folder, but must be"),
        ("folder --bilingual both.html", "`--bilingual` is for one file, but `--input` folder is a folder."),
        ("old.tsv --format text --cluster auto --bilingual b.tsv", "`--cluster` and `--bilingual` must not both be"),
        ("old.tsv --format text --cluster auto --review", "`--cluster` and `--review` must not both be given."),
    ],
)
def test_bad_names_are_one_line_and_nothing_is_written(
    flags: str, words: str, files: Callable[[], dict[str, bytes]], capfd: pytest.CaptureFixture[str]
) -> None:
    before = files()
    source, *others = flags.split()
    translate(Path(source), "--output", "new.html" if source != "folder" else "out", *others, model="none", expected=2)
    said = capfd.readouterr()
    assert words in said.err
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert files() == before


@pytest.mark.parametrize("flag", ["--bilingual b.tsv", "--review"])
def test_streams_are_refused(flag: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command(["translate", "none", "--text", "one", "--stream", *flag.split()]) == 2
    assert f"`--stream` and `{flag.split()[0]}` must not both be given. Leave one out." in capfd.readouterr().err


def test_a_translation_memory_needs_languages(
    model_folder: Path, files: Callable[[], dict[str, bytes]], capfd: pytest.CaptureFixture[str]
) -> None:
    before, flags = files(), ("--output", "new.html", "--bilingual", "both.tmx")
    translate(Path("a.html"), *flags, model=str(model_folder), expected=2)
    said = capfd.readouterr().err
    assert said.endswith(
        "dragoman: `--bilingual` is both.tmx, which needs two languages, but they are ? and ?. Use .tsv "
        "or .html, or name both: `--src-lang en --tgt-lang de`.\n"
    )
    assert files() == before
    translate(Path("a.html"), *flags, "--src-lang", "Czech", "--tgt-lang", "pt-BR", model=str(model_folder))
    assert [set(unit) - {"x-flags"} for unit in units_of(Path("both.tmx").read_bytes())] == [{"cs", "pt-BR"}]
    assert 'srclang="cs"' in Path("both.tmx").read_text(encoding="utf-8")


def test_an_old_file_is_replaced_only_by_a_whole_one(
    files: Callable[[], dict[str, bytes]], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    before = files()

    def fail(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr("dragoman.files._flush_to_disk", fail)
        translate(Path("a.html"), "--bilingual", "old.tsv", expected=2)
    assert "dragoman: old.tsv could not be written: no space left on the disk." in capfd.readouterr().err
    assert files() == before
    Path("bad.srt").write_text("no cue\n")
    translate(Path("bad.srt"), "--format", "srt", "--bilingual", "old.tsv", expected=2)
    Path("bad.srt").unlink()
    assert files() == before
    translate(Path("a.html"), "--output", "new.html", "--bilingual", "old.tsv")
    assert Path("old.tsv").read_text(encoding="utf-8") == "It is late.\tEs ist spät.\n"
    assert files().keys() - before.keys() == {str(Path("new.html").absolute())}


def test_from_python(files: Callable[[], dict[str, bytes]]) -> None:
    assert "bilingual" in inspect.signature(dragoman.translate_document).parameters
    translated = dragoman.translate_document("a.html", "demo", bilingual="both.tsv")
    assert translated == "<p>Es ist spät.</p>".encode()
    assert Path("both.tsv").read_text(encoding="utf-8") == "It is late.\tEs ist spät.\n"
    assert dragoman.translate_document(REPORT, "demo", "b.docx", bilingual=Path("both.html"), comments=True) is None
    assert rows_of(Path("both.html"))[0][:2] == ("1", f"{GUITAR[0]} {STATION[0]}")
    assert "<bdi>the document</bdi>" in Path("both.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"bilingual": "b.txt"}, "`bilingual` is b.txt, but must be a page to read (.html), or with sentence pairs"),
        ({"bilingual": "a.html"}, "`bilingual` is a.html, which is the document. Choose another name."),
        ({"bilingual": "b.html", "output": "b.html"}, "`output` is b.html, which `bilingual` b.html would replace."),
        ({"document": "b.tsv.part", "bilingual": "b.tsv"}, "b.tsv.part, which is the document. Choose another name."),
        ({"bilingual": 3}, "`bilingual` must be a path, but is 3."),
        ({"bilingual": "none/b.tsv"}, "`bilingual` is none/b.tsv, but none is not a folder."),
        ({"bilingal": "b.tsv"}, "`bilingal` is not an argument of `translate_document`. Did you mean `bilingual`?"),
        ({"keep_style": ["A"]}, "`keep_style` is not an argument of `translate_document`. Did you mean `keep_styles`?"),
    ],
)
def test_errors_from_python(keywords: Any, words: str, files: Callable[[], dict[str, bytes]]) -> None:
    Path("b.tsv.part").write_text("It is late.\n")
    before = files()
    assert "bilingual" in inspect.signature(dragoman.translate_document).parameters
    with pytest.raises(ConfigError) as error:
        dragoman.translate_document(**{"document": "a.html", "translator": "demo"} | keywords)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert files() == before


def test_languages_from_python(model_folder: Path, files: Callable[[], dict[str, bytes]]) -> None:
    assert "bilingual" in inspect.signature(dragoman.translate_document).parameters
    with pytest.raises(
        ConfigError, match=r"^`bilingual` is b\.tmx, which needs two languages.* Use \.tsv or \.html\.$"
    ):
        dragoman.translate_document("a.html", model_folder, bilingual="b.tmx")
    assert not Path("b.tmx").exists()


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["tsv", "tmx"])
def test_the_pairs_of_a_document_train_a_model(ending: str, tmp_path: Path) -> None:
    things = "dog cat house train museum bridge hotel city woman man".split()
    times = product(things, ("early", "late", "here"))
    sentences = [f"The {thing} is {time}{' and old' * (number % 3)}." for number, (thing, time) in enumerate(times)]
    (tmp_path / "a.html").write_text(
        "".join(f"<p>{' '.join(pair)}</p>" for pair in zip(sentences[::2], sentences[1::2], strict=True))
    )
    both = tmp_path / f"both.{ending}"
    translate(tmp_path / "a.html", "--output", tmp_path / "b.html", "--bilingual", both)
    flags = "--model.d-model 8 --model.d-ff 16 --model.num-heads 2 --tokenizer.vocab-size 300 --train.max-steps 1"
    command = f"train --data {both} --out {tmp_path / 'run'} {flags} --data.drop-duplicates false"
    assert run_command(command.split()) == 0
    card = dragoman.load(tmp_path / "run").card
    assert card.train_pairs + card.dev_pairs + card.test_pairs == 30
