from dragoman.text.subtitles import read_subtitles

FILE = (
    "1\r\n00:00:01,000 --> 00:00:02,500 X1:1\r\nOne two\r\nthree four.\r\n\r\n"
    "2\r\n0:00:03,000 --> 0:00:04,000\r\n- Who?\r\n- Me.\r\n\r\n3\r\n00:00:05.0 --> 00:00:06.0\r\n12"
)


def said(subtitles):
    return [text.text for text in subtitles.texts]


def test_what_is_said():
    assert said(read_subtitles(FILE)) == ["One two three four.", "Who?", "Me."]  # numbers stay
    assert said(read_subtitles("no cue\n\nat all\n")) == []


def test_the_rest_stays_and_lines_are_kept():
    subtitles = read_subtitles(FILE)
    assert subtitles.with_translations(said(subtitles)) == FILE
    other = subtitles.with_translations(["A very much longer text than that", "<i>Wer da</i>?", ""])
    assert other == FILE.replace("One two\r\nthree four.", "A very much longer\r\ntext than that").replace(
        "Who?", "<i>Wer da</i>?"
    ).replace("Me.", "")
