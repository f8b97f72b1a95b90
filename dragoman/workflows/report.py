"""What the report of a run needs: its test data, translated by its model."""

from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.evaluation.metrics import all_metrics, counts_of, tokenizer_for, warnings_about
from dragoman.messages import say

if TYPE_CHECKING:
    from dragoman.model.trained import TrainedModel
    from dragoman.visualization.report.report import ReportedTest


def translate_test(run_folder: Path, trained: "TrainedModel") -> "ReportedTest | None":
    """Translate the test data of a run again, or its validation data. Returns None if both are gone."""
    from dragoman.inference.translator import Translator
    from dragoman.visualization.report.report import ReportedTest
    from dragoman.visualization.report.run_facts import open_stored_part
    from dragoman.visualization.report.word_weights import cross_attention_of

    for part, name in (("test", "test"), ("dev", "validation")):
        if store := open_stored_part(run_folder, part):
            sources, references = store.texts()
            translator = Translator.from_trained([trained])
            outputs = translator.translate(sources)
            bleu = all_metrics(tokenizer_for(trained.config.data.tgt_lang))[0]
            warnings = warnings_about(counts_of(bleu, outputs, references), outputs, references)
            alignment = cross_attention_of(trained)
            return ReportedTest(name, sources, references, outputs, warnings, translator.translate, alignment)
    say("the run's test and validation data are gone: the report has no sentences")
    return None
