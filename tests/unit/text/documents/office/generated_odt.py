"""OpenDocument texts made by odfdo from a seed, with most of what LibreOffice can write in a text.

odfdo makes the package, styles, tables and pictures. Paragraphs are written as XML.
"""

import random
from collections.abc import Callable
from io import BytesIO
from xml.sax.saxutils import escape

import odfdo

from tests.unit.text.documents.office.generated_runs import picture
from tests.unit.text.documents.office.generated_words import Words

_SAME = ("Same1", "Same2")
_FORMATS = ("Bold", "Italic", "Red", "Raised", "Large")
_STYLES = {
    "Same1": '<style:text-properties fo:language="fr" fo:country="FR"/>',
    "Same2": '<style:text-properties officeooo:rsid="0012ab34" xmlns:officeooo="http://openoffice.org/2009/office"/>',
    "Bold": '<style:text-properties fo:font-weight="bold"/>',
    "Italic": '<style:text-properties fo:font-style="italic"/>',
    "Red": '<style:text-properties fo:color="#c00000"/>',
    "Raised": '<style:text-properties style:text-position="super 58%"/>',
    "Large": '<style:text-properties fo:font-size="16pt"/>',
    "Hidden": '<style:text-properties text:display="none"/>',
}
_POINTS = ("<text:tab/>", "<text:line-break/>", "<text:s/>", '<text:s text:c="3"/>', "<text:soft-page-break/>", " \n ")
_DATE = "<dc:creator>Zz</dc:creator><dc:date>2020-01-02T03:04:05</dc:date>"


