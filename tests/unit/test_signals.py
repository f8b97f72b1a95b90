"""Ctrl-C in a child process: one line, exit code 130 and no traceback, at any time."""

import subprocess
import sys

import pytest

START = """
import os, signal, sys, time
from dragoman.signals import interrupts

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored if tests run in the background

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.001)  # so that the handler runs here

interrupts.install()
"""
ONCE = "dragoman: interrupted.\n"


def ended(program: str) -> tuple[int, str]:
    """The exit code and stderr of a program that runs inside `dragoman.__main__.main`, like a verb."""
    body = "\n".join("    " + line for line in program.split("\n"))
    frame = (
        "import dragoman.__main__, dragoman.cli.main\n"
        f"def verb(argv):\n{body}\n"
        "def run(argv):\n"
        "    dragoman.cli.main._dispatch = verb\n"
        "    return real(argv)\n"
        "real, dragoman.cli.main.run_command = dragoman.cli.main.run_command, run\n"
        "sys.exit(dragoman.__main__.main([]))\n"
    )
    done = subprocess.run([sys.executable, "-c", START + frame], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "program",
    [
        "interrupt()",
        "try:\n    interrupt()\nfinally:\n    interrupt()\n    assert True",
        "class Bad:\n    def __del__(self):\n        interrupt()\nbad = Bad()\ndel bad\ntime.sleep(60)",
        "try:\n    interrupt()\nexcept BaseException:\n    raise SystemError('initialization failed')",
        "try:\n    interrupt()\nexcept BaseException:\n    raise SystemExit(0)",
        "import atexit\natexit.register(interrupt)\ninterrupt()",
    ],
    ids=["once", "while it cleans up", "in a destructor", "turned into an error", "turned into an exit", "at the end"],
)
def test_an_interrupt_ends_with_one_line(program: str) -> None:
    assert ended(program) == (130, ONCE)


def test_a_caught_interrupt_does_not_disable_later_ones() -> None:
    swallowed = "try:\n    interrupt()\nexcept BaseException:\n    pass\n"
    later = "import dragoman.signals\ndragoman.signals._GRACE_SECONDS = 0\ninterrupt()\ntime.sleep(60)"
    assert ended(swallowed + later) == (130, ONCE)


def test_a_second_interrupt_does_not_wait_for_a_run_to_save() -> None:
    program = (
        "from dragoman.signals import catch_signals\n"
        "interrupts.last_words = lambda: 'stopped without saving.'\n"
        "with catch_signals() as request:\n"
        "    interrupt()\n"
        "    assert request.signal_number == signal.SIGINT\n"
        "    interrupt()\n"
        "    time.sleep(60)"
    )
    assert ended(program) == (130, "dragoman: stopped without saving.\n")


def test_an_ignored_interrupt_stays_ignored() -> None:
    program = "signal.signal(signal.SIGINT, signal.SIG_IGN)\ninterrupts.install()\ninterrupt()\nreturn 0"
    assert ended(program) == (0, "")
