"""``dragoman verify``: the same translation for any batch, order, padding and cache; and that resuming is exact.

Exit code 0: everything holds; 2: something differs, or the command line is wrong; 3: resuming could not be verified.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from random import Random
from typing import TYPE_CHECKING

from dragoman.cli.arguments import ArgumentParser, add_encoding_flag, encoding_of, path_name, whole_number
from dragoman.errors import DataError, DragomanError
from dragoman.kernels.compiling import announce_compiling
from dragoman.messages import say
from dragoman.text.lines import read_lines
from dragoman.training.run.frozen_settings import check_resumable
from dragoman.workflows.models import require_model

if TYPE_CHECKING:
    from dragoman.inference.verification import Check
    from dragoman.model.trained import TrainedModel
    from dragoman.training.verification import ResumeReport

SENTENCES = 200
STEPS = 20
CHECKPOINTS = "checkpoints"
_SHOWN = 5
_LONGEST_INVENTED = 30
_DIFFERENT, _NOT_VERIFIED = 2, 3


def run(arguments: Sequence[str]) -> int:
    """Prints what was checked; exit code 2 where anything differs, 3 where resuming could not be verified."""
    options = _parser().parse(arguments)
    require_model(options.model)
    from dragoman.bundle import resolve_model_folder  # torch: only once the arguments are right
    from dragoman.inference.verification import verify_translations
    from dragoman.model.trained import TrainedModel

    folder = resolve_model_folder(options.model)
    trained = TrainedModel.load(folder, options.device)
    texts, origin = _texts(options, trained)
    if _is_run(options):
        try:
            check_resumable(options.model)
        except DragomanError as error:
            return _complain(error)
    beam_sizes = sorted({1, max(2, trained.config.inference.beam_size)})
    announce_compiling()
    say(f"the model is {folder}; translating {len(texts):,} texts ({origin}) in many ways")
    checks = list(_report_checks(verify_translations(trained, texts, beam_sizes), options.json))
    if not options.json:
        sys.stdout.writelines(f"{line}\n" for line in _verdict(checks, len(texts)))
    try:
        resume, problem = _resume(options), None
    except DragomanError as error:
        resume, problem = None, error
    holds = not any(check.differences for check in checks) and (resume is None or resume.exact)
    if options.json:
        facts = {"model": str(folder), "texts": len(texts), "from": origin}
        facts |= {"holds": holds and (None if problem else True), "checks": [asdict(check) for check in checks]}
        facts |= {"resume": asdict(resume) if resume else None} | ({"not_verified": str(problem)} if problem else {})
        print(json.dumps(facts, ensure_ascii=False))
    elif resume:
        sys.stdout.writelines(f"{line}\n" for line in _resume_verdict(resume))
    if problem:
        _complain(problem)
    return _DIFFERENT if not holds else _NOT_VERIFIED if problem else 0


def _complain(error: DragomanError) -> int:
    say(f"could not verify resuming: {error} `--steps 0` leaves it out.")
    return _NOT_VERIFIED


def _is_run(options: argparse.Namespace) -> bool:
    """Whether this is a run, which can be resumed, and not a model folder, which nothing continues."""
    return bool(options.steps) and (options.model / CHECKPOINTS).is_dir()


def _parser() -> ArgumentParser:
    parser = ArgumentParser("verify", "Proves that translations do not depend on batches, order, padding or caches.")
    parser.add_argument("model", metavar="MODEL", type=path_name, help="a model folder or a run")
    parser.add_flag("--src", "F", "texts to translate, one a line (default: the model's own)", path_name)
    add_encoding_flag(parser)
    parser.add_flag(
        "--sentences", "N", f"sentences to translate, at most (default {SENTENCES})", whole_number(1), default=SENTENCES
    )
    text = f"of a run: training steps to resume in the midst of, 0 for none (default {STEPS})"
    parser.add_flag("--steps", "N", text, whole_number(0), default=STEPS)
    parser.add_switch("--json", "one JSON object instead of a table")
    parser.add_device()
    return parser


def _texts(options: argparse.Namespace, trained: "TrainedModel") -> tuple[list[str], str]:
    """The texts, and where they are from: the file, the run's validation data, or the model's vocabulary."""
    from dragoman.visualization.report.run_facts import open_stored_part

    most = options.sentences
    if options.src:
        texts = [
            text for text, _ in zip(read_lines(options.src, encoding=encoding_of(options)), range(most), strict=False)
        ]
        if not texts:
            raise DataError(f"{options.src} is empty. Give at least one line to translate.")
        return texts, str(options.src)
    if store := open_stored_part(options.model, "dev"):
        return list(store.texts(most)[0]), "the run's validation data"
    rng, tokenizer = Random(most), trained.tokenizers.src
    lengths = (rng.randint(1, min(_LONGEST_INVENTED, trained.config.data.max_tokens)) for _ in range(most))
    rows = [[rng.randrange(4, tokenizer.vocab_size) for _ in range(length)] for length in lengths]
    return [tokenizer.detokenize(row) for row in rows], "made from its vocabulary"


def _resume(options: argparse.Namespace) -> "ResumeReport | None":
    """Whether the run goes on exactly after a kill; None where there is no run to resume."""
    if not _is_run(options):
        return None
    from dragoman.training.verification import verify_resume

    say(f"training copies of {options.model} for {options.steps} steps, once straight on and once with a kill")
    return verify_resume(options.model, options.steps)


def _resume_verdict(resume: "ResumeReport") -> Iterator[str]:
    yield from ("", *resume.differences[:_SHOWN])
    steps = f"steps {resume.first_step + 1:,} to {resume.last_step:,}, with a kill after {resume.killed_after:,}"
    yield f"{'ok' if resume.exact else 'DIFFERENT'}: resuming, {steps}: {len(resume.differences):,} differences in"
    yield f"{resume.tensors:,} tensors, the state and {resume.log_lines:,} lines of the log, compared bit for bit."


def _report_checks(checks: "Iterator[Check]", as_json: bool) -> "Iterator[Check]":
    """The checks, each printed as a row as soon as it is done."""
    if not as_json:
        print(f"{'translated':<24}{'beam':>5}{'same':>9}{'ties':>7}{'different':>11}{'log_prob':>11}")
    for check in checks:
        if not as_json:
            counts = f"{check.beam_size:>5}{check.same:>9,}{check.ties:>7,}{len(check.differences):>11,}"
            print(f"{check.way:<24}{counts}{check.largest_log_prob_difference:>11.1e}", flush=True)
        yield check


def _verdict(checks: "Sequence[Check]", num_texts: int) -> Iterator[str]:
    from dragoman.inference.verification import LOG_PROB_TOLERANCE, TIE

    different = sum(len(check.differences) for check in checks)
    for check in checks:
        for one in check.differences[:_SHOWN]:
            yield ""
            yield f"{check.way}, beam {check.beam_size}, text {one.number}: {one.src}"
            yield f"  expected  {one.expected}"
            yield f"  found     {one.found}  (log_prob differs by {one.log_prob_difference:.1e})"
    yield ""
    yield "The judge computes every step anew, without padding and cache, in float32. The same is the same text with a"
    yield f"log_prob at most {LOG_PROB_TOLERANCE:g} away; a tie is what the judge may give, moved by {TIE:g} a token."
    total = num_texts * len(checks)
    yield f"{'DIFFERENT' if different else 'ok'}: {different:,} of {total:,} translations differ from the judge's."
