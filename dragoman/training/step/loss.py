"""Cross-entropy with label smoothing (Vaswani et al. 2017, section 5.4; Szegedy et al. 2016, section 7).

The target distribution of a label y is (1 - epsilon) at y plus epsilon spread evenly over the vocabulary without
padding. Positions whose label is padding do not count.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.autograd.function import FunctionCtx
from torch.nn import functional

from dragoman.errors import DataError
from dragoman.records import PAD_ID
from dragoman.training.step import fused

# Rows of logits computed at once. On a CPU, more rows would leave the caches, and with fewer rows the gradient of the
# weight, which is as large, would be added more often. Other devices prefer few large products.
_ROWS_PER_SLICE = {"cpu": 512}
_ROWS_PER_SLICE_ELSEWHERE = 8192
# The number of rounded values per sum. Each sum is rounded again.
_COLUMNS_PER_SUM = 1024
# Between the powers of 2 with this exponent and its negative, sums and quotients stay well within float32.
_SAFE_EXPONENT = 60.0
_LOG2_E, _LN_2 = math.log2(math.e), math.log(2.0)


def smoothed_cross_entropy(
    logits: Float[Tensor, "M V"], labels: Int64[Tensor, " M"], epsilon: float, pad_id: int
) -> tuple[Tensor, Tensor]:
    """The smoothed loss and the negative log-probability of M labels, both summed, in nats.

    This is the formula as written, and the reference for tests. Training uses `projected_cross_entropy`.

    Parameters
    ----------
    logits : (M, V)
        Unnormalized scores of all tokens.
    labels : (M,)
        The right tokens. All of them count, and none may be `pad_id`.
    epsilon : float
        The mass that is spread over the vocabulary without padding, from 0 to 1. The paper uses 0.1.
    pad_id : int
        The id of padding, which gets no mass.

    Returns
    -------
    loss, nll : scalar tensors
        Only the loss has a gradient.

    Raises
    ------
    DataError
        If there is not one row of logits for each label.
    """
    if logits.dim() != 2 or labels.shape != logits.shape[:1]:
        raise DataError(
            f"`logits` must be (M, V) and `labels` (M,), but are {tuple(logits.shape)} and "
            f"{tuple(labels.shape)}. Write `logits.flatten(0, 1)` and `labels.flatten()`."
        )
    log_probs = torch.log_softmax(logits.float(), dim=-1)
    nll = -log_probs.gather(1, labels[:, None]).sum()
    spread = -(log_probs.sum() - log_probs[:, pad_id].sum()) / (logits.size(1) - 1)
    return (1 - epsilon) * nll + epsilon * spread, nll.detach()


def projected_cross_entropy(
    hidden: Float[Tensor, "M D"],
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, " V"] | None,
    labels: Int64[Tensor, " M"],
    epsilon: float,
    projection: "PreparedProjection | None" = None,
) -> tuple[Tensor, Tensor]:
    """`smoothed_cross_entropy` of the projection of `hidden`, without holding all logits in memory.

    The logits of a batch are the largest tensor of training: rows times vocabulary. So they are computed slice by
    slice, and the gradient of each slice already in the forward pass. Products and softmax run in the type of `hidden`,
    and sums over rows in float32.

    Parameters
    ----------
    hidden : (M, D)
        The states of the decoder, one row per label.
    weight, bias : (V, D) and (V,) or None
        The projection to the vocabulary.
    labels, epsilon : (M,) and float
        The target distributions: (1 - epsilon) [y] + epsilon / (V - 1) [not padding] for a label y.
    projection : PreparedProjection, optional
        Prepared from the same weight and bias. It receives their gradients at once, times `projection.scale`, whatever
        happens to the loss afterwards. Without it, weight and bias get gradients from autograd. If it has a sample of
        the vocabulary, loss and nll are estimates.

    Returns
    -------
    loss, nll : scalar tensors
        Sums over all labels in nats, in float32. Only the loss has a gradient.
    """
    leaves = (weight, bias) if projection is None else (None, None)
    if projection is None:
        projection = PreparedProjection(weight, bias, hidden.dtype, with_gradient=torch.is_grad_enabled())
    if projection.sample is not None:
        labels = projection.sample.places[labels]
    loss, nll = _ProjectedCrossEntropy.apply(hidden, *leaves, labels, epsilon, projection)  # type: ignore[no-untyped-call]
    return loss, nll


@dataclass(frozen=True, slots=True)
class TokenSample:
    """Tokens that represent the whole vocabulary in the softmax of one step (Jean et al. 2015, section 3).

    On a CPU, the logits of all tokens take over a quarter of a small model's step. A sample contains padding, all
    labels of the step, and every other token with a probability q. The exponential of such a token counts 1/q times, so
    the expectation of the softmax's sum is the sum over the vocabulary.

    Attributes
    ----------
    ids : (K,)
        The tokens of the sample in ascending order. Padding is the first.
    log_weights : (K,)
        The natural logarithm of the number of times that each token counts.
    places : (V,)
        The position of each token of the sample in `ids`.
    """

    ids: Int64[Tensor, " K"]
    log_weights: Float[Tensor, " K"]
    places: Int64[Tensor, " V"]

    @classmethod
    def of(cls, labels: Iterable[Int64[Tensor, "..."]], others: Bool[Tensor, " V"], share: float) -> "TokenSample":
        """The sample for a step with these labels. `others` is true for each token with probability `share`."""
        certain = torch.zeros_like(others)
        certain[PAD_ID] = True
        for each in labels:
            certain[each.flatten()] = True
        ids = (certain | others).nonzero()[:, 0]
        places = torch.zeros(len(others), dtype=torch.int64)
        places[ids] = torch.arange(len(ids))
        return cls(ids, torch.where(certain[ids], 0.0, -math.log(share)), places)

    def rows_of(
        self, weight: Float[Tensor, "V D"], bias: Float[Tensor, " V"] | None
    ) -> tuple[Float[Tensor, "K D"], Float[Tensor, " K"]]:
        """The rows of weight and bias for the logits of the sample. The bias includes `log_weights`."""
        return weight[self.ids], self.log_weights + (0.0 if bias is None else bias[self.ids])


class PreparedProjection:
    """The projection to the vocabulary, prepared for the batches of one update, and the sums of its gradients.

    It holds weight and bias for logits in base 2, which need no multiplication before `exp2`. On a CPU it also holds
    the weight transposed, because wide matrices then multiply several times as fast. All of this is as large as the
    vocabulary, so preparing it for each batch would take longer than a small batch.

    Parameters
    ----------
    weight, bias : (V, D) and (V,) or None
        The projection of the model.
    dtype : torch.dtype
        The type of products: float32 or bfloat16.
    scale : float
        A factor of all gradients, such as 1 / number of labels.
    with_gradient : bool
        Whether to sum gradients at all.
    sample : TokenSample, optional
        Compute the logits of these tokens only.
    """

    def __init__(
        self,
        weight: Float[Tensor, "V D"],
        bias: Float[Tensor, " V"] | None,
        dtype: torch.dtype,
        scale: float = 1.0,
        *,
        with_gradient: bool = True,
        sample: TokenSample | None = None,
    ) -> None:
        self.sample, self.vocab_size = sample, weight.size(0)
        with torch.no_grad():
            rows, offsets = weight, bias
            if sample is not None:
                rows, offsets = sample.rows_of(weight, bias)
            self.weight = (rows * _LOG2_E).to(dtype)
            self.bias = None if offsets is None else (offsets * _LOG2_E).to(dtype)
            on_cpu = weight.device.type == "cpu"
            self._turned = self.weight.t().contiguous() if on_cpu else self.weight.t()
            self._longest = _longest_row(self.weight) if on_cpu else math.inf
            self._largest_bias = float(self.bias.abs().max()) if on_cpu and self.bias is not None else 0.0
            self.weight_sum = weight.sum(0, dtype=torch.float32)
            self.bias_sum = None if bias is None else bias.sum(dtype=torch.float32)
        self.scale, self.with_gradient = scale, with_gradient
        self.weight_grad, self.bias_grad = (_zeros_like(each) if with_gradient else None for each in (weight, bias))
        self._row_grads, self._offset_grads = self.weight_grad, self.bias_grad
        if sample is not None and with_gradient:
            self._row_grads, self._offset_grads = _zeros_like(rows), None if bias is None else _zeros_like(offsets)
        self._uniform = torch.zeros_like(self.weight_sum)
        self._uniform_bias = 0.0

    def logits(self, hidden: Float[Tensor, "m D"]) -> Float[Tensor, "m K"]:
        """The logits in base 2: the model's divided by ln 2. K is V, or the size of the sample."""
        return hidden @ self._turned if self.bias is None else torch.addmm(self.bias, hidden, self._turned)

    def is_safe(self, hidden: Float[Tensor, "m D"]) -> bool:
        """True if 2 ** logit and its sums are surely normal numbers. False on a GPU, which would have to wait."""
        if not hidden.numel():
            return True
        on_cpu = hidden.device.type == "cpu"
        return on_cpu and _longest_row(hidden) * self._longest + self._largest_bias < _SAFE_EXPONENT

    def add(self, logit_grad: Float[Tensor, "m K"], hidden: Float[Tensor, "m D"], rows: Float[Tensor, "m 1"]) -> None:
        """Add the gradients from logits whose gradient is `logit_grad` times `rows`, one number a row."""
        if self._row_grads is None:
            return
        factors = rows * self.scale
        row_grads = logit_grad.t() @ (hidden * factors).to(hidden.dtype)
        if fused.can_compute(row_grads) and self._row_grads.dtype == torch.float32:
            fused.accumulate(self._row_grads, row_grads)
        else:
            self._row_grads += row_grads
        if self._offset_grads is not None:
            self._offset_grads += (factors.to(hidden.dtype).t() @ logit_grad)[0]

    def add_uniform(self, share: float, hidden_sum: Float[Tensor, " D"], count: int) -> None:
        """Add the gradients from logits with the gradient -`share` in `count` rows with this sum, in `finish`."""
        self._uniform += share * self.scale * hidden_sum
        self._uniform_bias += share * self.scale * count

    def finish(self) -> tuple[Tensor | None, Tensor | None]:
        """The gradients of weight and bias, summed over all added batches. Call it once."""
        if self.sample is not None:
            for whole, part in ((self.weight_grad, self._row_grads), (self.bias_grad, self._offset_grads)):
                if whole is not None and part is not None:
                    whole.index_add_(0, self.sample.ids, part)
        if self.weight_grad is not None:
            self.weight_grad -= self._uniform
        if self.bias_grad is not None:
            self.bias_grad -= self._uniform_bias
        return self.weight_grad, self.bias_grad


