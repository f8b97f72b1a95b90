"""Compares what Dragoman, argos-translate-files and Okapi translate in Word and LibreOffice files.

    python -m venv peer && peer/bin/pip install argos-translate-files
    git clone https://github.com/mihnita/okapi; python benchmarks/document_peers.py okapi peer/bin/python

Both programs translate each .docx and .odt file of the folder with the same stand-in, which writes capitals. Okapi is
not run: its results are the files `gold/Tran*.docx` of its own tests, whose translator writes Pig Latin.
The files are read by ElementTree, not by Dragoman. Deleted and hidden text, comments, equations, readings of ruby, and
results of fields other than links and tables of contents should stay. A paragraph is whole if the stand-in got it at
once. The second table counts files by what happened to the words inside of an element or field.
"""

import argparse
import json
import re
import subprocess
import tempfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, fromstring

import numpy as np
from recording import say

from dragoman.errors import DragomanError
from dragoman.text.documents.office.document import OfficeDocument, read_office
from dragoman.text.documents.placement import AlignedPart, insert_markers

PEER = """
import json, sys
from argostranslatefiles.argostranslatefiles import translate_file
class StandIn:
    def translate(self, text):
        seen.append(text)
        return "".join(letter.upper() if len(letter.upper()) == 1 else letter for letter in text)
for source, target in json.load(sys.stdin):
    seen = []
    try:
        translate_file(StandIn(), source, lambda *_: target)
        json.dump(seen, open(target + ".json", "w"))
    except Exception as error:
        print("argos-translate-files:", source, repr(error)[:100], file=sys.stderr)
"""
PARTS = re.compile(
    r"word/(document|(header|footer|charts/chart|diagrams/data|diagrams/drawing|drawings/drawing)\d*|"
    r"footnotes|endnotes|comments)\.xml|(content|styles|meta)\.xml|docProps/core\.xml"
)
PREFIXES = {"/dc/": "dc", "/chart": "c", "/math": "m", "wordprocessingml": "w", "drawingml/2006/main": "a"}
PREFIXES[":text:1.0"] = "text"
PARAGRAPHS = frozenset("w:p a:p c:v text:p text:h text:index-title-template".split())
SHOWN = frozenset("w:t a:t text:span text:a text:ruby-base text:meta title desc".split()) | PARAGRAPHS - {"w:p", "a:p"}
EMPTY = frozenset("w:sym w:noBreakHyphen w:softHyphen w:bookmarkStart text:bookmark-start".split())
ATTRIBUTES = frozenset(("descr", "string"))
STAYS = frozenset("w:del w:moveFrom w:comment w:rt m:oMath hidden annotation text:deletion text:ruby-text".split())
CONSTRUCTS = STAYS | EMPTY | ATTRIBUTES | frozenset(
    "w:tc w:txbxContent w:ins w:moveTo w:hyperlink w:sdt w:smartTag w:rubyBase w:footnote w:endnote w:hdr w:ftr "
    "rich strCache dataModel drawing lockedCanvas Choice Fallback align dc:title dc:subject dc:creator w:instrText "
    "text:note-body text:a text-box table-cell text:ruby-base header footer text:table-of-content".split()
)  # fmt: skip
WORD = re.compile(r"[^\W\d_]{2,}")
SYMBOLS = re.compile(r"\W+")
Text = tuple[str, tuple[str, ...], list[str], int]
"""A text, the elements around it, the codes of the fields whose result it is part of, and its paragraph or 0."""


def texts_in(element: Element, above: tuple[str, ...], paragraph: int, fields: list[list[str]]) -> Iterator[Text]:
    """The texts of an element. `fields` has the code of each open field, and a second string if its result started."""
    name = name_of(element.tag)
    values = {name_of(key).rpartition(":")[2]: value for key, value in element.attrib.items()}
    marks = [mark for mark in element.iter() if name_of(mark.tag) == "w:vanish"] if name == "w:r" else []
    is_hidden = any({"0", "false", "off"}.isdisjoint(mark.attrib.values()) for mark in marks)
    path = (*above, "hidden", name) if is_hidden else (*above, name)
    kind = values.get("fldCharType", "simple" if name == "w:fldSimple" else "")
    paragraph = id(element) if name in PARAGRAPHS else paragraph
    if kind in ("begin", "simple"):
        fields.append([values.get("instr", "")])
    if kind in ("separate", "simple") and fields:
        fields[-1].append("result")
    yield from ((value, (*path, key), [], 0) for key, value in values.items() if key in ATTRIBUTES)
    if name in EMPTY:
        yield f"word {values}", path, [], 0
    if name in ("w:tab", "w:br", "text:s", "text:tab", "text:line-break"):
        yield " ", (*path, "w:t"), [], paragraph
    for child in (None, *element):
        if child is not None:
            yield from texts_in(child, path, paragraph, fields)
        text = (element.text if child is None else child.tail) or ""
        if name == "w:instrText" and fields:
            fields[-1][0] += text
        if text and (not text.isspace() or name in SHOWN):
            yield text, path, ["".join(code.split()[:1]).upper() for code, *result in fields if result], paragraph
    if kind in ("end", "simple") and fields:
        fields.pop()


def name_of(name: str) -> str:
    """The name of an element or attribute, with a prefix only for the main namespaces."""
    space, _, local = name.removeprefix("{").rpartition("}")
    return next((f"{prefix}:{local}" for key, prefix in PREFIXES.items() if key in space), local)


