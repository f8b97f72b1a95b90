"""Translation by transformers' `generate` with cache, from ids to ids: sorted by length, in batches."""

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import MarianMTModel, MarianTokenizer

from side_by_side.batches import padded
from side_by_side.marian_test_set import MAX_EXTRA_TOKENS, measured, sources
from side_by_side.timing import print_result, translation_arguments


def main() -> None:
    parser = translation_arguments(__doc__)
    parser.add_argument("--models", type=Path, required=True, help="see marian_test_set")
    parser.add_argument("--bfloat16", action="store_true", help="weights in bfloat16")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    folder = given.models / given.size.name / "marian"
    precision = torch.bfloat16 if given.bfloat16 else torch.float32
    model = MarianMTModel.from_pretrained(folder, dtype=precision).eval()
    tokenizer = MarianTokenizer.from_pretrained(folder)
    pad_id, eos_id = model.config.pad_token_id, model.config.eos_token_id

    def generate(rows: Sequence[list[int]]) -> list[list[int]]:
        src = padded(list(rows), pad_id)
        limit = given.forced or max(map(len, rows)) + MAX_EXTRA_TOKENS
        outputs = model.generate(
            input_ids=src,
            attention_mask=(src != pad_id).long(),
            num_beams=given.beam,
            do_sample=False,
            length_penalty=1.0,
            early_stopping=False,
            bad_words_ids=[[pad_id]],
            max_length=None,
            max_new_tokens=limit,
            min_new_tokens=given.forced or 1,
        )
        return [[token for token in row[1:] if token not in (pad_id, eos_id)] for row in outputs.tolist()]

    @torch.inference_mode()
    def translate(rows: Sequence[list[int]]) -> list[list[int]]:
        order = sorted(range(len(rows)), key=lambda index: -len(rows[index]))
        outputs: list[list[int]] = [[]] * len(rows)
        for start in range(0, len(order), given.batch):
            batch = order[start : start + given.batch]
            for index, output in zip(batch, generate([rows[index] for index in batch]), strict=True):
                outputs[index] = output
        return outputs

    rows = tokenizer(sources(given.data, given.sentences))["input_ids"]
    result = measured(given, translate, rows, lambda ids: tokenizer.decode(ids, skip_special_tokens=True))
    print_result(result, str(precision).removeprefix("torch."), ["torch", "transformers"])


if __name__ == "__main__":
    main()
