"""Log-probabilities of given translations (teacher forcing), the same as a search would compute for them."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from dragoman.data.batch import Batch
from dragoman.model.transformer import Transformer


@torch.inference_mode()
def score_tokens(model: Transformer, batch: Batch) -> Float[Tensor, "B T"]:
    """Log-probability (natural logarithm) of every target token and eos, given the tokens before it. 0 at padding.

    The model must be in eval mode, and the batch on its device.
    """
    logits = model(batch.src_ids, batch.src_lengths, batch.decoder_input).float()
    losses = functional.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), reduction="none")
    positions = torch.arange(batch.labels.size(1), device=batch.labels.device)
    return -losses.view_as(batch.labels).where(positions < batch.tgt_lengths[:, None], 0.0)
