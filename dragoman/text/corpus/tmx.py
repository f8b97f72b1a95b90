"""Translation memories (TMX 1.1 to 1.4b), read unit by unit in constant memory.

A document type declaration is accepted but never loaded. A file that declares entities is refused.

Inline markup follows TMX 1.4b, section 3.4: `bpt`, `ept`, `it`, `ph` and `ut` hold native codes and are removed with
everything inside them. The text inside `hi` and `sub` stays. White space that holds a line break becomes one space.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import iterparse

from dragoman.errors import DataError
from dragoman.languages import main_language, normalize_code
from dragoman.records import SentencePair
from dragoman.text.lines import join_lines, open_bytes

_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_NATIVE_CODE = {"bpt", "ept", "it", "ph", "ut"}
_UNITS_LOOKED_AT = 1000
_MAX_UNIT_ELEMENTS = 10_000
_MAX_UNIT_BYTES = 1 << 20


@dataclass(slots=True)
class ReadReport:
    """Number of units (lines, objects) read, and of units skipped because one language has no text."""

    units: int = 0
    skipped: int = 0


def read_tmx(path: Path, src_lang: str, tgt_lang: str, report: ReadReport) -> Iterator[SentencePair]:
    """The units that have both languages. If a language has several variants, the first one counts.

    Raises DataError if the file is not well-formed TMX, has no unit with both languages, or exceeds the limits against
    hostile files.
    """
    for segments in _units(path):
        report.units += 1
        src, tgt = _variant(segments, src_lang), _variant(segments, tgt_lang)
        if src is None or tgt is None:
            report.skipped += 1
        else:
            yield SentencePair(src, tgt)
    if report.skipped == report.units:
        held = ", ".join(tmx_languages(path))
        raise DataError(
            f"{path} has no unit with both {src_lang} and {tgt_lang}. Its languages are {held}. "
            "Name two of them with `--src-lang` and `--tgt-lang` (`data.src_lang`, `data.tgt_lang`)."
        )


def tmx_languages(path: Path) -> tuple[str, ...]:
    """The languages of the first 1,000 units: first the header's srclang, then by frequency.

    Codes are returned as written in the file. Several regional forms of a language (en-US, en-GB) become one (en),
    unless the file has only this language.
    """
    counts: Counter[str] = Counter()
    header: dict[str, str] = {}
    for segments in islice(_units(path, header), _UNITS_LOOKED_AT):
        counts.update(filter(None, segments))
    forms: dict[str, dict[str, str]] = {}
    for written, _ in counts.most_common():
        forms.setdefault(main_language(written), {}).setdefault(normalize_code(written), written)
    if len(forms) == 1:
        languages = [written for same in forms.values() for written in same.values()]
    else:
        languages = [main if len(same) > 1 else next(iter(same.values())) for main, same in forms.items()]
    source = header.get("srclang", "")
    first = [code for code in languages if matches_language(code, source) or matches_language(source, code)]
    return (*first, *(code for code in languages if code not in first))


def matches_language(language: str, wanted: str) -> bool:
    """Whether a language code is the wanted one or a regional form of it: en-US, EN and eng all match en."""
    have, want = normalize_code(language), normalize_code(wanted)
    return want != "" and (have == want or have.startswith(want + "-"))


def find_language(codes: Collection[str], wanted: str) -> str:
    """The code that is the wanted one, else its first regional form, else its general form (da for da-DK); or ""."""
    exact = next((code for code in codes if code.lower() == wanted.lower()), "")
    regional = exact or next((code for code in codes if matches_language(code, wanted)), "")
    return regional or next((code for code in codes if matches_language(wanted, code)), "")


def _variant(segments: dict[str, str], wanted: str) -> str | None:
    return segments.get(find_language(segments, wanted) or wanted)


def _units(path: Path, header: dict[str, str] | None = None) -> Iterator[dict[str, str]]:
    """The texts of each translation unit by language. Fills `header` with the attributes of the TMX header."""
    number = 0
    with open_bytes(path) as file:
        stream = _LimitedFile(file, path)
        try:
            body: Element | None = None
            elements = 0
            for event, element in iterparse(stream, events=("start", "end"), forbid_external=True):
                tag = _local(element)
                if event == "start":
                    elements += 1
                    if elements > _MAX_UNIT_ELEMENTS:
                        raise _unit_too_large_error(path, f"{_MAX_UNIT_ELEMENTS:,} elements")
                    if tag == "body":
                        body = element
                    elif tag == "header" and header is not None:
                        header.update(element.attrib)
                elif tag == "tu":
                    number += 1
                    yield _segments(element)
                    element.clear()
                    stream.left, elements = _MAX_UNIT_BYTES, 0
                    if body is not None:
                        body.clear()
        except ParseError as error:
            line = error.position[0]
            raise DataError(
                f"{path}, line {line} is not well-formed XML: {error}. Export the translation memory again."
            ) from None
        except DefusedXmlException as error:
            raise DataError(
                f"{path} declares or refers to entities ({type(error).__name__}), which can be an attack. "
                "Replace the entities by their text, and remove the declarations."
            ) from None
        except ValueError as error:
            raise DataError(f"{path} cannot be read as XML: {error}. Export the translation memory again.") from None
    if number == 0:
        raise DataError(f"{path} has no translation units (<tu>). Check that it is a TMX file.")


class _LimitedFile:
    """A file with a limit on the bytes between two units, so that a hostile file cannot exhaust the memory."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.left = _MAX_UNIT_BYTES
        self._file, self._path = file, path

    def read(self, size: int = -1) -> bytes:
        """The next bytes. Raises DataError if the limit is reached."""
        if self.left <= 0:
            raise _unit_too_large_error(self._path, f"{_MAX_UNIT_BYTES:,} bytes")
        data = self._file.read(size)
        self.left -= len(data)
        return data


def _unit_too_large_error(path: Path, limit: str) -> DataError:
    return DataError(
        f"{path} has more than {limit} without the end of a unit (</tu>), the limit for one unit. "
        "Export the translation memory again."
    )


def _segments(unit: Element) -> dict[str, str]:
    segments: dict[str, str] = {}
    for variant in unit:
        if _local(variant) != "tuv":
            continue
        language = variant.get(_XML_LANG) or variant.get("lang") or ""
        segment = next((child for child in variant if _local(child) == "seg"), None)
        if segment is not None and language not in segments:
            segments[language] = join_lines("".join(_texts(segment)))
    return segments


def _texts(element: Element) -> Iterator[str]:
    """The translatable text of a segment. Not recursive, so that deep nesting cannot overflow the stack."""
    stack: list[Element | str] = [element]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
            continue
        for child in reversed(item):
            stack.append(child.tail or "")
            if _local(child) not in _NATIVE_CODE:
                stack.append(child)
        if item.text:
            yield item.text


def _local(element: Any) -> str:
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""
