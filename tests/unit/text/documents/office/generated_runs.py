"""Paragraphs of Word files made from a seed, with most of what Word can write in them."""

import random
import re
import zlib
from collections.abc import Callable
from functools import lru_cache
from io import BytesIO
from struct import pack
from xml.sax.saxutils import escape

import docx
from docx.enum.style import WD_STYLE_TYPE

from tests.unit.text.documents.office.generated_words import Words

_OFFICE = "http://schemas.openxmlformats.org"
NAMES = {
    "w": f"{_OFFICE}/wordprocessingml/2006/main",
    "r": f"{_OFFICE}/officeDocument/2006/relationships",
    "wp": f"{_OFFICE}/drawingml/2006/wordprocessingDrawing",
    "a": f"{_OFFICE}/drawingml/2006/main",
    "lc": f"{_OFFICE}/drawingml/2006/lockedCanvas",
    "c": f"{_OFFICE}/drawingml/2006/chart",
    "m": f"{_OFFICE}/officeDocument/2006/math",
    "mc": f"{_OFFICE}/markup-compatibility/2006",
    "wps": "http://schemas.microsoft.com/office/word/2010/wordprocessingShape",
    "v": "urn:schemas-microsoft-com:vml",
    "o": "urn:schemas-microsoft-com:office:office",
}
DECLARED = " ".join(f'xmlns:{prefix}="{name}"' for prefix, name in NAMES.items())
_FORMATS = (
    "<w:b/>",
    "<w:i/>",
    "<w:b/><w:i/>",
    '<w:u w:val="single"/>',
    '<w:color w:val="C00000"/>',
    '<w:sz w:val="28"/>',
    '<w:highlight w:val="yellow"/>',
    '<w:vertAlign w:val="superscript"/>',
    "<w:strike/>",
    '<w:rStyle w:val="Strong"/>',
    '<w:rFonts w:ascii="Courier New" w:hAnsi="Courier New"/>',
)
_ORDER = "rStyle rFonts b i strike noProof vanish color sz highlight u vertAlign rtl lang rPrChange".split()
_SAME_LOOK = ("", "<w:noProof/>", '<w:lang w:val="en-GB"/>', '<w:lang w:val="fr-FR"/>')
_POINTS = (
    '<w:sym w:font="Wingdings" w:char="F04A"/>',
    "<w:tab/>",
    "<w:br/>",
    "<w:cr/>",
    "<w:noBreakHyphen/>",
    '<w:br w:type="textWrapping" w:clear="all"/>',
    '<w:ptab w:relativeTo="margin" w:alignment="right" w:leader="dot"/>',
    "<w:t/>",
)
_RECTANGLE = (
    '<a:xfrm><a:off x="0" y="0"/><a:ext cx="3600000" cy="1080000"/></a:xfrm>'
    '<a:prstGeom prst="rect"><a:avLst/></a:prstGeom>'
)
_CHANGE = 'w:id="{}" w:author="Zz" w:date="2020-01-02T03:04:05Z"'


def _in_order(properties: str) -> str:
    """The properties of a run in the order of the schema."""
    found = re.finditer(r"<w:(\w+)(?:[^>]*/>|.*?</w:\1>)", properties)
    return "".join(
        sorted((match[0] for match in found), key=lambda one: _ORDER.index(one[3:].partition(" ")[0].rstrip("/>")))
    )


@lru_cache
def _template() -> bytes:
    """The empty document of python-docx without its 100 styles for tables, and with styles for code."""
    document = docx.Document()
    for style in list(document.styles):
        if style.type == WD_STYLE_TYPE.TABLE and style.name not in ("Normal Table", "Table Grid"):
            style.delete()
    document.styles.add_style("Source Code", WD_STYLE_TYPE.PARAGRAPH).base_style = document.styles["Normal"]
    document.styles.add_style("HTML Code", WD_STYLE_TYPE.CHARACTER)
    document.styles.add_style("Secret", WD_STYLE_TYPE.CHARACTER).font.hidden = True
    for name, relation in list(document.part.rels.items()):
        if relation.reltype.endswith("/stylesWithEffects"):
            document.part.drop_rel(name)
            document.part.rels.pop(name, None)
    written = BytesIO()
    document.save(written)
    return written.getvalue()


