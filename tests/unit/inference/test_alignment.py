"""Word alignments from attention, between tokens and between words."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.bundle import Weights
from dragoman.config import InferenceSettings, ModelSettings, TokenizerSettings
from dragoman.inference.alignment import DEFAULT_READING, Aligner, _words_before, alignment_layer, attention_links
from dragoman.inference.translator import Translator
from dragoman.model.transformer import Transformer
from dragoman.records import BOS_ID, EOS_ID, Details
from dragoman.text.tokenization.sentence_splitting import Segment, separators
from dragoman.text.tokenization.tokenizer import TokenizerPair, train_tokenizer

SETTINGS = ModelSettings(
    preset="custom", d_model=16, d_ff=16, num_heads=2, num_encoder_layers=1, num_decoder_layers=2, dropout=0.0
)
TOKENIZER = train_tokenizer(TokenizerSettings(vocab_size=280), ["one two three. four five"] * 3)
TOKENIZERS = TokenizerPair(TOKENIZER, TOKENIZER, joint=True)


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(3)
    return Transformer(SETTINGS, TOKENIZER.vocab_size, TOKENIZER.vocab_size).eval()


def test_readings_differ_by_one_step_and_leave_out_eos() -> None:
    cross = torch.rand(2, 4, 4)  # bos and three target tokens; three source tokens and eos
    torch.testing.assert_close(attention_links(cross, 3, 3, "prediction"), cross[:, :3, :3].mean(0))
    torch.testing.assert_close(attention_links(cross, 3, 3, "next"), cross[:, 1:4, :3].mean(0))


@pytest.mark.parametrize("reading", ["prediction", "next"])
@pytest.mark.parametrize("layer", [0, 1, -1])
def test_links_are_the_largest_weights_and_independent_of_the_batch(
    model: Transformer, reading: str, layer: int
) -> None:
    pairs = [([5, 6, 7], [8, 9]), ([], [5]), ([5], []), ([9] * 11, [4, 5, 6, 7, 8]), ([4, 5], [6])]
    links = Aligner([Weights.of(model)], TOKENIZERS, reading, layer).links(pairs)
    assert links[1] == links[2] == ()
    for (src, tgt), found in zip(pairs, links, strict=True):
        if src and tgt:
            attention = model.attention(
                torch.tensor([[*src, EOS_ID]]), torch.tensor([len(src) + 1]), torch.tensor([[BOS_ID, *tgt]])
            )
            weights = attention.cross[alignment_layer(2) if layer == -1 else layer][0].mean(0)
            first = 1 if reading == "next" else 0
            expected = weights[first : first + len(tgt), : len(src)].argmax(1).tolist()
            assert found == tuple((source, target) for target, source in enumerate(expected))


def test_aligner_of_two_equal_models_equals_aligner_of_one(model: Transformer) -> None:
    pairs = [([5, 6, 7, 8], [8, 9, 4])]
    assert Aligner([Weights.of(model), Weights.of(model)], TOKENIZERS).links(pairs) == Aligner(
        [Weights.of(model)], TOKENIZERS
    ).links(pairs)


def test_alignments_of_translations_link_words_of_both_texts(model: Transformer) -> None:
    settings = InferenceSettings(beam_size=2, max_extra_tokens=5, min_tokens=4)
    translator = Translator.from_model(model, TOKENIZERS, settings, max_src_tokens=6)
    texts = [
        "one two",
        "",
        "one two three. four five one. two three two",
        "onetwothreefourfiveonetwothree four",
        " one\ttwo ",
    ]
    answers = translator.translate_detailed(texts, details=Details(alignment=True))
    assert [answer.text for answer in answers] == translator.translate(texts)
    for answer in answers:
        assert answer.alignment is not None
        sources, targets = len(answer.src.split()), len(answer.text.split())
        assert all(0 <= src < sources and 0 <= tgt < targets for src, tgt in answer.alignment)
        assert {tgt for _, tgt in answer.alignment} == set(range(targets)) or not answer.src
    assert answers[1].alignment == ()
    assert answers[2].segments > 1
    assert max(src for src, _ in answers[2].alignment) > 3, "later segments count the words before them"
    assert all(answer.alignment is None for answer in translator.translate_detailed(texts))


def test_default_reading_and_layer_are_the_documented_ones() -> None:
    assert DEFAULT_READING == "prediction"
    assert [alignment_layer(number) for number in (1, 2, 6)] == [0, 1, 5]


SEGMENTS = st.lists(
    st.tuples(st.text("ab 。", max_size=5), st.text("ab ", max_size=5), st.sampled_from(["", " ", "\n"])), max_size=6
)


@given(parts=SEGMENTS)
def test_words_before_equals_the_word_count_of_the_text_before(parts: list[tuple[str, str, str]]) -> None:
    segments = [Segment(src, separator) for src, _, separator in parts]
    texts = [tgt for _, tgt, _ in parts]
    between = separators(segments, texts)
    for number, found in enumerate(_words_before(segments, texts)):
        before = "".join(part for pair in zip(texts[:number], between[:number], strict=True) for part in pair)
        whole = before + texts[number]
        if texts[number].split():  # index of its first word, or of the word that it continues
            first = len(before) + len(texts[number]) - len(texts[number].lstrip())
            assert found == len(whole[: first + 1].split()) - 1


def test_words_of_a_book_on_one_line_are_counted_in_linear_time() -> None:
    segments = [Segment("some words of a sentence.", " ")] * 20_000
    assert _words_before(segments, [segment.text for segment in segments])[-1] == 5 * 19_999
