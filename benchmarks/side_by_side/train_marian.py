"""Training throughput of transformers' MarianMTModel: its own forward pass, nn.CrossEntropyLoss over its logits.

(The model's own loss has no label smoothing.)
"""

import torch
from torch import Tensor, nn
from transformers import MarianMTModel

from side_by_side.batches import training_steps
from side_by_side.corpus import PAD_ID, Corpus
from side_by_side.marian import marian_config
from side_by_side.shapes import LABEL_SMOOTHING
from side_by_side.timing import print_result, timed_training, training_arguments

IGNORED = -100


def main() -> None:
    parser = training_arguments(__doc__)
    parser.add_argument("--bfloat16", action="store_true", help="forward pass under torch.autocast")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(1)
    corpus = Corpus(given.data)
    pad_id = corpus.vocab_size - 1  # Marian's padding is last and ours first: all other ids move down by one
    model = MarianMTModel(marian_config(corpus.vocab_size, given.size, "relu")).train()
    criterion = nn.CrossEntropyLoss(label_smoothing=LABEL_SMOOTHING, reduction="sum", ignore_index=IGNORED)

    def marian_ids(ids: Tensor) -> Tensor:
        return torch.where(ids == PAD_ID, pad_id, ids - 1)

    def loss_of(src: Tensor, decoder_input: Tensor, labels: Tensor) -> Tensor:
        start = marian_ids(decoder_input)
        start[:, 0] = pad_id
        with torch.autocast("cpu", torch.bfloat16, enabled=given.bfloat16):
            logits = model(
                input_ids=marian_ids(src),
                attention_mask=(src != PAD_ID).long(),
                decoder_input_ids=start,
                use_cache=False,
            ).logits
            labels = torch.where(labels == PAD_ID, IGNORED, labels - 1)
            return criterion(logits.float().flatten(0, 1), labels.flatten())

    result = timed_training(training_steps(corpus, model, loss_of), given.size, given.seconds)
    print_result(result, "bfloat16" if given.bfloat16 else "float32", ["torch", "transformers"])


if __name__ == "__main__":
    main()
