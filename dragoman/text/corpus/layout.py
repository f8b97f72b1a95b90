"""The user's settings for the layout of corpus files: encoding, columns, header."""

from dataclasses import dataclass
from typing import Literal

from dragoman.config import DataSettings
from dragoman.errors import ConfigError
from dragoman.text.charsets import check_encoding

Header = Literal["auto", "yes", "no"]


@dataclass(frozen=True, slots=True)
class Layout:
    """The encoding of files that are not UTF-8, the two text columns, and whether tables have a header.

    `columns` are numbers from 1, names in the header of a table, or keys of JSON objects. If it is empty, the columns
    follow from the file.
    """

    encoding: str = ""
    columns: tuple[str, ...] = ()
    header: Header = "auto"


PLAIN = Layout()
"""The layout if the user sets nothing."""


def layout_of(encoding: str, columns: str, header: Header, label: str = "`--{}`") -> Layout:
    """The layout that settings or flags describe. `label` formats a name for errors. Raises ConfigError."""
    names = tuple(name.strip() for name in columns.split(",")) if columns else ()
    if columns and (len(names) != 2 or not all(names) or names[0] == names[1]):
        raise ConfigError(
            f"{label.format('columns')} must name two columns, source and target, for example 2,3, but is {columns}."
        )
    return Layout(check_encoding(encoding, label.format("encoding")), names, header)


def layout_of_settings(data: DataSettings) -> Layout:
    """The layout that [data] sets. Raises ConfigError."""
    return layout_of(data.encoding, data.columns, data.header, "`data.{}`")
