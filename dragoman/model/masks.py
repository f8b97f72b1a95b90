"""Boolean attention masks. True means "may attend", as in `torch.nn.functional.scaled_dot_product_attention`.

The encoder attends to all positions except padding. The decoder attends to earlier positions and its own (Vaswani et
al. 2017, section 3.2.3).
"""

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from dragoman.devices.checks import check_lengths, check_sizes


def padding_mask(lengths: Int64[Tensor, " B"], size: int) -> Bool[Tensor, "B 1 1 {size}"]:
    """True at the first `lengths[b]` of `size` keys. The result broadcasts over heads and queries."""
    check_lengths("lengths", lengths)
    check_sizes(0, size=size)
    positions = torch.arange(size, device=lengths.device)
    return (positions < lengths[:, None])[:, None, None, :]


def causal_mask(size: int, device: torch.device | str | None = None) -> Bool[Tensor, "{size} {size}"]:
    """True where the key's position (column) is not after the query's position (row)."""
    check_sizes(0, size=size)
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()
