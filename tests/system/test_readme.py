"""The commands of the README and of the main pages run, every configuration trains, public names are documented.

Most commands run in forks of this process, which saves the start of Python and its imports.
"""

import inspect
import json
import os
import pkgutil
import re
import shlex
import signal
import subprocess
import sys
import tomllib
import traceback
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from urllib.request import urlopen

import pytest

import dragoman
from dragoman.cli.main import VERBS, help_text, import_verb, run_command
from dragoman.config import DataSettings, load_config
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.inference.translator import Translator
from dragoman.records import SentencePair
from tests.system.commands import store_in_hub_cache, write_sides, write_tsv
from tests.system.stand_in_hub import multi30k, opus_books, running_hub

ROOT = Path(__file__).resolve().parents[2]
QUICK = "--train.max-steps 2 --train.device cpu --train.batch-tokens 256 --inference.max-extra-tokens 3"
"""Added to commands that would train for minutes or hours. Without a limit, an untrained model writes long outputs."""

PAGES = ("README.md", "docs/reference/command-line.md")
"""Pages whose commands run, in this order and in one folder. `test_pages.py` runs those of the other pages."""
PYTHON_PAGES = ("README.md", "docs/how-to/use-from-python.md")

PROCESSES = {"serve": 99, "import": 99, "train": 1, "translate": 1}
"""How many commands of a verb run in a new process. The code of the hub reads its settings when it is imported."""
SHELL = re.compile(r"[;&$*`()~\\]|\|.*\||>>|<<|\d[<>]")
"""Syntax that `forked` does not understand; the shell runs lines that contain it."""


def blocks_of(page: str, language: str) -> list[str]:
    """Return the code blocks of a page; `language` is a regular expression."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def page_commands(page: str) -> list[str]:
    """Return the lines of a page's code blocks that run dragoman, without the prompt."""
    lines = [line for block in blocks_of(page, "[a-z]*") for line in block.split("\n")]
    return [line.removeprefix("$ ") for line in lines if re.match(r"(\$ )?(echo .*\| )?dragoman ", line)]


CPU_TORCH = "pip install --no-deps -c constraints.txt torch --index-url https://download.pytorch.org/whl/cpu"


@pytest.mark.parametrize(
    "page",
    ["README.md", "docs/how-to/install.md", "docs/tutorials/quickstart.md", "docs/tutorials/first-translator.md"],
)
def test_the_cpu_build_of_torch_is_installed_first_and_from_its_own_index(page: str) -> None:
    """With one command and two indexes, pip may take the CUDA build of 5.8 GB."""
    lines = [line.removeprefix("$ ") for block in blocks_of(page, "[a-z]*") for line in block.split("\n")]
    commands = [line.split("#")[0].strip() for line in lines if line.startswith(("pip ", "$ pip "))]
    at = [number for number, command in enumerate(commands) if "download.pytorch.org" in command]
    assert [commands[number] for number in at] == [CPU_TORCH]
    assert re.fullmatch(r"pip install -c constraints\.txt '\.\[train[,\w]*\]'", commands[at[0] + 1])
    unlocked = [command for command in commands if " -c constraints.txt" not in command]
    assert all("--require-hashes" in command or command == "pip install --no-deps ." for command in unlocked)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, small_marian: Path) -> Path:
    """A working directory with the files that the pages name, and a cache of the hub."""
    folder = tmp_path_factory.mktemp("readme")
    pairs = load_phrasebook().generate(seed=2, count=300)
    for name, part in (("corpus", pairs[:260]), ("test", pairs[260:])):
        write_sides(folder / name, part)
        write_tsv(folder / f"{name}.en-de.tsv", part)
    (folder / "configs").symlink_to(ROOT / "configs")
    multi30k = folder / "data" / "multi30k"
    multi30k.mkdir(parents=True)
    for ours, theirs in (("corpus", "train"), ("test", "val"), ("test", "test_2016_flickr")):
        for language in ("en", "de"):
            (multi30k / f"{theirs}.{language}.gz").write_bytes((folder / f"{ours}.{language}").read_bytes())
    store_in_hub_cache(folder / "hub", small_marian, "Helsinki-NLP/opus-mt-en-de")
    return folder


