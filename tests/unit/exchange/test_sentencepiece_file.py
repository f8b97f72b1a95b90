"""SentencePiece and its own protocol buffer are the oracle for reading and writing .spm files."""

import contextlib
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import sentencepiece_model_pb2 as protocol

from dragoman.errors import ModelError
from dragoman.exchange.sentencepiece_file import read_spm, write_spm

TEXTS = ["the house and the garden", "das Haus und der Garten", "ein kleines Haus, the small garden"] * 20


def _trained(path: Path, **options: object) -> Path:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS),
        model_writer=path.open("wb"),
        minloglevel=2,
        num_threads=1,
        hard_vocab_limit=False,
        **({"vocab_size": 60, "model_type": "unigram"} | options),
    )
    return path


@pytest.mark.parametrize("options", [{}, {"model_type": "bpe"}, {"byte_fallback": True, "vocab_size": 320}])
def test_reading_and_writing(tmp_path: Path, options: dict[str, object]) -> None:
    path = _trained(tmp_path / "a.spm", **options)
    proto = protocol.ModelProto.FromString(path.read_bytes())  # type: ignore[attr-defined]
    model = read_spm(path)
    assert model.pieces == tuple((piece.piece, piece.score) for piece in proto.pieces if piece.type == 1)
    assert model.character_map == proto.normalizer_spec.precompiled_charsmap
    assert model.algorithm == options.get("model_type", "unigram")
    assert model.byte_fallback == bool(options.get("byte_fallback"))
    (tmp_path / "b.spm").write_bytes(write_spm(model))
    assert read_spm(tmp_path / "b.spm") == model
    one, other = (sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / name)) for name in ("a.spm", "b.spm"))
    for text in (*TEXTS[:3], "  zebra ﬁ\u0301 ", "日本"):
        assert one.encode(text, out_type=str) == other.encode(text, out_type=str)


def test_a_model_in_several_parts(tmp_path: Path) -> None:
    """Two concatenated protocol buffers are one."""
    path = _trained(tmp_path / "a.spm")
    expected = read_spm(path)
    proto = protocol.ModelProto()  # type: ignore[attr-defined]
    proto.normalizer_spec.add_dummy_prefix = False
    path.write_bytes(path.read_bytes() + proto.SerializePartialToString())
    assert not read_spm(path).space_in_front
    assert read_spm(path).pieces == expected.pieces


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model_type": "char"}, "words or characters"),
        ({"user_defined_symbols": ["house"]}, "user-defined"),
        ({"treat_whitespace_as_suffix": True}, "spaces after words"),
        ({"denormalization_rule_tsv": "rules.tsv"}, "output"),
    ],
)
def test_what_cannot_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, object], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rules.tsv").write_text("41\t42\n")
    with pytest.raises(ModelError, match=words) as caught:
        read_spm(_trained(tmp_path / "a.spm", **options))
    assert "a.spm" in str(caught.value)


def test_missing(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"a\.spm is missing"):
        read_spm(tmp_path / "a.spm")


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 5000))
def test_damaged_files_are_refused_or_read(tmp_path_factory: pytest.TempPathFactory, noise: bytes, place: int) -> None:
    folder = tmp_path_factory.getbasetemp()
    if not (folder / "good.spm").exists():
        _trained(folder / "good.spm")
    content = (folder / "good.spm").read_bytes()
    path = folder / "damaged.spm"
    path.write_bytes(content[:place] + noise + content[place + len(noise) :])
    with contextlib.suppress(ModelError):
        read_spm(path)