class OpenFile:
    """An OpenDocument file from a seed.

    Attributes
    ----------
    words
        Its words, by what must happen to them.
    content
        Its bytes.
    """

    def __init__(self, seed: int, num_blocks: int = 14) -> None:
        self._random = random.Random(seed)
        self.words = Words(self._random)
        self._document = odfdo.Document("text")
        self._document.body.clear()
        self._number = 0
        self._in_body = True
        self._changes = ""
        self._make_styles()
        self._document.meta.title = f"{self.words.unseen_word()} & {self.words.unseen_word()}"
        blocks = [block for block, weight in _BLOCKS for _ in range(weight)]
        for block in self._random.choices(blocks, k=num_blocks):
            block(self)
        self._header_and_footer()
        if self._changes:
            changes = odfdo.Element.from_tag(f"<text:tracked-changes>{self._changes}</text:tracked-changes>")
            self._document.body.insert(changes, position=0)
        written = BytesIO()
        self._document.save(written)
        self.content = written.getvalue()

    def _make_styles(self) -> None:
        for name, properties in _STYLES.items():
            style = f'<style:style style:name="{name}" style:family="text">{properties}</style:style>'
            self._document.insert_style(odfdo.Element.from_tag(style), automatic=True)
            self._document.styles.get_element("//office:automatic-styles").append(odfdo.Element.from_tag(style))
        right_to_left = '<style:paragraph-properties style:writing-mode="rl-tb" fo:text-align="end"/>'
        code = 'style:parent-style-name="Preformatted_20_Text"'
        for name, parent, properties in (("Rtl", "", right_to_left), ("Code", code, "")):
            style = f'<style:style style:name="{name}" style:family="paragraph" {parent}>{properties}</style:style>'
            self._document.insert_style(odfdo.Element.from_tag(style), automatic=True)
        for name, title, family in (
            ("Preformatted_20_Text", "Preformatted Text", "paragraph"),
            ("Source_20_Text", "Source Text", "text"),
        ):
            style = f'<style:style style:name="{name}" style:display-name="{title}" style:family="{family}"/>'
            self._document.insert_style(odfdo.Element.from_tag(style))

    # Text

    def _new_id(self) -> int:
        self._number += 1
        return self._number

    def _text(self, text: str) -> str:
        """The text as LibreOffice writes it: in spans that only note the language, or who wrote it."""
        cuts = sorted({self._random.randrange(len(text) + 1) for _ in range(self._random.choice((0, 0, 0, 1, 2)))})
        found = ""
        for start, stop in zip([0, *cuts], [*cuts, len(text)], strict=True):
            part = escape(text[start:stop]).replace("  ", " <text:s/>")
            if self._random.random() < 0.05 and text[start:stop].isalpha():
                part += self._random.choice(("\xad", "<text:soft-page-break/>"))
            if self._random.random() < 0.25:
                part = f'<text:span text:style-name="{self._random.choice(_SAME)}">{part}</text:span>'
            found += part
        return found

    def _sentence(self) -> str:
        return self._text(self.words.sentence())

    def _content(self, depth: int = 0, size: int = 5) -> str:
        """What a paragraph has inside, with at least one word that is translated."""
        makers = [
            maker for maker, weight, needs_body in _INLINE for _ in range(weight) if self._in_body or not needs_body
        ]
        found = self._sentence()
        for _ in range(self._random.randrange(size)):
            maker = self._random.choice(makers)
            piece = maker(self, depth)
            space = self._random.choice((" ", " ", " ", "", "\n  "))
            found = self._random.choice((found + space + piece, piece + space + found))
            if self._random.random() < 0.4:
                found += space + self._sentence()
        return found

    def _inside(self, depth: int) -> str:
        return self._content(depth + 1, 3) if depth < 2 else self._sentence()

    def _kept_text(self) -> str:
        return f"{self.words.kept_word()} {self.words.kept_word()}"

    # In a paragraph

    def _formatted(self, depth: int) -> str:
        inside = self._random.choice((self._inside, lambda _: self._sentence()))(depth)
        space = self._random.choice(("", "", " "))
        return f'<text:span text:style-name="{self._random.choice(_FORMATS)}">{inside}{space}</text:span>'

    def _format_inside_word(self, depth: int) -> str:
        word = self.words.word()
        cut = self._random.randrange(1, len(word))
        mark = self._random.choice(("", '<text:bookmark text:name="m"/>', '<text:bookmark-start text:name="n"/>'))
        style = self._random.choice((*_FORMATS, *_SAME))
        return f'{self._text(word[:cut])}{mark}<text:span text:style-name="{style}">{word[cut:]}</text:span>'

    def _link(self, depth: int) -> str:
        url = f"https://example.org/{self.words.kept_word()}?a=1&amp;b=2"
        return f'<text:a xlink:type="simple" xlink:href="{url}">{self._inside(depth)}</text:a>'

    def _field(self, depth: int) -> str:
        tag, attributes = self._random.choice(
            (
                ("page-number", 'text:select-page="current"'),
                ("date", 'text:fixed="true" text:date-value="2020-01-02"'),
                ("author-name", 'text:fixed="true"'),
                ("bookmark-ref", 'text:reference-format="text" text:ref-name="none"'),
                ("page-count", ""),
            )
        )
        return f"<text:{tag} {attributes}>{self._kept_text()}</text:{tag}>"

    def _note(self, depth: int) -> str:
        kind = self._random.choice(("footnote", "endnote"))
        self._in_body = False
        body = "".join(f"<text:p>{self._content(1)}</text:p>" for _ in range(self._random.choice((1, 1, 2))))
        self._in_body = True
        number = self._new_id()
        return (
            f'<text:note text:id="ftn{number}" text:note-class="{kind}">'
            f"<text:note-citation>{number}</text:note-citation><text:note-body>{body}</text:note-body></text:note>"
        )

    def _comment(self, depth: int) -> str:
        text = f"<text:p>{self._kept_text()}</text:p>"
        if self._random.random() < 0.5:
            return f"<office:annotation>{_DATE}{text}</office:annotation>{self._sentence()}"
        name = f'office:name="c{self._new_id()}"'
        start = f"<office:annotation {name}>{_DATE}{text}</office:annotation>"
        return f"{start}{self._inside(depth)}<office:annotation-end {name}/>"

    def _point(self, depth: int) -> str:
        return self._random.choice(_POINTS)

    def _mark(self, depth: int) -> str:
        start, end = self._random.choice(
            (
                ('<text:bookmark-start text:name="{0}"/>', '<text:bookmark-end text:name="{0}"/>'),
                ('<text:reference-mark-start text:name="{0}"/>', '<text:reference-mark-end text:name="{0}"/>'),
                (
                    '<text:alphabetical-index-mark-start text:id="{0}"/>',
                    '<text:alphabetical-index-mark-end text:id="{0}"/>',
                ),
                ('<text:alphabetical-index-mark text:string-value="{0}"/>', ""),
            )
        )
        name = self.words.kept_word()
        return start.format(name) + self._sentence() + end.format(name)

    def _hidden(self, depth: int) -> str:
        style = self._random.choice(("Hidden", "Source_20_Text"))
        return f'<text:span text:style-name="{style}">{self._kept_text()}</text:span>'

    def _inserted(self, depth: int) -> str:
        number = f"ct{self._new_id()}"
        own = f'text:change-id="{number}"'
        self._change(number, f"<text:insertion><office:change-info>{_DATE}</office:change-info></text:insertion>")
        return f"<text:change-start {own}/>{self._sentence()}<text:change-end {own}/>"

    def _deleted(self, depth: int) -> str:
        number = f"ct{self._new_id()}"
        gone = f"<office:change-info>{_DATE}</office:change-info><text:p>{self._kept_text()}</text:p>"
        self._change(number, f"<text:deletion>{gone}</text:deletion>")
        return f'<text:change text:change-id="{number}"/>'

    def _change(self, number: str, kind: str) -> None:
        self._changes += f'<text:changed-region xml:id="{number}" text:id="{number}">{kind}</text:changed-region>'

    def _ruby(self, depth: int) -> str:
        base, text = self.words.word(), self.words.kept_word()
        return f"<text:ruby><text:ruby-base>{base}</text:ruby-base><text:ruby-text>{text}</text:ruby-text></text:ruby>"

    def _meta(self, depth: int) -> str:
        return f'<text:meta xml:id="meta{self._new_id()}">{self._inside(depth)}</text:meta>'

    def _right_to_left(self, depth: int) -> str:
        return f"\u05e9\u05dc\u05d5\u05dd {self.words.word()} 12"

    def _frame(self, inside: str, size: str) -> str:
        number = self._new_id()
        texts = ""
        if self._random.random() < 0.5:
            texts = f"<svg:title>{self.words.unseen_word()} &amp; {self.words.unseen_word()}</svg:title>"
            texts += f"<svg:desc>{self.words.unseen_word()}</svg:desc>"
        return (
            f'<draw:frame draw:name="{self.words.kept_word()}" text:anchor-type="as-char" draw:z-index="{number}"'
            f" {size}>{inside}{texts}</draw:frame>"
        )

    def _picture(self, depth: int) -> str:
        name = self._document.add_file(BytesIO(picture(self._random.randbytes(3))))
        image = f'<draw:image xlink:href="{name}" xlink:type="simple" xlink:show="embed" xlink:actuate="onLoad"/>'
        return self._frame(image, 'svg:width="0.8cm" svg:height="0.8cm"')

    def _box(self, depth: int) -> str:
        self._in_body = False
        text = "".join(f"<text:p>{self._content(1, 3)}</text:p>" for _ in range(self._random.choice((1, 2))))
        self._in_body = True
        return self._frame(f'<draw:text-box fo:min-height="1cm">{text}</draw:text-box>', 'svg:width="6cm"')

    # Around paragraphs

    def _add(self, xml: str) -> None:
        """Add elements at the end of the body."""
        for element in odfdo.Element.from_tag(f"<text:section>{xml}</text:section>").children:
            self._document.body.append(element)

    def _paragraph(self) -> None:
        self._add(
            f'<text:p text:style-name="{self._random.choice(("Standard", "Text_20_body"))}">{self._content()}</text:p>'
        )

    def _heading(self) -> None:
        level = self._random.choice((1, 2))
        self._add(
            f'<text:h text:style-name="Heading_20_{level}" text:outline-level="{level}">{self._content(1, 3)}</text:h>'
        )

    def _right_to_left_paragraph(self) -> None:
        self._add(f'<text:p text:style-name="Rtl">{self._right_to_left(0)} {self._sentence()}</text:p>')

    def _code(self) -> None:
        style = self._random.choice(("Code", "Preformatted_20_Text"))
        self._add(f'<text:p text:style-name="{style}">{self._kept_text()} = {self.words.kept_word()}</text:p>')

    def _empty(self) -> None:
        self._add(self._random.choice(("<text:p/>", "<text:p> <text:tab/></text:p>", "<text:p>12.5</text:p>")))

    def _list(self) -> None:
        def item(*inside: str) -> str:
            paragraphs = "".join(f"<text:p>{self._content(1)}</text:p>" for _ in range(self._random.choice((1, 1, 2))))
            return f"<text:list-item>{paragraphs}{''.join(inside)}</text:list-item>"

        inner = f"<text:list>{item()}{item()}</text:list>"
        self._add(f"<text:list>{item()}{item(inner)}</text:list>")

    def _table(self) -> None:
        table = odfdo.Table(f"Table{self._new_id()}", width=2, height=2)
        for row in table.rows:
            for cell in row.cells:
                for child in odfdo.Element.from_tag(
                    f"<text:section><text:p>{self._content(1, 3)}</text:p></text:section>"
                ).children:
                    cell.append(child)
                row.set_cell(cell.x, cell)
            table.set_row(row.y, row)
        if self._random.random() < 0.4:
            inner = odfdo.Table(f"Table{self._new_id()}", width=1, height=1)
            inner.set_value((0, 0), self.words.word())
            cell = table.get_cell((0, 1))
            cell.append(inner)
            cell.append(odfdo.Paragraph(""))
            table.set_cell((0, 1), cell)
        self._document.body.append(table)

    def _contents(self) -> None:
        """A table of contents and its headings."""
        titles = [self.words.sentence(3) for _ in range(self._random.choice((1, 2, 3)))]
        name, number = escape(self.words.sentence(2)), self._new_id()
        entries = ""
        for page, title in enumerate(titles, 1):
            entry = f"{page}<text:tab/>{self._text(title)}<text:tab/>{page}"
            entries += f'<text:p><text:a xlink:type="simple" xlink:href="#{page}|outline">{entry}</text:a></text:p>'
        self._add(
            f'<text:table-of-content text:name="toc{number}"><text:table-of-content-source text:outline-level="3">'
            f"<text:index-title-template>{name}</text:index-title-template></text:table-of-content-source>"
            f'<text:index-body><text:index-title text:name="t{number}"><text:p>{name}</text:p></text:index-title>'
            f"{entries}</text:index-body></text:table-of-content>"
        )
        for title in titles:
            self._add(f'<text:h text:outline-level="1">{self._text(title)}</text:h>')

    def _section(self) -> None:
        is_hidden = self._random.random() < 0.3
        text = self._kept_text() if is_hidden else self._content()
        hidden = 'text:display="none"' if is_hidden else ""
        self._add(f'<text:section text:name="s{self._new_id()}" {hidden}><text:p>{text}</text:p></text:section>')

    def _shape(self) -> None:
        path = "M 0 0 L 21600 0 21600 21600 0 21600 0 0 Z N"
        box = f'svg:viewBox="0 0 21600 21600" draw:type="rectangle" draw:enhanced-path="{path}"'
        text = f"<text:p>{self.words.word()} {self.words.word()}</text:p>"
        self._add(
            f'<text:p>{self._sentence()} <draw:custom-shape text:anchor-type="as-char" svg:width="6cm" '
            f'svg:height="2cm">{text}<draw:enhanced-geometry {box}/></draw:custom-shape></text:p>'
        )

    def _control(self, depth: int) -> str:
        """A content control or an input field, which only newer files have."""
        if self._random.random() < 0.5:
            return f'<text:text-input text:description="">{escape(self.words.sentence())}</text:text-input>'
        word, other = self.words.word(), self.words.unseen_word()
        items = f'<loext:list-item loext:display-text="{word}"/><loext:list-item loext:display-text="{other}"/>'
        return f"<loext:content-control>{items}{word}</loext:content-control>"

    def _header_and_footer(self) -> None:
        self._in_body = False
        master = self._document.styles.get_element("//style:master-page")
        for kind in ("header", "footer"):
            page = "<text:page-number>7</text:page-number>"
            text = f"<style:{kind}><text:p>{self._content(1, 3)} {page}</text:p></style:{kind}>"
            master.append(odfdo.Element.from_tag(text))
        self._in_body = True


