"""What a user can pass to a model, its parts and batches by mistake: one line that names the argument."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from jaxtyping import config

from dragoman.data.batch import Batch
from dragoman.devices.checks import check_ids
from dragoman.errors import ConfigError, DataError, DragomanError
from dragoman.model.attention import MultiHeadAttention, attention_weights, causal_mask, padding_mask
from dragoman.model.embedding import Embedding, sinusoidal_positions
from dragoman.model.layers import FeedForward
from dragoman.model.transformer import Transformer

SIZES = {"d_model": 8, "num_heads": 2, "d_ff": 16, "num_encoder_layers": 1, "num_decoder_layers": 1}


@pytest.fixture(autouse=True)
def _without_checks_of_types() -> Iterator[None]:
    """The tests check types by beartype, which users do not have."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


def new_model(**sizes: object) -> Transformer:
    torch.manual_seed(0)
    return Transformer.build(6, 9, **(SIZES | sizes)).eval()


MODEL = new_model()
SHORT = new_model(positions="learned", max_positions=3)
SRC, LENGTHS = torch.tensor([[4, 5, 5, 2], [4, 2, 0, 0]]), torch.tensor([4, 2])
TGT, TGT_LENGTHS = torch.tensor([[1, 4, 8], [1, 5, 2]]), torch.tensor([2, 1])
MEMORY = torch.randn(2, 4, 8)
ATTENTION = MultiHeadAttention(8, 2)
X, Y, HEADS = torch.randn(2, 3, 8), torch.randn(2, 4, 8), torch.randn(2, 2, 3, 4)
IDS = "must be an int64 tensor (B, T), one row for each sentence, but is"
NUMBERS = "must be an int64 tensor (2,), one number for each sentence, but is"
MASK = "`mask` must be a bool tensor, True where a query may attend to a key, but is"
CONVERT = "Write `mask.bool()` if 1 means so, or `mask == 0` if it has 0 there and minus infinity elsewhere."
NO_IDS = "`src` and `tgt` must be lists of lists of ids. Encode texts with a tokenizer."
THREE_D = torch.ones(2, 3, 4, dtype=torch.bool)
TWO_LINES = (
    "`mask` must have 2 or 4 dimensions, but is a bool tensor (2, 3, 4). Use `mask[:, None]` if it has one mask for "
    "each sentence, or `mask[None]` if it has one for each head."
)


def ids(*rows: list[int]) -> torch.Tensor:
    return torch.tensor(rows)