@pytest.mark.timeout(900)
def test_every_command_of_the_pages_runs(place: Path) -> None:
    commands = list(dict.fromkeys(line for page in PAGES for line in page_commands(page)))
    verbs = {word for line in commands for word in shlex.split(line) if word in VERBS}
    assert verbs == set(VERBS), "the pages show every verb"
    environment = {**os.environ, "DRAGOMAN_DATA": str(place / "data")}
    environment |= {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(place / "hub")}
    for verb in VERBS:  # import once, before processes are forked
        import_verb(verb)
    left = dict(PROCESSES)
    for line in commands:
        quick = re.sub(r"(dragoman (?:train|demo|plan)\b[^|>]*)", rf"\1 {QUICK} ", line)
        quick = re.sub(r"(dragoman verify\b[^|>]*)", r"\1 --sentences 3 --steps 0 ", quick)
        if "configs/" in quick:
            quick += " --tokenizer.vocab-size 300"
        command = quick.replace("dragoman ", f"{shlex.quote(sys.executable)} -m dragoman ")
        verb = line.split("dragoman ", 1)[1].split()[0]
        if verb == "serve":
            assert_serves(shlex.split(command.replace("--port 5000", "--port 0")), place, environment)
            continue
        if verb == "fetch":
            assert_fetches(command, place, environment)
            continue
        left[verb] = left.get(verb, 0) - 1
        if left[verb] < 0 and not SHELL.search(quick):
            code, said = forked(quick, place, environment)
        else:
            done = subprocess.run(
                command, shell=True, cwd=place, env=environment, capture_output=True, text=True, timeout=280
            )
            code, said = done.returncode, done.stderr
        assert code == 0, f"{line}\n{said}"


