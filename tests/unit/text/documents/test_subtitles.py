import re

import pytest

from dragoman.errors import DataError
from dragoman.text.documents.subtitles import read_subtitles

FILE = (
    "1\r\n00:00:01,000 --> 00:00:02,500 X1:1\r\nOne two\r\nthree four.\r\n\r\n"
    "2\r\n0:00:03,000 --> 0:00:04,000\r\n- Who?\r\n- Me.\r\n\r\n3\r\n00:00:05.0 --> 00:00:06.0\r\n12"
)


def said(subtitles):
    return [text.text for text in subtitles.texts]


def test_what_is_said():
    assert said(read_subtitles(FILE)) == ["One two three four.", "Who?", "Me."]  # numbers stay
    assert said(read_subtitles("\n")) == []


def test_the_pieces_of_a_file_with_cues_are_its_parts_and_markers():
    subtitles = read_subtitles("1\n00:00:01,000 --> 00:00:02,000\nOne <i>two</i>.\n")
    assert [type(part).__name__ for part in subtitles.parts] == ["str", "str", "MarkedDocument", "str"]
    assert subtitles.num_pieces == 4 + 3 + 1, "three parts of the cue, and one marker"
    assert subtitles.with_translations(["Eins <i>zwei</i>."]).endswith("\nEins <i>zwei</i>.\n")


def test_a_text_without_cues_is_refused():
    with pytest.raises(DataError, match=r"no line is a subtitle time such as 00:00:01,000 --> 00:00:02,500"):
        read_subtitles("no cue\n\nat all\n")


def test_web_vtt():
    text = "WEBVTT - a title\n\nNOTE nothing\n\none\n00:01.000 --> 00:02.000 line:0\n<v Bob>Well now.\n"
    subtitles = read_subtitles(text)
    assert said(subtitles) == ["Well now."]
    assert subtitles.with_translations(["Nun."]).endswith("line:0\n<v Bob>Nun.\n")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("write &lt;b&gt; here", "write b here"),
        ("write &#60;b&#x3E; here", "write b here"),
        ("&amp;lt; is one", "lt; is one"),
        ("isn&#39;t Tom &amp; Jerry", "isn't Tom & Jerry"),
        ("x < y & z", "x < y & z"),
        ("&#600;&#x3cf;", "ɘϏ"),
    ],
)
def test_what_is_escaped_never_becomes_a_tag(line, text):
    time = "1\n00:00:01,000 --> 00:00:02,000\n"
    (found,) = read_subtitles(f"{time}{line}\n").texts
    assert found.text == text
    kept = "".join(marker.head for marker in found.markers)
    assert kept == "".join(re.findall(r"&lt;|&gt;|&#60;|&#x3E;|&amp;(?=lt)", line))


def test_the_rest_stays_and_lines_are_kept():
    subtitles = read_subtitles(FILE)
    assert subtitles.with_translations(said(subtitles)) == FILE
    other = subtitles.with_translations(["A very much longer text than that", "<i>Wer da</i>?", ""])
    assert other == FILE.replace("One two\r\nthree four.", "A very much longer\r\ntext than that").replace(
        "Who?", "<i>Wer da</i>?"
    ).replace("Me.", "")