def _zeros_like(tensor: Tensor | None) -> Tensor | None:
    """Zeros for sums, in float32 or a wider type."""
    if tensor is None:
        return None
    return torch.zeros_like(tensor, dtype=torch.promote_types(tensor.dtype, torch.float32), requires_grad=False)


def _longest_row(matrix: Tensor) -> float:
    """The largest norm of the rows. Infinite if an element is not finite."""
    longest = float(torch.linalg.vector_norm(matrix.float(), dim=1).max())
    return longest if math.isfinite(longest) else math.inf


class _ProjectedCrossEntropy(torch.autograd.Function):
    """Weight and bias are None if the caller takes their gradients from the projection."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        hidden: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        labels: Tensor,
        epsilon: float,
        projection: PreparedProjection,
    ) -> tuple[Tensor, Tensor]:
        rows_per_slice = _ROWS_PER_SLICE.get(hidden.device.type, _ROWS_PER_SLICE_ELSEWHERE)
        sums = _Sums(hidden, projection, epsilon)
        padded = functional.pad(hidden, (0, 0, 0, fused.missing_rows(hidden.size(0), hidden)))
        for start in range(0, hidden.size(0), rows_per_slice):
            rows = slice(start, start + rows_per_slice)
            sums.add(rows, padded[rows], labels[rows])
        sums.add_uniform_part(hidden)
        grads = (None, None) if weight is None else projection.finish()
        ctx.save_for_backward(sums.hidden_grad, *grads)  # type: ignore[arg-type]
        ctx.mark_non_differentiable(sums.nll)
        return sums.loss, sums.nll

    @staticmethod
    def backward(ctx: FunctionCtx, *grads: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors  # type: ignore[attr-defined]
        return *(None if grad is None else grad.mul_(grads[0]) for grad in saved), None, None, None


class _Sums:
    """The sums over all rows, and the gradient of the loss with respect to the states.

    With the probabilities p, the target y and the share u = epsilon / (V - 1) of every token but padding, the loss of
    a row is lse - (1 - epsilon) logits[y] - u (sum(logits) - logits[pad]), where lse is the log of the sum Z of the
    exponentials, and its gradient p - (1 - epsilon) [y] - u (1 - [pad]). The term u is the same for all rows and
    tokens, so its part is computed from sums of states and weights, without reading the logits again. Probabilities are
    not computed either: the products use the exponentials, and the rows of states are divided by Z.
    """

    def __init__(self, hidden: Tensor, projection: PreparedProjection, epsilon: float) -> None:
        self._projection, self._epsilon = projection, epsilon
        self._share = epsilon / (projection.vocab_size - 1)
        self._safe = projection.is_safe(hidden)
        self.loss, self.nll = (torch.zeros((), device=hidden.device) for _ in range(2))
        self.hidden_grad = torch.empty_like(hidden)

    def add(self, rows: slice, hidden: Tensor, gold: Int64[Tensor, " m"]) -> None:
        """Add a slice of m rows, except for the uniform part. Further rows of `hidden` are zero and do not count."""
        epsilon, share = self._epsilon, self._share
        logits = self._projection.logits(hidden)
        count = gold.numel()
        every_row = torch.arange(count, device=gold.device)
        gold_logits, pad_logits = logits[every_row, gold].float(), logits[:count, PAD_ID].float().sum()
        largest = logits.new_zeros(1) if self._safe else logits.amax(1, keepdim=True)
        if not self._safe:
            logits.sub_(largest)
        exponentials = logits  # computed in place
        totals = (fused.exp2_ if fused.can_compute(logits) else _exp2_)(logits)[:count]
        log_totals = totals.log2() + largest[:count].float().flatten()
        nll = (log_totals - gold_logits).sum() * _LN_2
        self.nll += nll
        spread = epsilon * log_totals.sum() + share * pad_logits
        at_label = 1 - epsilon
        self.loss += at_label * nll + spread * _LN_2
        if not self._projection.with_gradient:
            return
        # From here on, the rows of `exponentials` become Z times the gradient.
        exponentials[every_row, gold] -= (at_label * totals).to(hidden.dtype)
        exponentials[:count, PAD_ID] += (share * totals).to(hidden.dtype)
        inverse = functional.pad(totals.reciprocal(), (0, hidden.size(0) - count))[:, None]
        hidden_grad = (exponentials @ self._projection.weight)[:count]
        torch.mul(hidden_grad, _LN_2 * inverse[:count], out=self.hidden_grad[rows])
        self._projection.add(exponentials, hidden, inverse)

    def add_uniform_part(self, hidden: Tensor) -> None:
        """Add the uniform part of the smoothed targets for all rows, which is -u sum(logits) in the loss."""
        share, projection = self._share, self._projection
        hidden_sum = hidden.sum(0, dtype=torch.float32)
        bias_sum = 0.0 if projection.bias_sum is None else projection.bias_sum
        self.loss -= share * (hidden_sum @ projection.weight_sum + hidden.size(0) * bias_sum)
        if projection.with_gradient:
            self.hidden_grad -= (share * projection.weight_sum).to(hidden.dtype)
            projection.add_uniform(share, hidden_sum, hidden.size(0))


def _exp2_(numbers: Float[Tensor, "m V"]) -> Float[Tensor, " m"]:
    """Compute 2 ** numbers in place. Returns the sum of each row, float32.

    Sums of another type are made block by block, because torch would first copy all numbers.
    """
    numbers.exp2_()
    if numbers.dtype == torch.float32:
        return numbers.sum(1)
    sums = [block.sum(1) for block in torch.split(numbers, _COLUMNS_PER_SUM, dim=1)]
    return torch.stack(sums).sum(0, dtype=torch.float32)
