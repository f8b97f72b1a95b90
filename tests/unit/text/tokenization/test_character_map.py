"""SentencePiece's own normalizer is the oracle. A hostile map is refused or harmless."""

import random
import unicodedata

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.text.tokenization.sentencepiece import CharacterMap


@pytest.fixture(scope="module", params=["nmt_nfkc", "nfkc", "nmt_nfkc_cf"])
def rule(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _oracle(rule: str) -> sentencepiece.SentencePieceNormalizer:
    return sentencepiece.SentencePieceNormalizer(
        rule_name=rule, add_dummy_prefix=False, escape_whitespaces=False, remove_extra_whitespaces=False
    )


def _precompiled(rule: str) -> bytes:
    from dragoman.exchange.sentencepiece_file import _model

    return _model(_oracle(rule).serialized_model_proto())[0].character_map


@pytest.fixture(scope="module")
def maps(rule: str) -> tuple[CharacterMap, sentencepiece.SentencePieceNormalizer]:
    return CharacterMap(_precompiled(rule)), _oracle(rule)


def test_every_character(maps: tuple[CharacterMap, sentencepiece.SentencePieceNormalizer]) -> None:
    ours, theirs = maps
    characters = [chr(code) for code in [*range(0x3500), *range(0xE000, 0x10000), *range(0x1D000, 0x20000, 3)]]
    assert [ours.replace(one) for one in characters] == [theirs.normalize(one) for one in characters]


@settings(max_examples=500, deadline=None)
@given(
    text=st.text() | st.text(alphabet="aeo\u0301\u0308\u0323\u1100\u1161\u11a8か\u3099ｶﾞﬁ½日 "), decompose=st.booleans()
)
def test_any_text(maps: tuple[CharacterMap, sentencepiece.SentencePieceNormalizer], text: str, decompose: bool) -> None:
    ours, theirs = maps
    written = unicodedata.normalize("NFD", text) if decompose else text
    assert ours.replace(written) == theirs.normalize(written)


def test_without_a_map_nothing_changes() -> None:
    assert CharacterMap(b"").replace("ﬁ e\u0301") == "ﬁ e\u0301"


@pytest.mark.parametrize("content", [b"\1", b"\0\0\0\0abcd", b"\4\0\0\0", b"\xff\xff\xff\x7f" + bytes(100), bytes(9)])
def test_something_else(content: bytes) -> None:
    with pytest.raises(ValueError, match="character map"):
        CharacterMap(content)


def test_damaged_maps_are_refused_or_harmless() -> None:
    draw, whole = random.Random(1), _precompiled("nmt_nfkc")
    refused = 0
    for count in (1, 100, 10_000) * 8:
        content = bytearray(whole)
        for _ in range(count):
            content[draw.randrange(len(content))] = draw.randrange(256)
        try:
            damaged = CharacterMap(bytes(content))
        except ValueError:
            refused += 1
            continue
        for _ in range(20):
            damaged.replace("".join(draw.choice("ae\u0301\u0308ﬁ½日") for _ in range(9)))
    assert refused


def test_a_map_that_turns_in_circles_is_harmless() -> None:
    """The only unit with a label is its own child."""
    units = [0] * 0x62
    units[0x61] = 0x61 << 10 | 0x61
    content = b"".join(unit.to_bytes(4, "little") for unit in units)
    assert CharacterMap(len(content).to_bytes(4, "little") + content + b"x\0").replace("aaab") == "aaab"


def test_a_map_that_grows_beyond_measure() -> None:
    """Every path through four bytes is valid and leads to the same units."""
    units = [0] * 256
    for label in range(1, 256):
        units[label] = label << 10 | label
    content = b"".join(unit.to_bytes(4, "little") for unit in units)
    with pytest.raises(ValueError, match="character map"):
        CharacterMap(len(content).to_bytes(4, "little") + content + b"x\0")
