"""Word files made by python-docx from a seed.

python-docx makes the package, styles, tables, headers, pictures and comments. What it lacks is added as XML.
"""

from collections.abc import Callable
from io import BytesIO
from xml.sax.saxutils import quoteattr

from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml.parser import parse_xml

from tests.unit.text.documents.office.generated_runs import DECLARED, NAMES, WordText

_WORD_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml"


class WordFile(WordText):
    """A Word file from a seed.

    Attributes
    ----------
    content
        Its bytes.
    """

    def __init__(self, seed: int, num_blocks: int = 14) -> None:
        super().__init__(seed)
        self._document.core_properties.title = f"{self.words.unseen_word()} & {self.words.unseen_word()}"
        self._document.core_properties.author = self.words.kept_word()
        blocks = [block for block, weight in _BLOCKS for _ in range(weight)]
        for block in self._random.choices(blocks, k=num_blocks):
            block(self)
        self._header_and_footer()
        self._add_notes()
        written = BytesIO()
        self._document.save(written)
        self.content = written.getvalue()

    def _add(self, xml: str) -> None:
        """Add elements at the end of the body."""
        for element in parse_xml(f"<w:body {DECLARED}>{xml}</w:body>"):
            self._document.element.body[-1].addprevious(element)

    def _paragraph_of(self, content: str, properties: str = "") -> str:
        if self._random.random() < 0.15:
            properties += f"<w:rPr><w:ins {self._change()}/></w:rPr>"
        elif self._random.random() < 0.1:
            properties += f"<w:pPrChange {self._change()}><w:pPr/></w:pPrChange>"
        return f"<w:p>{f'<w:pPr>{properties}</w:pPr>' if properties else ''}{content}</w:p>"

    def _paragraph(self) -> None:
        style = self._random.choice(("", "", "Quote", "BodyText", "Heading1", "Heading2", "ListBullet", "ListNumber"))
        properties = f'<w:pStyle w:val="{style}"/>' if style else ""
        properties += self._random.choice(("", "", '<w:jc w:val="both"/>', '<w:ind w:left="360"/>'))
        self._add(self._paragraph_of(self._content(), properties))

    def _right_to_left_paragraph(self) -> None:
        content = self._right_to_left(0) + self._run(self._t(" "), "<w:rtl/>") + self._sentence()
        self._add(self._paragraph_of(content, "<w:bidi/>"))

    def _code(self) -> None:
        self._add(
            self._paragraph_of(
                self._text(f"{self.words.kept_word()} = {self.words.kept_word()}"), '<w:pStyle w:val="SourceCode"/>'
            )
        )

    def _empty(self) -> None:
        self._add(
            self._random.choice(("<w:p/>", "<w:p><w:r><w:tab/></w:r></w:p>", "<w:p><w:r><w:t>12.5</w:t></w:r></w:p>"))
        )

    def _table(self) -> None:
        table = self._document.add_table(2, 2, style="Table Grid")
        if self._random.random() < 0.5:
            value = quoteattr(f"{self.words.unseen_word()} & {self.words.unseen_word()}")
            table._tbl.tblPr.append(parse_xml(f"<w:tblCaption {DECLARED} w:val={value}/>"))
        for cell in table._cells:
            for element in parse_xml(f"<w:body {DECLARED}>{self._paragraph_of(self._content(1, 3))}</w:body>"):
                cell._tc.append(element)
        if self._random.random() < 0.4:
            table.cell(0, 0).merge(table.cell(0, 1))
        if self._random.random() < 0.4:
            inner = table.cell(1, 0).add_table(1, 2)
            inner.cell(0, 0).text, inner.cell(0, 1).text = (
                self.words.word(),
                f"{self.words.word()}\t{self.words.word()}",
            )
        self._document.element.body[-1].addprevious(table._tbl)

    def _contents(self) -> None:
        """Headings, and the table of contents with them."""
        titles = [self.words.sentence(3).replace("\n", "") for _ in range(self._random.choice((1, 2, 3)))]
        tab = self._run("<w:tab/>")
        start, end = self._field(' TOC \\o "1-3" \\h ', "|").split("|")
        paragraphs = ""
        for number, title in enumerate(titles, 1):
            page = self._field(f" PAGEREF _Toc{number} \\h ", self._run(self._t(str(number))))
            entry = f"{self._run(self._t(str(number)))}{tab}{self._text(title)}{tab}{page}"
            link = f'<w:hyperlink w:anchor="_Toc{number}">{entry}</w:hyperlink>'
            paragraphs += self._paragraph_of((start if number == 1 else "") + link)
        paragraphs += f"<w:p>{end}</w:p>"
        gallery = '<w:docPartGallery w:val="Table of Contents"/><w:docPartUnique/>'
        control = (
            f"<w:sdt><w:sdtPr><w:docPartObj>{gallery}</w:docPartObj></w:sdtPr>"
            f"<w:sdtContent>{paragraphs}</w:sdtContent></w:sdt>"
        )
        self._add(self._random.choice((control, control, paragraphs)))
        for number, title in enumerate(titles, 1):
            mark = f'<w:bookmarkStart w:id="{self._new_id()}" w:name="_Toc{number}"/>'
            content = f'{mark}{self._text(title)}<w:bookmarkEnd w:id="{self._number}"/>'
            self._add(self._paragraph_of(content, '<w:pStyle w:val="Heading1"/>'))

    def _index(self) -> None:
        """An index, which Word makes again from the marked words."""
        start, end = self._field(' INDEX \\c "2" ', "|").split("|")
        lines = [self._text(f"{self.words.kept_word()}, 1") for _ in range(3)]
        self._add(f"<w:p>{start}{lines[0]}</w:p><w:p>{lines[1]}</w:p><w:p>{lines[2]}{end}</w:p>")

    def _block_control(self) -> None:
        inside = self._paragraph_of(self._content()) + self._paragraph_of(self._content(1))
        self._add(
            f'<w:sdt><w:sdtPr><w:id w:val="{self._new_id()}"/></w:sdtPr><w:sdtContent>{inside}</w:sdtContent></w:sdt>'
        )

    def _chart(self) -> None:
        def texts(kind: str, *words: str) -> str:
            points = "".join(f'<c:pt idx="{number}"><c:v>{word}</c:v></c:pt>' for number, word in enumerate(words))
            cache = f"<c:{kind}Cache><c:ptCount val='{len(words)}'/>{points}</c:{kind}Cache>"
            return f"<c:{kind}Ref><c:f>A1</c:f>{cache}</c:{kind}Ref>"

        def axis(tag: str, number: int, place: str) -> str:
            scaling = '<c:scaling><c:orientation val="minMax"/></c:scaling><c:delete val="0"/>'
            ids = f'<c:axId val="{number}"/>', f'<c:crossAx val="{3 - number}"/>'
            return f'<c:{tag}>{ids[0]}{scaling}<c:axPos val="{place}"/>{ids[1]}</c:{tag}>'

        runs = f'<a:r><a:rPr lang="en-US"/><a:t>{self.words.word()} </a:t></a:r>'
        runs += f'<a:r><a:rPr lang="en-US" b="1"/><a:t>{self.words.word()}</a:t></a:r>'
        series = (
            f'<c:ser><c:idx val="0"/><c:order val="0"/><c:tx>{texts("str", self.words.word())}</c:tx>'
            f"<c:cat>{texts('str', self.words.word(), self.words.word())}</c:cat>"
            f"<c:val>{texts('num', '1', '2.5E-1')}</c:val></c:ser>"
        )
        xml = (
            f"<c:chartSpace {DECLARED}><c:chart><c:title><c:tx><c:rich><a:bodyPr/><a:p>{runs}</a:p></c:rich></c:tx>"
            '</c:title><c:plotArea><c:layout/><c:barChart><c:barDir val="col"/><c:grouping val="clustered"/>'
            f'{series}<c:axId val="1"/><c:axId val="2"/></c:barChart>{axis("catAx", 1, "b")}{axis("valAx", 2, "l")}'
            '</c:plotArea><c:legend><c:legendPos val="r"/></c:legend></c:chart></c:chartSpace>'
        )
        number = self._new_id()
        name = self._add_part(
            f"charts/chart{number}", "application/vnd.openxmlformats-officedocument.drawingml.chart+xml", "chart", xml
        )
        drawing = self._drawing(NAMES["c"], f'<c:chart r:id="{name}"/>', height=2_400_000)
        self._add(self._paragraph_of(self._run(drawing)))

    def _section(self) -> None:
        kind = self._random.choice(("nextPage", "continuous"))
        section = (
            f'<w:sectPr><w:type w:val="{kind}"/><w:pgSz w:w="12240" w:h="15840"/><w:cols w:space="720"/></w:sectPr>'
        )
        self._add(f"<w:p><w:pPr>{section}</w:pPr>{self._content(1)}</w:p>")

    # Other parts

    def _add_part(self, name: str, kind: str, relation: str, xml: str) -> str:
        content = f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n{xml}'.encode()
        part = Part(PackURI(f"/word/{name}.xml"), kind, content, self._document.part.package)
        return self._document.part.relate_to(part, f"{NAMES['r']}/{relation}")

    def _add_notes(self) -> None:
        for kind, notes in self._notes.items():
            if notes:
                lines = "".join(
                    f'<w:{kind} w:type="{mark}" w:id="{number}"><w:p><w:r><w:{mark}/></w:r></w:p></w:{kind}>'
                    for mark, number in (("separator", -1), ("continuationSeparator", 0))
                )
                xml = f"<w:{kind}s {DECLARED}>{lines}{''.join(notes)}</w:{kind}s>"
                self._add_part(f"{kind}s", f"{_WORD_TYPE}.{kind}s+xml", f"{kind}s", xml)

    def _header_and_footer(self) -> None:
        self._in_body = False
        section = self._document.sections[-1]
        for part in (section.header, section.footer):
            paragraph = part.paragraphs[0]._p
            page = self._field(" PAGE ", self._text("7"))
            for element in parse_xml(f"<w:p {DECLARED}>{self._content(1, 3)}{page}</w:p>"):
                paragraph.append(element)
        self._in_body = True


_BLOCKS: tuple[tuple[Callable[[WordFile], None], int], ...] = (
    (WordFile._paragraph, 10),
    (WordFile._right_to_left_paragraph, 1),
    (WordFile._code, 1),
    (WordFile._empty, 1),
    (WordFile._table, 2),
    (WordFile._contents, 1),
    (WordFile._index, 1),
    (WordFile._block_control, 1),
    (WordFile._chart, 1),
    (WordFile._section, 1),
)
