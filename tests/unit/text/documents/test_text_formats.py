from dragoman.text.documents.text_formats import PLAIN_TEXT


def test_a_text_without_sentences_is_split() -> None:
    text = "  Wort für Wort" * 2_000 + "\r\nEnde\n"
    document = PLAIN_TEXT.read(text)
    assert max(len(one.text) for one in document.texts) <= 4_000
    assert len(document.texts) < 20
    assert document.with_translations([one.text for one in document.texts]) == text
