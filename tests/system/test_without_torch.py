"""What runs without torch: everything but training and pictures. Results equal those with torch."""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("numba", reason="without torch, machine code translates")

from dragoman.bundle import Card, Model, Weights
from dragoman.config import Config, DataSettings, InferenceSettings, TokenizerSettings
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.text.tokenization.tokenizer import TokenizerPair, train_tokenizer
from tests.contract.random_models import random_transformer
from tests.system.commands import write_tsv

BLOCKED = """
import sys
sys.modules["torch"] = sys.modules["matplotlib"] = None
"""
PROGRAM = """
import contextlib, io, json, sys
from dragoman.cli.main import run_command
answers = []
for arguments in json.load(sys.stdin):
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_command(arguments)
    answers.append([code, out.buffer.getvalue().decode(), err.getvalue()])
json.dump([answers, bool(sys.modules.get("torch"))], sys.stdout)
"""
LINES = ["one two three. four five", "Bahnhof", "", "five four three Bahnhof one", "one"]
PAGE = "<p>one <b>two</b> three. <a href='x'>four</a></p>"


class Files(NamedTuple):
    model: Path
    src: Path
    ref: Path
    terms: Path
    page: Path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("without_torch")
    tokenizer = train_tokenizer(TokenizerSettings(vocab_size=280), ["one two three. four five Bahnhof"] * 3)
    model = random_transformer(tokenizer.vocab_size, d_model=32, deviation=0.3)
    data = DataSettings(max_tokens=24, src_lang="en", tgt_lang="de")
    config = Config(data=data, model=model.settings, inference=InferenceSettings(beam_size=3, max_extra_tokens=4))
    Model(Weights.of(model), TokenizerPair(tokenizer, tokenizer, joint=True), config, Card()).save(folder / "model")
    found = Files(folder / "model", *(folder / name for name in ("src.en", "ref.de", "terms.tsv", "page.html")))
    found.src.write_text("\n".join(LINES) + "\n")
    found.ref.write_text("\n".join(line or "x" for line in reversed(LINES)) + "\n")
    found.terms.write_text("two\tBahnhof\n")
    found.page.write_text(PAGE)
    return found


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of a process that cannot import torch and matplotlib."""
    folder = tmp_path_factory.mktemp("blocked")
    (folder / "sitecustomize.py").write_text(BLOCKED)
    path = os.pathsep.join([str(folder), str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path}


def run_in_process(commands: Sequence[Sequence[str]], environment: dict[str, str] | None = None) -> tuple[Any, bool]:
    """Exit code, output and notes of each command, all in one new process, and whether it imported torch."""
    command, sent = [sys.executable, "-c", PROGRAM], json.dumps(commands)
    done = subprocess.run(command, input=sent, capture_output=True, text=True, check=True, env=environment)
    answers, has_torch = json.loads(done.stdout)
    return answers, has_torch


def run_here(commands: Sequence[Sequence[str]]) -> list[list[object]]:
    from dragoman.cli.main import run_command

    answers: list[list[object]] = []
    for arguments in commands:
        out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run_command(arguments)
        answers.append([code, out.buffer.getvalue().decode(), err.getvalue()])  # type: ignore[attr-defined]
    return answers


def test_commands_give_the_same_without_torch(files: Files, environment: dict[str, str]) -> None:
    model, src, ref, terms, page = map(str, files)
    translate = ["translate", model, "--input", src]
    commands = [
        translate,
        [*translate, "--inference.precision", "float32", "--inference.beam-size", "1"],
        [*translate, "--format", "jsonl", "--inference.n-best", "2", "--alignment"],
        [*translate, "--alignment", "--flags", "--prefix", ref],
        [*translate, "--terms", terms],
        [*translate, "--stream"],
        ["translate", model, "--text", "one two"],
        ["translate", model, "--input", page, "--format", "html", "--terms", terms],
        ["evaluate", model, "--src", src, "--ref", ref, "--checklist", "--no-language-check"],
        ["evaluate", "--hyp", src, "--ref", ref, "--no-language-check"],
        ["compare", src, ref, "--src", src, "--ref", ref, "--no-language-check"],
        ["check", src, ref],
        ["score", model, "--src", src, "--tgt", ref],
        ["score", model, "--src", src, "--tgt", ref, "--json", "--inference.precision", "float32"],
    ]
    without, _ = run_in_process(commands, environment)
    expected = run_here(commands)
    for command, one, other in zip(commands, without, expected, strict=True):
        assert one[:2] == other[:2], (command, one[2])
        assert one[0] in (0, 1), one[2]
        assert one[1]


def content_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_models_are_converted_and_averaged_the_same_without_torch(
    small_marian: Path,
    model_folder: Path,
    other_model_folder: Path,
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("ctranslate2")
    run = tmp_path / "run"
    for step, folder in enumerate((model_folder, other_model_folder), 1):
        shutil.copytree(folder, run / "checkpoints" / f"step_{step:07d}")
    commands = [
        ["import", str(small_marian), "--out", "model"],
        ["export", "model", "--to", "marian"],
        ["export", "model", "--to", "ctranslate2"],
        ["export", "model", "--to", "ctranslate2", "--quantization", "int8", "--out", "model-ctranslate2-int8"],
        ["export", "model", "--to", "int8"],
        ["summary", "model"],
        ["summary", "model-int8", "--json"],
        ["summary", "--model.preset", "base", "--model.tie", "decoder", "--tokenizer.joint", "false"],
        ["average", str(run), "--out", "mean"],
    ]
    found = []
    for name in ("without", "with"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        answers = run_in_process(commands, environment)[0] if name == "without" else run_here(commands)
        assert [answer[0] for answer in answers] == [0] * len(commands), answers
        assert all(answer[1] for answer in answers)
        found.append((answers, content_of(tmp_path / name)))
    assert found[0] == found[1]
    assert {Path(path).parts[0] for path in found[0][1]} == {
        *("mean", "model", "model-marian", "model-ctranslate2", "model-ctranslate2-int8", "model-int8")
    }


@pytest.fixture(scope="module")
def trained_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two steps with a test set."""
    folder = tmp_path_factory.mktemp("trained")
    pairs = load_phrasebook().generate(seed=5, count=120)
    for name, part in (("train", pairs[:100]), ("test", pairs[100:])):
        write_tsv(folder / f"{name}.tsv", part)
    flags = {
        "--data": folder / "train.tsv", "--data.test": folder / "test.tsv", "--data.src-lang": "en",
        "--data.tgt-lang": "de", "--model.preset": "custom", "--model.d-model": 16, "--model.d-ff": 16,
        "--model.num-encoder-layers": 1, "--model.num-decoder-layers": 1, "--tokenizer.vocab-size": 300,
        "--train.max-steps": 2, "--validate.every-steps": 2, "--train.log-every-steps": 1,
        "--inference.max-extra-tokens": 3, "--out": folder / "run",
    }  # fmt: skip
    [(code, _, said)] = run_here([["train", *(str(word) for flag in flags.items() for word in flag)]])
    assert code == 0, said
    return folder / "run"


