"""Cross-entropy with label smoothing (Vaswani et al. 2017, section 5.4; Szegedy et al. 2016, section 7).

The target distribution of a label y is (1 - epsilon) at y plus epsilon spread evenly over the vocabulary without
padding. Positions whose label is padding do not count.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.autograd.function import FunctionCtx
from torch.nn import functional

# Rows of logits computed at once. On a CPU more would leave the caches, and fewer would add up the gradient of the
# weight, as large as they are, more often; elsewhere few large products are best.
_ROWS_PER_SLICE = {"cpu": 512}
_ROWS_PER_SLICE_ELSEWHERE = 8192


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

    Works slice by slice and computes each slice's gradient on the way forward. Products and softmax run in the type
    of `hidden`, whatever that of `weight` and `bias` is; sums over rows are float32, and so are the two results.
    Only the first carries a gradient.
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
        working = weight.to(hidden.dtype), None if bias is None else bias.to(hidden.dtype)
        rows_per_slice = _ROWS_PER_SLICE.get(hidden.device.type, _ROWS_PER_SLICE_ELSEWHERE)
        sums = _Sums(hidden, weight, bias)
        for start in range(0, hidden.size(0), rows_per_slice):
            rows = slice(start, start + rows_per_slice)
            sums.add(rows, hidden[rows], *working, task.labels[rows, None], task)
        sums.add_uniform_part(hidden, weight, bias, task)
        ctx.save_for_backward(sums.hidden_grad, sums.weight_grad, sums.bias_grad)  # type: ignore[arg-type]
        ctx.mark_non_differentiable(sums.nll)
        return sums.loss, sums.nll

    @staticmethod
    def backward(ctx: FunctionCtx, *grads: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors  # type: ignore[attr-defined]
        return *(None if grad is None else grad.mul_(grads[0]) for grad in saved), None


class _Sums:
    """The sums over all rows, and the gradients of the loss with respect to states, weight and bias.

    With the probabilities p, the target y and the share u = epsilon / (V - 1) of every token but padding, the loss of
    a row is lse - (1 - epsilon) logits[y] - u (sum(logits) - logits[pad]), where lse is the log of the sum of the
    exponentials, and its gradient p - (1 - epsilon) [y] - u (1 - [pad]). The term u is the same for all rows and
    tokens: what it adds is computed from sums of states and weights, without touching the logits once more.
    """

    def __init__(self, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        self.loss, self.nll = (torch.zeros((), device=hidden.device) for _ in range(2))
        self.hidden_grad = torch.empty_like(hidden)
        self.weight_grad = torch.zeros_like(weight)
        self.bias_grad = None if bias is None else torch.zeros_like(bias)

    def add(
        self, rows: slice, hidden: Tensor, weight: Tensor, bias: Tensor | None, gold: Int64[Tensor, "m 1"], task: _Task
    ) -> None:
        """Adds a slice of rows, all but the uniform part."""
        logits = functional.linear(hidden, weight, bias)
        gold_logits, pad_logits = logits.gather(1, gold).float(), logits[:, task.pad_id].float()
        # The largest logit and its probability give lse without another pass of exponentials.
        largest = logits.amax(1).float()
        probabilities = torch.softmax(logits, dim=1)
        normaliser = largest - probabilities.amax(1).float().log()
        nll = normaliser.sum() - gold_logits.sum()
        share = task.epsilon / (weight.size(0) - 1)
        self.nll += nll
        self.loss += (1 - task.epsilon) * nll + task.epsilon * normaliser.sum() + share * pad_logits.sum()
        if not task.with_gradient:
            return
        gold_gradient = probabilities.gather(1, gold) - (1 - task.epsilon)
        pad_gradient = probabilities[:, task.pad_id] + share
        gradient = probabilities.scatter_(1, gold, gold_gradient)
        gradient[:, task.pad_id] = pad_gradient
        if self.bias_grad is not None:
            self.bias_grad += gradient.sum(0, dtype=torch.float32)
        torch.mm(gradient, weight, out=self.hidden_grad[rows])
        self.weight_grad += gradient.t() @ hidden

    def add_uniform_part(self, hidden: Tensor, weight: Tensor, bias: Tensor | None, task: _Task) -> None:
        """What the share of the mass that is spread evenly adds over all rows: to the loss -u sum(logits)."""
        share = task.epsilon / (weight.size(0) - 1)
        hidden_sum, weight_sum = hidden.sum(0, dtype=torch.float32), weight.sum(0, dtype=torch.float32)
        bias_sum = 0.0 if bias is None else bias.sum(dtype=torch.float32)
        self.loss -= share * (hidden_sum @ weight_sum + hidden.size(0) * bias_sum)
        if task.with_gradient:
            self.hidden_grad -= (share * weight_sum).to(hidden.dtype)
            self.weight_grad -= share * hidden_sum
            if self.bias_grad is not None:
                self.bias_grad -= share * hidden.size(0)
