"""One Transformer: every engine computes what `dragoman.model` defines, for every kind of model.

The definition itself is compared with `torch.nn.Transformer`. Search, sampling, threads and caches of the engines have
separate contract tests.
"""

import copy
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from dragoman.bundle import Weights
from dragoman.config import InferenceSettings, ModelSettings, TrainSettings
from dragoman.data.batch import Batch
from dragoman.devices.device import multiplies_bfloat16
from dragoman.engines.choice import CompiledEngine
from dragoman.engines.interface import Source
from dragoman.engines.tensors.fast_model import FastModel
from dragoman.kernels.library import is_available
from dragoman.kernels.processor import HAS_BYTE_PRODUCTS
from dragoman.model.transformer import Transformer
from dragoman.records import BOS_ID, EOS_ID, PAD_ID
from dragoman.training.step.accelerated import Randomness, accelerate
from dragoman.training.step.gradients import Gradients
from dragoman.training.step.loss import smoothed_cross_entropy
from tests.contract import random_models

SHAPE = {
    "preset": "custom",
    "d_model": 32,
    "d_ff": 48,
    "num_heads": 2,
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
    "dropout": 0.0,
}
KINDS: Mapping[str, Mapping[str, Any]] = {
    **random_models.KINDS,
    "projection tied, no biases": {"tie": "decoder", "attention_bias": False, "projection_bias": False},
    "more encoder layers, wide heads": {"num_encoder_layers": 3, "num_decoder_layers": 1, "d_model": 96},
    "narrow heads": {"num_heads": 4},
    "heads of 20": {"d_model": 60, "num_heads": 3},
    # Among many ReLU units, some are so close to 0 that rounding changes the sign, and with it the gradient.
    "products large enough for int8": {"d_model": 256, "d_ff": 512, "num_decoder_layers": 1, "activation": "gelu"},
}
NEEDS_COMPILER = pytest.mark.skipif(not is_available(), reason="numba is not installed")
NEEDS_BFLOAT16 = pytest.mark.skipif(not multiplies_bfloat16(torch.device("cpu")), reason="no bfloat16 products here")
NEEDS_BYTES = pytest.mark.skipif(not HAS_BYTE_PRODUCTS, reason="no products of bytes here")
VOCAB_SIZE, SMOOTHING = 60, 0.1


def random_model(kind: str) -> Transformer:
    """Every parameter is random; the distributions are sharp and depend on the source."""
    settings = ModelSettings(**{**SHAPE, **KINDS[kind]})
    torch.manual_seed(3)
    model = Transformer(settings, VOCAB_SIZE if settings.tie == "all" else VOCAB_SIZE + 9, VOCAB_SIZE)
    for name, parameter in model.named_parameters():
        nn.init.normal_(parameter, std=0.3 if parameter.ndim == 1 else parameter.size(1) ** -0.5)
        if name.endswith("norm.weight"):
            nn.init.normal_(parameter, 1.0, 0.3)
    return model.eval()


def random_batch() -> Batch:
    """30 sentences of 1 to 18 tokens. Targets do not end, so no engine stops early."""
    generator = torch.Generator().manual_seed(5)
    src_lengths, tgt_lengths = (
        torch.randint(low, high, (30,), generator=generator) for low, high in ((2, 19), (1, 21))
    )
    src_lengths[:2], tgt_lengths[:2] = torch.tensor([18, 2]), torch.tensor([1, 20])
    src = torch.randint(4, VOCAB_SIZE, (30, 18), generator=generator)
    tgt = torch.randint(4, VOCAB_SIZE, (30, 21), generator=generator)
    src[torch.arange(30), src_lengths - 1] = EOS_ID
    src[torch.arange(18) >= src_lengths[:, None]] = PAD_ID
    tgt[:, 0] = BOS_ID
    tgt[torch.arange(21) > tgt_lengths[:, None]] = PAD_ID
    return Batch(src, src_lengths, tgt, tgt_lengths)


