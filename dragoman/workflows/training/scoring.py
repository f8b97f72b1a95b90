"""The end of a run: the scores of its best model, a line that explains them, the model's card, and the report."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from dragoman.bundle import Model, replace_card, resolve_model_folder
from dragoman.config.recipes import WARMUP_SHARE
from dragoman.data.prepare import PreparedData
from dragoman.errors import DragomanError, ModelError
from dragoman.evaluation.metrics import bleu, chrf, score_outputs, tokenizer_for
from dragoman.evaluation.verdict import Outcome, is_improving, verdict, weakest_group
from dragoman.inference.translator import Translator
from dragoman.text.corpus.corpus import Corpora
from dragoman.training.limits import TrainingPace
from dragoman.training.session import TrainingSession
from dragoman.visualization.report.report import ReportedTest, write_report
from dragoman.visualization.report.run_facts import read_log
from dragoman.workflows.progress import FinalScores, PartScores, Progress, ScoreChange
from dragoman.workflows.runs import translate_part
from dragoman.workflows.training.corpus_rows import corpus_rows
from dragoman.workflows.training.fine_tuning import fingerprint_of
from dragoman.workflows.training.settings import ResolvedRun

_REPLAY_TEST = "replay test"


def score_run(run: ResolvedRun, data: PreparedData, session: TrainingSession, reason: str, progress: Progress) -> None:
    """Translate validation and test data, report the scores, keep them in the model's card, and write the report.

    The texts are translated with the run's [inference] settings, as `dragoman translate` will. They replace the
    settings in the model's folder, which are older if the user changed them after the weights were saved.
    `progress.result` receives `FinalScores`. `reason` is why training stopped, such as "train.max_steps = 9 reached".
    """
    folder = resolve_model_folder(run.folder)
    model = Model.load(folder, run.config.train.device)
    model = replace(model, config=replace(model.config, inference=run.config.inference))
    translator, beam_size = Translator.from_models([model]), model.config.inference.beam_size
    num_tests = len(data.test) if data.test is not None else 0
    card = replace(model.card, test_pairs=num_tests, corpora=corpus_rows(model, data, session))
    tests: list[ReportedTest] = []
    found: list[PartScores] = []
    for part, store in (("validation", data.dev), ("test", data.test)):
        if store is None or not len(store):
            continue
        test = translate_part(translator, part, store, progress)
        result = score_outputs(test.outputs, test.references, tokenizer_for(model.config.data.tgt_lang))
        card = card.with_scores(f"{part}, beam {beam_size}", list(result.scores))
        for warning in result.warnings:
            progress.note(f"{part}: {warning}")
        found.append(PartScores(part, result.num_sentences, beam_size, result.scores))
        tests.append(replace(test, warnings=result.warnings))
    changes = _compare_with_base(translator, run.corpora, tests, progress) if model.config.train.start_from else ()
    outcome = _outcome(run, session, reason, found[-1], tests[-1])
    start_bleu = next((change.before.value for change in changes if change.data == tests[-1].part), None)
    progress.result(FinalScores(verdict(replace(outcome, start_bleu=start_bleu)), tuple(found), changes))
    for name in dict.fromkeys(change.data for change in changes):
        scores = [change for change in changes if change.data == name]
        before = f"{name}, before fine-tuning, beam {beam_size}"
        card = card.with_scores(before, [change.before for change in scores])
        if name == _REPLAY_TEST:
            card = card.with_scores(f"{name}, beam {beam_size}", [change.after for change in scores])
    replace_card(folder, card, model.config)
    try:  # the model is complete and scored, so a failure here does not fail the run
        progress.note(f"the report is {write_report(run.folder, tests[-1])}")
    except DragomanError as error:
        progress.note(f"the report was not written: {error}")


def _outcome(
    run: ResolvedRun, session: TrainingSession, reason: str, scored: PartScores, test: ReportedTest
) -> Outcome:
    sources, references, outputs = test.sources, test.references, test.outputs
    right = sum(output == reference for output, reference in zip(outputs, references, strict=True))
    state, train, limit = session.state, session.settings, reason.split(" ")[0] if reason.startswith("train.") else ""
    warmup = max(train.warmup_steps, int(state.fitted.get("train.warmup_steps", 0)))
    pace = TrainingPace(
        state.step, state.seconds, median(state.step_seconds or [state.seconds]), session.steps_in_epoch
    )
    return Outcome(
        part=test.part,
        sentences=len(sources),
        bleu=scored.scores[0].value,
        by_character=tokenizer_for(run.config.data.tgt_lang) == "char",
        exact=right / len(sources),
        distinct=len(set(outputs)) / len(set(sources)),
        held_out=(run.corpora.dev if test.part == "validation" else run.corpora.test) is None,
        train_pairs=len(session.train),
        limit=limit,
        is_improving=is_improving(state.steady_scores),
        within_warmup=state.step <= warmup,
        gap=_loss_gap(run.folder),
        weakest=weakest_group(sources, references, outputs),
        enough=pace.limit_for(limit, warmup / WARMUP_SHARE) if limit else "",
        continues=limit != "train.max_steps" or train.schedule not in ("linear", "cosine"),
    )


def _loss_gap(run: Path) -> float | None:
    """Return the last validation loss minus the last training loss, in nats per token; None if one is not logged."""
    log = read_log(run / "log.jsonl")
    dev, train = log.validation.get("loss"), log.train.get("perplexity")
    return dev[-1][1] - math.log(train[-1][1]) if dev and train else None


def _compare_with_base(
    translator: Translator, corpora: Corpora, tests: Sequence[ReportedTest], progress: Progress
) -> tuple[ScoreChange, ...]:
    """Score the model from before fine-tuning, and pair its scores with those of the tuned model.

    Parameters
    ----------
    translator
        The translator of the tuned model. The model from before translates with the same settings.
    corpora
        The corpora of the run. Its replay test, if there is one, is scored too.
    tests
        The translations of the tuned model.
    progress
        Receives a note if the scores before are missing.

    Returns
    -------
    tuple of ScoreChange
        BLEU and chrF on each test, before and after. Empty if the original model is gone or has changed.
    """
    [tuned] = translator.models
    path, tokenize = tuned.config.train.start_from, tokenizer_for(tuned.config.data.tgt_lang)
    if corpora.replay_test:
        pairs = list(corpora.replay_test.pairs())
        sources, references = [pair.src for pair in pairs], [pair.tgt for pair in pairs]
        outputs = translator.translate(sources)
        tests = [*tests, ReportedTest(_REPLAY_TEST, sources, references, outputs, (), translator.translate)]
    try:
        folder = resolve_model_folder(Path(path))
        if fingerprint_of(folder) not in "".join(tuned.card.lineage[-1:]):
            raise ModelError(f"{path} is no longer the model that training started from.")
        before = Translator.from_models([Model.load(folder, str(tuned.transformer.device))])
    except DragomanError as error:
        progress.note(f"no scores from before fine-tuning are available: {error}")
        return ()
    before.settings = translator.settings  # so that only the weights differ
    changes: list[ScoreChange] = []
    for test in tests:
        old, new = (
            (bleu(outputs, test.references, tokenize), chrf(outputs, test.references))
            for outputs in (before.translate(test.sources), test.outputs)
        )
        changes += [ScoreChange(test.part, len(test.sources), *pair) for pair in zip(old, new, strict=True)]
    return tuple(changes)
