"""The translator with a model that copies its source, so that outputs must equal inputs."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dragoman.bundle import Card, Model, Weights
from dragoman.config import Config, DataSettings, InferenceSettings, ModelSettings, TokenizerSettings
from dragoman.engines.search.step_model import Predictions
from dragoman.engines.tensors.engine import StepSearch
from dragoman.errors import ConfigError, ModelError
from dragoman.inference.translator import Translator
from dragoman.model.transformer import Transformer
from dragoman.text.tokenization.tokenizer import TokenizerPair, train_tokenizers

PAD_ID, EOS_ID, BYTES = 0, 2, 260
WORDS = "the cat sat on a mat while seven small birds sang in an old green tree near our house".split()
GREEDY = InferenceSettings(beam_size=1)


@dataclass
class CopyModel:
    """Writes the source, then eos. The state has the sources and the current position."""

    vocab_size: int
    max_length: int | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    batches: list[tuple[int, int]] = field(default_factory=list)

    def start(self, src_ids: Tensor, src_lengths: Tensor) -> dict[str, Tensor | int]:
        self.batches.append((src_ids.size(0), src_ids.size(1)))
        return {"src_ids": src_ids.where(src_ids != PAD_ID, EOS_ID), "position": 0}

    def step(self, ids: Tensor, state: dict[str, Tensor | int]) -> Predictions:
        src_ids, position = state["src_ids"], state["position"]
        assert isinstance(src_ids, Tensor)
        assert isinstance(position, int)
        state["position"] = position + 1
        rows = ids.numel() // src_ids.size(0)
        wanted = src_ids[:, min(position, src_ids.size(1) - 1)].repeat_interleave(rows)
        logits = torch.zeros(ids.numel(), self.vocab_size)
        return Predictions.of(logits.scatter(1, wanted[:, None], 9.0).log_softmax(1))

    def reorder(self, state: dict[str, Tensor | int], rows: Tensor, sentences: Tensor) -> None:
        src_ids = state["src_ids"]
        assert isinstance(src_ids, Tensor)
        state["src_ids"] = src_ids[sentences]


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    return train_tokenizers(TokenizerSettings(vocab_size=BYTES + 40), [" ".join(WORDS)] * 3, [])


def copier(tokenizers: TokenizerPair, max_src_tokens: int = 64, settings: InferenceSettings = GREEDY) -> Translator:
    return Translator(StepSearch(CopyModel(tokenizers.tgt.vocab_size)), tokenizers, settings, max_src_tokens)


def sentences(count: int, seed: int) -> Iterator[str]:
    rng = random.Random(seed)
    for _ in range(count):
        yield " ".join(rng.choices(WORDS, k=rng.randint(3, 14))).capitalize() + rng.choice([".", "!", "?"])


def test_order_of_lines_does_not_depend_on_the_batch_size(tokenizers: TokenizerPair) -> None:
    texts = [*sentences(25, 1), "", "   ", "\t", "x", "Grüße, 世界! 🙂"]
    random.Random(2).shuffle(texts)
    expected = [text.strip() for text in texts]
    for batch_tokens in (1, 100, 4096):
        for beam_size in (1, 3):
            assert copier(tokenizers).translate(texts, batch_tokens=batch_tokens, beam_size=beam_size) == expected
    for window_texts in (1, 7, 1000):
        stream = copier(tokenizers).translate_stream(iter(texts), window_texts)
        assert [translation.text for translation in stream] == expected


def test_batches_keep_to_their_budget_and_blank_texts_are_not_searched(tokenizers: TokenizerPair) -> None:
    model = CopyModel(tokenizers.tgt.vocab_size)
    Translator(StepSearch(model), tokenizers, GREEDY, 64).translate(
        [*sentences(50, 3), ""], beam_size=2, batch_tokens=300
    )
    assert sum(size for size, _ in model.batches) == 50
    assert max(size for size, _ in model.batches) > 1
    assert all(2 * size * width <= 300 for size, width in model.batches if size > 1)
    model.batches.clear()
    blank = Translator(StepSearch(model), tokenizers, GREEDY, 64).translate_detailed(["", " \n", "\u3000"])
    assert [(one.text, one.segments, one.cut, one.candidates) for one in blank] == [("", 0, False, ())] * 3
    assert not model.batches


def test_paragraph_of_2000_words_keeps_all_sentences_in_order(tokenizers: TokenizerPair) -> None:
    parts: list[str] = []
    for number, sentence in enumerate(sentences(300, 4)):
        parts += [sentence, "\n\n" if number % 40 == 39 else "  " if number % 7 == 0 else " "]
    paragraph = "".join(parts).strip()
    assert len(paragraph.split()) > 2000
    [short, long] = copier(tokenizers).translate_detailed(["A cat.", paragraph], beam_size=2)
    assert long.text == paragraph
    assert long.segments > 250
    assert short.segments == 1


def test_long_text_without_sentence_ends_is_not_cut_off(tokenizers: TokenizerPair) -> None:
    for text in (" ".join(WORDS * 20), "x" * 500, "猫" * 300):
        [translation] = copier(tokenizers).translate_detailed([text])
        assert translation.text == text
        assert translation.segments > 1


def test_candidate_has_its_tokens_and_scores(tokenizers: TokenizerPair) -> None:
    [translation] = copier(tokenizers).translate_detailed(["A cat sat. On a mat."], beam_size=4, n_best=3)
    assert len(translation.candidates) == 3
    best = translation.candidates[0]
    assert best.text == "A cat sat. On a mat."
    assert len(best.tokens) == len(best.token_log_probs) == len(tokenizers.tgt.encode(best.text))
    assert best.log_prob < sum(best.token_log_probs) < 0
    assert [c.score for c in translation.candidates] == sorted((c.score for c in translation.candidates), reverse=True)
    assert len({c.text for c in translation.candidates}) == 3


def test_scores_of_segments_add_up(tokenizers: TokenizerPair) -> None:
    texts = ["A cat sat on a mat.", "Seven birds sang."]
    [one, other] = copier(tokenizers).translate_detailed(texts)
    [both] = copier(tokenizers, max_src_tokens=len(tokenizers.src.encode(texts[0]))).translate_detailed(
        [" ".join(texts)]
    )
    assert both.segments == 2
    assert both.candidates[0].score == pytest.approx(one.candidates[0].score + other.candidates[0].score, abs=1e-4)
    assert both.candidates[0].tokens == one.candidates[0].tokens + other.candidates[0].tokens


def test_output_at_the_length_limit_is_reported(tokenizers: TokenizerPair) -> None:
    model = CopyModel(tokenizers.tgt.vocab_size, max_length=4)
    [translation] = Translator(StepSearch(model), tokenizers, GREEDY, 64).translate_detailed([" ".join(WORDS)])
    assert translation.cut
    assert len(translation.candidates[0].tokens) == 4


def test_translation_starts_with_its_prefix(tokenizers: TokenizerPair) -> None:
    texts = ["The cat sat.", "A mat.", ""]
    found = copier(tokenizers).translate_detailed(texts, prefixes=["Our old", "", "x"])
    assert found[0].text.startswith("Our old")
    assert [one.text for one in found[1:]] == texts[1:]
    with pytest.raises(ConfigError, match=r"`prefixes` must have one entry per text \(3\), but has 1"):
        copier(tokenizers).translate_detailed(texts, prefixes=["a"])


def test_samples_depend_on_seed_and_text_number_only(tokenizers: TokenizerPair) -> None:
    texts = list(sentences(12, 5))
    hot = {"sample": True, "temperature": 2.5, "n_best": 2}
    found = copier(tokenizers).translate_detailed(texts, **hot)
    assert [one.text for one in found] != texts
    assert found == copier(tokenizers).translate_detailed(texts, batch_tokens=1, **hot)
    assert found == list(copier(tokenizers).translate_stream(texts, 5, **hot))
    assert found != copier(tokenizers).translate_detailed(texts, seed=2, **hot)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"beam": 4}, r"`beam` is not a setting of \[inference\]"),
        ({"beam_sise": 4}, r"Did you mean `beam_size`\?"),
        ({"alpha": 1.0}, r"`alpha` is not a setting of \[inference\]\. Did you mean `length_penalty_alpha`\?"),
        ({"beam_size": 0}, r"`inference.beam_size` must be at least 1, but is 0"),
        ({"beam_size": 2, "n_best": 3}, r"`inference.n_best` must be at most `inference.beam_size` \(2\), but is 3"),
        ({"length_penalty_alpha": "high"}, r"`inference.length_penalty_alpha` must be"),
    ],
)
def test_invalid_settings_raise_before_any_work(tokenizers: TokenizerPair, overrides: dict, message: str) -> None:
    translator = copier(tokenizers)
    for call in (translator.translate, translator.translate_detailed, translator.translate_stream):
        with pytest.raises(ConfigError, match=message):
            call(["x"], **overrides)
    with pytest.raises(ConfigError, match="`window_texts` must be at least 1, but is 0"):
        translator.translate_stream([], window_texts=0)
    with pytest.raises(ConfigError, match=r"For a single text, pass \[text\]"):
        translator.translate_stream("one text")


def test_stream_reads_no_more_than_its_window(tokenizers: TokenizerPair) -> None:
    read = []

    def lines() -> Iterator[str]:
        for sentence in sentences(30, 6):
            read.append(sentence)
            yield sentence

    stream = copier(tokenizers).translate_stream(lines(), window_texts=10)
    next(stream)
    assert len(read) == 10


def small_model(tokenizers: TokenizerPair) -> Transformer:
    settings = ModelSettings(
        preset="custom", d_model=16, d_ff=32, num_heads=2, num_encoder_layers=1, num_decoder_layers=1
    )
    return Transformer(settings, tokenizers.src.vocab_size, tokenizers.tgt.vocab_size)


def test_model_in_training_translates_without_dropout_and_stays_in_training(tokenizers: TokenizerPair) -> None:
    model = small_model(tokenizers).train()
    model.encoder.eval()
    modes = [module.training for module in model.modules()]
    translator = Translator.from_model(model, tokenizers, InferenceSettings(beam_size=2, max_extra_tokens=5), 20)
    assert translator.translate(["The cat sat."] * 2) == translator.translate(["The cat sat."] * 2)
    assert [module.training for module in model.modules()] == modes


def trained(model: Transformer, tokenizers: TokenizerPair) -> Model:
    return Model(Weights.of(model), tokenizers, Config(data=DataSettings(max_tokens=9), model=model.settings), Card())


def test_saved_model_folder_gives_the_same_translations(tokenizers: TokenizerPair, tmp_path: Path) -> None:
    saved = trained(small_model(tokenizers).eval(), tokenizers)
    saved.save(tmp_path / "model")
    settings = {"beam_size": 2, "max_extra_tokens": 4}
    texts = ["The cat sat.", "", "Seven birds sang in an old tree."]
    found = Translator.load(tmp_path / "model", device="cpu").translate_detailed(texts, **settings)
    assert found == Translator.from_models([saved]).translate_detailed(texts, **settings)
    assert found == Translator.load_ensemble([tmp_path / "model"], device="cpu").translate_detailed(texts, **settings)


def test_ensemble_of_models_with_different_tokenizers_raises(tokenizers: TokenizerPair) -> None:
    model = small_model(tokenizers)
    same = Translator.from_models([trained(model, tokenizers)] * 2)
    assert same.translate_detailed(["A cat sat on the mat. A bird sang."], max_extra_tokens=3)[0].segments > 1
    other = train_tokenizers(TokenizerSettings(vocab_size=tokenizers.src.vocab_size), ["otherwise"] * 9, ["words"] * 9)
    other = TokenizerPair(tokenizers.src, other.tgt, joint=False)
    with pytest.raises(ModelError, match="must share their tokenizers"):
        Translator.from_models([trained(model, tokenizers), trained(model, other)])


def test_missing_folder_raises_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist"):
        Translator.load(tmp_path / "nothing")


def test_samples_of_a_line_do_not_depend_on_its_window() -> None:
    tokenizers = train_tokenizers(TokenizerSettings(vocab_size=300), WORDS, WORDS)
    torch.manual_seed(0)
    shape = ModelSettings(preset="custom", d_model=8, d_ff=8, num_heads=2, num_encoder_layers=1, num_decoder_layers=1)
    model = Transformer(shape, tokenizers.src.vocab_size, tokenizers.tgt.vocab_size)
    translator = Translator.from_model(model, tokenizers, InferenceSettings(sample=True, max_extra_tokens=3), 50)
    texts = ["the cat", "the cat", "seven birds sang", "the cat"]
    together = [translation.text for translation in translator.translate_detailed(texts)]
    assert len({together[0], together[1], together[3]}) > 1
    apart = [translator.translate_detailed(texts[:1]), translator.translate_detailed(texts[1:], first_number=1)]
    assert [translation.text for part in apart for translation in part] == together


@pytest.mark.parametrize("texts", ["just a string", [1], [None], 5, None, range(2)])
def test_input_that_is_not_a_list_of_texts_raises(small_bundle: Any, texts: Any) -> None:
    translator = Translator.from_models([small_bundle])
    for translate in (translator.translate, translator.translate_detailed):
        with pytest.raises(ConfigError, match="`texts` must be a list of texts"):
            translate(texts)


def test_no_model_at_all_raises() -> None:
    for make in (Translator.from_models, Translator.load_ensemble):
        with pytest.raises(ModelError, match=r"^there is no model to translate with"):
            make([])


def test_texts_may_be_any_iterable(small_bundle: Any) -> None:
    translator, texts = Translator.from_models([small_bundle]), ["the cat", "", "seven birds sang"]
    expected = translator.translate(texts)
    assert translator.translate(text for text in texts) == expected
    assert translator.translate(map(str, texts), protect=True) == translator.translate(texts, protect=True)
    assert [one.text for one in translator.translate_detailed(iter(texts))] == expected


class RecordingModel(CopyModel):
    """A copying model that keeps the sources it has seen."""

    def start(self, src_ids: Tensor, src_lengths: Tensor) -> dict[str, Tensor | int]:
        self.seen = [row[:length] for row, length in zip(src_ids.tolist(), src_lengths.tolist(), strict=True)]
        return super().start(src_ids, src_lengths)


def test_a_tag_reaches_the_model_before_every_segment_and_never_the_text(tokenizers: TokenizerPair) -> None:
    tagged = tokenizers.with_controls(["<tag:legal>", "<bt>"])
    model = RecordingModel(tagged.tgt.vocab_size)
    translator = Translator(StepSearch(model), tagged, GREEDY, 12)
    text = "the cat sat on a mat. seven small birds sang in an old green tree. <tag:legal> <bt>"
    plain = translator.translate_detailed([text])[0]
    heads = {row[0] for row in model.seen}
    tag = tagged.src.tag_ids("legal")[0]
    assert tag not in heads
    detailed = translator.translate_detailed([text, ""], tag="legal")[0]
    assert {row[0] for row in model.seen} == {tag}
    assert all(tag not in row[1:] for row in model.seen)
    assert (detailed.text, detailed.segments, detailed.parts) == (plain.text, plain.segments, plain.parts)
    assert "".join(translator.stream("the cat", tag="legal")) == "the cat"
    assert translator.translate(["the cat"], tag="legal", sample=True, n_best=1) == ["the cat"]
    for call in (translator.translate, translator.translate_detailed):
        with pytest.raises(ConfigError, match=r"no such tag. Choose one of legal, or none"):
            call(["the cat"], tag="news")
    with pytest.raises(ConfigError, match="the model has no tags"):
        copier(tokenizers).translate(["the cat"], tag="legal")
    with pytest.raises(ConfigError, match="no such tag"):
        Translator(StepSearch(model), tagged, InferenceSettings(tag="news"), 12)
