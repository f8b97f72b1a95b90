import errno
import subprocess
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from dragoman.records import SentencePair
from dragoman.text.lines import replace_surrogates
from dragoman.text.tokenization.encoding import (
    BatchEncoder,
    BatchEncoderPair,
    RaggedIds,
    concatenate_texts,
    splits_at_spaces,
)
from dragoman.text.tokenization.encoding_processes import ProcessEncoderPair
from dragoman.text.tokenization.tokenizer import Tokenizer, TokenizerPair

KINDS = ["byte_bpe", "fallback_bpe", "unigram", "word"]
SPACES = " \t\n\r\x0b\x0c\x1c\x85\xa0\u2003\u2028\u3000\u200b\u200d"
NASTY = [
    "",
    " ",
    "\n",
    " \n ",
    "a \n b",
    "the  house",
    " the house ",
    "the\u00a0house is",
    "the \u00a0 house",
    "it's 'll 's ' s, don't isn't",
    "a 's b",
    "12 345,6 -- ... (the)",
    "</s> <0x41> ▁ a▁b",
    "x\ud83d y \ud83d\ude00",
    "ఇది చిన్న ఇల్లు",
    "これは小さい家です。",
    "e\u0301 e \u0301 \u200d",
]
texts = st.text() | st.text(alphabet=f"ab,.'’s1é日\u0301▁{SPACES}") | st.sampled_from(NASTY)


def same_as_one_by_one(encoder: BatchEncoder, tokenizer: Tokenizer, chunk: list[str]) -> bool:
    return encoder.encode(chunk).to_lists() == [tokenizer.encode(text) for text in chunk]


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)
@given(chunks=st.lists(st.lists(texts, max_size=6), max_size=4), max_words=st.sampled_from([3, 8, 1000]))
def test_ids_are_those_of_the_tokenizer(tokenizer_of, kind, chunks, max_words):
    tokenizer = tokenizer_of(kind)
    encoder = BatchEncoder(tokenizer, max_words)
    assert all(same_as_one_by_one(encoder, tokenizer, chunk) for chunk in chunks)
    assert len(encoder._table) <= max_words


@pytest.mark.parametrize("kind", KINDS)
def test_known_and_new_words_and_whole_texts_in_one_chunk(tokenizer_of, kind):
    tokenizer = tokenizer_of(kind)
    encoder = BatchEncoder(tokenizer)
    sentence = "The house is small, and the garden isn't large."
    for chunk in ([sentence], [*NASTY, sentence], [sentence, "The zebra is small", *NASTY], [], NASTY[::-1]):
        for text in chunk:
            assert same_as_one_by_one(encoder, tokenizer, [text])
        assert same_as_one_by_one(encoder, tokenizer, chunk)


@pytest.mark.parametrize("kind", KINDS)
def test_a_word_is_tokenised_once(tokenizer_of, kind, monkeypatch):
    seen = []
    original = Tokenizer.encode_batch

    def recorded(self, rows):
        seen.extend(rows)
        return original(self, rows)

    monkeypatch.setattr(Tokenizer, "encode_batch", recorded)
    encoder = BatchEncoder(tokenizer_of(kind))
    seen.clear()
    for _ in range(3):
        encoder.encode(["the house", "the garden", "the house"])
    assert " ".join(seen).split() == ["the", "house", "garden"]


def test_another_cut_is_left_to_the_tokenizer(tokenizer_of):
    tokenizer = tokenizer_of("byte_bpe")
    assert splits_at_spaces(tokenizer)
    other = Tokenizer(tokenizer.kind, type(tokenizer.library).from_str(tokenizer.library.to_str()))
    for replaced in (pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False), None):
        other.library.pre_tokenizer = replaced
        assert not splits_at_spaces(other)
        assert same_as_one_by_one(BatchEncoder(other), other, ["the house", "the  house ", ""])
    other = Tokenizer(tokenizer.kind, type(tokenizer.library).from_str(tokenizer.library.to_str()))
    other.library.normalizer = None
    assert not splits_at_spaces(other)


def test_one_encoder_where_the_vocabulary_is_joint(tokenizer_of):
    tokenizer = tokenizer_of("byte_bpe")
    joint = BatchEncoderPair.of(TokenizerPair(tokenizer, tokenizer, joint=True))
    assert joint.src is joint.tgt
    apart = BatchEncoderPair.of(TokenizerPair(tokenizer, tokenizer_of("word"), joint=False))
    assert apart.tgt.encode(["The house"]).to_lists() == [tokenizer_of("word").encode("The house")]


@given(st.lists(texts, max_size=40))
def test_texts_side_by_side_have_the_same_pieces(tokenizer_of, chunk):
    library = tokenizer_of("byte_bpe").library

    def pieces(rows):
        normalised = [library.normalizer.normalize_str(replace_surrogates(row)) if row else row for row in rows]
        return Counter(piece for row in normalised for piece, _ in library.pre_tokenizer.pre_tokenize_str(row))

    assert pieces(concatenate_texts(chunk)) == pieces(chunk)
    assert len(list(concatenate_texts(["a"] * 40))) == 3