class OfficeFile:
    """What is compared of a file. Raises OSError, BadZipFile or ParseError if there is no complete file."""

    def __init__(self, path: Path) -> None:
        with zipfile.ZipFile(path) as archive:
            roots = [fromstring(archive.read(name)) for name in sorted(archive.namelist()) if PARTS.fullmatch(name)]
        self.words, self.codes, self.num_left = defaultdict[str, Counter[str]](Counter), Counter[str](), 0
        paragraphs, cut = defaultdict[int, str](str), {0}
        for text, names, codes, paragraph in (text for root in roots for text in texts_in(root, (), 0, [])):
            words = WORD.findall(text)
            stays = not STAYS.isdisjoint(names) or not {"HYPERLINK", "TOC"}.issuperset(codes)
            around = [name for name in names if name in CONSTRUCTS]
            is_shown = names[-1] in SHOWN and paragraph > 0
            for construct in {*around, *(f"field {code}" for code in codes)} if is_shown else around[-1:]:
                self.words[construct].update(words)
            if is_shown:
                paragraphs[paragraph] += text.replace("\xad", "").casefold()
                cut |= {paragraph} if stays else {0}
                self.num_left += 0 if stays else sum(word != capitals(word) for word in words)
            elif not (EMPTY | ATTRIBUTES | {"dc:title"}) & set(names):
                self.codes[f"{names[-1]} {text}"] += 1
        self.paragraphs = [re.sub(r"\s*[\t\r\n]\s*", " ", text) for text in paragraphs.values()]
        self.whole = [SYMBOLS.sub("", text) for key, text in paragraphs.items() if key not in cut and WORD.search(text)]


def capitals(text: str) -> str:
    return "".join(letter.upper() if len(letter.upper()) == 1 else letter for letter in text)


def translate(source: Path, target: Path) -> None:
    """Dragoman's translation, with each letter aligned to itself."""
    document = read_office(source.read_bytes(), source.name)
    written = []
    for segment in document.segments:
        parts = [AlignedPart([one.span()], [one.span()], np.ones((1, 1))) for one in re.finditer(r"\S", segment.text)]
        written.append(insert_markers(segment, capitals(segment.text), parts, OfficeDocument.escape))
    target.write_bytes(document.write(written))
    Path(f"{target}.json").write_text(json.dumps([segment.text for segment in document.segments]), encoding="utf-8")


def measure(originals: dict[Path, OfficeFile], written: dict[Path, Path]) -> Counter[tuple[str, str]]:
    counts = Counter[tuple[str, str]]()
    for source, path in written.items():
        original = originals[source]
        try:
            result = OfficeFile(path)
        except (OSError, ParseError, zipfile.BadZipFile):
            counts["fails", ""] += 1
            continue
        log = Path(f"{path}.json")
        seen = {SYMBOLS.sub("", text).casefold() for text in (json.loads(log.read_bytes()) if log.exists() else ())}
        counts["paragraphs", ""] += len(original.whole)
        counts["whole paragraphs", ""] += sum(text in seen for text in original.whole)
        counts["files with words left", ""] += result.num_left > 0
        counts["text lost or changed", ""] += result.paragraphs != original.paragraphs
        counts["codes changed", ""] += result.codes != original.codes
        for construct, words in original.words.items():
            small = Counter({word: count for word, count in words.items() if word != capitals(word)})
            left = small & result.words[construct]
            what = "kept" if left == small else "partly" if left else "translated"
            if small:
                counts[construct, what if result.words[construct] else "removed"] += 1
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder with .docx and .odt files")
    parser.add_argument("python", type=Path, help="Python of an environment with argos-translate-files")
    given = parser.parse_args()
    paths = sorted((*given.folder.rglob("*.docx"), *given.folder.rglob("*.odt")))
    files = {path: OfficeFile(path) for path in paths if "gold" not in path.parts and zipfile.is_zipfile(path)}
    with tempfile.TemporaryDirectory() as name:
        own, peer = ({path: Path(name, f"{who}{i}{path.suffix}") for i, path in enumerate(files)} for who in "op")
        for path, target in own.items():
            try:
                translate(path, target)
            except DragomanError as error:
                say(f"Dragoman: {error}")
        jobs = json.dumps([(str(path), str(target)) for path, target in peer.items()])
        subprocess.run([given.python, "-c", PEER], input=jobs, text=True, check=True)
        okapi = {path: gold for path in files if (gold := path.parent / "gold" / f"Tran{path.name}").exists()}
        results = [measure(files, written) for written in (own, peer, okapi)]
    print(f"| {len(files)} files | Dragoman | argos-translate-files |\n|---|---:|---:|")
    for row in sorted({row for counts in results for row, what in counts if not what}):
        print(f"| {row} |", " | ".join(f"{counts[row, '']:,}" for counts in results[:2]), "|")
    print(f"\n| construct | Dragoman | argos-translate-files | Okapi, {len(okapi)} files |\n|---|---|---|---|")
    for row in sorted({row for row, what in results[0] if what}):
        print(f"| {row} |", " | ".join(cell(counts, row) for counts in results), "|")


def cell(counts: Counter[tuple[str, str]], row: str) -> str:
    return ", ".join(f"{what} {number}" for (name, what), number in sorted(counts.items()) if name == row) or "-"


if __name__ == "__main__":
    main()