def pick(logits: Tensor, batch: Batch) -> Tensor:
    """The log-probabilities of the targets' tokens, one after the other."""
    log_probs = functional.log_softmax(logits.float(), dim=-1)
    return log_probs.gather(2, batch.labels[..., None])[..., 0][batch.labels != PAD_ID]


@torch.no_grad()
def defined(model: Transformer, batch: Batch) -> Tensor:
    return pick(model(batch.src_ids, batch.src_lengths, batch.decoder_input), batch)


def accelerated(model: Transformer, batch: Batch, precision: str) -> Tensor:
    replica, dtype = copy.deepcopy(model), getattr(torch, precision)
    for stack in (replica.encoder, replica.decoder):
        stack.to(dtype)
    accelerate(replica, Randomness(), dtype)
    memory = replica.encode(batch.src_ids, batch.src_lengths)
    states = replica.decode(batch.decoder_input, memory, batch.src_lengths)
    return pick(replica.projection(states.float()), batch).detach()


@torch.inference_mode()
def tensors(model: Transformer, batch: Batch, precision: str) -> Tensor:
    decoder = FastModel(model, precision)
    state = decoder.start(batch.src_ids, batch.src_lengths)
    steps = [decoder.step(ids, state).log_probs() for ids in batch.decoder_input.unbind(1)]
    return pick(torch.stack(steps, dim=1), batch)


def compiled(model: Transformer, batch: Batch, precision: str) -> Tensor:
    """The targets are prefixes, which the search must write first."""
    sources = [
        Source(str(number), src[: length - 1], [token for token in tgt if token != PAD_ID])
        for number, (src, length, tgt) in enumerate(
            zip(batch.src_ids.tolist(), batch.src_lengths.tolist(), batch.labels.tolist(), strict=True)
        )
    ]
    found = CompiledEngine(Weights.of(model), precision).search(
        sources, InferenceSettings(beam_size=2, max_extra_tokens=30)
    )
    pairs = zip(found, sources, strict=True)
    return torch.tensor([one for best, source in pairs for one in best[0].token_log_probs[: len(source.prefix)]])


ENGINES = {"accelerated": accelerated, "tensors": tensors, "compiled": compiled}
# Engine and precision, then the root mean square and the largest of the differences that rounding may make, in nats.
# About three times what is found; a wrong bias, scale, mask or position makes differences of 0.05 to 5.
TOLERANCES = [
    pytest.param("accelerated", "float32", 8e-6, 3e-5, id="accelerated-float32"),
    pytest.param("accelerated", "bfloat16", 0.03, 0.12, marks=NEEDS_BFLOAT16, id="accelerated-bfloat16"),
    pytest.param("tensors", "float32", 8e-6, 3e-5, id="tensors-float32"),
    pytest.param("tensors", "bfloat16", 0.05, 0.2, marks=NEEDS_BFLOAT16, id="tensors-bfloat16"),
    pytest.param("tensors", "int8", 0.08, 0.25, marks=NEEDS_BYTES, id="tensors-int8"),
    pytest.param("compiled", "float32", 8e-6, 3e-5, marks=NEEDS_COMPILER, id="compiled-float32"),
    pytest.param("compiled", "int16", 3e-3, 1e-2, marks=NEEDS_COMPILER, id="compiled-int16"),
    pytest.param("compiled", "int8", 0.08, 0.25, marks=NEEDS_COMPILER, id="compiled-int8"),
]
# The largest difference of a parameter's gradient, as a share of its norm.
GRADIENT_TOLERANCES = [
    pytest.param("float32", 1e-5, id="float32"),
    pytest.param("bfloat16", 0.1, marks=NEEDS_BFLOAT16, id="bfloat16"),
]


