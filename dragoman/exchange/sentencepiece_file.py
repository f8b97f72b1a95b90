"""Read and write SentencePiece's .spm files (sentencepiece_model.proto), as far as a tokenizer needs them.

The file is a protocol buffer: numbered fields, each a number, four or eight bytes, or a length and bytes. It is read
here, so that importing a model needs no other library and trusts no third-party parser.

The fields are those of `sentencepiece_model.proto` in google/sentencepiece (`src/`), and the encoding is described at
protobuf.dev/programming-guides/encoding. These fields are used:

| message | fields |
|---|---|
| `ModelProto` | 1 pieces (repeated), 2 trainer_spec, 3 normalizer_spec, 5 denormalizer_spec |
| `SentencePiece` | 1 piece (text), 2 score (float32), 3 type |
| `TrainerSpec` | 3 model_type, 24 treat_whitespace_as_suffix, 35 byte_fallback |
| `NormalizerSpec` | 1 name, 2 precompiled_charsmap, 3 add_dummy_prefix |
| | 4 remove_extra_whitespaces, 5 escape_whitespaces |

The import reads such files, and both exports write them for imported tokenizers. The result is a `PieceModel`,
from which `text/tokenization/sentencepiece.py` makes a tokenizer.
"""

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from dragoman.errors import ModelError
from dragoman.files import read_regular_file
from dragoman.text.tokenization.pipelines import byte_token
from dragoman.text.tokenization.sentencepiece import PieceModel

# Number and value of a field. The value is a number only for wire type 0.
Field = tuple[int, int | bytes]

# Several hundred times a usual model, which has 32,000 pieces and 800 kB.
MAX_FILE_BYTES = 256 << 20

# sentencepiece_model.proto: ModelProto, SentencePiece, TrainerSpec, NormalizerSpec.
_PIECES, _TRAINER, _NORMALIZER, _DENORMALIZER = 1, 2, 3, 5
_PIECE, _SCORE, _TYPE = 1, 2, 3
_MODEL_TYPE, _SPACE_AT_END, _BYTE_FALLBACK = 3, 24, 35
_NAME, _CHARACTER_MAP, _DUMMY_PREFIX, _SINGLE_SPACES, _ESCAPE = 1, 2, 3, 4, 5
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6
_UNIGRAM, _BPE = 1, 2
_ALGORITHMS: dict[int, Literal["unigram", "bpe"]] = {_UNIGRAM: "unigram", _BPE: "bpe"}


def read_spm(path: Path) -> PieceModel:
    """Read the model in a .spm file. Raises ModelError if it is damaged or uses an unsupported feature."""
    try:
        model, problem = _model(read_regular_file(path, MAX_FILE_BYTES))
    except FileNotFoundError:
        raise ModelError(
            f"{path} is missing. Name the complete folder of a Marian model in Hugging Face format."
        ) from None
    except (ValueError, IndexError, struct.error, OSError) as error:
        raise ModelError(f"{path} is not a SentencePiece model: {error}. Download the model again.") from None
    if problem:
        raise ModelError(f"{path} {problem}. Such a model cannot be imported.")
    return model


def write_spm(model: PieceModel) -> bytes:
    """The content of a .spm file that SentencePiece reads as this model.

    Control pieces come first, as in files that SentencePiece trains. Their ids differ from Dragoman's: programs that
    read the file use the pieces, and take ids from a vocabulary.
    """
    specials = [("<unk>", 0.0, _UNKNOWN), ("<s>", 0.0, _CONTROL), ("</s>", 0.0, _CONTROL)]
    in_bytes = [(byte_token(byte), 0.0, _BYTE) for byte in range(256)] if model.byte_fallback else []
    normal = [(piece, score, _NORMAL) for piece, score in model.pieces]
    pieces = b"".join(_message(_PIECES, _piece(*entry)) for entry in (*specials, *in_bytes, *normal))
    model_type = _UNIGRAM if model.algorithm == "unigram" else _BPE
    trainer = _number(_MODEL_TYPE, model_type) + _number(_BYTE_FALLBACK, int(model.byte_fallback))
    normalizer = _message(_NAME, b"user_defined") + _message(_CHARACTER_MAP, model.character_map)
    options = {_DUMMY_PREFIX: model.space_in_front, _SINGLE_SPACES: model.single_spaces, _ESCAPE: True}
    normalizer += b"".join(_number(field, int(value)) for field, value in options.items())
    return pieces + _message(_TRAINER, trainer) + _message(_NORMALIZER, normalizer)


