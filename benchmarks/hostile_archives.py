"""Word files that are damaged or hostile, for `serving_attack.py` and the tests of the server.

`archive(number)` is always the same for a number. Nine of ten are damaged at random, the others are one of `BOMBS`.
"""

import random
import zipfile
from collections.abc import Callable, Mapping
from io import BytesIO

WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml"
TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    f'<Override PartName="/word/document.xml" ContentType="{WORD}.document.main+xml"/>'
    f'<Override PartName="/word/styles.xml" ContentType="{WORD}.styles+xml"/></Types>'
)
NAMES = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
MEGABYTE = 1 << 20


def document(body: str, start: str = "") -> str:
    """The main part of a Word file."""
    return f"{start}<w:document {NAMES}><w:body>{body}</w:body></w:document>"


def packed(members: Mapping[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """An archive of these members."""
    written = BytesIO()
    with zipfile.ZipFile(written, "w", method) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return written.getvalue()


def word_file(body: str, others: Mapping[str, str | bytes] | None = None, start: str = "") -> bytes:
    """A Word file."""
    return packed({"[Content_Types].xml": TYPES, "word/document.xml": document(body, start), **(others or {})})


def run(text: str, properties: str = "") -> str:
    """A run of text."""
    return f'<w:r>{properties}<w:t xml:space="preserve">{text}</w:t></w:r>'


def field(kind: str) -> str:
    """The start, the middle or the end of a field."""
    return f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>'


def noise(length: int, start: int = 0) -> str:
    """Text that can hardly be compressed: letters and spaces, or 256 characters from `start` on."""
    content = random.Random(length).randbytes(length)
    return "".join(chr(start + byte) for byte in content) if start else content.translate(_LETTERS).decode()


_LETTERS = bytes(ord("a") + byte % 26 if byte % 8 else ord(" ") for byte in range(256))


def nested(count: int, tag: str) -> str:
    """Elements in each other."""
    return f"<{tag}>" * count + f"</{tag}>" * count


def entities(count: int) -> str:
    """Entities that expand to gigabytes."""
    names = "".join(f'<!ENTITY a{number + 1} "{f"&a{number};" * 10}">' for number in range(count))
    return f'<!DOCTYPE x [<!ENTITY a0 "ha">{names}]>'


PARAGRAPH = f"<w:p><w:pPr><w:jc/></w:pPr>{run('A woman in a ')}{run('red shirt', '<w:rPr><w:b/></w:rPr>')}</w:p>"
BOMBS: dict[str, Callable[[], bytes]] = {
    "zeros": lambda: word_file(PARAGRAPH, {"word/media/a.png": bytes(64 * MEGABYTE)}),
    "many zeros": lambda: word_file(PARAGRAPH, {f"word/media/{one}.png": bytes(9 * MEGABYTE) for one in range(40)}),
    "members": lambda: word_file(PARAGRAPH, {f"a/{one}": "" for one in range(60_000)}),
    "spaces": lambda: word_file(" " * (60 * MEGABYTE)),
    "paragraphs": lambda: word_file("<w:p><w:r><w:t>a</w:t></w:r></w:p>" * 250_000),
    "paragraphs within the limit": lambda: word_file("<w:p><w:r><w:t>a</w:t></w:r></w:p>" * 49_000),
    "runs": lambda: word_file(f"<w:p>{run('a ') * 70_000}</w:p>"),
    "tags": lambda: word_file(f"<w:p>{'<w:br/>' * 290_000}{run('a')}</w:p>"),
    "attributes": lambda: word_file(f"<w:p {' '.join(f'a{one}={chr(34)}{chr(34)}' for one in range(290_000))}/>"),
    "a long attribute": lambda: word_file(f'<w:p a="{noise(7 * MEGABYTE)}"/>'),
    "a long text": lambda: word_file(f"<w:p>{run(noise(7 * MEGABYTE))}</w:p>"),
    "long texts": lambda: word_file(f"<w:p>{run(noise(99_000))}</w:p>" * 70),
    "long texts outside of the basic plane": lambda: word_file(f"<w:p>{run(noise(20_000, 0x1F600))}</w:p>" * 70),
    "nested": lambda: word_file(nested(100_000, "w:p")),
    "nested tables": lambda: word_file(nested(190, "w:tbl") + PARAGRAPH),
    "an open field": lambda: word_file(f"<w:p>{field('begin')}{run('a') * 40_000}</w:p>"),
    "nested fields": lambda: word_file(f"<w:p>{field('begin') * 20_000}{run('a')}{field('end') * 20_000}</w:p>"),
    "nested results": lambda: word_file(
        f"<w:p>{(field('begin') + field('separate') + run('a')) * 8_000}{field('end') * 8_000}</w:p>"
    ),
    "fields over paragraphs": lambda: word_file(f"<w:p>{field('begin')}{run('a')}{field('separate')}</w:p>" * 8_000),
    "entities": lambda: word_file(PARAGRAPH, start=entities(30)),
    "references": lambda: word_file(f"<w:p>{run('&amp;&#65;' * 1_000_000)}</w:p>"),
    "comments": lambda: word_file("<!-- -->" * 290_000 + PARAGRAPH),
    "styles": lambda: word_file(PARAGRAPH, {"word/styles.xml": f"<w:styles {NAMES}>{styles(40_000)}</w:styles>"}),
    "outside": lambda: word_file(PARAGRAPH, {"../../etc/passwd": "x"}),
    "lzma": lambda: packed({"[Content_Types].xml": TYPES, "word/document.xml": document(PARAGRAPH)}, zipfile.ZIP_LZMA),
    "archive of archives": lambda: word_file(PARAGRAPH, {"word/a.docx": word_file(PARAGRAPH, {"b": bytes(MEGABYTE)})}),
}


def styles(count: int) -> str:
    """Styles of which each extends the next one, and the last one hides its text."""
    style = '<w:style w:styleId="s{0}"><w:basedOn w:val="s{1}"/></w:style>'
    chain = "".join(style.format(number, number + 1) for number in range(count))
    return f'{chain}<w:style w:styleId="s{count}"><w:rPr><w:vanish/></w:rPr></w:style>'


def archive(number: int) -> bytes:
    """The archive with this number."""
    if number % 10 == 9:
        return list(BOMBS.values())[number // 10 % len(BOMBS)]()
    chance = random.Random(number)
    body = PARAGRAPH * chance.randint(1, 40)
    whole = word_file(body, {"word/styles.xml": f"<w:styles {NAMES}>{styles(3)}</w:styles>", "word/a.bin": bytes(999)})
    damage = number % 3
    if damage == 0:
        return whole[: chance.randrange(len(whole))]
    if damage == 1:  # any bytes of the archive
        content = bytearray(whole)
        for _ in range(chance.choice((1, 3, 30))):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        return bytes(content)
    text = bytearray(document(body).encode())  # the XML, in a whole archive
    for _ in range(chance.choice((1, 3, 30))):
        text[chance.randrange(len(text))] = chance.choice(b'<>/&"= w:\xff\x00')
    return packed({"[Content_Types].xml": TYPES, "word/document.xml": bytes(text)})
