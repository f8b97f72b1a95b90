import json
import math
from dataclasses import replace

import pytest
import torch
from torch.distributions import Categorical

from dragoman.bundle import Model, Weights
from dragoman.config import InferenceSettings, ModelSettings
from dragoman.data.batch import pad_ids
from dragoman.engines.search.beam import beam_search
from dragoman.engines.tensors.fast_model import FastModel
from dragoman.errors import DataError
from dragoman.inference.translator import Translator
from dragoman.model.transformer import Transformer
from dragoman.records import BOS_ID, EOS_ID, NEVER_WRITTEN, Hypothesis
from dragoman.visualization.inspection.inspection import Inspection
from dragoman.visualization.inspection.inspector import MOST_TOKENS, NUM_UNCERTAIN, inspect_text

TEXT = "one two three. four"


@pytest.fixture(scope="module")
def inspection(trained: Model) -> Inspection:
    return inspect_text(trained, TEXT, name="m", reference="eins zwei")


def test_the_translation_matches_the_translator(trained: Model, inspection: Inspection) -> None:
    translator = Translator.from_models([trained])
    answer = translator.translate_detailed([TEXT], n_best=3)[0]
    assert inspection.tgt.text == answer.text
    assert inspection.tgt.tokens == answer.candidates[0].tokens
    assert [one.text for one in inspection.n_best] == [one.text for one in answer.candidates]
    assert [one.score for one in inspection.n_best] == pytest.approx([c.score for c in answer.candidates], abs=1e-3)
    assert (inspection.reference, inspection.src_lang, inspection.tgt_lang) == ("eins zwei", "en", "de")


def test_steps_match_the_models_distribution(trained: Model, inspection: Inspection) -> None:
    model, tokenizer = trained.transformer, trained.tokenizers.tgt
    names = tokenizer.tokens(range(tokenizer.vocab_size))
    src = torch.tensor([[*trained.tokenizers.src.encode(TEXT), EOS_ID]])
    ids = [names.index(step.token) for step in inspection.steps]
    written = [index for index in ids if index != EOS_ID]
    with torch.no_grad():
        logits = model(src, torch.tensor([src.size(1)]), torch.tensor([[BOS_ID, *written]]))[0]
    total = 0.0
    for step, row, index in zip(inspection.steps, logits, ids, strict=False):
        total += float(row.log_softmax(0)[index])
        assert step.probability == pytest.approx(float(row.softmax(0)[index]), abs=1e-4)
        assert step.entropy_bits == pytest.approx(float(Categorical(logits=row).entropy()) / math.log(2), abs=1e-3)
        assert step.running_log_prob == pytest.approx(total, abs=1e-3)
        others = [at for at in row.argsort(descending=True).tolist() if at not in (index, 0, 1, 3)]
        assert [one.token for one in step.alternatives] == [names[at] for at in others[:5]]
    assert inspection.steps[-1].running_log_prob == pytest.approx(inspection.n_best[0].log_prob, abs=1e-3)


def test_continuations_match_a_forced_search(trained: Model, inspection: Inspection) -> None:
    tokenizer = trained.tokenizers.tgt
    names = tokenizer.tokens(range(tokenizer.vocab_size))
    entropies = [step.entropy_bits for step in inspection.steps]
    looked_at = [place for place, step in enumerate(inspection.steps) if step.alternatives[0].continuation is not None]
    expected = sorted(sorted(range(len(entropies)), key=lambda at: -entropies[at])[:NUM_UNCERTAIN])
    assert looked_at == expected
    src, lengths = pad_ids([[*trained.tokenizers.src.encode(TEXT), EOS_ID]], 0)
    before = [names.index(step.token) for step in inspection.steps]
    for place in looked_at:
        for one in inspection.steps[place].alternatives:
            prefix = [*before[:place], names.index(one.token)]
            then = beam_search(FastModel(trained.transformer), src, lengths, trained.config.inference, [prefix])[0][0]
            assert one.continuation == tokenizer.detokenize(then.ids)
            assert one.score == pytest.approx(then.score, abs=1e-3)


def test_json_is_complete_and_weights_are_close(trained: Model, inspection: Inspection) -> None:
    document = json.loads(inspection.to_json())
    assert document["tgt"]["text"] == inspection.tgt.text
    assert {one["kind"] for one in document["weights"]} == {"cross", "encoder_self", "decoder_self"}
    assert len(document["steps"]) == len(inspection.steps)
    assert set(document) == set(Inspection.__slots__)