MISTAKES: list[tuple[Callable[[], object], str]] = [
    # ids
    (lambda: MODEL.encode([[4, 2]], LENGTHS), f"`src_ids` {IDS} a list. `dragoman.Batch.from_ids` pads lists of ids."),
    (lambda: MODEL.encode(SRC[0], LENGTHS), f"`src_ids` {IDS} an int64 tensor (4,)."),
    (lambda: MODEL.encode(SRC.float(), LENGTHS), f"`src_ids` {IDS} a float32 tensor (2, 4)."),
    (lambda: MODEL(SRC, LENGTHS, TGT[0]), f"`tgt_ids` {IDS} an int64 tensor (3,)."),
    (lambda: Embedding(6, 8, 0.0)(ids([4, 5])[0]), f"`ids` {IDS} an int64 tensor (2,)."),
    (
        lambda: MODEL.encode(ids([4, 7], [5, 2]), ids([2, 2])[0]),
        "`src_ids` must have ids below 6, the size of the vocabulary, but the largest is 7.",
    ),
    (lambda: MODEL.encode(ids([4, -1]), ids([2])[0]), "`src_ids` must not have negative ids, but has -1."),
    (
        lambda: MODEL(SRC, LENGTHS, ids([1, 9], [1, 2])),
        "`tgt_ids` must have ids below 9, the size of the vocabulary, but the largest is 9.",
    ),
    (
        lambda: Embedding(6, 8, 0.0)(ids([4, 6])),
        "`ids` must have ids below 6, the size of the vocabulary, but the largest is 6.",
    ),
    (
        lambda: MODEL.encode(SRC.to("meta"), LENGTHS),
        '`src_ids` must be on cpu, the device of the model, but is on meta. Move it with `src_ids.to("cpu")`.',
    ),
    (
        lambda: SHORT.encode(SRC, LENGTHS),
        "`src_ids` must have at most 3 tokens, the learned positions (`max_positions`), but has 4.",
    ),
    (
        lambda: SHORT.decode(ids([1, 4, 5, 5]), MEMORY[:1], LENGTHS[:1]),
        "`tgt_ids` must have at most 3 tokens, the learned positions (`max_positions`), but has 4.",
    ),
    # lengths
    (lambda: MODEL.encode(SRC, [4, 2]), f"`src_lengths` {NUMBERS} a list."),
    (lambda: MODEL.encode(SRC, LENGTHS[:, None]), f"`src_lengths` {NUMBERS} an int64 tensor (2, 1)."),
    (lambda: MODEL.encode(SRC, LENGTHS[:1]), f"`src_lengths` {NUMBERS} an int64 tensor (1,)."),
    (lambda: MODEL.encode(SRC, LENGTHS.float()), f"`src_lengths` {NUMBERS} a float32 tensor (2,)."),
    (
        lambda: MODEL.encode(SRC, ids([4, 0])[0]),
        "`src_lengths` must be from 1 to 4, the padded length, but has 0.",
    ),
    (
        lambda: MODEL.encode(SRC, ids([4, -2])[0]),
        "`src_lengths` must be from 1 to 4, the padded length, but has -2.",
    ),
    (
        lambda: MODEL.decode(TGT, MEMORY, ids([5, 2])[0]),
        "`src_lengths` must be from 1 to 4, the padded length, but has 5.",
    ),
    (
        lambda: MODEL.encode(SRC, LENGTHS.to("meta")),
        '`src_lengths` must be on cpu, the device of the model, but is on meta. Move it with `src_lengths.to("cpu")`.',
    ),
    # the memory
    (
        lambda: MODEL.decode(TGT[:1], MEMORY, LENGTHS),
        "`memory` must be the output of `encode`, a tensor (1, S, 8) for these `tgt_ids`, "
        "but is a float32 tensor (2, 4, 8).",
    ),
    (
        lambda: MODEL.decode(TGT, MEMORY[0], LENGTHS),
        "`memory` must be the output of `encode`, a tensor (2, S, 8) for these `tgt_ids`, "
        "but is a float32 tensor (4, 8).",
    ),
    # attention and masks
    (
        lambda: ATTENTION(X, Y, Y, torch.zeros(3, 4)),
        f"{MASK} a float32 tensor (3, 4). {CONVERT}",
    ),
    (
        lambda: attention_weights(HEADS, HEADS, torch.ones(3, 3).long()),
        f"{MASK} an int64 tensor (3, 3). {CONVERT}",
    ),
    (lambda: ATTENTION(X, Y, Y, [True]), f"{MASK} a list."),
    (
        lambda: ATTENTION(X, Y, Y, causal_mask(3)),
        "`mask` must broadcast to (B, H, T, S), which is (2, 2, 3, 4) here, but is a bool tensor (3, 3).",
    ),
    (
        lambda: ATTENTION(X, Y, Y, causal_mask(3), []),
        "`mask` must broadcast to (B, H, T, S), which is (2, 2, 3, 4) here, but is a bool tensor (3, 3).",
    ),
    (
        lambda: ATTENTION(X, Y, Y, torch.ones(2, 4, dtype=torch.bool)),
        "`mask` must broadcast to (B, H, T, S), which is (2, 2, 3, 4) here, but is a bool tensor (2, 4). "
        "Use `mask[:, None, None]` if it has the keys of each sentence.",
    ),
    # a mask of which nobody can tell whether it has one row of masks for each sentence or for each head
    (lambda: ATTENTION(X, Y, Y, THREE_D), TWO_LINES),
    (lambda: ATTENTION(X, Y, Y, THREE_D, []), TWO_LINES),
    (lambda: ATTENTION(X[:1], Y[:1], Y[:1], THREE_D), TWO_LINES),
    (lambda: attention_weights(HEADS, HEADS, THREE_D[..., :3]), TWO_LINES.replace("2, 3, 4", "2, 3, 3")),
    (lambda: MODEL.encoder(Y, torch.ones(2, 4, 4, dtype=torch.bool)), TWO_LINES.replace("2, 3, 4", "2, 4, 4")),
    (lambda: MODEL.decoder(X, Y, THREE_D[..., :3], None), TWO_LINES.replace("2, 3, 4", "2, 3, 3")),
    (lambda: MODEL.decoder(X, Y, None, THREE_D), TWO_LINES),
    (lambda: MODEL.decoder(X, Y, None, THREE_D, cache={}), TWO_LINES),
    (
        lambda: ATTENTION(X, Y, Y, torch.ones(5, 3, 4, dtype=torch.bool)),
        "`mask` must broadcast to (B, H, T, S), which is (2, 2, 3, 4) here, but is a bool tensor (5, 3, 4).",
    ),
    (lambda: ATTENTION(X[0], X[0], X[0]), "`query` must be a tensor (B, T, 8), but is a float32 tensor (3, 8)."),
    (lambda: ATTENTION(X, Y[..., :4], Y), "`key` must be a tensor (B, T, 8), but is a float32 tensor (2, 4, 4)."),
    (
        lambda: ATTENTION(X, Y, X),
        "`query`, `key` and `value` must be (B, T, D), (B, S, D) and (B, S, D), "
        "but are (2, 3, 8), (2, 4, 8) and (2, 3, 8).",
    ),
    (
        lambda: ATTENTION(X, Y[:1], Y[:1]),
        "`query`, `key` and `value` must be (B, T, D), (B, S, D) and (B, S, D), "
        "but are (2, 3, 8), (1, 4, 8) and (1, 4, 8).",
    ),
    (
        lambda: attention_weights(HEADS, HEADS[..., :2], None),
        "`query` and `key` must have one width, but have 4 and 2.",
    ),
    (lambda: causal_mask("3"), "`size` must be a whole number, but is '3'."),
    (lambda: causal_mask(X), "`size` must be a whole number, but is a float32 tensor (2, 3, 8)."),  # type: ignore[arg-type]
    (lambda: causal_mask(-3), "`size` must be at least 0, but is -3."),
    (
        lambda: padding_mask([3, 2], 4),
        "`lengths` must be an int64 tensor (B,), one number for each sentence, but is a list.",
    ),
    # sizes
    (lambda: Transformer.build("6", 6), "`src_vocab_size` must be a whole number, but is '6'."),
    (lambda: Transformer.build(6, 0), "`tgt_vocab_size` must be at least 1, but is 0."),
    (lambda: Transformer.build(-1, 6), "`src_vocab_size` must be at least 1, but is -1."),
    (lambda: Transformer.build(6.0, 6), "`src_vocab_size` must be a whole number, but is 6.0."),
    (lambda: Transformer.build(True, True), "`src_vocab_size` must be a whole number, but is True."),
    (lambda: new_model(d_model="8"), '`model.d_model` must be a whole number, but is "8".'),
    (lambda: new_model(d_model=0), "`model.d_model` must be at least 2, but is 0."),
    (lambda: new_model(d_ff=8.5), "`model.d_ff` must be a whole number, but is 8.5."),
    (lambda: new_model(num_heads=True), "`model.num_heads` must be a whole number, but is true."),
    (
        lambda: new_model(num_heads=3),
        "`model.d_model` must be a multiple of `model.num_heads` (3), but is 8. Change one of them.",
    ),
    (lambda: MultiHeadAttention("8", 2), "`d_model` must be a whole number, but is '8'."),
    (
        lambda: MultiHeadAttention(9, 2),
        "`d_model` must be a multiple of `num_heads` (2), but is 9. Change one of them.",
    ),
    (lambda: Embedding(6, 7, 0.0)(SRC), "`d_model` must be even for sinusoidal positions, but is 7."),
    (lambda: sinusoidal_positions(3.5, 8), "`length` must be a whole number, but is 3.5."),  # type: ignore[arg-type]
    (lambda: sinusoidal_positions(-3, 8), "`length` must be at least 0, but is -3."),
    (lambda: sinusoidal_positions(3, 0), "`d_model` must be at least 1, but is 0."),
    (lambda: sinusoidal_positions(3, 7), "`d_model` must be even for sinusoidal positions, but is 7."),
    (
        lambda: Embedding(6, 8, 0.0, "rotary"),
        "`positions` must be one of sinusoidal, marian, learned, but is 'rotary'.",
    ),
    (lambda: Embedding(6, 8, 0.0, "learned"), "`max_positions` must be at least 1, but is 0."),
    (lambda: FeedForward(8, 16, activation="tanh"), "`activation` must be one of relu, gelu, swish, but is 'tanh'."),
    (lambda: FeedForward(8, 0), "`d_ff` must be at least 1, but is 0."),
    (lambda: FeedForward(4, 16)(X), "`hidden` must be a tensor (B, T, 4), but is a float32 tensor (2, 3, 8)."),
    # batches
    (
        lambda: MODEL.trace([SRC, LENGTHS, TGT]),
        "`batch` must be a `dragoman.Batch`, but is a list. Use `Batch.from_ids`.",
    ),
    (
        lambda: Batch([[4, 2]], [2], [[1, 2]], [1]),
        f"`src_ids` {IDS} a list. `dragoman.Batch.from_ids` pads lists of ids.",
    ),
    (lambda: Batch(SRC, LENGTHS, TGT[0], TGT_LENGTHS), f"`tgt_ids` {IDS} an int64 tensor (3,)."),
    (lambda: Batch(SRC, LENGTHS[:1], TGT, TGT_LENGTHS), f"`src_lengths` {NUMBERS} an int64 tensor (1,)."),
    (
        lambda: Batch(SRC, LENGTHS, TGT[:1], TGT_LENGTHS),
        "`src_ids` has 2 rows, but `tgt_ids` has 1. Give as many targets as sources.",
    ),
    (
        lambda: Batch(SRC, LENGTHS, TGT, ids([3, 1])[0]),
        "`tgt_lengths` must be from 1 to 2, the padded length, but has 3.",
    ),
    (lambda: Batch.from_ids(["two", "texts"]), NO_IDS),  # type: ignore[list-item]
    (lambda: Batch.from_ids([[4.5]]), NO_IDS),  # type: ignore[list-item]
    (lambda: Batch.from_ids([4, 5]), NO_IDS),  # type: ignore[list-item]
    (lambda: Batch.from_ids(4), NO_IDS),  # type: ignore[arg-type]
    (lambda: Batch.from_ids(row for row in [[4]]), NO_IDS),  # type: ignore[arg-type]
    (
        lambda: Batch.from_ids([[4]], []),
        "`src_ids` has 1 rows, but `tgt_ids` has 0. Give as many targets as sources.",
    ),
]


