"""What the report of a run needs: its test, translated by its model."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.evaluation.metrics import counts_of, metrics_of, tokenizer_for, warnings_about
from dragoman.messages import say

if TYPE_CHECKING:
    from dragoman.bundle import Bundle
    from dragoman.inference.translator import Translator
    from dragoman.visualization.report.report import Judged


def judge_run(run_folder: Path, bundle: "Bundle") -> "Judged | None":
    """Translate the test of a run again, or its validation data. Returns None if both are gone."""
    from dragoman.inference.translator import Translator
    from dragoman.visualization.report.run_facts import open_part

    for part, name in (("test", "test"), ("dev", "validation")):
        if store := open_part(run_folder, part):
            sources, references = store.texts()
            translator = Translator.from_bundles([bundle])
            outputs = translator.translate(sources)
            bleu = metrics_of(tokenizer_for(bundle.config.data.tgt_lang))[0]
            warnings = warnings_about(counts_of(bleu, outputs, references), outputs, references)
            return judged(name, sources, references, outputs, warnings, translator, bundle)
    say("the run's test and validation data are gone: the report has no sentences")
    return None


def judged(
    part: str,
    sources: Sequence[str],
    references: Sequence[str],
    outputs: Sequence[str],
    warnings: Sequence[str],
    translator: "Translator",
    bundle: "Bundle",
) -> "Judged":
    """What the report needs of a test that a model has translated."""
    from dragoman.visualization.report.report import Judged
    from dragoman.visualization.report.word_weights import cross_attention_of

    alignment = cross_attention_of(bundle)
    return Judged(part, sources, references, outputs, warnings, translator.translate, alignment)
