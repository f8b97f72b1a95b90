import gzip
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dragoman.errors import ConfigError, DataError
from dragoman.text.lines import check_encoding, detect_utf16, open_bytes, read_lines

LINES = ["Příliš žluťoučký kůň", "", "úpěl ďábelské ódy", "ASCII alone"]


@pytest.mark.parametrize(
    "encoding", ["iso-8859-2", "windows-1250", "cp852", "utf-16", "utf-16-be", "utf-8-sig", "UTF-8"]
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_in_another_encoding_is_read_as_told(tmp_path, encoding, pack):
    (tmp_path / "a").write_bytes(pack("".join(f"{line}\r\n" for line in LINES).encode(encoding)))
    assert list(read_lines(tmp_path / "a", encoding=encoding)) == LINES


def is_utf8(content: bytes) -> bool:
    """Whether the bytes are text with characters beyond ASCII in UTF-8."""
    try:
        return not content.decode("utf-8").isascii()
    except UnicodeDecodeError:
        return False


@given(
    st.lists(st.text(st.characters(exclude_characters="\n\r\ufeff", codec="utf-8"))),
    st.sampled_from(["utf-16-le", "utf-32", "gb18030"]),
)
def test_any_text_comes_back(tmp_path_factory, lines, encoding):
    path = tmp_path_factory.mktemp("text") / "a"
    content = "".join(f"{line}\n" for line in lines).encode(encoding)
    assume(encoding != "gb18030" or not is_utf8(content))  # the bytes of 詟 are those of Ԁ in UTF-8, which wins
    path.write_bytes(content)
    assert list(read_lines(path, encoding=encoding)) == lines


def test_a_file_that_is_utf8_is_read_as_utf8_whatever_the_setting_says(tmp_path):
    (tmp_path / "a").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    assert list(read_lines(tmp_path / "a", encoding="windows-1250")) == LINES


def test_a_character_cut_by_the_size_of_a_read_is_whole(tmp_path):
    line = "x" * ((1 << 16) - 1) + "漢字"
    (tmp_path / "a").write_bytes(f"{line}\n".encode("gb18030"))
    assert list(read_lines(tmp_path / "a", encoding="gb18030")) == [line]


def test_bytes_that_are_not_in_the_encoding_are_named_by_line(tmp_path):
    (tmp_path / "a").write_bytes(b"good\ngood\nb\x98d\n")
    with pytest.raises(DataError, match=r"a, line 3 has byte 0x98, which is not WINDOWS-1251\. Check `--encoding`"):
        list(read_lines(tmp_path / "a", encoding="cp1251"))


@pytest.mark.parametrize(("name", "codec"), [("latin-1", "latin-1"), ("KOI8-R", "KOI8-R"), ("", ""), ("gbk", "gbk")])
def test_known_encodings(name, codec):
    assert check_encoding(name, "`--encoding`") == codec


@pytest.mark.parametrize(
    ("name", "hint"),
    [("windows1250x", "windows-1250"), ("zip", "windows-1250"), ("rot13", ""), ("../x", ""), ("unicode_escape", "")],
)
def test_what_is_no_encoding_of_text_is_refused(name, hint):
    with pytest.raises(ConfigError, match=r"`--encoding` is \".*\", which is not a text encoding\.") as caught:
        check_encoding(name, "`--encoding`")
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("start", "encoding"),
    [
        ("plain text".encode("utf-16"), "utf-16"),
        ("plain text".encode("utf-16-le"), "utf-16-le"),
        ("plain text, žluť".encode("utf-16-be"), "utf-16-be"),
        (b"a line with \0 one NUL in it", ""),
        ("žluťoučký".encode(), ""),
        (b"\0" * 40, ""),
        (b"", ""),
    ],
)
def test_utf16_is_known_with_and_without_a_mark(start, encoding):
    assert detect_utf16(start) == encoding


def test_utf16_without_a_mark_is_refused_with_the_way_to_read_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes("no mark here\n".encode("utf-16-le"))
    with pytest.raises(DataError, match=r"a is UTF-16, but UTF-8 is expected\. Read it with `--encoding utf-16-le`"):
        list(read_lines(tmp_path / "a"))
    with open_bytes(tmp_path / "a", "utf-16-le") as stream:
        assert stream.read() == b"no mark here\n"
