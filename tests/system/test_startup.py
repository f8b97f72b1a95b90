"""The start of a command imports and reads nothing that it does not use, because that takes time and memory."""

import json
import subprocess
import sys

import pytest

from dragoman.kernels import library

UNUSED = {
    "huggingface_hub",
    "jinja2",
    "langcodes",
    "language_names.txt.gz",
    "lxml",
    "matplotlib",
    "py3langid",
    "rich",
    "sacrebleu",
    "torch",
}
COMPILER = {"llvmlite", "numba"}
SERVER = {"asyncio", "prometheus_client", "starlette", "uvicorn"}
# Lists the file of language names among the modules once it is opened.
WATCH = """
import sys
def note(event, arguments):
    if event == "open" and str(arguments[0]).endswith("language_names.txt.gz"):
        sys.modules["language_names.txt.gz"] = sys
sys.addaudithook(note)
"""
HELP = """
import json, sys
import dragoman.cli.serve
from dragoman.cli.main import run_command
assert run_command(["translate", "--help"]) == 0
json.dump(list(sys.modules), sys.stderr)
"""
TRANSLATE = """
import json, sys
from dragoman.cli.main import run_command
assert run_command(["translate", "demo", "--text", "Where is the station?"]) == 0
json.dump(list(sys.modules), sys.stderr)
"""
PYTHON = """
import json, sys
import dragoman
assert dragoman.load("demo")("Where is the station?")
json.dump(list(sys.modules), sys.stderr)
"""
# A server up to the moment when /readyz answers 200.
SERVE = """
import asyncio, json, sys
from dragoman.cli.main import run_command
from dragoman.serving.http import server

class Server:
    def __init__(self, app, service, *rest):
        self.service = service

def run_server(server, found):
    asyncio.run(server.service.start())
    assert server.service.status == "ok"

server.Server, server.run_server = Server, run_server
assert run_command(["serve", "demo", "--port", "0"]) == 0
json.dump(list(sys.modules), sys.stderr)
"""


INSTALLED_CODE = pytest.mark.skipif(
    not library.is_installed("int8"), reason="needs code for this processor in the package"
)


@pytest.mark.parametrize(
    ("program", "unused"),
    [
        pytest.param(HELP, UNUSED | SERVER | {"charset_normalizer", "numpy", "tokenizers"}, id="help"),
        pytest.param(TRANSLATE, UNUSED | COMPILER | SERVER, id="translate", marks=INSTALLED_CODE),
        pytest.param(PYTHON, UNUSED | COMPILER | SERVER, id="python", marks=INSTALLED_CODE),
        pytest.param(SERVE, UNUSED | COMPILER, id="serve", marks=INSTALLED_CODE),
    ],
)
def test_nothing_is_imported_that_is_not_used(program: str, unused: set[str]) -> None:
    pytest.importorskip("starlette")
    done = subprocess.run([sys.executable, "-c", WATCH + program], capture_output=True, text=True, check=True)
    assert unused & set(json.loads(done.stderr.splitlines()[-1])) == set()
