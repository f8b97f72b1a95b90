"""Translation by CTranslate2, from pieces to pieces; it sorts and batches by itself."""

import time
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
    rows = [
        tokenizer.convert_ids_to_tokens(ids) for ids in tokenizer(sources(given.data, given.sentences))["input_ids"]
    ]
    mean_length = sum(map(len, rows)) / len(rows)
    max_batch_size = given.batch if given.batch_type == "examples" else round(given.batch * mean_length)

    def translate(sentences: Sequence[list[str]], engine: ctranslate2.Translator | None = None) -> list[list[str]]:
        longest = max(map(len, sentences))
        results = (engine or best).translate_batch(
            list(sentences),
            beam_size=given.beam,
            length_penalty=1.0,
            max_batch_size=max_batch_size,
            batch_type=given.batch_type,
            min_decoding_length=given.forced or 1,
            max_decoding_length=given.forced or longest + MAX_EXTRA_TOKENS,
        )
        return [result.hypotheses[0] for result in results]

    def seconds(arrangement: tuple[int, int]) -> float:
        """Return the seconds of a trial."""
        engine = _engine(folder / "ctranslate2", given.compute_type, *arrangement)
        trial = [[row] for row in rows[:20]] if given.latency else [rows[: 4 * max_batch_size]]
        translate(trial[0], engine)
        began = time.perf_counter()
        for sentences in trial:
            translate(sentences, engine)
        return time.perf_counter() - began

    # Threads side by side or inside every operation: sometimes one is faster, sometimes the other, by up to 20 times.
    chosen = min(sorted({(1, given.threads), (given.threads, 1), (1, 1)}), key=seconds)
    best = _engine(folder / "ctranslate2", given.compute_type, *chosen)
    result = measured(given, translate, rows, lambda pieces: tokenizer.convert_tokens_to_string(pieces))
    print_result(
        result, given.compute_type, ["ctranslate2"], batch_type=given.batch_type, inter_threads_intra_threads=chosen
    )


def _engine(folder: Path, compute_type: str, inter_threads: int, intra_threads: int) -> ctranslate2.Translator:
    return ctranslate2.Translator(
        str(folder), device="cpu", compute_type=compute_type, inter_threads=inter_threads, intra_threads=intra_threads
    )


if __name__ == "__main__":
    main()
