"""Every parameter tensor of a model, and the number there must be by the formula of its shape."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from dragoman.config import ModelSettings

Model = TypeVar("Model", bound=nn.Module)


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """One tensor; `shared_with` are the other names of a tied one."""

    name: str
    shape: tuple[int, ...]
    count: int
    shared_with: tuple[str, ...]


def parameter_table(model: nn.Module) -> list[ParameterRow]:
    """All distinct parameter tensors in the order of the model."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return [
        ParameterRow(name, tuple(parameter.shape), parameter.numel(), tuple(names[id(parameter)][1:]))
        for name, parameter in model.named_parameters()
    ]


def expected_parameters(settings: ModelSettings, src_vocab_size: int, tgt_vocab_size: int) -> int:
    """The number of parameters by arithmetic alone, from the equations of the paper; knows nothing of the model.

    An attention has four D x D matrices, a feed-forward layer 2 D F + F + D, a layer norm 2 D.
    """
    width, inner = settings.d_model, settings.d_ff
    attention = 4 * width * width + (4 * width if settings.attention_bias else 0)
    feed_forward = 2 * width * inner + inner + width
    norm = 2 * width
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    layers = settings.num_encoder_layers * encoder_layer + settings.num_decoder_layers * decoder_layer
    final_norms = 2 * norm if settings.norm_first else 0
    rows = {
        "all": tgt_vocab_size,
        "decoder": src_vocab_size + tgt_vocab_size,
        "none": src_vocab_size + 2 * tgt_vocab_size,
    }[settings.tie]
    projection_bias = tgt_vocab_size if settings.projection_bias else 0
    positions = 2 * settings.max_positions * width if settings.positions == "learned" else 0
    return layers + final_norms + rows * width + projection_bias + positions


def arrays_of(model: nn.Module) -> dict[str, NDArray[np.float32]]:
    """Every distinct parameter by its first name. On the CPU the arrays share the model's memory."""
    return {name: parameter.detach().cpu().contiguous().numpy() for name, parameter in model.named_parameters()}


def replace_parameters(model: Model, tensors: Mapping[str, torch.Tensor]) -> Model:
    """Put a tensor in place of each distinct parameter, by name; ties stay. Returns the model."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    parameters = {name: torch.nn.Parameter(tensor) for name, tensor in tensors.items()}
    for module in model.modules():
        for key, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[key] = parameters[names[id(parameter)]]
    return model
