"""Cross-entropy with label smoothing (Vaswani et al. 2017, section 5.4; Szegedy et al. 2016, section 7).

The target distribution of a label y is (1 - epsilon) at y plus epsilon spread evenly over the vocabulary without
padding. Positions whose label is padding do not count.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from dragoman.model import fused
from dragoman.model.linear import missing_rows

# Rows of logits computed at once. On a CPU more would leave the caches, and fewer would add up the gradient of the
# weight, as large as they are, more often; elsewhere few large products are best.
_ROWS_PER_SLICE = {"cpu": 512}
_ROWS_PER_SLICE_ELSEWHERE = 8192
# A sum of so many rounded numbers is rounded once more.
_COLUMNS_PER_SUM = 1024
# Between the powers of 2 with this exponent and its negative, sums and quotients stay far from the ends of float32.
_SAFE_EXPONENT = 60.0
_LOG2_E, _LN_2 = math.log2(math.e), math.log(2.0)


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


def projected_divergence(
    one: Float[Tensor, "M D"],
    other: Float[Tensor, "M D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, "V"] | None,
) -> Tensor:
    """KL(p || q) + KL(q || p), summed over M positions, in nats, of the projections p and q of two states.

    For R-Drop (Liang et al. 2021, equation 2). As in `projected_cross_entropy` each slice's gradient is computed on the
    way forward, in the type of `one`; sums are float32.
    """
    total: Tensor = _ProjectedDivergence.apply(one, other, weight, bias)  # type: ignore[no-untyped-call]
    return total


class _ProjectedDivergence(torch.autograd.Function):
    """The gradient with respect to the logits of p is p (log p - log q - KL(p || q)) + p - q, and so for q."""

    @staticmethod
    def forward(ctx: FunctionCtx, one: Tensor, other: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        working = weight.to(one.dtype), None if bias is None else bias.to(one.dtype)
        total = torch.zeros((), device=one.device)
        grads = torch.empty_like(one), torch.empty_like(other)
        weight_grad, bias_grad = torch.zeros_like(weight), None if bias is None else torch.zeros_like(bias)
        size = _ROWS_PER_SLICE.get(one.device.type, _ROWS_PER_SLICE_ELSEWHERE)
        for start in range(0, one.size(0), size):
            rows = slice(start, start + size)
            states = one[rows], other[rows]
            p, q = (functional.linear(each, *working).float().log_softmax(-1) for each in states)
            ratio = p - q
            for probs in (p, q):
                probs.exp_()
            for own, another, sign, state, grad in ((p, q, 1, states[0], grads[0]), (q, p, -1, states[1], grads[1])):
                weighted = own * ratio if sign > 0 else own * -ratio
                kl = weighted.sum(1, keepdim=True)
                total += kl.sum()
                logit_grad = weighted.addcmul_(own, 1 - kl).sub_(another).to(state.dtype)
                grad[rows] = logit_grad @ working[0]
                weight_grad += logit_grad.t() @ state
                if bias_grad is not None:
                    bias_grad += logit_grad.sum(0, dtype=torch.float32)
        ctx.save_for_backward(*grads, weight_grad, bias_grad)  # type: ignore[arg-type]
        return total

    @staticmethod
    def backward(ctx: FunctionCtx, *grads: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors  # type: ignore[attr-defined]
        return tuple(None if grad is None else grad.mul_(grads[0]) for grad in saved)


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
        projection = _Projection.of(hidden, weight, bias)
        rows_per_slice = _ROWS_PER_SLICE.get(hidden.device.type, _ROWS_PER_SLICE_ELSEWHERE)
        sums = _Sums(hidden, weight, bias)
        padded = functional.pad(hidden, (0, 0, 0, missing_rows(hidden.size(0), hidden)))
        for start in range(0, hidden.size(0), rows_per_slice):
            rows = slice(start, start + rows_per_slice)
            sums.add(rows, padded[rows], projection, task.labels[rows], task)
        sums.add_uniform_part(hidden, weight, bias, task)
        ctx.save_for_backward(sums.hidden_grad, sums.weight_grad, sums.bias_grad)  # type: ignore[arg-type]
        ctx.mark_non_differentiable(sums.nll)
        return sums.loss, sums.nll

    @staticmethod
    def backward(ctx: FunctionCtx, *grads: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors  # type: ignore[attr-defined]
        return *(None if grad is None else grad.mul_(grads[0]) for grad in saved), None


@dataclass(frozen=True, slots=True)
class _Projection:
    """Weight and bias of logits in base 2, in the working type; `safe`: 2 ** logit and its sums are normal numbers.

    `turned` is the weight transposed: a CPU multiplies wide matrices several times as fast by rows that stand so.
    """

    weight: Tensor
    turned: Tensor
    bias: Tensor | None
    safe: bool

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden @ self.turned if self.bias is None else torch.addmm(self.bias, hidden, self.turned)

    @staticmethod
    def of(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> "_Projection":
        scaled = (weight * _LOG2_E).to(hidden.dtype)
        scaled_bias = None if bias is None else (bias * _LOG2_E).to(hidden.dtype)
        # Where asking would wait for the device, the largest logit is taken off without asking.
        safe = hidden.device.type == "cpu" and _largest_logit(hidden, scaled, scaled_bias) < _SAFE_EXPONENT
        turned = scaled.t().contiguous() if hidden.device.type == "cpu" else scaled.t()
        return _Projection(scaled, turned, scaled_bias, safe)


def _largest_logit(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> float:
    """A bound of all their magnitudes; not below any number where one of them is not finite."""
    if not hidden.numel():
        return 0.0
    rows, columns = (torch.linalg.vector_norm(matrix.float(), dim=1).max() for matrix in (hidden, weight))
    bound = float(rows * columns) + (0.0 if bias is None else float(bias.abs().max()))
    return bound if math.isfinite(bound) else math.inf


class _Sums:
    """The sums over all rows, and the gradients of the loss with respect to states, weight and bias.

    With the probabilities p, the target y and the share u = epsilon / (V - 1) of every token but padding, the loss of
    a row is lse - (1 - epsilon) logits[y] - u (sum(logits) - logits[pad]), where lse is the log of the sum Z of the
    exponentials, and its gradient p - (1 - epsilon) [y] - u (1 - [pad]). The term u is the same for all rows and
    tokens: what it adds is computed from sums of states and weights, without touching the logits once more. Nor are
    probabilities computed: exponentials take their place in the products, and the rows of states are divided by Z.
    """

    def __init__(self, hidden: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        self.loss, self.nll = (torch.zeros((), device=hidden.device) for _ in range(2))
        self.hidden_grad = torch.empty_like(hidden)
        self.weight_grad = torch.zeros_like(weight)
        self.bias_grad = None if bias is None else torch.zeros_like(bias)

    def add(self, rows: slice, hidden: Tensor, projection: _Projection, gold: Int64[Tensor, "m"], task: _Task) -> None:
        """Adds a slice of m rows, all but the uniform part. Rows of `hidden` after those are zero and do not count."""
        logits = projection.logits(hidden)
        count = gold.numel()
        every_row = torch.arange(count, device=gold.device)
        gold_logits, pad_logits = logits[every_row, gold].float(), logits[:count, task.pad_id].float().sum()
        largest = logits.new_zeros(1) if projection.safe else logits.amax(1, keepdim=True)
        exponentials, totals = _powers(logits if projection.safe else logits.sub_(largest), count)
        log_totals = totals.log2() + largest[:count].float().flatten()
        nll = (log_totals - gold_logits).sum() * _LN_2
        share = task.epsilon / (projection.weight.size(0) - 1)
        self.nll += nll
        spread = task.epsilon * log_totals.sum() + share * pad_logits
        self.loss += (1 - task.epsilon) * nll + spread * _LN_2
        if not task.with_gradient:
            return
        # From here on the rows of `exponentials` are Z times the gradient.
        exponentials[every_row, gold] -= ((1 - task.epsilon) * totals).to(hidden.dtype)
        exponentials[:count, task.pad_id] += (share * totals).to(hidden.dtype)
        inverse = functional.pad(totals.reciprocal(), (0, hidden.size(0) - count))[:, None]
        hidden_grad = (exponentials @ projection.weight)[:count]
        torch.mul(hidden_grad, _LN_2 * inverse[:count], out=self.hidden_grad[rows])
        weight_grad = exponentials.t() @ (hidden * inverse).to(hidden.dtype)
        if fused.computes(weight_grad) and self.weight_grad.dtype == torch.float32:
            fused.add_to(self.weight_grad, weight_grad)
        else:
            self.weight_grad += weight_grad
        if self.bias_grad is not None:
            self.bias_grad += (inverse.to(hidden.dtype).t() @ exponentials)[0]

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


def _powers(logits: Float[Tensor, "m V"], count: int) -> tuple[Float[Tensor, "m V"], Float[Tensor, "count"]]:
    """2 ** logits, in their place, and the sums of the first `count` rows."""
    if fused.computes(logits):
        return logits, fused.exp2_(logits)[:count]
    powers = logits.exp2_()
    return powers, _row_sums(powers)[:count]


def _row_sums(numbers: Float[Tensor, "m V"]) -> Float[Tensor, "m"]:
    """In float32, block by block: a sum in another type would first copy all numbers."""
    if numbers.dtype == torch.float32:
        return numbers.sum(1)
    return torch.stack([block.sum(1) for block in torch.split(numbers, _COLUMNS_PER_SUM, dim=1)]).sum(
        0, dtype=torch.float32
    )
