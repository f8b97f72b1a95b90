from dragoman.text.subtitles import Cue, read_subtitles, with_translations

FILE = (
    "1\r\n00:00:01,000 --> 00:00:02,500 X1:1\r\nOne two\r\nthree four.\r\n\r\n"
    "2\r\n0:00:03,000 --> 0:00:04,000\r\n- Who?\r\n- Me.\r\n\r\n3\r\n00:00:05.0 --> 00:00:06.0\r\n12"
)


def said(parts):
    return [part.text for part in parts if isinstance(part, Cue)]


def test_what_is_said():
    assert said(read_subtitles(FILE)) == ["One two three four.", "Who?", "Me.", "12"]
    assert said(read_subtitles("no cue\n\nat all\n")) == []


def test_the_rest_stays_and_lines_are_kept():
    parts = read_subtitles(FILE)
    assert with_translations(parts, said(parts)) == FILE
    other = with_translations(parts, ["A very much longer text than that", "<i>Wer da</i>?", "", "12"])
    assert other == FILE.replace("One two\r\nthree four.", "A very much longer\r\ntext than that").replace(
        "Who?", "<i>Wer da</i>?"
    ).replace("Me.", "")
