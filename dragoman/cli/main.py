"""The command line's frame: finds the verb, and turns whatever ends it into an exit code and at most one line."""

import errno
import importlib
import keyword
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from typing import TextIO, cast

from dragoman.config.fields import did_you_mean
from dragoman.errors import ConfigError, DataError, DragomanError
from dragoman.interrupts import EXIT_CODE as INTERRUPTED
from dragoman.interrupts import interrupts
from dragoman.version import __version__

VERBS: dict[str, str] = {
    "demo": "trains on the embedded phrasebook, scores it, translates: a few minutes, nothing to prepare",
    "check": "looks a corpus over before training: slides, repeats, encodings, languages, leaks into the test",
    "plan": "measures some steps and says what training would take: hours, memory, disk, and the size to choose",
    "train": "trains a translator on your parallel text, or continues a run",
    "report": "writes the report of a run again: what it learnt from, its curves, scores, sentences and checks",
    "average": "averages the last checkpoints of a run into a model",
    "summary": "counts every parameter tensor of a configuration or model",
    "translate": "translates text, line for line, from stdin or a file",
    "serve": "serves models over HTTP, for programs that speak to LibreTranslate or DeepL, and for browsers",
    "inspect": "shows what a model looks at while it translates a text: a page, a picture, data",
    "evaluate": "scores translations: BLEU, chrF and TER with signatures",
    "compare": "compares two models or two files of translations on one test: what is chance and what is not",
    "verify": "proves that translations do not depend on batches, padding or caches, and that resuming is exact",
    "import": "makes a model folder of a Marian (OPUS-MT) model, from a folder or by its name on the hub",
    "export": "writes a model for CTranslate2, or in Marian's Hugging Face form",
}
"""Verb -> what it does; the verb's code is ``run`` in the module of that name and is imported only when called.

A verb that is a word of Python has its module under that name with ``_`` after it."""

USER_ERROR = 2
PIPE_CLOSED = 141


def run_command(argv: Sequence[str] | None = None) -> int:
    """Runs one command; `argv` without the program's name. Returns the exit code."""
    try:
        _check_streams()
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")
        code = _dispatch(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return code
    except SystemExit as end:
        return _flush_stdout(end.code if isinstance(end.code, int) else 0)
    except KeyboardInterrupt:
        interrupts.say_last_words()
        return _flush_stdout(INTERRUPTED)
    except BrokenPipeError:
        _abandon_stdout()
        return PIPE_CLOSED
    except (ConfigError, DataError) as error:
        return _complain(str(error)) if _reports_errors() else USER_ERROR
    except DragomanError as error:
        return _complain(str(error))
    except (OSError, MemoryError, RuntimeError) as error:
        line = _user_error(error)
        if line is None:
            raise
        if isinstance(error, OSError):
            _abandon_stdout()
        return _complain(line)


def help_text() -> str:
    """What ``dragoman --help`` prints."""
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {description}" for verb, description in VERBS.items())
    return (
        "usage: dragoman VERB ...\n\nTrain, trust, inspect and serve your own translator.\n\n"
        f"{verbs}\n\n`dragoman VERB --help` lists a verb's arguments and settings.\n"
    )


def _check_streams() -> None:
    """Raises ConfigError where there is nowhere to answer; where nobody wants to hear of errors, they go nowhere."""
    if cast(TextIO | None, sys.stderr) is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (for as long as the process lives)
    if cast(TextIO | None, sys.stdout) is None:
        raise ConfigError("standard output is closed. Redirect it to a file, or to /dev/null.")


def _dispatch(arguments: list[str]) -> int:
    if not arguments:
        sys.stderr.write(help_text())
        return USER_ERROR
    verb, *rest = arguments
    if verb in ("--help", "-h"):
        sys.stdout.write(help_text())
        return 0
    if verb == "--version":
        sys.stdout.write(f"dragoman {__version__}\n")
        return 0
    if verb not in VERBS:
        hint = did_you_mean(verb, VERBS) or " `dragoman --help` lists them."
        raise ConfigError(f"`{verb}` is not a verb of dragoman.{hint}")
    module = f"{verb}_" if keyword.iskeyword(verb) else verb
    code: int = importlib.import_module(f"dragoman.cli.{module}").run(rest)
    return code


def _user_error(error: OSError | MemoryError | RuntimeError) -> str | None:
    """The line for an error of the machine that the user can do something about; None for a mistake of ours."""
    if isinstance(error, OSError):
        where = f" for {error.filename}" if error.filename else ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return f"no disk space is left{where}. Free some, and run the same command again."
        said = f"{error.filename or 'a file'}: {error.strerror}. Look at the path and its permissions."
        return said if error.strerror else None
    out_of_memory = type(error).__name__ == "OutOfMemoryError" or "DefaultCPUAllocator" in str(error)
    if isinstance(error, MemoryError) or out_of_memory:
        return (
            "memory does not suffice. Lower `train.micro_batch_tokens` (training; it changes no more than what dropout "
            "draws) or `inference.batch_tokens` (translating; it changes nothing), or take a smaller model."
        )
    return None


def _reports_errors() -> bool:
    """Of several processes of one run on a machine (`torchrun`) the first says what all find in settings and data."""
    return "WORLD_SIZE" not in os.environ or os.environ.get("LOCAL_RANK", "0") == "0"


def _complain(message: str) -> int:
    with suppress(OSError):  # nobody reads it: the pipe is closed, the terminal is gone
        sys.stderr.write(f"dragoman: {' '.join(message.splitlines())}\n")
        sys.stderr.flush()
    return USER_ERROR


def _flush_stdout(code: int) -> int:
    try:
        sys.stdout.flush()
    except OSError as error:
        _abandon_stdout()
        return PIPE_CLOSED if isinstance(error, BrokenPipeError) else code
    return code


def _abandon_stdout() -> None:
    """Points stdout at nothing, so that the interpreter's last flush does not complain about a closed pipe again."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return