@pytest.mark.parametrize(("call", "line"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_one_line_that_names_the_argument(call: Callable[[], object], line: str) -> None:
    with pytest.raises(DragomanError) as refusal:
        call()
    assert str(refusal.value) == line
    sizes = ("must be a whole number", "must be at least", "must be a multiple", "must be even", "must be one of")
    assert type(refusal.value) is (ConfigError if any(each in line for each in sizes) else DataError)


def test_a_tensor_on_another_device_is_refused_before_it_meets_the_weights() -> None:
    with pytest.raises(DataError, match="must be on meta, the device of the model, but is on cpu"):
        check_ids("src_ids", SRC, torch.empty(9, 4, device="meta"))


def test_errors_that_are_no_mistake_of_the_arguments_stay_as_they_are() -> None:
    with pytest.raises(RuntimeError, match="dtype"):
        ATTENTION(X.double(), X.double(), X.double())
    with pytest.raises(RuntimeError, match="dtype"):
        FeedForward(8, 16)(X.double())


def test_sizes_of_numpy_are_whole_numbers() -> None:
    assert torch.equal(causal_mask(np.int64(3)), causal_mask(3))  # type: ignore[arg-type]


def test_masks_with_few_dimensions_broadcast_with_and_without_weights() -> None:
    for mask in (torch.tensor([True, False, True, True]), torch.tensor(True)):
        torch.testing.assert_close(ATTENTION(X, Y, Y, mask), ATTENTION(X, Y, Y, mask, []))


def test_the_conversions_that_the_error_names_keep_the_meaning_of_the_mask() -> None:
    additive = torch.nn.Transformer.generate_square_subsequent_mask(4)
    for mask in (torch.tril(torch.ones(4, 4)).bool(), additive == 0):
        assert torch.equal(mask, causal_mask(4))


def test_no_rows_are_a_batch_without_sentences() -> None:
    batch = Batch.from_ids([[4, 5], [6]]).part(2, 3)
    assert (len(batch.src_ids), len(batch.labels)) == (0, 0)
