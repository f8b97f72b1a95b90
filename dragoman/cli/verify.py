"""``dragoman verify``: verify that batching, padding and caching do not change translations, and that runs resume.

Exit code 0: no difference; 2: a difference or a user error; 3: resuming could not be verified.
"""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dragoman.cli.arguments import ArgumentParser, Options, path_name, whole_number
from dragoman.display import json_text, say
from dragoman.errors import DragomanError
from dragoman.workflows import runs
from dragoman.workflows.progress import TerminalProgress

if TYPE_CHECKING:
    from dragoman.training.verification import ResumeReport

_SHOWN = 5
_DIFFERENT, _NOT_VERIFIED = 2, 3


def run(options: Options) -> int:
    """Print the checks and their results. Returns the exit code."""
    encoding = options.text_encoding() if options.src else ""
    request = runs.VerificationRequest(
        options.model, options.src, encoding, options.sentences, options.steps, options.device
    )
    try:
        found = runs.verify_translating(request, TerminalProgress() if options.json else _Rows())
    except runs.ResumingNotVerified as error:
        return _complain(error)
    if not options.json:
        print(*_verdict(found), sep="\n")
    resume, problem = None, None
    try:
        resume = runs.verify_resuming(request, TerminalProgress())
    except runs.ResumingNotVerified as error:
        problem = error
    holds = not any(check.differences for check in found.checks) and (resume is None or resume.exact)
    if options.json:
        facts = {"model": str(found.model), "texts": found.num_texts, "from": found.origin}
        facts |= {"reference": found.reference, "holds": holds and (None if problem else True)}
        facts |= {"checks": [asdict(check) for check in found.checks], "resume": asdict(resume) if resume else None}
        print(json_text(facts | ({"not_verified": str(problem)} if problem else {})))
    elif resume:
        print(*_resume_verdict(resume), sep="\n")
    if problem:
        _complain(problem)
    return _DIFFERENT if not holds else _NOT_VERIFIED if problem else 0


def _complain(error: DragomanError) -> int:
    say(f"could not verify resuming: {error} Use `--steps 0` to skip it.")
    return _NOT_VERIFIED


class _Rows(TerminalProgress):
    """Prints a row for each check as soon as it is done."""

    def __init__(self) -> None:
        super().__init__()
        self._has_head = False

    def result(self, part: Any) -> None:
        super().result(part)
        if not self._has_head:
            print(f"{'translated':<24}{'beam':>5}{'same':>9}{'ties':>7}{'different':>11}{'log_prob':>11}")
            self._has_head = True
        counts = f"{part.beam_size:>5}{part.same:>9,}{part.ties:>7,}{len(part.differences):>11,}"
        print(f"{part.way:<24}{counts}{part.largest_log_prob_difference:>11.1e}", flush=True)


def build_parser() -> ArgumentParser:
    """The parser of ``dragoman verify``."""
    parser = ArgumentParser("verify", "dragoman verify run --sentences 50")
    parser.add_argument("model", metavar="MODEL", type=path_name, help="Model folder or run")
    text = "Texts to translate, one per line [default: validation data of the run]"
    parser.add_flag("--src", "FILE", text, path_name)
    parser.add_encoding_flag()
    parser.add_flag(
        "--sentences", "N", "Maximum number of sentences to translate [default: 200]", whole_number(1), default=200
    )
    text = "Training steps of a run to repeat with an interruption; 0: none [default: 20]"
    parser.add_flag("--steps", "N", text, whole_number(0), default=20)
    parser.add_switch("--json", "Print JSON instead of a table")
    parser.add_device()
    return parser


def _resume_verdict(resume: "ResumeReport") -> Iterator[str]:
    yield from ("", *resume.differences[:_SHOWN])
    steps = f"steps {resume.first_step + 1:,} to {resume.last_step:,}, with a kill after {resume.killed_after:,}"
    yield f"{'ok' if resume.exact else 'DIFFERENT'}: resuming, {steps}: {len(resume.differences):,} differences in"
    yield f"{resume.tensors:,} tensors, the state and {resume.log_lines:,} lines of the log, compared bit for bit."


def _verdict(found: runs.TranslationChecks) -> Iterator[str]:
    from dragoman.inference.verification import LOG_PROB_TOLERANCE, ONE_BY_ONE, TIE

    different = sum(len(check.differences) for check in found.checks)
    for check in found.checks:
        for one in check.differences[:_SHOWN]:
            yield ""
            yield f"{check.way}, beam {check.beam_size}, text {one.number}: {one.src}"
            yield f"  expected  {one.expected}"
            yield f"  found     {one.found}  (log_prob differs by {one.log_prob_difference:.1e})"
    yield ""
    if found.reference == ONE_BY_ONE:
        yield "The reference translates one text at a time in float32. Without torch, caches are not verified."
    else:
        yield "The reference computes each step from scratch in float32, without padding or cache."
    yield f"same: the text of the reference, with a log_prob at most {LOG_PROB_TOLERANCE:g} away."
    if found.reference != ONE_BY_ONE:
        yield f"ties: a text that the reference gives if its log-probabilities move by {TIE:g} per token."
    total = found.num_texts * len(found.checks)
    yield f"{'DIFFERENT' if different else 'ok'}: {different:,} of {total:,} translations differ from the reference."