@pytest.mark.parametrize(("engine", "precision", "mean", "largest"), TOLERANCES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_engine_gives_the_defined_log_probabilities(
    kind: str, engine: str, precision: str, mean: float, largest: float
) -> None:
    model, batch = random_model(kind), random_batch()
    difference = ENGINES[engine](model, batch, precision) - defined(model, batch)
    assert difference.square().mean().sqrt().item() < mean
    assert difference.abs().max().item() < largest


@pytest.mark.parametrize(("precision", "tolerance"), GRADIENT_TOLERANCES)
@pytest.mark.parametrize("kind", KINDS)
def test_accelerated_gradients_are_the_defined_ones(kind: str, precision: str, tolerance: float) -> None:
    model, batch = random_model(kind), random_batch()
    loss, nll = smoothed_cross_entropy(
        model(batch.src_ids, batch.src_lengths, batch.decoder_input)[batch.labels != PAD_ID],
        batch.labels[batch.labels != PAD_ID],
        SMOOTHING,
        PAD_ID,
    )
    (loss / batch.num_tgt_tokens).backward()
    expected = {
        name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None
    }
    settings = TrainSettings(precision=precision, device="cpu", label_smoothing=SMOOTHING, threads=2)
    with Gradients(model, settings) as gradients:
        sums = gradients.compute([batch], [1], batch.num_tgt_tokens)
    torch.testing.assert_close(sums, torch.stack((loss.detach(), nll)).to(sums.dtype), rtol=tolerance, atol=0)
    assert expected.keys() == dict(model.named_parameters()).keys()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert (parameter.grad - expected[name]).norm() <= tolerance * expected[name].norm(), name


def torchs(model: Transformer) -> nn.Transformer:
    """`torch.nn.Transformer` with the layers' weights of a model, without the final norms that post-norm lacks."""
    shape = model.settings
    sizes = shape.d_model, shape.num_heads, shape.num_encoder_layers, shape.num_decoder_layers, shape.d_ff, 0.0
    oracle = nn.Transformer(*sizes, activation=shape.activation, batch_first=True, norm_first=shape.norm_first)
    if not shape.norm_first:
        oracle.encoder.norm = oracle.decoder.norm = None
    state = {}
    for name, value in model.state_dict().items():
        if not name.startswith(("encoder.", "decoder.")):
            continue
        names = {
            "self_attn.in_": "self_attn.in_proj_",
            "self_attn.out": "self_attn.out_proj",
            "cross_attn.in_": "multihead_attn.in_proj_",
            "cross_attn.out": "multihead_attn.out_proj",
            "feed_forward.inner": "linear1",
            "feed_forward.outer": "linear2",
            "self_attn_residual.norm": "norm1",
            "cross_attn_residual.norm": "norm2",
            "feed_forward_residual.norm": "norm2" if name.startswith("encoder") else "norm3",
        }
        for ours, theirs in names.items():
            name = name.replace(f".{ours}", f".{theirs}")
        state[name] = value
    oracle.load_state_dict(state)
    return oracle


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_definition_is_torchs_transformer(norm_first: bool, activation: str) -> None:
    """Embeddings and projection are ours: torch's module has none."""
    settings = ModelSettings(**{**SHAPE, "num_encoder_layers": 3, "norm_first": norm_first, "activation": activation})
    torch.manual_seed(3)
    model, batch = Transformer(settings, VOCAB_SIZE, VOCAB_SIZE), random_batch()
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    padding = batch.src_ids == PAD_ID
    oracle = torchs(model)  # in training, where torch takes no shortcuts; there is no dropout
    expected = oracle(
        model.src_embedding(batch.src_ids),
        model.tgt_embedding(batch.decoder_input),
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(batch.decoder_input.size(1)),
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
        tgt_is_causal=True,
    )
    states = model.decode(batch.decoder_input, model.encode(batch.src_ids, batch.src_lengths), batch.src_lengths)
    torch.testing.assert_close(states, expected, atol=1e-5, rtol=0)
    logits = model(batch.src_ids, batch.src_lengths, batch.decoder_input)
    torch.testing.assert_close(logits, model.projection(expected), atol=1e-5, rtol=0)
    for output in (states, expected):
        (output * torch.randn(output.shape, generator=torch.Generator().manual_seed(1))).sum().backward()
    ours = [layer.feed_forward.inner.weight.grad for layer in (*model.encoder.layers, *model.decoder.layers)]
    theirs = [layer.linear1.weight.grad for layer in (*oracle.encoder.layers, *oracle.decoder.layers)]
    for grad, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(grad, other, atol=1e-4, rtol=1e-4)
