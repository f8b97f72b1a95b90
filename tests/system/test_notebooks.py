"""A real Jupyter kernel: every result displays itself without `%matplotlib inline`, and the stop button saves a run."""

import time
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel
from nbclient import NotebookClient

from dragoman.demo.phrasebook_file import load_phrasebook

SIZES = 'preset="custom", d_model=16, d_ff=16, num_heads=2, vocab_size=300, device="cpu"'
CELLS = {
    "table": """
        import torch
        import dragoman
        sizes = {"d_model": 8, "num_heads": 8, "d_ff": 16, "tie": "none"}
        model = dragoman.Transformer.build(src_vocab_size=6, tgt_vocab_size=6, **sizes)
        model.parameter_table()""",
    "trace": """
        src, tgt = torch.tensor([[4, 5, 2]]), torch.tensor([[1, 4, 5, 2]])
        batch = dragoman.Batch(src, torch.tensor([3]), tgt, torch.tensor([3]))
        model.trace(batch)""",
    "mask": 'dragoman.visualization.plot_masks(["a", "b", "</s>", "<pad>"], ["<s>", "c", "d"], 3, 3)',
    "train": f'run = dragoman.train("text.en", "text.de", "run", max_steps=4, log_every_steps=1, {SIZES}); run',
    "curves": """
        %matplotlib inline
        run.plot()""",
    "translate": 'translator = run.translator("cpu"); translator("Where is the station?")',
    "inspect": 'dragoman.inspect(translator, "Where is the station?")',
    "report": "run.report",
    "scores": 'dragoman.evaluate(translator, "text.en", "text.de", beam_size=1)',
    "check": 'dragoman.check("text.en", "text.de")',
    "mistake": 'dragoman.train(src="text.en", tgt="text.de", max_step=3)',
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notebook")
    pairs = load_phrasebook().generate(seed=1, count=300)
    (folder / "text.en").write_text("".join(f"{pair.src}\n" for pair in pairs), encoding="utf-8")
    (folder / "text.de").write_text("".join(f"{pair.tgt}\n" for pair in pairs), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def outputs(folder: Path) -> dict[str, list[Any]]:
    """The outputs of each cell."""
    notebook = nbformat.v4.new_notebook()
    lines = {name: "\n".join(line.strip() for line in cell.strip().split("\n")) for name, cell in CELLS.items()}
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in lines.values()]
    notebook.cells[-1].metadata["tags"] = ["raises-exception"]
    NotebookClient(notebook, timeout=200, resources={"metadata": {"path": str(folder)}}).execute()
    return {name: cell.outputs for name, cell in zip(CELLS, notebook.cells, strict=True)}


def shown(outputs: list[Any]) -> dict[str, str]:
    """The representations of a cell's result, by type."""
    (result,) = (output for output in outputs if output.output_type == "execute_result")
    return dict(result.data)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("table", ["projection.weight", "9,206"]),
        ("trace", ["encoder.layers.0.self_attn.scores", "1 x 8 x 3 x 3"]),
        ("train", ["en to de, 4 steps", "chrF2"]),
        ("inspect", ["<iframe", "Where is the station?"]),
        ("report", ["<iframe"]),
        ("scores", ["BLEU", "95 % interval", "nrefs:1"]),
        ("check", ["300 pairs"]),
    ],
)
def test_a_result_displays_itself(outputs: dict[str, list[Any]], name: str, words: list[str]) -> None:
    page = shown(outputs[name])["text/html"]
    assert [word for word in words if word not in page] == []


def test_training_updates_one_display_with_its_figures_and_curve(outputs: dict[str, list[Any]]) -> None:
    live, result = outputs["train"]
    assert (live.output_type, result.output_type) == ("display_data", "execute_result")
    page = live.data["text/html"]
    for words in ("step 4 ", "tokens/s", "validation after step 4: perplexity", "<polyline", "<circle", "Stopped: "):
        assert words in page
    assert live.data["text/plain"].startswith("Stopped: train.max_steps = 4 reached.")


@pytest.mark.parametrize("name", ["mask", "curves"])
def test_a_figure_displays_itself(outputs: dict[str, list[Any]], name: str) -> None:
    (result,) = (output for output in outputs[name] if output.output_type == "execute_result")
    data = b64decode(result.data["image/png"])
    assert int.from_bytes(data[16:20]) == pytest.approx(2 * result.metadata["image/png"]["width"], abs=1), "sharp"


def test_a_text_gives_a_text_and_a_mistake_is_one_line(outputs: dict[str, list[Any]]) -> None:
    assert shown(outputs["translate"])["text/plain"].startswith("'")
    (error,) = (output for output in outputs["mistake"] if output.output_type == "error")
    assert error.ename == "ConfigError"
    assert error.evalue == "`max_step` is not a setting. Did you mean `max_steps`?"
    assert error.traceback == [f"ConfigError: {error.evalue}"]


@pytest.fixture
def kernel(folder: Path) -> Iterator[tuple[KernelManager, BlockingKernelClient]]:
    manager, client = start_new_kernel(cwd=str(folder))
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_the_stop_button_saves_the_run_and_returns_it(
    folder: Path, kernel: tuple[KernelManager, BlockingKernelClient]
) -> None:
    manager, client = kernel
    log = folder / "stopped" / "log.jsonl"
    limits = "max_minutes=9, log_every_steps=1"
    code = f'import dragoman; run = dragoman.train("text.en", "text.de", "stopped", {limits}, {SIZES})'
    client.execute(code)
    until = time.monotonic() + 100
    while not log.exists() or not log.read_text():
        assert time.monotonic() < until
        time.sleep(0.1)
    manager.interrupt_kernel()
    assert client.get_shell_msg(timeout=100)["content"]["status"] == "ok"
    client.execute("run.resume(max_steps=1)", user_expressions={"steps": "run.card.steps"})
    assert client.get_shell_msg(timeout=100)["content"]["status"] == "ok"
    assert list((folder / "stopped" / "checkpoints").glob("step_*"))