def _model_that_ends(trained: Model) -> Weights:
    """Weights of a model that predicts eos at once."""
    model = Transformer(
        trained.config.model, trained.transformer.src_vocab_size, trained.transformer.tgt_vocab_size
    ).eval()
    with torch.no_grad():
        model.projection.bias[EOS_ID] = 50.0
    return Weights.of(model)


@pytest.mark.parametrize(
    "text",
    [
        "</script><script>alert(1)</script>",
        "\u202eone\u202c \u200ftwo\u200e",
        "👩‍👩‍👧 👍🏽 🇩🇪",
        "e" + "\u0301" * 150,
        "one\ntwo\r\n\tthree",
        "x",
        "\ud83d half",
    ],
)
def test_unusual_texts_can_be_inspected(trained: Model, text: str) -> None:
    inspection = inspect_text(replace(trained, weights=_model_that_ends(trained)), text)
    inspection.to_json().encode("utf-8")
    assert [at for word in inspection.src.words for at in range(word.start, word.stop)] == list(
        range(len(inspection.src.tokens))
    )


@pytest.mark.parametrize("text", ["", " \n\t", "a" + "\u0301" * 5000, "one two " * 5000])
def test_empty_and_long_texts_are_errors_of_one_line(trained: Model, text: str) -> None:
    with pytest.raises(DataError, match=f"the text (is empty|may have at most {MOST_TOKENS} tokens)") as caught:
        inspect_text(trained, text)
    assert "\n" not in str(caught.value)


def test_learned_positions_limit_the_text(trained: Model) -> None:
    settings: ModelSettings = replace(trained.config.model, positions="learned", max_positions=8)
    size = trained.tokenizers.src.vocab_size
    short = replace(trained, weights=Weights.of(Transformer(settings, size, size).eval()))
    with pytest.raises(DataError, match="at most 7 tokens"):
        inspect_text(short, "one two three four five Bahnhof one two three")
    assert len(inspect_text(short, "one two").tgt.tokens) <= 7


def test_an_endless_translation_is_inspected_up_to_the_last_position(trained: Model) -> None:
    settings: ModelSettings = replace(trained.config.model, positions="learned", max_positions=8)
    size = trained.tokenizers.src.vocab_size
    model = Transformer(settings, size, size).eval()
    with torch.no_grad():
        model.projection.bias[EOS_ID] -= 1000
    found = inspect_text(
        replace(trained, weights=Weights.of(model)), "one two", InferenceSettings(beam_size=2, max_extra_tokens=20)
    )
    assert len(found.tgt.tokens) == len(found.steps) == 7


@pytest.mark.parametrize(("num_tokens", "whole"), [(200, True), (201, False)])
def test_all_length_limits_apply_at_the_same_length(trained: Model, num_tokens: int, whole: bool) -> None:
    text = "x" * num_tokens
    while (missing := num_tokens - len(trained.tokenizers.src.encode(text))) != 0:
        text = text + "x" * missing if missing > 0 else text[:missing]
    settings = replace(trained.config.inference, min_tokens=7)
    inspection = inspect_text(replace(trained, weights=_model_that_ends(trained)), text, settings)
    assert (len(inspection.src.tokens), len(inspection.tgt.tokens)) == (num_tokens, 7)
    assert all(weights.mean_only != whole for weights in inspection.weights)
    assert (inspection.opinions is not None) == whole
    assert all((weights.num_heads == 1) != whole for weights in inspection.weights)
    assert ("mean" not in {note.kind for note in inspection.notes}) == whole
    assert "long" in {note.kind for note in inspection.notes}
    continued = [step for step in inspection.steps if any(one.continuation is not None for one in step.alternatives)]
    assert len(continued) == (5 if whole else 1)


def test_alternatives_do_not_end_before_min_tokens(trained: Model) -> None:
    settings = replace(trained.config.inference, min_tokens=3)
    inspection = inspect_text(replace(trained, weights=_model_that_ends(trained)), TEXT, settings)
    assert len(inspection.tgt.tokens) == 3
    ends = [any(one.token == "</s>" for one in step.alternatives) for step in inspection.steps]
    assert ends == [False] * 4


def test_an_empty_translation_can_be_inspected(trained: Model) -> None:
    settings = replace(trained.config.inference, min_tokens=0)
    inspection = inspect_text(replace(trained, weights=_model_that_ends(trained)), TEXT, settings)
    assert inspection.tgt.text == ""
    assert [step.token for step in inspection.steps] == ["</s>"]
    assert inspection.opinions is None


