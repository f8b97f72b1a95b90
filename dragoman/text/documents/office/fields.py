"""Fields of Word: a code between "begin" and "separate", and its result up to "end", in one paragraph or many.

The results of some fields are words of the author, and translated: of links, tables of contents, forms, and texts from
other files. Other fields are kept: a date, a page number, a citation, an index.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dragoman.text.documents.office.atoms import Atom, Mark, Text
from dragoman.text.documents.office.xml import unescape_xml

_TAG = re.compile("<[^>]*>")
_MOST_NESTED = 50
_TRANSLATED = frozenset("DDE DDEAUTO FILLIN FORMTEXT HYPERLINK IF INCLUDETEXT LINK QUOTE TC TOC XE".split())
_DELETED = re.compile(r"<(\w+:)?del\b[^>]*(?<!/)>.*?</\1?del>", re.DOTALL)


def is_translated(code: str) -> bool:
    """Whether the result of the field with this code is translated."""
    return "".join(code.split()[:1]).upper() in _TRANSLATED


@dataclass(slots=True)
class _Field:
    start: int
    code: str = ""
    separate: int | None = None


class WordFields:
    """The fields that are open at a place in a part.

    Parameters
    ----------
    xml
        The part. If it does not end all fields that it begins, none extends over several paragraphs.
    """

    def __init__(self, xml: str) -> None:
        seen = _DELETED.sub("", xml) if ":del " in xml else xml
        self._may_cross = seen.count('Type="begin"') == seen.count('Type="end"')
        self._open: list[_Field] = []

    def fold(self, atoms: Iterable[Atom]) -> list[Atom]:
        """The atoms of the next paragraph, with each kept field as one point, and each link as a pair of marks."""
        found: list[Atom] = []
        for atom in atoms:
            found.append(atom)
            if isinstance(atom, Text):
                continue
            if atom.kind == "begin":
                self._open.append(_Field(len(found) - 1))
            elif self._open and atom.kind == "code":
                self._open[-1].code += unescape_xml(_TAG.sub("", "".join(map(str, atom.raw))))
            elif self._open and atom.kind == "separate":
                self._open[-1].separate = len(found) - 1
            elif self._open and atom.kind == "end":
                self._close(self._open.pop(), found)
        kept = [field.start for field in self._open if not is_translated(field.code)]
        if kept and self._may_cross:
            found[min(kept) :] = _keep(found[min(kept) :])
        self._open = [_Field(0, field.code) for field in self._open] if self._may_cross else []
        return found

    def _close(self, field: _Field, found: list[Atom]) -> None:
        if not is_translated(field.code):
            if not self._open or is_translated(self._open[-1].code):  # else it is kept with the field around it
                found[field.start :] = _keep(found[field.start :])
        elif field.separate is not None and len(self._open) < _MOST_NESTED:
            opening, inside = found[field.start : field.separate + 1], found[field.separate + 1 : -1]
            if _is_nested(opening) and _is_nested(inside):
                links = Mark("open", parts=_parts(opening)), Mark("close", parts=(found[-1],))
                found[field.start :] = [links[0], *inside, links[1]]


def _keep(atoms: Sequence[Atom]) -> list[Atom]:
    """The atoms as one point, or each text as a point if marks that enclose text begin or end among them."""
    if _is_nested(atoms):
        return [Mark("point", parts=_parts(atoms))]
    return [Mark("point", parts=(atom,)) if isinstance(atom, Text) else atom for atom in atoms]


def _parts(atoms: Iterable[Atom]) -> tuple[Atom, ...]:
    """The atoms without the points among them that have parts themselves, so that parts are never deeply nested."""
    return tuple(part for atom in atoms for part in (isinstance(atom, Mark) and atom.parts) or (atom,))


def _is_nested(atoms: Sequence[Atom]) -> bool:
    depth = 0
    for atom in atoms:
        if isinstance(atom, Mark):
            depth += (atom.kind == "open") - (atom.kind == "close")
        if depth < 0:
            return False
    return depth == 0
