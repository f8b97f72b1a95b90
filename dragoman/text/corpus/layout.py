"""How files with parallel text are laid out, as far as the user says so."""

from dataclasses import dataclass
from typing import Literal

from dragoman.config import DataSettings
from dragoman.errors import ConfigError
from dragoman.text.charsets import check_encoding

Header = Literal["auto", "yes", "no"]


@dataclass(frozen=True, slots=True)
class Layout:
    """The encoding of files that are not UTF-8, the two columns with the text, and whether tables have a header.

    `columns` are numbers from 1, names in a table's header, or keys of JSON objects; empty where the file must show it.
    """

    encoding: str = ""
    columns: tuple[str, ...] = ()
    header: Header = "auto"


PLAIN = Layout()
"""The user says nothing about it."""


def layout_of(encoding: str, columns: str, header: Header, label: str = "`--{}`") -> Layout:
    """The layout from the texts of settings or flags; `label` makes their names in errors. Raises ConfigError."""
    names = tuple(name.strip() for name in columns.split(",")) if columns else ()
    if columns and (len(names) != 2 or not all(names) or names[0] == names[1]):
        raise ConfigError(
            f"{label.format('columns')} must name two columns, source and target, such as 2,3, but is {columns}."
        )
    return Layout(check_encoding(encoding, label.format("encoding")), names, header)


def layout_of_settings(data: DataSettings) -> Layout:
    """What [data] says of the layout of its files. Raises ConfigError."""
    return layout_of(data.encoding, data.columns, data.header, "`data.{}`")
