"""Cross-entropy with label smoothing (Vaswani et al. 2017, section 5.4; Szegedy et al. 2016, section 7).

The target distribution of a label y is (1 - epsilon) at y plus epsilon spread evenly over the vocabulary without
padding. Positions whose label is padding do not count.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.autograd.function import FunctionCtx

# Rows of logits computed at once: (rows, V) in float32 stays within a processor's caches instead of going to memory
# and back four times.
ROWS_PER_SLICE = 256


def smoothed_cross_entropy(
    logits: Float[Tensor, "M V"], labels: Int64[Tensor, "M"], epsilon: float, pad_id: int
) -> tuple[Tensor, Tensor]:
    """The sums over M labels of the smoothed loss and of the plain negative log-probability, both in nats.

    The reference: every label counts, none may be `pad_id`. Training uses `projected_cross_entropy`, which equals it.
    """
    log_probs = torch.log_softmax(logits.float(), dim=-1)
    nll = -log_probs.gather(1, labels[:, None]).sum()
    spread = -(log_probs.sum() - log_probs[:, pad_id].sum()) / (logits.size(1) - 1)
    return (1 - epsilon) * nll + epsilon * spread, nll.detach()


def projected_cross_entropy(
    hidden: Float[Tensor, "M D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, "V"] | None,
    labels: Int64[Tensor, "M"],
    epsilon: float,
    pad_id: int,
) -> tuple[Tensor, Tensor]:
    """`smoothed_cross_entropy` of the projection of `hidden`, without ever holding all logits.

    Works slice by slice and computes each slice's gradient on the way forward. The products run in the type that
    autocast asks for, the softmax and the sums in float32. Only the first result carries a gradient.
    """
    task = _Task(labels, epsilon, pad_id, with_gradient=torch.is_grad_enabled())
    loss, nll = _ProjectedCrossEntropy.apply(hidden, weight, bias, task)  # type: ignore[no-untyped-call]
    return loss, nll


@dataclass(frozen=True, slots=True)
class _Task:
    labels: Tensor
    epsilon: float
    pad_id: int
    with_gradient: bool


class _ProjectedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: FunctionCtx, hidden: Tensor, weight: Tensor, bias: Tensor | None, task: _Task
    ) -> tuple[Tensor, Tensor]:
        device_type = hidden.device.type
        working = torch.get_autocast_dtype(device_type) if torch.is_autocast_enabled(device_type) else weight.dtype
        with torch.autocast(device_type, enabled=False):
            sums = _Sums(hidden, weight, bias)
            for start in range(0, hidden.size(0), ROWS_PER_SLICE):
                rows = slice(start, start + ROWS_PER_SLICE)
                sums.add(rows, hidden[rows].to(working), weight.to(working), bias, task)
        ctx.save_for_backward(sums.hidden_grad, sums.weight_grad, sums.bias_grad)  # type: ignore[arg-type]
        ctx.mark_non_differentiable(sums.nll)
        return sums.loss, sums.nll

    @staticmethod
    def backward(ctx: FunctionCtx, *grads: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors  # type: ignore[attr-defined]
        return *(None if grad is None else grad * grads[0] for grad in saved), None


class _Sums:
    """The sums over all rows, and the gradients of the loss with respect to states, weight and bias."""

    def __init__(self, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        self.loss, self.nll = (torch.zeros((), device=hidden.device) for _ in range(2))
        self.hidden_grad = torch.empty_like(hidden)
        self.weight_grad = torch.zeros_like(weight)
        self.bias_grad = None if bias is None else torch.zeros_like(bias)

    def add(self, rows: slice, hidden: Tensor, weight: Tensor, bias: Tensor | None, task: _Task) -> None:
        gold = task.labels[rows, None]
        share = task.epsilon / (weight.size(0) - 1)
        logits = (hidden @ weight.t()).float()
        if bias is not None:
            logits += bias
        normaliser = torch.logsumexp(logits, dim=1, keepdim=True)
        nll = (normaliser - logits.gather(1, gold)).sum()
        spread = (weight.size(0) - 1) * normaliser.sum() - logits.sum() + logits[:, task.pad_id].sum()
        self.nll += nll
        self.loss += (1 - task.epsilon) * nll + share * spread
        if not task.with_gradient:
            return
        # d loss / d logits = softmax - target distribution
        grad = logits.sub_(normaliser).exp_().sub_(share)
        grad[:, task.pad_id] += share
        grad.scatter_add_(1, gold, grad.new_full(gold.shape, task.epsilon - 1))
        if self.bias_grad is not None:
            self.bias_grad += grad.sum(0)
        grad = grad.to(weight.dtype)
        self.hidden_grad[rows] = (grad @ weight).to(self.hidden_grad.dtype)
        self.weight_grad += grad.t() @ hidden
