"""Translation by CTranslate2, from pieces to pieces; it sorts and batches by itself."""

from collections.abc import Sequence
from pathlib import Path

import ctranslate2
from transformers import MarianTokenizer

from side_by_side.marian_test_set import MAX_EXTRA_TOKENS, measured, sources
from side_by_side.timing import print_result, translation_arguments


def main() -> None:
    parser = translation_arguments(__doc__)
    parser.add_argument("--models", type=Path, required=True, help="see marian_test_set")
    parser.add_argument("--compute-type", default="float32")
    parser.add_argument("--batch-type", choices=["examples", "tokens"], default="examples")
    given = parser.parse_args()
    folder = given.models / given.size.name
    tokenizer = MarianTokenizer.from_pretrained(folder / "marian")
    engine = ctranslate2.Translator(
        str(folder / "ctranslate2"),
        device="cpu",
        compute_type=given.compute_type,
        inter_threads=1,
        intra_threads=given.threads,
    )
    rows = [
        tokenizer.convert_ids_to_tokens(ids) for ids in tokenizer(sources(given.data, given.sentences))["input_ids"]
    ]
    mean_length = sum(map(len, rows)) / len(rows)
    max_batch_size = given.batch if given.batch_type == "examples" else round(given.batch * mean_length)

    def translate(sentences: Sequence[list[str]]) -> list[list[str]]:
        longest = max(map(len, sentences))
        results = engine.translate_batch(
            list(sentences),
            beam_size=given.beam,
            length_penalty=1.0,
            max_batch_size=max_batch_size,
            batch_type=given.batch_type,
            min_decoding_length=given.forced or 1,
            max_decoding_length=given.forced or longest + MAX_EXTRA_TOKENS,
        )
        return [result.hypotheses[0] for result in results]

    result = measured(given, translate, rows, lambda pieces: tokenizer.convert_tokens_to_string(pieces))
    print_result(result, given.compute_type, ["ctranslate2"], batch_type=given.batch_type)


if __name__ == "__main__":
    main()
