"""The validation sentences as the engines of the Marian model read them: ids or pieces, made before the clock runs.

    MODELS/<size>/marian        transformers
    MODELS/<size>/dragoman      Dragoman
    MODELS/<size>/ctranslate2   CTranslate2

`benchmarks/marian_model.py` makes these folders.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from side_by_side.corpus import SRC_LANG, TGT_LANG, Corpus
from side_by_side.timing import scored, timed_latency, timed_translation

MAX_EXTRA_TOKENS = 50
"""The most tokens that an output may have beyond its source; each engine gets its nearest limit."""

Sentence = TypeVar("Sentence", bound=Sequence[Any])
Output = TypeVar("Output", bound=Sequence[Any])


def sources(data: Path, count: int) -> list[str]:
    """Return the first `count` sentences."""
    return Corpus(data).texts("val", SRC_LANG)[:count]


def measured(
    given: Any,
    translate: Callable[[Sequence[Sentence]], list[Output]],
    sentences: Sequence[Sentence],
    text_of: Callable[[Output], str],
) -> dict[str, Any]:
    """Measure throughput with BLEU and output length, or latency. Raises ValueError for a wrong forced length."""
    if given.latency:
        return timed_latency(translate, sentences, len)
    result, outputs = timed_translation(translate, sentences, given.seconds)
    result |= {"batch": given.batch, "output_tokens": round(sum(map(len, outputs)) / len(outputs), 2)}
    if given.forced:
        if any(len(output) != given.forced for output in outputs):
            raise ValueError(f"an output does not have {given.forced} tokens")
        return result
    references = Corpus(given.data).texts("val", TGT_LANG)[: len(sentences)]
    return result | scored([text_of(output) for output in outputs], references)
