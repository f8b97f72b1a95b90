"""Text survives the tokenizer character for character, and `dragoman translate` line for line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.bundle import Model, resolve_model_folder
from dragoman.config import TokenizerSettings
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.records import UNK_ID
from dragoman.text.tokenization.tokenizer import Tokenizer, train_tokenizer
from tests.soak.awkward_text import NASTY, awkward_lines, check_lines, random_strings
from tests.soak.conftest import Report
from tests.soak.processes import least_seconds

MOST_GROWTH = 2.5
SETTINGS = {"byte fallback": {"byte_fallback": True}, "unigram": {"kind": "unigram"}}


@pytest.fixture(scope="module", params=[*SETTINGS, "the model's"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    if request.param not in SETTINGS:
        run_folder = request.getfixturevalue("run_folder")
        return Model.load(resolve_model_folder(run_folder), "cpu").tokenizers.src
    pairs = load_phrasebook().generate(seed=4, count=2000)
    return train_tokenizer(TokenizerSettings(vocab_size=2000, **SETTINGS[request.param]), [pair.src for pair in pairs])


def test_strings_come_back_equal(tokenizer: Tokenizer, scaled: Callable[[int], int], report: Report) -> None:
    texts = [*random_strings(scaled(100_000)), *NASTY]
    spaces = (
        {} if tokenizer.kind == "byte_bpe" else {"\u2581": " "}
    )  # U+2581 is a space except in byte-level tokenizers
    broken = [
        text
        for text, row in zip(texts, tokenizer.encode_batch(texts), strict=True)
        if tokenizer.detokenize(row) != text.translate(str.maketrans(spaces)) or min(row, default=UNK_ID + 1) <= UNK_ID
    ]
    report(f"text through a tokenizer, {tokenizer.kind}", len(texts), broken, "strings come back equal, no control ids")


def test_time_is_linear_in_the_length_of_a_line(tokenizer: Tokenizer, report: Report) -> None:
    text = ("the quick brown fox jumps over it, 42 times. " * 30_000)[:1_000_000]
    half, whole = (least_seconds(tokenizer.encode, text[:size], repeats=7) for size in (500_000, 1_000_000))
    broken = [whole / half] * (whole > MOST_GROWTH * half)
    report(f"a line of 1 MB, {tokenizer.kind}", 1, broken, f"{whole:.2f} s, {whole / half:.2f} times that of half")


def test_every_line_has_its_translation_at_the_same_place(
    run_folder: Path, scaled: Callable[[int], int], report: Report
) -> None:
    lines = awkward_lines(scaled(10_000))
    report("lines through `translate`", len(lines), check_lines(str(run_folder), lines), "in order, each cut reported")