def picture(color: bytes) -> bytes:
    """A small PNG file of one color."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return pack(">I", len(content)) + kind + content + pack(">I", zlib.crc32(kind + content))

    rows = zlib.compress((b"\x00" + color * 8) * 8)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", rows)
        + chunk(b"IEND", b"")
    )


class WordText:
    """The content of paragraphs of a Word file, from a seed.

    Attributes
    ----------
    words
        Its words, by what must happen to them.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.words = Words(self._random)
        self._document = docx.Document(BytesIO(_template()))
        self._number = 100
        self._in_body = True
        self._notes: dict[str, list[str]] = {"footnote": [], "endnote": []}

    # Texts and runs

    def _new_id(self) -> int:
        self._number += 1
        return self._number

    def _change(self) -> str:
        return _CHANGE.format(self._new_id())

    def _run(self, content: str, properties: str = "") -> str:
        rsid = f' w:rsidR="{self._random.randrange(1 << 32):08X}"' if self._random.random() < 0.3 else ""
        return f"<w:r{rsid}>{f'<w:rPr>{properties}</w:rPr>' if properties else ''}{content}</w:r>"

    def _t(self, text: str) -> str:
        exact = ' xml:space="preserve"' if text != text.strip() or "\n" in text else ""
        return f"<w:t{exact}>{escape(text)}</w:t>"

    def _text(self, text: str, properties: str = "") -> str:
        """The text in runs as Word writes them: cut anywhere, also in words, by edits, languages and spelling."""
        cuts = sorted({self._random.randrange(len(text) + 1) for _ in range(self._random.choice((0, 0, 0, 1, 2, 4)))})
        runs = ""
        for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True):
            content = self._t(text[start:stop])
            if self._random.random() < 0.1:
                content = "<w:lastRenderedPageBreak/>" + content
            if self._random.random() < 0.05 and text[start:stop].isalpha():
                content += "<w:softHyphen/>"
            if self._random.random() < 0.1:
                runs += '<w:proofErr w:type="spellStart"/>'
            same_look = self._random.choice(_SAME_LOOK) if self._random.random() < 0.3 else ""
            runs += self._run(content, _in_order(properties + same_look))
        return runs

    def _sentence(self, properties: str = "") -> str:
        return self._text(self.words.sentence(), properties)

    def _content(self, depth: int = 0, size: int = 5) -> str:
        """What a paragraph has inside, with at least one word that is translated."""
        makers = [
            maker for maker, weight, needs_body in _INLINE for _ in range(weight) if self._in_body or not needs_body
        ]
        found = self._sentence()
        for _ in range(self._random.randrange(size)):
            maker = self._random.choice(makers)
            piece = maker(self, depth)
            space = self._run(self._t(" ")) if self._random.random() < 0.7 else ""
            found = self._random.choice((found + space + piece, piece + space + found))
            if self._random.random() < 0.4:
                found += space + self._sentence()
        return found

    def _inside(self, depth: int) -> str:
        """The content of an element in a paragraph."""
        return self._content(depth + 1, 3) if depth < 2 else self._sentence(self._random.choice(("", "<w:b/>")))

    # In a paragraph

    def _formatted(self, depth: int) -> str:
        return self._sentence(self._random.choice(_FORMATS))

    def _format_inside_word(self, depth: int) -> str:
        word = self.words.word()
        cut = self._random.randrange(1, len(word))
        mark = f'<w:bookmarkStart w:id="{self._new_id()}" w:name="b{self._number}"/>'
        end = f'<w:bookmarkEnd w:id="{self._number}"/>'
        marks = self._random.choice((("", ""), (mark, end), (mark + end, "")))
        properties = self._random.choice((*_FORMATS, ""))
        return self._text(word[:cut]) + marks[0] + self._text(word[cut:], properties) + marks[1]

    def _link(self, depth: int) -> str:
        target = f'w:anchor="b{self._random.randrange(100, 200)}"'
        if self._in_body and self._random.random() < 0.7:
            url = f"https://example.org/{self.words.kept_word()}?a=1&b=2"
            relation = self._document.part.relate_to(url, f"{NAMES['r']}/hyperlink", is_external=True)
            target = f'r:id="{relation}"'
        return f"<w:hyperlink {target}>{self._inside(depth)}</w:hyperlink>"

    def _field(self, code: str, result: str) -> str:
        def char(kind: str) -> str:
            return self._run(f'<w:fldChar w:fldCharType="{kind}"/>')

        cut = self._random.randrange(len(code))
        instruction = "".join(
            self._run(f'<w:instrText xml:space="preserve">{escape(part)}</w:instrText>')
            for part in (code[:cut], code[cut:])
        )
        return f"{char('begin')}{instruction}{char('separate')}{result}{char('end')}"

    def _link_field(self, depth: int) -> str:
        return self._field(f' HYPERLINK "https://example.org/{self.words.kept_word()}" ', self._inside(depth))

    def _kept_field(self, depth: int) -> str:
        code = self._random.choice(
            (" PAGE ", ' DATE \\@ "d" ', " REF b101 \\h ", " SEQ Figure ", " NUMPAGES ", " CITATION x ")
        )
        result = self._text(f"{self.words.kept_word()} {self.words.kept_word()}")
        if self._random.random() < 0.4:
            return f'<w:fldSimple w:instr="{escape(code, {chr(34): "&quot;"})}">{result}</w:fldSimple>'
        if self._random.random() < 0.2:
            result += self._field(" PAGE ", self._text(self.words.kept_word()))
        return self._field(code, result)

    def _simple_link(self, depth: int) -> str:
        return f'<w:fldSimple w:instr=" HYPERLINK \\l b101 ">{self._sentence()}</w:fldSimple>'

    def _note(self, depth: int) -> str:
        kind = self._random.choice(("footnote", "endnote"))
        number = len(self._notes[kind]) + 1
        self._notes[kind].append("")
        self._in_body = False
        mark = self._run(f"<w:{kind}Ref/>", '<w:vertAlign w:val="superscript"/>')
        inside = "".join(f"<w:p>{mark}{self._content(1)}</w:p>" for _ in range(self._random.choice((1, 1, 2))))
        self._notes[kind][number - 1] = f'<w:{kind} w:id="{number}">{inside}</w:{kind}>'
        self._in_body = True
        return self._run(f'<w:{kind}Reference w:id="{number}"/>', '<w:vertAlign w:val="superscript"/>')

    def _comment(self, depth: int) -> str:
        run = self._document.add_paragraph().add_run()
        comment = self._document.add_comment(run, self.words.kept_word(), author="Zz")
        run._r.getparent().getparent().remove(run._r.getparent())
        number = f'w:id="{comment.comment_id}"'
        reference = self._run(f"<w:commentReference {number}/>")
        return f"<w:commentRangeStart {number}/>{self._inside(depth)}<w:commentRangeEnd {number}/>{reference}"

    def _point(self, depth: int) -> str:
        return self._run(self._random.choice(_POINTS), self._random.choice(("", "", "<w:b/>")))

    def _points_in_run(self, depth: int) -> str:
        point = self._random.choice(_POINTS[1:])  # LibreOffice shows text after a symbol in its font
        return self._run(self._t(self.words.sentence(2)) + point + self._t(self.words.sentence(2)))

    def _hidden(self, depth: int) -> str:
        properties = self._random.choice(
            ("<w:vanish/>", '<w:rStyle w:val="HTMLCode"/>', '<w:rStyle w:val="Secret"/>', "<w:b/><w:vanish/>")
        )
        return self._text(f"{self.words.kept_word()} {self.words.kept_word()}", properties)

    def _control(self, depth: int) -> str:
        if self._random.random() < 0.3:
            word, other, value = self.words.word(), self.words.unseen_word(), self.words.kept_word()
            properties = (
                f'<w:dropDownList><w:listItem w:displayText="{word}" w:value="{value}"/>'
                f'<w:listItem w:displayText="{other}" w:value="{value}2"/></w:dropDownList>'
            )
            inside = self._text(word)
        else:
            name = f'<w:alias w:val="{self.words.kept_word()}"/><w:tag w:val="t"/>'
            number = f'<w:id w:val="{self._new_id()}"/>'
            kind = self._random.choice(("<w:text/>", "<w:richText/>", "<w:showingPlcHdr/>", ""))
            properties, inside = name + number + kind, self._inside(depth)
        return f"<w:sdt><w:sdtPr>{properties}</w:sdtPr><w:sdtContent>{inside}</w:sdtContent></w:sdt>"

    def _wrapped(self, depth: int) -> str:
        start, end = self._random.choice(
            (
                ('<w:smartTag w:uri="urn:u" w:element="place">', "</w:smartTag>"),
                ('<w:customXml w:uri="urn:u" w:element="e"><w:customXmlPr/>', "</w:customXml>"),
                ('<w:dir w:val="ltr">', "</w:dir>"),
                ('<w:bdo w:val="ltr">', "</w:bdo>"),
            )
        )
        return start + self._inside(depth) + end

    def _inserted(self, depth: int) -> str:
        change = f"<w:b/><w:rPrChange {self._change()}><w:rPr/></w:rPrChange>"
        text = self._text(self.words.sentence(), self._random.choice((*_FORMATS, "", change)))
        return f"<w:ins {self._change()}>{text}</w:ins>"

    def _deleted(self, depth: int) -> str:
        gone = f'<w:delText xml:space="preserve">{self.words.kept_word()} </w:delText>'
        return f"<w:del {self._change()}>{self._run(gone)}{self._run(gone, '<w:b/>')}</w:del>"

    def _moved(self, depth: int) -> str:
        kind = self._random.choice(("moveFrom", "moveTo"))
        number = self._new_id()
        text = self._text(self.words.kept_word()) if kind == "moveFrom" else self._sentence()
        return (
            f'<w:{kind}RangeStart {_CHANGE.format(number)} w:name="m{number}"/>'
            f'<w:{kind} {self._change()}>{text}</w:{kind}><w:{kind}RangeEnd w:id="{number}"/>'
        )

    def _ruby(self, depth: int) -> str:
        properties = (
            '<w:rubyAlign w:val="center"/><w:hps w:val="12"/><w:hpsRaise w:val="20"/><w:hpsBaseText w:val="24"/>'
        )
        reading, base = self._run(self._t(self.words.kept_word())), self._run(self._t(self.words.word()))
        return self._run(
            f'<w:ruby><w:rubyPr>{properties}<w:lid w:val="ja-JP"/></w:rubyPr><w:rt>{reading}</w:rt>'
            f"<w:rubyBase>{base}</w:rubyBase></w:ruby>"
        )

    def _formula(self, depth: int) -> str:
        return f"<m:oMath><m:r><m:t>{self.words.kept_word()}=1</m:t></m:r></m:oMath>"

    def _right_to_left(self, depth: int) -> str:
        return self._text(f"\u05e9\u05dc\u05d5\u05dd {self.words.word()} 12", "<w:rtl/>")

    def _picture(self, depth: int) -> str:
        run = self._document.add_paragraph().add_run()
        run.add_picture(BytesIO(picture(self._random.randbytes(3))), width=docx.shared.Mm(8))
        paragraph = run._r.getparent()
        properties = run._r.xpath(".//wp:docPr")[0]
        properties.set("descr", f'{self.words.unseen_word()} "{self.words.unseen_word()}" <')
        properties.set("name", self.words.kept_word())
        if self._random.random() < 0.5:
            properties.set("title", self.words.unseen_word())
        paragraph.getparent().remove(paragraph)
        return run._r.xml

    def _drawing(self, uri: str, inside: str, width: int = 3_600_000, height: int = 1_080_000) -> str:
        number = self._new_id()
        return (
            f'<w:drawing><wp:inline><wp:extent cx="{width}" cy="{height}"/>'
            f'<wp:docPr id="{number}" name="{self.words.kept_word()}" descr="{self.words.unseen_word()}"/>'
            f'<wp:cNvGraphicFramePr/><a:graphic><a:graphicData uri="{uri}">{inside}</a:graphicData></a:graphic>'
            "</wp:inline></w:drawing>"
        )

    def _box(self, depth: int) -> str:
        """A text box as Word writes it: twice, for new and for old programs."""
        self._in_body = False
        text = "".join(f"<w:p>{self._content(1, 3)}</w:p>" for _ in range(self._random.choice((1, 2))))
        self._in_body = True
        box = (
            f"<wps:wsp><wps:cNvSpPr txBox='1'/><wps:spPr>{_RECTANGLE}</wps:spPr><wps:txbx><w:txbxContent>{text}"
            '</w:txbxContent></wps:txbx><wps:bodyPr wrap="square"><a:spAutoFit/></wps:bodyPr></wps:wsp>'
        )
        old = (
            f'<w:pict><v:rect id="r{self._new_id()}" style="width:283pt;height:85pt" alt="{self.words.unseen_word()}">'
            f"<v:textbox><w:txbxContent>{text}</w:txbxContent></v:textbox></v:rect></w:pict>"
        )
        return self._run(
            f'<mc:AlternateContent><mc:Choice Requires="wps">{self._drawing(NAMES["wps"], box)}</mc:Choice>'
            f"<mc:Fallback>{old}</mc:Fallback></mc:AlternateContent>"
        )

    def _canvas(self, depth: int) -> str:
        """A shape with text in DrawingML, as Word keeps it from other programs."""
        runs = f'<a:r><a:rPr lang="en-US" b="1"/><a:t>{self.words.unseen_word()}</a:t></a:r>'
        runs += f'<a:r><a:rPr lang="en-US"/><a:t> {self.words.unseen_word()} </a:t></a:r>'
        inside = (
            '<lc:lockedCanvas><a:nvGrpSpPr><a:cNvPr id="0" name=""/><a:cNvGrpSpPr/></a:nvGrpSpPr>'
            '<a:grpSpPr/><a:sp><a:nvSpPr><a:cNvPr id="2" name="s"/><a:cNvSpPr/></a:nvSpPr>'
            f"<a:spPr>{_RECTANGLE}</a:spPr><a:txSp><a:txBody><a:bodyPr/><a:lstStyle/><a:p>{runs}</a:p></a:txBody>"
            "<a:useSpRect/></a:txSp></a:sp></lc:lockedCanvas>"
        )
        return self._run(self._drawing(NAMES["lc"], inside))


_INLINE: tuple[tuple[Callable[[WordText, int], str], int, bool], ...] = (
    (WordText._formatted, 8, False),
    (WordText._format_inside_word, 4, False),
    (WordText._link, 4, False),
    (WordText._link_field, 3, False),
    (WordText._simple_link, 1, False),
    (WordText._kept_field, 3, False),
    (WordText._note, 3, True),
    (WordText._comment, 2, True),
    (WordText._point, 3, False),
    (WordText._points_in_run, 2, False),
    (WordText._hidden, 3, False),
    (WordText._control, 3, False),
    (WordText._wrapped, 2, False),
    (WordText._inserted, 3, False),
    (WordText._deleted, 2, False),
    (WordText._moved, 1, False),
    (WordText._ruby, 1, False),
    (WordText._formula, 1, False),
    (WordText._right_to_left, 1, False),
    (WordText._picture, 2, True),
    (WordText._box, 1, True),
    (WordText._canvas, 1, True),
)