def forked(line: str, place: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Run a line in a fork, with `echo TEXT |`, `<` and `>` as in a shell. Return the exit code and stderr."""
    words = shlex.split(line)
    streams = {name: place / f"{name}.txt" for name in ("stdin", "stdout", "stderr")}
    streams["stdin"].write_text(f"{words[1]}\n" if words[0] == "echo" else "")
    words = words[words.index("dragoman") + 1 :]
    for sign, name in (("<", "stdin"), (">", "stdout")):
        if sign in words:
            at = words.index(sign)
            streams[name] = place / words[at + 1]
            del words[at : at + 2]
    if not (child := os.fork()):
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(280)
            os.environ |= environment
            os.chdir(place)
            for number, name, mode in ((2, "stderr", "w"), (1, "stdout", "w"), (0, "stdin", "r")):
                with streams[name].open(mode) as stream:
                    os.dup2(stream.fileno(), number)
                setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))
            code = run_command(words)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, streams["stderr"].read_text(encoding="utf-8")


def assert_serves(command: list[str], place: Path, environment: dict[str, str]) -> None:
    """Check that a server prints its address, answers there, and ends with 0 on SIGTERM."""
    with subprocess.Popen(command, cwd=place, env=environment, stderr=subprocess.PIPE, text=True) as server:
        try:
            address = next(found[0] for line in server.stderr if (found := re.search(r"http://\S+", line)))
            with urlopen(f"{address}/livez", timeout=10) as answer:
                assert answer.status == 200
        finally:
            server.terminate()
        assert server.wait(timeout=60) == 0


@pytest.mark.parametrize("page", PYTHON_PAGES)
def test_the_python_of_the_pages_runs(page: str, place: Path) -> None:
    blocks = blocks_of(page, "python")
    assert blocks
    for block in blocks:
        quick = block.replace("max_minutes=30", "max_steps=2")
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(place / "hub")}
        done = subprocess.run(
            [sys.executable, "-c", quick], cwd=place, env=environment, capture_output=True, text=True, timeout=200
        )
        assert done.returncode == 0, done.stderr


def assert_fetches(command: str, place: Path, environment: dict[str, str]) -> None:
    """Run `dragoman fetch` with a hub that has stand-ins for the data sets that the pages name."""
    if find_spec("datasets") is None:  # of the extra hub
        return
    pairs = [(pair.src, pair.tgt) for pair in load_phrasebook().generate(seed=2, count=340)]
    parts = {"train": pairs[:260], "val": pairs[260:300], "test": pairs[300:]}
    data_sets = {"bentrevett/multi30k": multi30k(parts), "Helsinki-NLP/opus_books": opus_books(pairs, "en", "it")}
    with running_hub({name: {"main": files} for name, files in data_sets.items()}) as hub:
        online = environment | {"HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0"}
        done = subprocess.run(command, shell=True, cwd=place, env=online, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


each_configuration = pytest.mark.parametrize(
    "path", sorted((ROOT / "configs").glob("*.toml")), ids=lambda path: path.stem
)


def files_of(path: Path) -> list[Path]:
    """Return the configuration files to load: `low_resource.toml` names no corpus, so another file adds one."""
    return [path, path.with_name("english_telugu.toml")] if path.stem == "low_resource" else [path]


@each_configuration
def test_every_configuration_loads(path: Path) -> None:
    config = load_config(files_of(path))
    assert config.data.train or config.data.train_src or config.corpora


@pytest.mark.slow
@each_configuration
def test_every_configuration_trains_on_a_stand_in_of_its_data(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The phrasebook stands in for the corpora, in the formats of their file names, and the model is small."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRAGOMAN_DATA", str(tmp_path / "data"))
    config = load_config(files_of(path))
    data = config.data
    pairs = iter(load_phrasebook().generate(seed=3, count=340))
    for part, count in (("train", 260), ("dev", 40), ("test", 40)):
        write_part(data, part, list(islice(pairs, count)))
    generated = iter(load_phrasebook().generate(seed=4, count=260 * len(config.corpora) or 1))
    for corpus in config.corpora:
        rows = list(islice(generated, 260))
        for name, side in ((corpus.src, "src"), (corpus.tgt, "tgt")):
            write_lines(name, [getattr(pair, side) for pair in rows])
    check = "--data.check-languages false"  # the phrasebook is in English and German
    model = "--model.d-model 32 --model.d-ff 64 --model.num-heads 2 --model.num-encoder-layers 2"
    smaller = f"{QUICK} {check} {model} --tokenizer.vocab-size 400 --validate.every-steps 1 --validate.every-epochs 0"
    smaller += " --train.batch-tokens 9000" * bool(config.corpora)  # an epoch of one step, for stages
    assert run_command(["train", *map(str, files_of(path)), *smaller.split(), "--out", "run"]) == 0
    assert len(Translator.load("run").translate(["Where is the train station?"])) == 1


def write_part(data: DataSettings, part: str, pairs: list[SentencePair]) -> None:
    """Write the files that a part of [data] names, if it names any."""
    for side in ("src", "tgt"):
        write_lines(getattr(data, f"{part}_{side}"), [getattr(pair, side) for pair in pairs])
    one = getattr(data, part)
    if one.endswith(".jsonl"):
        sides = [{data.src_lang: pair.src, data.tgt_lang: pair.tgt} for pair in pairs]
        write_lines(one, [json.dumps({"translation": each}) for each in sides])
    else:
        write_lines(one, [f"{pair.src}\t{pair.tgt}" for pair in pairs])


def write_lines(name: str, lines: list[str]) -> None:
    if name:
        path = Path(os.path.expandvars(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _modules() -> list[str]:
    return [info.name for info in pkgutil.walk_packages(dragoman.__path__, "dragoman.") if "__main__" not in info.name]


def test_public_names_are_documented() -> None:
    missing = []
    for name in _modules():
        module = import_module(name)
        for key, value in vars(module).items():
            public = not key.startswith("_") and getattr(value, "__module__", None) == name
            if public and (inspect.isclass(value) or inspect.isfunction(value)) and not inspect.getdoc(value):
                missing.append(f"{name}.{key}")
    assert not missing


def test_the_project_is_described_in_one_sentence() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    sentence = f"{project['description']}."
    assert sentence in help_text()
    for name in ("README.md", "CITATION.cff", "docs/index.md"):
        assert sentence in (ROOT / name).read_text(encoding="utf-8"), name
