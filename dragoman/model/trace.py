"""Every intermediate tensor of a forward pass, by name.

Forward hooks record the outputs of modules. Queries, keys, values, scores and weights of attention are not outputs of
modules. They are computed from the inputs of attention, with the functions of `dragoman.model.attention`.
"""

from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from dragoman.devices.checks import describe_value
from dragoman.display import html_table, shape_text
from dragoman.errors import DataError
from dragoman.model.attention import MultiHeadAttention, attention_scores, attention_weights
from dragoman.model.embedding import Embedding

_NOT_TRACED = (nn.Dropout, nn.Identity, nn.ModuleList)


@runtime_checkable
class TracedBatch(Protocol):
    """The inputs of a forward pass."""

    @property
    def src_ids(self) -> Tensor:
        """Source token ids (B, S), padded at the end."""

    @property
    def src_lengths(self) -> Tensor:
        """Number of tokens of each source (B,)."""

    @property
    def decoder_input(self) -> Tensor:
        """Input of the decoder (B, T): bos, then the target tokens."""


def check_batch(batch: object) -> None:
    """Raise DataError unless this is a batch."""
    if not isinstance(batch, TracedBatch):
        raise DataError(f"`batch` must be a `dragoman.Batch`, but is {describe_value(batch)}. Use `Batch.from_ids`.")


class Trace(dict[str, Tensor]):
    """The intermediate tensors of a forward pass by name, in the order of computation."""

    def __repr__(self) -> str:
        rows = self._shapes()
        width = max((len(name) for name, _ in rows), default=0)
        return "\n".join(f"{name:{width}}  {shape}" for name, shape in rows)

    def _repr_html_(self) -> str:
        return html_table(("tensor", "shape"), self._shapes())

    def _shapes(self) -> list[tuple[str, str]]:
        """Names and shapes. Values that a caller added may have none."""
        return [(str(name), shape_text(getattr(tensor, "shape", ()))) for name, tensor in self.items()]


@torch.no_grad()
def trace_modules(model: nn.Module, batch: TracedBatch) -> Trace:
    """Run `model` on the batch and record the outputs of its modules. Use `Transformer.trace`."""
    check_batch(batch)
    tensors = Trace()
    names = {module: name for name, module in model.named_modules() if name}

    def record(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        name = names[module]
        if isinstance(module, Embedding):
            length, width = inputs[0].size(1), module.weight.size(1)
            tensors[f"{name}.tokens"] = nn.functional.embedding(inputs[0], module.weight) * width**0.5
            tensors[f"{name}.positions"] = module.table(0, length)
        if isinstance(module, MultiHeadAttention):
            query, key, value, mask = inputs[:4]
            queries, keys, values = module.project(query, key, value)
            tensors[f"{name}.queries"], tensors[f"{name}.keys"], tensors[f"{name}.values"] = queries, keys, values
            tensors[f"{name}.scores"] = attention_scores(queries, keys)
            tensors[f"{name}.weights"] = weights = attention_weights(queries, keys, mask)
            tensors[f"{name}.heads"] = weights @ values
        tensors["logits" if name == "projection" else name] = output

    handles = [
        module.register_forward_hook(record)
        for module, name in names.items()
        # The output projection of attention has the same output as attention. Dropout and identity change nothing.
        if not isinstance(module, _NOT_TRACED) and not name.endswith("attn.out")
    ]
    try:
        model(batch.src_ids, batch.src_lengths, batch.decoder_input)
    finally:
        for handle in handles:
            handle.remove()
    return tensors
