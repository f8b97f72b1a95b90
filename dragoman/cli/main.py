"""The ``dragoman`` command: runs the module of a verb, and turns errors into an exit code and one line."""

import errno
import importlib
import keyword
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from types import ModuleType
from typing import Any, TextIO, cast

from dragoman.config.fields import did_you_mean
from dragoman.display import escape_controls, say
from dragoman.errors import ConfigError, DataError, DragomanError, SettingsWarning, needs_train_extra
from dragoman.signals import EXIT_CODE as INTERRUPTED
from dragoman.signals import interrupts
from dragoman.version import __version__

VERB_GROUPS: dict[str, dict[str, str]] = {
    "Start": {
        "demo": "Train, score and try a small translator on a built-in phrasebook",
        "warm-up": "Compile machine code for this processor, so that no later command has to",
    },
    "Train": {
        "fetch": "Fetch a parallel corpus of the Hugging Face hub",
        "check": "Check a corpus for misalignment, duplicates, wrong encodings, leaks",
        "plan": "Estimate the time, memory and disk space that training will take",
        "train": "Train a translator on your parallel text, or continue a run",
        "report": "Write the report of a run again",
        "calibrate": "Learn from parallel text how a model's words align",
        "average": "Average the last checkpoints of a run into one model",
        "summary": "List the parameters of a configuration or a model",
    },
    "Translate": {
        "translate": "Translate text line by line, documents, or folders of documents",
        "serve": "Serve models over HTTP, as LibreTranslate, DeepL and a web page",
        "inspect": "Show the attention and the beam search behind one translation",
    },
    "Evaluate": {
        "evaluate": "Score translations with BLEU, chrF and TER",
        "score": "Compute the log-probability of given translations",
        "compare": "Compare two models or files of translations for significance",
        "verify": "Verify that batching changes nothing and that runs resume exactly",
    },
    "Exchange": {
        "import": "Convert a Marian (OPUS-MT) model into a model folder",
        "export": "Convert a model to int8, or for CTranslate2 or Hugging Face Marian",
    },
}
"""The verbs by purpose, with what each does.

``build_parser`` in ``dragoman.cli.VERB`` returns the parser of a verb. ``run`` executes the verb with the parsed
arguments, and returns an exit code, or None for 0. The name of the module has ``_`` for ``-``, and a ``_`` at its end
if the verb is a keyword of Python. The module is imported only when the verb is called.
"""
VERBS: dict[str, str] = {verb: text for verbs in VERB_GROUPS.values() for verb, text in verbs.items()}

_MEMORY_ADVICE = {
    "train": "Lower `train.micro_batch_tokens`, which only changes random numbers of dropout. Or use a smaller model.",
    **dict.fromkeys(
        ("translate", "evaluate", "compare", "serve"),
        "Lower `inference.batch_tokens`, which changes no result. Or use a smaller model.",
    ),
}
USER_ERROR = 2
PIPE_CLOSED = 141


def run_command(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. `argv` is without the name of the program."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        _check_streams()
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")
        with _warnings_as_notes():
            code = _dispatch(arguments)
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
        line = _user_error(error, arguments[0] if arguments else "")
        if line is None:
            raise
        if isinstance(error, OSError):
            _abandon_stdout()
        return _complain(line)


def help_text() -> str:
    """The text of ``dragoman --help``."""
    width = max(map(len, VERBS))
    groups = (
        f"{title}:\n" + "".join(f"  {verb:<{width}}  {text}\n" for verb, text in verbs.items())
        for title, verbs in VERB_GROUPS.items()
    )
    return (
        "Usage: dragoman VERB ...\n\n"
        "Train a translator on your own parallel text, and evaluate, serve and explain it.\n\n"
        + "\n".join(groups)
        + "\n`dragoman translate demo` uses a small English-German model that comes with Dragoman.\n"
        "`dragoman VERB --help` shows the flags of a verb.\n`dragoman --version` prints the version.\n"
    )


def import_verb(verb: str) -> ModuleType:
    """The module of a verb."""
    name = verb.replace("-", "_")
    return importlib.import_module(f"dragoman.cli.{name}_" if keyword.iskeyword(name) else f"dragoman.cli.{name}")


def _check_streams() -> None:
    """Raise ConfigError if standard output is closed. If standard error is closed, discard what is written to it."""
    if cast(TextIO | None, sys.stderr) is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (open until the process ends)
    if cast(TextIO | None, sys.stdout) is None:
        raise ConfigError("standard output is closed. Redirect it to a file, or to /dev/null.")


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Print each `SettingsWarning` once, as a note of one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", SettingsWarning)
        show = warnings.showwarning

        def show_note(message: Warning | str, category: type[Warning], *place: Any) -> None:
            if issubclass(category, SettingsWarning):
                say(str(message))
            else:
                show(message, category, *place)

        warnings.showwarning = show_note  # type: ignore[assignment]
        yield


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
        hint = did_you_mean(verb, VERBS) or " See `dragoman --help`."
        raise ConfigError(f"`{verb}` is not a verb of dragoman.{hint}")
    with needs_train_extra(f"`dragoman {verb}`"):
        module = import_verb(verb)
        options = module.build_parser().parse(rest)
        if verb != "warm-up":  # which tells what it compiles
            from dragoman.kernels.compiling import announce_compiling

            announce_compiling()
        code: int | None = module.run(options)
    return code or 0


def _user_error(error: OSError | MemoryError | RuntimeError, verb: str) -> str | None:
    """The message for an error of disk or memory, or None for a bug of ours."""
    if isinstance(error, OSError):
        where = f" for {error.filename}" if error.filename else ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return f"no disk space is left{where}. Free some space, and run the same command again."
        if error.errno == errno.EFBIG:
            return f"a file{where} exceeds the limit for the size of files. Raise it: `ulimit -f unlimited`."
        said = f"{error.filename or 'a file'}: {error.strerror}. Check the path and its permissions."
        return said if error.strerror else None
    out_of_memory = type(error).__name__ == "OutOfMemoryError" or "DefaultCPUAllocator" in str(error)
    if isinstance(error, MemoryError) or out_of_memory:
        return f"out of memory. {_MEMORY_ADVICE.get(verb, 'Use a smaller model, or a computer with more memory.')}"
    return None


def _reports_errors() -> bool:
    """False for all but the first process of a run on this machine (`torchrun`), because all find the same errors."""
    return "WORLD_SIZE" not in os.environ or os.environ.get("LOCAL_RANK", "0") == "0"


def _complain(message: str) -> int:
    with suppress(OSError):  # the pipe or the terminal is closed
        sys.stderr.write(f"dragoman: {escape_controls(' '.join(message.splitlines()))}\n")
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
    """Redirect stdout to the null device, so that the final flush of the interpreter does not fail again."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return
