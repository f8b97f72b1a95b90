"""Translation by Dragoman's Translator, from ids to ids: its own sorting, batching and search.

Turning texts into ids and back, which `Translator.translate` also does, is not timed for any engine.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from dragoman.bundle import Model
from dragoman.devices.without_torch import resolve_inference_precision
from dragoman.engines.choice import CompiledEngine
from dragoman.engines.interface import Source
from dragoman.inference.translator import Translator, override_settings
from dragoman.records import Hypothesis
from dragoman.text.tokenization.tokenizer import TokenizerPair
from side_by_side.marian_test_set import MAX_EXTRA_TOKENS, measured, sources
from side_by_side.timing import print_result, translation_arguments


def main() -> None:
    parser = translation_arguments(__doc__)
    parser.add_argument("--models", type=Path, required=True, help="see marian_test_set")
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="for Translator.load")
    parser.add_argument("--precision", choices=["auto", "float32"], default="auto")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    folder = given.models / given.size.name / "dragoman"
    options = {name: _value(text) for name, text in (option.split("=", 1) for option in given.option)}
    options.setdefault("precision", given.precision)
    translator = Translator.load(folder, device="cpu", **options)
    tokenizers = TokenizerPair.load(folder)
    rows = tokenizers.src.encode_batch(sources(given.data, given.sentences))
    mean_length = sum(len(row) + 1 for row in rows) / len(rows)
    settings = override_settings(
        translator.settings,
        {
            "beam_size": given.beam,
            "n_best": 1,
            "length_penalty": "power",
            "length_penalty_alpha": 1.0,
            "min_tokens": given.forced or 1,
            "max_extra_tokens": MAX_EXTRA_TOKENS,
            "batch_tokens": round(given.batch * given.beam * mean_length),
        },
    )
    precision = resolve_inference_precision(options["precision"], torch.device("cpu"))
    search = translator._search.search
    if given.forced:
        search = CompiledEngine(Model.load(folder, "cpu").weights, precision, given.forced)

    def translate(sentences: Sequence[list[int]]) -> list[list[int]]:
        found = [Source(str(number), ids) for number, ids in enumerate(sentences)]
        return [ids_of(hypotheses[0]) for hypotheses in search.search(found, settings)]

    result = measured(given, translate, rows, tokenizers.tgt.detokenize)
    print_result(result, precision, ["dragoman", "torch"], batch_tokens=settings.batch_tokens)


def ids_of(hypothesis: Hypothesis) -> list[int]:
    """Return the output without the end of sentence."""
    return list(hypothesis.ids)


def _value(text: str) -> Any:
    """Return numbers and Booleans as such, and everything else as text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


if __name__ == "__main__":
    main()
