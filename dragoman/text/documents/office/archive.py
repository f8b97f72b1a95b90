"""Zip archives of office files: read with checks against hostile ones, and written again with some members replaced.

A member that is not replaced keeps its content. All members keep their names, order, dates, methods and attributes.
"""

import zipfile
import zlib
from collections.abc import Mapping
from copy import copy
from io import BytesIO
from pathlib import PurePosixPath
from struct import error as struct_error
from typing import NamedTuple
from xml.etree.ElementTree import Element

from dragoman.display import one_line
from dragoman.errors import DataError
from dragoman.text.documents.office.xml import XmlText, parse_xml

_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""The compression methods of office files. Others may need gigabytes of memory."""
_ENTRY = b"PK\x01\x02"
"""The first bytes of each entry of the directory."""
_END = b"PK\x05\x06"
"""The first bytes of the record after the directory (APPNOTE.TXT, 4.3.16)."""
_RATIO_BYTES = 10 << 20
"""A smaller member may be compressed to any ratio: a blank picture is."""
_MOST_RATIO = 300
"""Office files stay below 100. The method reaches 1,030, with the zeros of a bomb."""
_ENCRYPTED = 1


class Limits(NamedTuple):
    """The limits of an archive. A larger one is refused before it takes memory.

    Attributes
    ----------
    members
        Files in the archive.
    expanded_bytes
        Bytes of all members together.
    xml_bytes, tags
        Bytes of the members that are read, and their tags and attributes.
    text_bytes
        Bytes between two tags.
    """

    members: int = 20_000
    expanded_bytes: int = 1 << 30
    xml_bytes: int = 1 << 30
    tags: int = 1 << 30
    text_bytes: int = 1 << 30


class Archive:
    """The members of a zip archive.

    Parameters
    ----------
    content
        The bytes of the archive.
    name
        The name of the file, for messages.
    limits
        What the archive may have at most.

    Attributes
    ----------
    notes
        Sentences for the user about text that stays as it is.

    Raises
    ------
    DataError
        If the archive is damaged, encrypted or too large, or a member has a name that others could misuse.
    """

    def __init__(self, content: bytes, name: str, limits: Limits) -> None:
        self.name, self._limits = name, limits
        self.notes: list[str] = []
        self._xml: dict[str, tuple[int, int]] = {}
        end = content.rfind(_END)
        size = int.from_bytes(content[end + 12 : end + 16], "little")  # of the directory
        if (count := content.count(_ENTRY, max(0, end - size))) > limits.members:
            raise self._too_large(f"{count:,} members", f"{limits.members:,}")
        try:
            self._file = zipfile.ZipFile(BytesIO(content))
            self._members = {info.filename: info for info in self._file.infolist()}
        except (zipfile.BadZipFile, ValueError, NotImplementedError, struct_error) as error:
            reason = str(error).rstrip(".") or "its directory cannot be read"
            raise DataError(f"{name} is not a complete zip archive: {reason}. Get the file again.") from None
        self._check(len(content))

    def __contains__(self, member: str) -> bool:
        return member in self._members

    @property
    def names(self) -> list[str]:
        """The names of the members, in order."""
        return list(self._members)

    def read(self, member: str) -> bytes:
        """The content of a member. Raises DataError if the archive lacks it, or it is damaged."""
        if member not in self._members:
            raise self.fault(member, "is missing", "Open the file in an office program and save it again.")
        try:
            return self._file.read(member)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError) as error:
            raise self.fault(member, f"is damaged ({one_line(str(error))})", "Get the file again.") from None

    def parse(self, member: str) -> Element:
        """The root element of a member, which must be well-formed XML without entities."""
        return parse_xml(self._read_xml(member), self.place(member))

    def read_xml(self, member: str, namespaces: dict[str, str]) -> XmlText:
        """The text of a member, checked in the same way, with prefixes of this program for some namespaces."""
        return XmlText(self._read_xml(member), self.place(member), namespaces)

    def _read_xml(self, member: str) -> bytes:
        """The content of a member with XML, within the limits."""
        content, limits = self.read(member), self._limits
        self._xml[member] = len(content), content.count(b"<") + content.count(b"=")
        sizes, tags = map(sum, zip(*self._xml.values(), strict=True))
        if sizes > limits.xml_bytes or tags > limits.tags:
            what = f"text and markup of {sizes:,} bytes with {tags:,} tags and attributes"
            raise self._too_large(what, f"{limits.xml_bytes:,} bytes with {limits.tags:,} tags and attributes")
        parts = content.split(b"<") if len(content) > limits.text_bytes else []
        longest = max((len(part.partition(b">")[2]) for part in parts if len(part) > limits.text_bytes), default=0)
        if longest > limits.text_bytes:
            raise self._too_large(f"{longest:,} bytes of text without a tag", f"{limits.text_bytes:,}")
        return content

    def write(self, replaced: Mapping[str, bytes]) -> bytes:
        """The archive with the contents of some members replaced."""
        written = BytesIO()
        with zipfile.ZipFile(written, "w") as output:
            output.comment = self._file.comment
            for member, info in self._members.items():
                content = replaced[member] if member in replaced else self.read(member)
                own = copy(info)
                output.writestr(own, content, info.compress_type)
                own.external_attr = info.external_attr  # zipfile replaces 0 while it writes the content
        return written.getvalue()

    def note(self, text: str) -> None:
        """Add a sentence for the user to `notes`."""
        self.notes.append(f"{self.name}: {text}")

    def fault(self, member: str, fault: str, advice: str) -> DataError:
        """An error about a member."""
        return DataError(f"{self.place(member)} {fault}. {advice}")

    def place(self, member: str) -> str:
        """What messages call a member."""
        return f"{self.name}: member {one_line(member)}"

    def _too_large(self, found: str, most: str, advice: str = "Split the document.") -> DataError:
        return DataError(f"{self.name} has {found}, but at most {most} are read. {advice}")

    def _check(self, num_bytes: int) -> None:
        infos = self._file.infolist()
        if len(infos) > self._limits.members:  # a hostile record may have hidden the directory from the count
            raise self._too_large(f"{len(infos):,} members", f"{self._limits.members:,}")
        if (size := sum(info.file_size for info in infos)) > (most := self._limits.expanded_bytes):
            raise self._too_large(f"{size:,} bytes when expanded", f"{most:,}", "Make its pictures smaller.")
        seen: set[str] = set()
        for info in infos:
            path = PurePosixPath(info.filename.replace("\\", "/"))
            advice = "Do not trust this file, or open it in an office program and save it again."
            if path.is_absolute() or ".." in path.parts or ":" in info.filename.partition("/")[0]:
                raise self.fault(info.filename, "has a name outside the archive", advice)
            if info.filename in seen:
                raise self.fault(info.filename, "occurs twice", advice)
            seen.add(info.filename)
            if info.compress_type not in _METHODS:
                advice = "Open the file in an office program and save it again."
                raise self.fault(info.filename, "has an unknown compression method", advice)
            if info.flag_bits & _ENCRYPTED:
                raise self.fault(info.filename, "is encrypted", "Save the file without a password.")
            if info.file_size > max(_RATIO_BYTES, _MOST_RATIO * max(info.compress_size, 1)):
                grows = f"grows from {info.compress_size:,} to {info.file_size:,} bytes"
                raise self.fault(info.filename, grows, "Do not trust this file, or make its pictures smaller.")
            if info.compress_size > num_bytes:
                raise self.fault(info.filename, "is larger than the archive", "Get the file again.")