def _search(trained: Model, prefix: list[int], settings: InferenceSettings) -> list[Hypothesis]:
    """The hypotheses of a search that starts with this prefix."""
    src, lengths = pad_ids([[*trained.tokenizers.src.encode(TEXT), EOS_ID]], 0)
    return beam_search(
        FastModel(trained.transformer), src, lengths, replace(settings, n_best=settings.beam_size), [prefix]
    )[0]


@pytest.mark.parametrize("place", [0, 1, 4])
@pytest.mark.parametrize("rank", [0, 4])
def test_the_search_continues_from_a_forced_token(
    trained: Model, inspection: Inspection, place: int, rank: int
) -> None:
    other = inspection.steps[place].alternatives[rank]
    prefix = [*inspection.tgt.ids[:place], other.id]
    forced = inspect_text(trained, TEXT, prefix_ids=prefix)
    expected = _search(trained, prefix, trained.config.inference)
    assert list(forced.tgt.ids[: place + 1]) == prefix
    assert forced.tgt.ids == expected[0].ids
    assert [one.score for one in forced.n_best] == pytest.approx([one.score for one in expected], abs=1e-3)
    assert (inspection.forced, forced.forced) == (0, place + 1)
    assert [step.token for step in forced.steps[:place]] == [step.token for step in inspection.steps[:place]]
    assert (forced.steps[place].token, forced.steps[place].probability) == (other.token, other.probability)
    assert inspection.steps[place].token in [one.token for one in forced.steps[place].alternatives], (
        "the original token is an alternative"
    )
    assert forced.tgt.text == inspection.steps[place].alternatives[rank].continuation or other.continuation is None


@pytest.mark.parametrize("min_tokens", [0, 6])
@pytest.mark.parametrize("before", [0, 2])
def test_a_translation_can_be_forced_to_end(
    trained: Model, inspection: Inspection, before: int, min_tokens: int
) -> None:
    settings = replace(trained.config.inference, min_tokens=min_tokens)
    ended = inspect_text(trained, TEXT, settings, prefix_ids=[*inspection.tgt.ids[:before], EOS_ID])
    assert ended.tgt.ids == inspection.tgt.ids[:before]
    assert [step.token for step in ended.steps] == [*inspection.tgt.tokens[:before], "</s>"]
    assert ended.forced == before + 1
    best = [node for node in ended.beam if node.best]
    assert [node.token for node in best] == [step.token for step in ended.steps]
    assert best[-1].state == "ended"


@pytest.mark.parametrize(
    "prefix",
    [[0], [1], [3], [-1], [9, -5], [10**6], [9, EOS_ID, 9], [9] * (MOST_TOKENS + 1)],
    ids=["pad", "bos or unk", "unk or bos", "negative", "negative later", "no token", "after the end", "long"],
)
def test_impossible_prefixes_are_an_error_of_one_line(trained: Model, prefix: list[int]) -> None:
    assert {0, 1, 3} == set(NEVER_WRITTEN)
    with pytest.raises(DataError, match="cannot start with these tokens") as caught:
        inspect_text(trained, TEXT, prefix_ids=prefix)
    assert "\n" not in str(caught.value)


def test_a_prefix_cannot_exceed_the_positions(trained: Model) -> None:
    settings: ModelSettings = replace(trained.config.model, positions="learned", max_positions=8)
    size = trained.tokenizers.src.vocab_size
    short = replace(trained, weights=Weights.of(Transformer(settings, size, size).eval()))
    assert inspect_text(short, "one two", prefix_ids=[9] * 5).tgt.ids[:5] == (9,) * 5
    with pytest.raises(DataError, match="cannot start with these tokens"):
        inspect_text(short, "one two", prefix_ids=[9] * 8)


@pytest.mark.parametrize(
    ("text", "capitals", "expected"), [("TWO MEN SLEEP.", True, 1), ("TWO MEN SLEEP.", False, 0), (TEXT, True, 0)]
)
def test_a_note_on_capitals_shows_the_sentence_case(trained: Model, text: str, capitals: bool, expected: int) -> None:
    config = replace(trained.config, inference=replace(trained.config.inference, retry_all_caps=capitals))
    notes = [note.text for note in inspect_text(replace(trained, config=config), text).notes if note.kind == "capitals"]
    assert len(notes) == expected
    assert all("“Two men sleep.”" in note for note in notes)
