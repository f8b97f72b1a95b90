"""Parameters of a model, and their exchange with arrays."""

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from dragoman.model.shapes import ParameterRow

_Module = TypeVar("_Module", bound=nn.Module)


def parameter_table(model: nn.Module) -> list[ParameterRow]:
    """One row for each distinct parameter tensor, in the order of the model."""
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return [
        ParameterRow(name, tuple(parameter.shape), parameter.numel(), tuple(names[id(parameter)][1:]))
        for name, parameter in model.named_parameters()
    ]


def arrays_of(model: nn.Module) -> dict[str, NDArray[np.float32]]:
    """Arrays of all distinct parameters by their first name. On the CPU they share the model's memory."""
    return {name: parameter.detach().cpu().float().contiguous().numpy() for name, parameter in model.named_parameters()}


def replace_parameters(model: _Module, tensors: Mapping[str, torch.Tensor]) -> _Module:
    """Replace each distinct parameter by the tensor of that name and return the model. Tied parameters stay tied."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    parameters = {name: torch.nn.Parameter(tensor) for name, tensor in tensors.items()}
    for module in model.modules():
        for key, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[key] = parameters[names[id(parameter)]]
    return model