_INLINE: tuple[tuple[Callable[[OpenFile, int], str], int, bool], ...] = (
    (OpenFile._formatted, 8, False),
    (OpenFile._format_inside_word, 4, False),
    (OpenFile._link, 4, False),
    (OpenFile._field, 3, False),
    (OpenFile._note, 3, True),
    (OpenFile._comment, 2, True),
    (OpenFile._point, 4, False),
    (OpenFile._mark, 3, False),
    (OpenFile._hidden, 3, False),
    (OpenFile._inserted, 3, True),
    (OpenFile._deleted, 2, True),
    (OpenFile._ruby, 1, False),
    (OpenFile._meta, 1, False),
    (OpenFile._control, 2, False),
    (OpenFile._right_to_left, 1, False),
    (OpenFile._picture, 2, True),
    (OpenFile._box, 1, True),
)
_BLOCKS: tuple[tuple[Callable[[OpenFile], None], int], ...] = (
    (OpenFile._paragraph, 10),
    (OpenFile._heading, 2),
    (OpenFile._right_to_left_paragraph, 1),
    (OpenFile._code, 1),
    (OpenFile._empty, 1),
    (OpenFile._list, 2),
    (OpenFile._table, 2),
    (OpenFile._contents, 1),
    (OpenFile._section, 2),
    (OpenFile._shape, 1),
)
