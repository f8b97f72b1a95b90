"""`dragoman.greedy` against decoding by hand without a cache."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dragoman
from dragoman.errors import DragomanError
from dragoman.model.transformer import Transformer
from tests.contract.random_models import KINDS, random_transformer

EOS_ID, VOCAB_SIZE = 2, 12
MODELS = {kind: random_transformer(VOCAB_SIZE, **shape) for kind, shape in KINDS.items()}
MODELS["learned"] = random_transformer(VOCAB_SIZE, positions="learned", max_positions=9)


@torch.inference_mode()
def decode_by_hand(model: Transformer, batch: dragoman.Batch, num_tokens: int) -> list[list[int]]:
    memory = model.encode(batch.src_ids, batch.src_lengths)
    ids = torch.ones(len(batch.src_ids), 1, dtype=torch.int64)
    for _ in range(min(num_tokens, model.max_positions or num_tokens)):
        states = model.decode(ids, memory, batch.src_lengths)
        ids = torch.cat([ids, model.projection(states[:, -1:]).argmax(-1)], dim=1)
    rows = ids[:, 1:].tolist()
    return [row[: row.index(EOS_ID)] if EOS_ID in row else row for row in rows]


@settings(max_examples=12)
@given(
    st.sampled_from(sorted(MODELS)),
    st.lists(st.lists(st.integers(3, VOCAB_SIZE - 1), max_size=8), min_size=1, max_size=4),
    st.integers(1, 15),
)
def test_the_ids_are_those_of_decoding_by_hand_up_to_eos(kind: str, rows: list[list[int]], max_tokens: int) -> None:
    assert "greedy" in dragoman.__all__
    model, batch = MODELS[kind].eval(), dragoman.Batch.from_ids(rows)
    found = dragoman.greedy(model, batch, max_tokens=max_tokens)
    assert found == decode_by_hand(model, batch, max_tokens)
    assert found == [dragoman.greedy(model, batch.part(row, row + 1), max_tokens)[0] for row in range(len(rows))]


def test_it_stops_when_every_sentence_has_its_end() -> None:
    model, batch = random_transformer(VOCAB_SIZE, projection_bias=True), dragoman.Batch.from_ids([[5, 6], [7]])
    model.projection.bias.data[EOS_ID] = 1e9
    steps: list[object] = []
    model.decoder.register_forward_hook(lambda *_: steps.append(None))
    assert dragoman.greedy(model, batch, max_tokens=50) == [[], []]
    assert len(steps) == 1


def test_a_model_in_training_writes_without_dropout_and_continues_as_it_was() -> None:
    torch.manual_seed(0)
    model = dragoman.Transformer.build(20, 20, "custom", d_model=16, num_heads=2, d_ff=16, dropout=0.5)
    model.encoder.eval()  # frozen by the user
    before = {name: module.training for name, module in model.named_modules()}
    batch = dragoman.Batch.from_ids([[5, 6, 7, 8]] * 3, [[4]] * 3)
    outputs = [dragoman.greedy(model, batch, max_tokens=9) for _ in range(3)]
    assert outputs[0] == outputs[1] == outputs[2] == decode_by_hand(model.eval(), batch, 9)
    model.train().encoder.eval()
    dragoman.greedy(model, batch, max_tokens=2)
    assert {name: module.training for name, module in model.named_modules()} == before
    assert torch.is_grad_enabled()
    loss = model(batch.src_ids, batch.src_lengths, batch.decoder_input).sum()
    loss.backward()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", None), "`model` must be a Transformer, such as `translator.model.transformer`, but is a str."),
        ((MODELS["pre-norm"], [[4, 5]]), "`batch` must be a `dragoman.Batch`, but is a list. Use `Batch.from_ids`."),
        ((MODELS["pre-norm"], dragoman.Batch.from_ids([[4]]), 0), "`max_tokens` must be at least 1, but is 0."),
        ((MODELS["pre-norm"], dragoman.Batch.from_ids([[4]]), "9"), "`max_tokens` must be a whole number, but is '9'."),
        ((MODELS["pre-norm"], dragoman.Batch.from_ids([[99]])), "`src_ids` must have ids below 12"),
    ],
)
def test_a_mistake_is_one_line(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(DragomanError) as refused:
        dragoman.greedy(*arguments)  # type: ignore[arg-type]
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)
