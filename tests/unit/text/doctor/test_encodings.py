"""Files as other programs save them. A certain guess must decode to the text that was written."""

from itertools import product
from pathlib import Path

import pytest

from dragoman.text.corpus.opening import open_aligned
from dragoman.text.doctor.examine import examine
from dragoman.text.doctor.languages import guess_encoding

WHO = {
    "cs": ["Můj starší bratr", "Naše učitelka", "Ten mladý muž", "Její přítelkyně", "Každý žák", "Pan Novák"],
    "ru": ["Мой старший брат", "Наша учительница", "Этот молодой человек", "Её подруга", "Каждый ученик", "Сосед"],
    "de": [
        "Mein älterer Bruder",
        "Unsere Lehrerin",
        "Dieser junge Mann",
        "Ihre Freundin",
        "Jeder Schüler",
        "Der Bäcker",
    ],
    "el": ["Ο μεγάλος αδελφός μου", "Η δασκάλα μας", "Αυτός ο νέος", "Η φίλη της", "Κάθε μαθητής", "Ο γείτονας"],
    "ja": ["私の兄は", "私たちの先生は", "あの若い男は", "彼女の友達は", "どの生徒も", "隣の人は"],
}
DOES = {
    "cs": ["šel včera večer do města.", "ještě nečetl tuhle knížku.", "říká, že to není možné.", "si koupí nové šaty."],
    "ru": ["ходил вчера вечером в город.", "ещё не читал эту книгу.", "говорит, что это невозможно.", "купит платье."],
    "de": [
        "ging gestern Abend über die Brücke.",
        "möchte ein größeres Haus.",
        "hört gern schöne Musik.",
        "läuft früh.",
    ],
    "el": ["πήγε χθες στην πόλη.", "δεν διάβασε αυτό το βιβλίο.", "λέει ότι δεν γίνεται.", "θα αγοράσει ένα σπίτι."],
    "ja": [
        "昨日の夜、町へ行きました。",
        "まだこの本を読んでいません。",
        "それは無理だと言っています。",
        "家を買います。",
    ],
}


def sentences(lang: str) -> list[str]:
    between = "" if lang == "ja" else " "
    return [f"{who}{between}{does}" for who, does in product(WHO[lang], DOES[lang])]


def written(path: Path, lang: str, encoding: str) -> str:
    text = "".join(f"{line}\n" for line in sentences(lang))
    path.write_bytes(text.encode(encoding))
    return text


@pytest.mark.parametrize(
    ("lang", "encoding"),
    [
        ("cs", "iso8859_2"),
        ("cs", "cp1250"),
        ("cs", "cp852"),
        ("ru", "koi8_r"),
        ("ru", "cp1251"),
        ("ru", "cp866"),
        ("ru", "iso8859_5"),
        ("de", "cp1252"),
        ("de", "mac_roman"),
        ("el", "cp1253"),
        ("ja", "shift_jis"),
        ("ja", "euc_jp"),
        ("cs", "utf_16_le"),
        ("ja", "utf_16_be"),
    ],
)
def test_the_right_encoding_is_among_the_readings_and_no_wrong_one_is_sure(tmp_path, lang, encoding):
    text = written(tmp_path / f"a.{lang}", lang, encoding)
    guess = guess_encoding(tmp_path / f"a.{lang}", ["en", lang])
    content = (tmp_path / f"a.{lang}").read_bytes()
    assert text in [content.decode(encoding) for encoding in guess.readings]
    assert len(guess.readings) <= 3


def test_two_readings_are_shown_by_a_line_that_tells_them_apart(tmp_path):
    (tmp_path / "a").write_bytes("Weißt du es?\nGrüße\n".encode("cp1252"))
    first, second, *_ = guess_encoding(tmp_path / "a", [""]).readings.values()
    assert first != second


def test_a_utf8_file_with_some_damaged_lines_is_called_that(tmp_path):
    lines = [line.encode() for line in sentences("cs")]
    lines[7] = sentences("cs")[7].encode("cp1250")
    mixed = [sentences("cs")[n].encode("cp1250") if n % 3 else line for n, line in enumerate(lines)]
    (tmp_path / "mixed.cs").write_bytes(b"\n".join(mixed) + b"\n")
    assert guess_encoding(tmp_path / "mixed.cs", ["cs"]).is_utf8
    (tmp_path / "a.cs").write_bytes(b"\n".join(lines) + b"\n")
    (tmp_path / "a.en").write_bytes(b"x\n" * len(lines))
    guess = guess_encoding(tmp_path / "a.cs", ["cs"])
    assert (guess.readings, guess.is_utf8) == ({}, True)
    (finding,) = examine(open_aligned(tmp_path / "a.en", tmp_path / "a.cs")).findings
    assert (finding.count, finding.lines, finding.advice) == (
        1,
        (8,),
        "Correct or remove these lines: no single encoding fits the whole file.",
    )


@pytest.mark.parametrize("encoding", ["iso8859_2", "utf_16_le", "utf_16"])
def test_what_check_advises_reads_the_file(tmp_path, encoding):
    written(tmp_path / "a.cs", "cs", encoding)
    (tmp_path / "a.en").write_bytes(b"x\n" * len(sentences("cs")))
    files = tmp_path / "a.en", tmp_path / "a.cs"
    (finding,) = examine(open_aligned(*files)).findings
    assert (finding.kind, finding.serious) == ("wrong encoding", True)
    assert "iconv" not in finding.advice
    advised = finding.advice.split("`--encoding ")[1].split("`")[0]
    corpus = open_aligned(*files, encoding=advised)
    assert [pair.tgt for pair in corpus.pairs()] == sentences("cs")
