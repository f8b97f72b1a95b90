"""Boolean masks made from lengths: True where a query may attend to a key, as in `scaled_dot_product_attention`.

Vaswani et al. 2017, section 3.2.3: the encoder attends to everything but padding, the decoder only to what came before.
"""

import torch
from jaxtyping import Bool, Int64
from torch import Tensor


def padding_mask(lengths: Int64[Tensor, "B"], size: int) -> Bool[Tensor, "B 1 1 {size}"]:
    """True at the first `lengths[b]` of `size` positions; broadcasts over heads and queries."""
    positions = torch.arange(size, device=lengths.device)
    return (positions < lengths[:, None])[:, None, None, :]


def causal_mask(size: int, device: torch.device) -> Bool[Tensor, "{size} {size}"]:
    """True where the key's position is not after the query's."""
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()