def _model(content: bytes) -> tuple[PieceModel, str]:
    """The model, and the first unsupported feature, or "".

    A missing field has the default of `sentencepiece_model.proto`: unigram, and true for the three
    options of the normalizer.
    """
    fields = list(_fields(content))
    messages = (_numbers_and_texts(fields, which) for which in (_TRAINER, _NORMALIZER, _DENORMALIZER))
    trainer, normalizer, denormalizer = messages
    algorithm = trainer.get(_MODEL_TYPE, _UNIGRAM)
    pieces = [_read_piece(_bytes(value)) for number, value in fields if number == _PIECES]
    types = {kind for _, _, kind in pieces}
    problems = {
        "splits text into words or characters, not into unigram or BPE pieces": algorithm not in _ALGORITHMS,
        "has user-defined pieces": _USER_DEFINED in types,
        "has merges of unused pieces": _UNUSED in types and algorithm == _BPE,
        "puts spaces after words, not before them": bool(trainer.get(_SPACE_AT_END, 0)),
        "does not escape spaces": not normalizer.get(_ESCAPE, 1),
        "has a character map for its output": bool(denormalizer.get(_CHARACTER_MAP, b"")),
        "has pieces of an unknown type": not types <= {_NORMAL, _UNKNOWN, _CONTROL, _UNUSED, _BYTE, _USER_DEFINED},
    }
    model = PieceModel(
        _ALGORITHMS.get(int(algorithm), "unigram"),
        tuple((piece, score) for piece, score, kind in pieces if kind == _NORMAL),
        _bytes(normalizer.get(_CHARACTER_MAP, b"")),
        bool(normalizer.get(_DUMMY_PREFIX, 1)),
        bool(normalizer.get(_SINGLE_SPACES, 1)),
        bool(trainer.get(_BYTE_FALLBACK, 0)),
    )
    return model, next((problem for problem, holds in problems.items() if holds), "")


def _read_piece(content: bytes) -> tuple[str, float, int]:
    """Text, score and type of a piece."""
    fields = dict(_fields(content))
    score = struct.unpack("<f", _bytes(fields.get(_SCORE, b"\0\0\0\0")))[0]
    kind = fields.get(_TYPE, _NORMAL)
    return _bytes(fields.get(_PIECE, b"")).decode("utf-8"), score, kind if isinstance(kind, int) else 0


def _numbers_and_texts(fields: Iterable[Field], which: int) -> dict[int, int | bytes]:
    """The fields of message `which` inside the outer message. If it comes in parts, later fields win."""
    return {number: value for outer, inner in fields if outer == which for number, value in _fields(_bytes(inner))}


def _bytes(value: int | bytes) -> bytes:
    """The value, which must be bytes. A damaged file may have a number in this field."""
    if isinstance(value, int):
        raise ValueError("it has a number instead of text")
    return value


def _fields(content: bytes) -> Iterator[Field]:
    """Number and value of each field. Fixed-size values stay bytes. Raises ValueError or IndexError for damage."""
    place = 0
    while place < len(content):
        tag, place = _varint(content, place)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, place = _varint(content, place)
            yield number, value
            continue
        if wire == 2:
            size, place = _varint(content, place)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError(f"it has a field of unknown type {wire}")
        if place + size > len(content):
            raise ValueError("it is cut off")
        yield number, content[place : place + size]
        place += size


def _varint(content: bytes, place: int) -> tuple[int, int]:
    """Read a number in groups of seven bits, lowest first. Returns it and the position after it."""
    number = 0
    for shift in range(0, 70, 7):  # a number of 64 bits has at most ten groups
        byte = content[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place
    raise ValueError("it has a number without end")


def _piece(piece: str, score: float, kind: int) -> bytes:
    return _message(_PIECE, piece.encode("utf-8")) + _tag(_SCORE, 5) + struct.pack("<f", score) + _number(_TYPE, kind)


def _message(number: int, content: bytes) -> bytes:
    return _tag(number, 2) + _to_varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _tag(number, 0) + _to_varint(value)


def _tag(number: int, wire: int) -> bytes:
    return _to_varint(number << 3 | wire)


def _to_varint(number: int) -> bytes:
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)