def test_a_run_is_verified_and_reported_without_torch(
    files: Files, trained_run: Path, environment: dict[str, str]
) -> None:
    run = str(trained_run)
    expected = (trained_run / "report.html").read_text()
    commands = [
        ["verify", run, "--src", str(files.src)],
        ["verify", run, "--steps", "0", "--json"],
        ["report", run],
    ]
    (verified, as_json, reported), _ = run_in_process(commands, environment)
    assert verified[0] == 3
    assert "Without torch, caches are not verified.\nsame: " in verified[1]
    assert "ok: 0 of 30 translations differ from the reference." in verified[1]
    assert f"could not verify resuming: resuming a run {NEEDS} Use `--steps 0`" in verified[2]
    facts = json.loads(as_json[1])
    assert (as_json[0], facts["reference"], facts["holds"], len(facts["checks"])) == (0, "one by one", True, 6)
    assert (reported[0], reported[1]) == (0, f"{trained_run / 'report.html'}\n")
    assert "matplotlib is not installed, so the report has no figures" in reported[2]
    left_out = re.compile(
        r"<figure>.*?</figure>\n|<p class=\"note\">The (figures are left|training loss).*?</p>\n", re.DOTALL
    )
    found = (trained_run / "report.html").read_text()
    assert found.count("The figures are left out, because matplotlib is not installed.") == 1
    assert left_out.sub("", found) == left_out.sub("", expected)


def test_a_model_that_samples_is_scored_without_torch(
    files: Files, sampling_folder: Path, environment: dict[str, str]
) -> None:
    command = ["score", str(sampling_folder), "--src", str(files.src), "--tgt", str(files.ref)]
    [(code, out, said)], _ = run_in_process([command], environment)
    assert (code, len(out.splitlines())) == (0, len(LINES)), said


def test_torch_is_not_imported_to_translate(files: Files) -> None:
    from dragoman.devices import without_torch

    if any(map(os.path.exists, without_torch._DRIVER_FILES)) or sys.platform != "linux":
        pytest.skip("only torch can tell whether it can use the GPU of this machine")
    [answer], has_torch = run_in_process([["translate", str(files.model), "--text", "one", "--alignment"]])
    assert answer[0] == 0
    assert not has_torch


