"""Zip archives of office files: read with checks against hostile ones, and written again with some members replaced.

A member that is not replaced keeps its content. All members keep their names, order, dates, methods and attributes.
"""

import zipfile
import zlib
from collections.abc import Mapping
from copy import copy
from io import BytesIO
from lzma import LZMAError
from pathlib import PurePosixPath
from struct import error as struct_error
from xml.etree.ElementTree import Element

from dragoman.display import one_line
from dragoman.errors import DataError
from dragoman.text.documents.office.xml import XmlText, parse_xml

_MOST_MEMBERS = 20_000
_MOST_BYTES = 1 << 30
_RATIO_BYTES = 10 << 20
"""A smaller member may be compressed to any ratio: a blank picture is."""
_MOST_RATIO = 300
"""Office files stay below 100. The method reaches 1,030, with the zeros of a bomb."""
_ENCRYPTED = 1


class Archive:
    """The members of a zip archive.

    Parameters
    ----------
    content
        The bytes of the archive.
    name
        The name of the file, for messages.

    Attributes
    ----------
    notes
        Sentences for the user about text that stays as it is.

    Raises
    ------
    DataError
        If the archive is damaged, encrypted or too large, or a member has a name that others could misuse.
    """

    def __init__(self, content: bytes, name: str) -> None:
        self.name = name
        self.notes: list[str] = []
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
        except (zipfile.BadZipFile, zlib.error, LZMAError, EOFError, OSError, ValueError) as error:
            raise self.fault(member, f"is damaged ({one_line(str(error))})", "Get the file again.") from None
        except NotImplementedError:
            advice = "Open the file in an office program and save it again."
            raise self.fault(member, "has an unknown compression method", advice) from None

    def parse(self, member: str) -> Element:
        """The root element of a member, which must be well-formed XML without entities."""
        return parse_xml(self.read(member), self.place(member))

    def read_xml(self, member: str, namespaces: dict[str, str]) -> XmlText:
        """The text of a member, checked in the same way, with prefixes of this program for some namespaces."""
        return XmlText(self.read(member), self.place(member), namespaces)

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

    def _check(self, num_bytes: int) -> None:
        infos = self._file.infolist()
        sizes = sum(info.file_size for info in infos)
        if len(infos) > _MOST_MEMBERS or sizes > _MOST_BYTES:
            raise DataError(
                f"{self.name} has {len(infos):,} members with {sizes:,} bytes, but at most {_MOST_MEMBERS:,} members "
                f"and {_MOST_BYTES:,} bytes are read. Split the document, or make its pictures smaller."
            )
        seen: set[str] = set()
        for info in infos:
            path = PurePosixPath(info.filename.replace("\\", "/"))
            advice = "Do not trust this file, or open it in an office program and save it again."
            if path.is_absolute() or ".." in path.parts or ":" in info.filename.partition("/")[0]:
                raise self.fault(info.filename, "has a name outside the archive", advice)
            if info.filename in seen:
                raise self.fault(info.filename, "occurs twice", advice)
            seen.add(info.filename)
            if info.flag_bits & _ENCRYPTED:
                raise self.fault(info.filename, "is encrypted", "Save the file without a password.")
            if info.file_size > max(_RATIO_BYTES, _MOST_RATIO * max(info.compress_size, 1)):
                raise self.fault(
                    info.filename, f"grows from {info.compress_size:,} to {info.file_size:,} bytes", advice
                )
            if info.compress_size > num_bytes:
                raise self.fault(info.filename, "is larger than the archive", "Get the file again.")
