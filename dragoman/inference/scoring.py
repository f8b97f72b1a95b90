"""What a model thinks of given translations: teacher-forced log-probabilities, the same as a search's own."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from dragoman.data.batch import Batch
from dragoman.model.transformer import Transformer


@torch.inference_mode()
def score_tokens(model: Transformer, batch: Batch) -> Float[Tensor, "B T"]:
    """The natural-log probability of every target token and eos given those before it; 0 at padding.

    Call it in eval mode, and with the batch on the model's device.
    """
    logits = model(batch.src_ids, batch.src_lengths, batch.decoder_input).float()
    losses = functional.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), reduction="none")
    positions = torch.arange(batch.labels.size(1), device=batch.labels.device)
    return -losses.view_as(batch.labels).where(positions < batch.tgt_lengths[:, None], 0.0)
