"""``dragoman report RUN``: writes the report of a run again, as training did when it ended."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.cli.arguments import ArgumentParser, path_name
from dragoman.cli.models import require_model, say
from dragoman.evaluation.metrics import counts_of, metrics_of, tokenizer_for, warnings_about

if TYPE_CHECKING:
    from dragoman.bundle import Bundle
    from dragoman.data.store import PairStore
    from dragoman.inference.translator import Translator
    from dragoman.visualization.report.report import Judged


def run(arguments: Sequence[str]) -> int:
    """Translates the run's test, or its validation data, once more; the report's path on stdout."""
    parser = ArgumentParser("report", "Writes the report of a run again: RUN/report.html, and card.md beside it.")
    parser.add_argument("run", metavar="RUN", type=path_name, help="a folder that `dragoman train` has made")
    parser.add_argument("--device", default="auto", metavar="NAME", help="auto (cuda, mps, cpu) or a device by name")
    given = parser.parse(arguments)
    require_model(given.run)
    from dragoman.bundle import load_bundle, resolve_model_folder  # torch: only once the arguments are right
    from dragoman.visualization.report.report import write_report
    from dragoman.visualization.report.run_facts import read_run

    folder = resolve_model_folder(given.run)
    read_run(given.run)  # what is no run is said before anything is loaded or translated
    say(f"the model is {folder}")
    print(write_report(given.run, _judged(given.run, load_bundle(folder, given.device))))
    return 0


def _judged(run_folder: Path, bundle: "Bundle") -> "Judged | None":
    from dragoman.inference.translator import Translator
    from dragoman.visualization.report.run_facts import open_part

    for part, name in (("test", "test"), ("dev", "validation")):
        if store := open_part(run_folder, part):
            sources, references = texts_of(store)
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


def texts_of(store: "PairStore", limit: int | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Sources and references of a store that keeps text, at most `limit`."""
    indices = range(len(store) if limit is None else min(limit, len(store)))
    return tuple(store.src_text(index) for index in indices), tuple(store.tgt_text(index) for index in indices)