NEEDS = "needs torch. Run `pip install '.[train]'` in the checkout of Dragoman."


def test_what_needs_torch_is_one_line(files: Files, environment: dict[str, str]) -> None:
    model, src, ref = str(files.model), str(files.src), str(files.ref)
    translate = ["translate", model, "--text", "one"]
    features = {
        "`inference.sample`": [*translate, "--inference.sample", "true"],
        "`inference.mbr_samples`": [*translate, "--inference.mbr-samples", "4"],
        "`--device cuda`": [*translate, "--device", "cuda"],
        "an ensemble of models": ["translate", model, model, "--text", "one"],
        "`dragoman inspect`": ["inspect", model, "one"],
        "training": ["train", "--src", src, "--tgt", ref, "--out", f"{model}-run"],
        "`dragoman plan`": ["plan", "--src", src, "--tgt", ref],
        "`--plot`": ["summary", model, "--plot", "plot.png"],
    }
    answers, _ = run_in_process(list(features.values()), environment)
    assert answers[-1][2] == f"dragoman: `--plot` {NEEDS.replace('torch', 'matplotlib')}\n"
    answers[-1][2] = answers[-1][2].replace("matplotlib", "torch")
    assert [(code, out) for code, out, _ in answers] == [(2, "")] * len(features)
    for feature, (_, _, said) in zip(features, answers, strict=True):
        assert said == f"dragoman: {feature} {NEEDS}\n"


API = """
import dataclasses, json, sys
import dragoman
model = sys.argv[1]
translator = dragoman.load(model)
details = translator.translate_detailed(["one two"], details=dragoman.Details(True))[0]
found = [translator(["one two", "five"]), details.alignment]
model = translator.models[0]
other = dataclasses.replace(model, fingerprint="0")
assert model == model != other and repr(model) == repr(other), repr(model)
def error_of(use):
    try:
        use()
    except dragoman.errors.MissingExtraError as error:
        return str(error)
print(json.dumps([found, [
    error_of(lambda: dragoman.Transformer), error_of(lambda: dragoman.Batch),
    error_of(lambda: dragoman.inspect(translator, "one")), error_of(lambda: dragoman.train("a", "b", "c")),
    error_of(lambda: translator.models[0].transformer), error_of(lambda: dragoman.visualization.plot_encodings),
    error_of(lambda: translator("one", sample=True)),
]]))
"""


def test_the_python_api_without_torch(files: Files, environment: dict[str, str]) -> None:
    import dragoman

    command = [sys.executable, "-c", API, str(files.model)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found, errors = json.loads(done.stdout)
    translator = dragoman.load(files.model)
    details = translator.translate_detailed(["one two"], details=dragoman.Details(True))[0]
    assert found == [translator(["one two", "five"]), [list(link) for link in details.alignment or ()]]
    advice = re.escape(NEEDS.removeprefix("needs torch"))
    assert all(re.fullmatch(rf"\S.* needs (torch|matplotlib){advice}", error) for error in errors)


@pytest.fixture(scope="module")
def address(files: Files, environment: dict[str, str]) -> Iterator[str]:
    command = [sys.executable, "-m", "dragoman", "serve", str(files.model), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            yield next(found[0] for line in lines if (found := re.search(r"http://[\d.:]+", line)))
        finally:
            process.kill()


def post(url: str, **fields: object) -> tuple[int, Any]:
    try:
        with urlopen(Request(url, json.dumps(fields).encode(), {"Content-Type": "application/json"})) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        return error.code, json.load(error)


def test_a_server_without_torch(address: str, files: Files) -> None:
    import dragoman

    expected = dragoman.load(files.model)("one two three")
    deepl, libretranslate = pytest.importorskip("deepl"), pytest.importorskip("libretranslatepy")
    client = deepl.DeepLClient("key", server_url=address)
    assert client.translate_text("one two three", source_lang="EN", target_lang="DE").text == expected
    assert libretranslate.LibreTranslateAPI(address).translate("one two three", "en", "de") == expected
    code, answer = post(f"{address}/v1/translate", text="one two three", source="en", target="de", alignment=True)
    assert (code, answer["translations"][0]["text"]) == (200, expected)
    code, answer = post(f"{address}/inspect", text="one", source="en", target="de")
    assert (code, answer["error"]) == (501, f"Not available on this server: inspecting {NEEDS}")
    with urlopen(f"{address}/v1/models") as models:  # the page hides its link
        assert json.load(models)["inspection"] is False
