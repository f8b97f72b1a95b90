"""Text that is not UTF-8: check the name of an encoding, detect UTF-16, convert a byte stream to UTF-8 as it is read.

`dragoman.text.lines` opens every file through this module. `dragoman.text.doctor.encodings` guesses the encoding of a
file.

`replace_surrogates` repairs strings that are not valid Unicode: JSON escapes such as ``"\ud83d"``, which another
program cut in two, become half of a surrogate pair.
"""

import codecs
import io
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, BinaryIO, cast

from dragoman.config.fields import did_you_mean, quote_value
from dragoman.errors import ConfigError, DataError

_LOOKED_AT_BYTES = 1 << 16
_UTF_8 = "utf-8"
_FEWEST_NULS = 2
_WIDE = ("utf-16", "utf-32")
_NAMES = {"mac_roman": "MACINTOSH", "mac_latin2": "MACCENTRALEUROPE", "shift_jis": "SHIFT-JIS"}


def check_encoding(name: str, place: str) -> str:
    """Return `name` if it is empty or names a text encoding that Python can decode.

    Raises
    ------
    ConfigError
        For any other name. `place` is the setting or flag that the message blames.
    """
    if not name or _codec(name) in _supported_codecs():
        return name
    hint = did_you_mean(name.lower(), {display_name(codec).lower() for codec in _supported_codecs()})
    hint = hint or " Write a name such as `windows-1250`."
    raise ConfigError(f"{place} is {quote_value(name)}, which is not a text encoding.{hint}")


def display_name(codec: str) -> str:
    """The usual name of an encoding, which Python and iconv both accept: WINDOWS-1250 for cp1250."""
    if codec in _NAMES:
        return _NAMES[codec]
    if codec.startswith("cp125"):
        return codec.replace("cp", "WINDOWS-")
    return codec.upper().replace("ISO8859", "ISO-8859").replace("_", "-")


def _codec(name: str) -> str:
    """Python's name for an encoding, or "" if Python has none."""
    try:
        return codecs.lookup(name).name
    except (LookupError, ValueError):
        return ""


@lru_cache(maxsize=1)
def _supported_codecs() -> frozenset[str]:
    """The codecs of text. Finding them imports all, which takes 40 ms."""
    from charset_normalizer.constant import IANA_SUPPORTED

    return frozenset({_codec(name) for name in IANA_SUPPORTED} | {_UTF_8, "utf-8-sig"} - {""})


def recode_to_utf8(stream: "io.BufferedReader[Any]", encoding: str, name: str) -> BinaryIO:
    """A stream with the same text in UTF-8.

    `encoding` applies only if the first 64 KiB do not look like UTF-8. One setting therefore serves a mix of UTF-8
    files and files in `encoding`.

    Raises
    ------
    DataError
        While reading, if some bytes are not valid in `encoding`. The message has `name` and the line number.
    """
    codec = _codec(encoding)
    if codec in ("", _UTF_8, "utf-8-sig") or _is_utf8(stream.peek(_LOOKED_AT_BYTES), codec.startswith(_WIDE)):
        return cast(BinaryIO, stream)
    return io.BufferedReader(_RecodedStream(stream, encoding, name))


def detect_utf16(start: bytes) -> str:
    """The UTF-16 variant that these first bytes of a text are in, or "" if they are not UTF-16."""
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    # Without a byte order mark: many characters of most text have a zero byte, always at even or always at odd places.
    even, odd = start[::2].count(0), start[1::2].count(0)
    if even + odd > max(len(start) // 8, _FEWEST_NULS) and min(even, odd) * 20 <= max(even, odd):
        return "utf-16-le" if odd > even else "utf-16-be"
    return ""


def _is_utf8(start: bytes, or_wide: bool) -> bool:
    """Whether the first bytes of a text can only be UTF-8.

    Pure ASCII is also valid in most other encodings, but not in UTF-16 and UTF-32 (`or_wide`).
    """
    try:
        text = codecs.getincrementaldecoder(_UTF_8)().decode(start)
    except UnicodeDecodeError:
        return False
    return not text.isascii() or (or_wide and bool(text) and "\0" not in text)


class _RecodedStream(io.RawIOBase):
    """Converts a stream in another encoding to UTF-8 as it is read."""

    def __init__(self, stream: "io.BufferedReader[Any]", encoding: str, name: str) -> None:
        self._recoded, self._waiting = _recode(stream, encoding, name), b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "bytearray | memoryview") -> int:  # type: ignore[override]
        self._waiting = self._waiting or next(self._recoded, b"")
        count = min(len(buffer), len(self._waiting))
        buffer[:count] = self._waiting[:count]
        self._waiting = self._waiting[count:]
        return count


def _recode(stream: "io.BufferedReader[Any]", encoding: str, name: str) -> Iterator[bytes]:
    """The content of a stream in UTF-8, in parts that are not empty."""
    decoder, lines, has_more = codecs.getincrementaldecoder(encoding)(), 0, True
    while has_more:
        content = stream.read1(_LOOKED_AT_BYTES)
        has_more = bool(content)
        try:
            text = decoder.decode(content, final=not has_more)
        except UnicodeDecodeError as error:
            line = lines + error.object.count(b"\n", 0, error.start) + 1
            raise DataError(
                f"{name}, line {line} has byte 0x{error.object[error.start]:02x}, which is not "
                f"{display_name(_codec(encoding))}. Check `--encoding`; `dragoman check` lists the encodings that fit."
            ) from None
        except UnicodeError as error:  # no byte order mark
            raise DataError(f"{name} is not valid {encoding}: {error}. Check `--encoding`.") from None
        lines += text.count("\n")
        if text:
            yield text.encode(_UTF_8)


def replace_surrogates(text: str) -> str:
    """The text with surrogate pairs joined to one character and lone surrogates replaced by U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