@given(rows=st.lists(st.lists(st.integers(0, 99), max_size=4), max_size=8), data=st.data())
def test_rows_are_rows(rows, data):
    made = RaggedIds.of(rows)
    assert made.to_lists() == rows
    assert len(made) == len(rows)
    keep = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    chosen = made.select(np.array(keep, np.bool_))
    assert chosen.to_lists() == [row for row, is_kept in zip(rows, keep, strict=True) if is_kept]
    assert made.concatenate(chosen).to_lists() == rows + chosen.to_lists()


def _pairs(count):
    return [[SentencePair(f"the house {n} x\ud83d", f"das  Haus {n * k}") for k in range(n % 5)] for n in range(count)]


@pytest.mark.parametrize("joint", [True, False])
def test_other_processes_give_the_same_in_the_same_order(tokenizer_of, joint):
    tokenizer = tokenizer_of("byte_bpe")
    tokenizers = TokenizerPair(tokenizer, tokenizer if joint else tokenizer_of("unigram"), joint)
    expected = list(BatchEncoderPair.of(tokenizers).encode_chunks(_pairs(23)))
    for alone, count in ((3, 2), (0, 3), (22, 2), (23, 2), (0, 40)):
        found = list(ProcessEncoderPair(tokenizers, count, alone).encode_chunks(iter(_pairs(23))))
        assert [chunk.pairs for chunk in found] == _pairs(23)
        for name in ("src", "tgt"):
            ids = [[getattr(chunk, name).to_lists() for chunk in chunks] for chunks in (found, expected)]
            assert ids[0] == ids[1]


def test_small_corpora_and_one_processor_start_no_process(tokenizer_of, monkeypatch):
    tokenizer = tokenizer_of("byte_bpe")
    tokenizers = TokenizerPair(tokenizer, tokenizer, joint=True)
    monkeypatch.setattr("subprocess.Popen", pytest.fail)
    assert len(list(ProcessEncoderPair(tokenizers, 1, 0).encode_chunks(_pairs(9)))) == 9
    assert len(list(ProcessEncoderPair(tokenizers, 2, 9).encode_chunks(_pairs(9)))) == 9


@pytest.fixture
def started(monkeypatch):
    """The processes started so far."""
    found = []
    popen = subprocess.Popen

    def recorded(*arguments, **options):
        found.append(popen(*arguments, **options))
        return found[-1]

    monkeypatch.setattr("subprocess.Popen", recorded)
    return found


def test_what_a_killed_process_was_asked_is_encoded_all_the_same(tokenizer_of, started):
    tokenizer = tokenizer_of("byte_bpe")
    tokenizers = TokenizerPair(tokenizer, tokenizer, joint=True)
    expected = [chunk.src.to_lists() for chunk in BatchEncoderPair.of(tokenizers).encode_chunks(_pairs(40))]
    found = []
    for number, chunk in enumerate(ProcessEncoderPair(tokenizers, 2, 0).encode_chunks(_pairs(40))):
        found.append(chunk.src.to_lists())
        if number in (5, 20):
            started[number % 2].kill()
    assert found == expected
    assert [process.returncode for process in started] == [-9, -9]


def test_without_other_processes_all_is_encoded_here(tokenizer_of, monkeypatch):
    tokenizer = tokenizer_of("byte_bpe")
    tokenizers = TokenizerPair(tokenizer, tokenizer, joint=True)
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    found = [chunk.src.to_lists() for chunk in ProcessEncoderPair(tokenizers, 2, 0).encode_chunks(_pairs(9))]
    assert found == [chunk.src.to_lists() for chunk in BatchEncoderPair.of(tokenizers).encode_chunks(_pairs(9))]


def test_a_full_disk_only_costs_time(tokenizer_of, monkeypatch, started):
    tokenizer = tokenizer_of("byte_bpe")
    tokenizers = TokenizerPair(tokenizer, tokenizer, joint=True)

    def full(*arguments):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(TokenizerPair, "save", full)
    found = [chunk.src.to_lists() for chunk in ProcessEncoderPair(tokenizers, 2, 0).encode_chunks(_pairs(9))]
    assert found == [chunk.src.to_lists() for chunk in BatchEncoderPair.of(tokenizers).encode_chunks(_pairs(9))]
    assert len(started) == 2


def test_processes_end_when_their_caller_needs_no_more(tokenizer_of, started):
    tokenizer = tokenizer_of("byte_bpe")
    chunks = ProcessEncoderPair(TokenizerPair(tokenizer, tokenizer, joint=True), 2, 0).encode_chunks(_pairs(9))
    next(chunks)
    del chunks
    assert [process.returncode for process in started] == [-9, -9]


def test_a_process_ends_when_its_input_does(tokenizer_of, started):
    """As after the process that started it is killed."""
    tokenizer = tokenizer_of("byte_bpe")
    chunks = ProcessEncoderPair(TokenizerPair(tokenizer, tokenizer, joint=True), 2, 0).encode_chunks(_pairs(9))
    next(chunks)
    started[0].stdin.close()
    assert started[0].wait(60) == 0
