"""Counts the calls in this package from a command to the first training step or search.

    python benchmarks/call_chain.py                  # the checkout that this file is in
    PYTHONPATH=OTHER python benchmarks/call_chain.py # another checkout

It measures three chains on a tiny model: `dragoman train` until the optimizer's first step, and `dragoman translate`
and a request to `dragoman serve` until the search. The second run is measured, so that imports do not count. The
columns are modules with a function that was called, functions that returned (each counted once), and functions and
modules on the stack at the end.
"""

import json
import os
import signal
import socket
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import redirect_stderr, redirect_stdout, suppress
from importlib import import_module
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import dragoman
from dragoman.demo.phrasebook_file import load_phrasebook

# The function that ends a chain: its names, and a part of the path of its file.
STEP, SEARCH = (("step",), "torch/optim/"), (("search_all", "beam_search"), "dragoman/inference/")
PACKAGE = str(Path(dragoman.__file__).parent)
SIZE = "--model.preset custom --model.d-model 16 --model.d-ff 16 --model.num-heads 2 --tokenizer.vocab-size 300"
TRAIN = f"train --data corpus.en-de.tsv --train.device cpu --train.max-steps 2 --out OUT {SIZE}"


class Chain:
    """Profiles all threads from `start` to the first call of the function that ends the chain."""

    def __init__(self, names: tuple[str, ...], path: str) -> None:
        self.names, self.path, self.open = names, path, False
        self.modules: set[str] = set()
        self.returned: set[CodeType] = set()
        self.stack: list[CodeType] = []
        threading.setprofile(self.profile)
        sys.setprofile(self.profile)

    def profile(self, frame: FrameType | None, event: str, _: Any) -> None:
        if not self.open or frame is None:
            return
        if event == "call" and frame.f_code.co_name in self.names and self.path in frame.f_code.co_filename:
            self.open = False
            while frame is not None:
                self.stack += [frame.f_code] if is_function(frame.f_code) else []
                frame = frame.f_back
        elif event in ("call", "return") and is_function(frame.f_code):
            self.modules.add(frame.f_code.co_filename)
            self.returned |= {frame.f_code} if event == "return" else set()

    def row(self) -> str:
        deep = len({code.co_filename for code in self.stack})
        return f"{len(self.modules):>8} {len(self.returned):>10} {len(self.stack):>10} {deep:>8}"


def is_function(code: CodeType) -> bool:
    """True for a function of the package, and not for a module, class body or comprehension."""
    named = code.co_flags & CO_OPTIMIZED > 0 and code.co_name[-5:] not in ("comp>", "expr>")
    return named and code.co_filename.startswith(PACKAGE)


def call(command: str, chain: Chain | None = None) -> None:
    verb, *arguments = command.split()
    module = import_module(f"dragoman.cli.{verb}")
    if chain:
        chain.open = True
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        module.run(module.build_parser().parse(arguments))


def serve(chain: Chain) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def ask() -> None:
        sys.setprofile(None)
        body = json.dumps({"q": "Hello", "source": "en", "target": "de"}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/translate", body, {"Content-Type": "application/json"}
        )
        answers = 0
        while answers < 2:
            time.sleep(0.5)  # and until the server is idle
            chain.open = answers == 1
            with suppress(OSError), urllib.request.urlopen(request, timeout=60):
                answers += 1
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=ask).start()
    with suppress(KeyboardInterrupt):
        call(f"serve en-de=first --device cpu --port {port} --no-page")


def main() -> None:
    os.chdir(tempfile.mkdtemp())
    pairs = load_phrasebook().generate(seed=1, count=200)
    Path("corpus.en-de.tsv").write_text("".join(f"{pair.src}\t{pair.tgt}\n" for pair in pairs), encoding="utf-8")
    print(f"{'':<10} {'modules':>8} {'returned':>10} {'on stack':>10} {'modules':>8}")
    for command, end in ((TRAIN, STEP), ("translate first --device cpu --text Hello", SEARCH)):
        call(command.replace("OUT", "first"))
        chain = Chain(*end)
        call(command.replace("OUT", "second"), chain)
        print(f"{command.split()[0]:<10} {chain.row()}", flush=True)
    chain = Chain(*SEARCH)
    serve(chain)
    print(f"{'request':<10} {chain.row()}")


if __name__ == "__main__":
    main()
