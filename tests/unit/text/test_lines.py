import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.text.lines import ignore_invalid, open_bytes, read_lines


def test_only_newlines_end_lines():
    stream = io.BytesIO("a\u0085b\u2028c\rd\x0b\x0c\x1ce\r\nf\n\n\u2029".encode())
    assert list(read_lines(stream)) == ["a\u0085b\u2028c\rd\x0b\x0c\x1ce", "f", "", "\u2029"]


@settings(deadline=None)
@given(
    # A NUL in every other byte is UTF-16, which is an error.
    st.lists(st.text(st.characters(exclude_characters="\n\r\ufeff\0", codec="utf-8"))),
    st.sampled_from(["\n", "\r\n"]),
)
def test_lines_come_back(lines, end):
    assert list(read_lines(io.BytesIO("".join(line + end for line in lines).encode()))) == lines


def test_a_last_line_without_end_counts():
    assert list(read_lines(io.BytesIO(b"a\nb"))) == ["a", "b"]
    assert list(read_lines(io.BytesIO(b""))) == []


@pytest.mark.parametrize("name", ["text.en", "text.en.gz"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_gzip_is_known_by_content_and_a_mark_is_skipped(tmp_path, name, pack):
    (tmp_path / name).write_bytes(pack(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n"))
    assert list(read_lines(tmp_path / name)) == ["a", "\ufeffb"]


def test_gzip_in_several_members(tmp_path):
    (tmp_path / "a").write_bytes(gzip.compress(b"a\nb") + gzip.compress(b"c\n"))
    assert list(read_lines(tmp_path / "a")) == ["a", "bc"]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_line_without_end_is_read_no_further(tmp_path, monkeypatch, pack):
    """In a plain file, a gzip file and a pipe. A line of exactly the limit is allowed."""
    monkeypatch.setattr("dragoman.text.lines.MOST_LINE_BYTES", 1 << 20)
    monkeypatch.setattr("dragoman.text.lines._BUFFER_BYTES", 1 << 10)
    largest = b"y" * ((1 << 20) - 1) + b"\n"
    for fits, name in ((True, "good"), (False, "bad")):
        content = b"a\nb\n" + (largest if fits else b"x" * (1 << 24)) + b"\nc"
        (tmp_path / name).write_bytes(pack(content))
        with open_bytes(tmp_path / name) as stream:
            position = stream.tell
            read = read_lines(stream, name="in")
            if fits:
                assert list(read) == ["a", "b", largest[:-1].decode(), "", "c"]
                continue
            with pytest.raises(DataError, match=r"^in, line 3 has more than 1 MiB, the limit for one line\."):
                list(read)
            assert position() < 1 << 21
    pipe = io.BufferedReader(_Pipe(b"a\n" + b"x" * (1 << 24)))
    with pytest.raises(DataError, match=r"^standard input, line 2 has more than 1 MiB"):
        list(read_lines(pipe))
    assert pipe.raw.tell() < 1 << 21
    with pytest.raises(DataError, match=r"line 1 has more than 1 MiB"):
        list(read_lines([b"x" * (1 << 21)]))


class _Pipe(io.BytesIO):
    def seekable(self):
        return False


def refused(path: Path, match: str) -> None:
    with pytest.raises(DataError, match=match) as caught:
        list(read_lines(path))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_and_directory(tmp_path):
    refused(tmp_path / "none", "does not exist")
    refused(tmp_path, "is a directory")


@pytest.mark.parametrize("damage", [lambda b: b[:-12], lambda b: b[:30] + b"\x00\xff" * 2 + b[34:], lambda b: b[:3]])
def test_damaged_gzip(tmp_path, damage):
    packed = gzip.compress("".join(f"{n * n}\n" for n in range(3000)).encode())
    (tmp_path / "a.gz").write_bytes(damage(packed))
    refused(tmp_path / "a.gz", "gzip")


def test_invalid_utf8_names_line_and_byte(tmp_path):
    (tmp_path / "a").write_bytes(b"good\nb\xe9d\n")
    refused(tmp_path / "a", r"line 2, byte 2 of the line is 0xe9")


def test_utf16_is_named(tmp_path):
    (tmp_path / "a").write_bytes("good\n".encode("utf-16"))
    refused(tmp_path / "a", "UTF-16")


def test_invalid_utf8_is_replaced_and_reported_where_asked():
    seen: list[int] = []
    stream = io.BytesIO(b"good\nb\xe9d\n\n\xff")
    lines = list(read_lines(stream, report_invalid=seen.append))
    assert lines == ["good", "b\ufffdd", "", "\ufffd"]
    assert seen == [2, 4]
    assert list(read_lines(io.BytesIO(b"\xff\xfea"), report_invalid=ignore_invalid)) == ["\ufffd\ufffda"]


def test_errors_of_whoever_reads_are_not_the_files(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"one\n")
    with pytest.raises(FileNotFoundError, match="elsewhere"), open_bytes(tmp_path / "text"):
        (tmp_path / "elsewhere" / "out").read_bytes()
    with pytest.raises(BrokenPipeError), open_bytes(tmp_path / "text"):
        raise BrokenPipeError


@pytest.mark.parametrize("content", [b"PK\x03\x04\x14\0rest", b"%PDF-1.7\n", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"])
def test_documents_and_archives_are_called_that(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    refused(tmp_path / "a.txt", "not text. Save its text as plain text in UTF-8")
