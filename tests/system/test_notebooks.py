"""A real Jupyter kernel: each flow of a learner, in the few lines that it takes, displays its results.

Figures need no `%matplotlib inline`, and the stop button saves a run.
"""

import ast
import re
import time
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import nbformat
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel
from nbclient import NotebookClient

from dragoman.demo.phrasebook_file import load_phrasebook
from tests.system.commands import write_sides

SIZES = 'preset="custom", d_model=16, d_ff=16, num_heads=2, vocab_size=300, optimizer="adam", device="cpu"'
CELLS = {
    "table": """
        import torch
        import dragoman
        sizes = {"d_model": 8, "num_heads": 8, "d_ff": 16, "tie": "none"}
        model = dragoman.Transformer.build(src_vocab_size=6, tgt_vocab_size=6, **sizes)
        model.parameter_table()""",
    "trace": """
        batch = dragoman.Batch.from_ids([[4, 5], [5]], [[4, 5, 4], [5]])
        model.trace(batch)""",
    "diagram": "dragoman.visualization.plot_transformer(model)",
    "mask": 'dragoman.visualization.plot_masks(["a", "b", "</s>", "<pad>"], ["<s>", "c", "d"], 3, 3)',
    "train": f'run = dragoman.train("text.en", "text.de", "run", max_steps=4, log_every_steps=1, {SIZES}); run',
    "resume": "run.resume(max_steps=6)",
    "history": "run.history",
    "curves": """
        %matplotlib inline
        run.plot()""",
    "translate": 'translator = run.translator("cpu"); translator("Where is the station?")',
    "translate greedily": 'translator("Where is the station?", beam_size=1)',
    "stream": """
        for part in translator.stream("Where is the station?", beam_size=1):
            print(part, end="|", flush=True)""",
    "full pass": """
        trained = translator.models[0]
        model, tokenizers = trained.transformer, trained.tokenizers
        batch = dragoman.Batch.from_ids(tokenizers.src.encode_batch(["Where is the station?", "Good morning."]))
        memory, ids = model.encode(batch.src_ids, batch.src_lengths), batch.decoder_input
        for _ in range(20):
            states = model.decode(ids, memory, batch.src_lengths)
            ids = torch.cat([ids, model.projection(states[:, -1:]).argmax(-1)], dim=1)""",
    "cache": """
        cached_ids, cache = batch.decoder_input, {}
        for _ in range(20):
            states = model.decode(cached_ids[:, -1:], memory, batch.src_lengths, cache=cache)
            cached_ids = torch.cat([cached_ids, model.projection(states[:, -1:]).argmax(-1)], dim=1)
        torch.equal(ids, cached_ids)""",
    "translation": 'translation = translator.translate_detailed(["Where <i>is</i> the station?"])[0]; translation',
    "candidate": "translation.candidates[0]",
    "pair": 'translator.score(["Good morning."], ["Guten Morgen."])[0]',
    "sentence": "run.test_sentence()",
    "card": "run.card",
    "model": "trained",
    "tokenizer": "tokenizers.src",
    "tokenizers": "tokenizers",
    "attention": "trained.transformer.attention(batch.src_ids, batch.src_lengths, batch.decoder_input)",
    "early": """
        import pathlib, shutil
        shutil.copytree("run", "early")
        for part in ("best", "averaged"):
            if (folder := pathlib.Path("early", part)).exists():
                folder.rename(f"without {part}")
        dragoman.Run("early")""",
    "heads": 'dragoman.visualization.plot_heads(translator, "Where is the station?", layer=1, kind="cross")',
    "loop": """
        from dragoman.visualization import plot_heads
        for layer in (1, 2):
            print(layer)
            plot_heads(translator, "Good morning.", layer=layer)""",
    "loop with show": """
        import matplotlib.pyplot as plt
        for layer in (1, 2):
            print(layer)
            dragoman.visualization.plot_encodings(4, 4)
            plt.show()""",
    "show": """
        plot_heads(run, "Good morning.").show()
        print("after")""",
    "changed": """
        figure = plot_heads(model, batch)
        figure.suptitle("mine")
        figure""",
    "nothing is left": "plt.get_fignums()",
    "inspect": 'dragoman.inspect(translator, "Where is the station?")',
    "report": "run.report",
    "scores": 'dragoman.evaluate(translator, "text.en", "text.de", beam_size=1)',
    "compare": 'dragoman.compare(run, "text.de", "text.en", "text.de", beam_size=1)',
    "fine-tune": 'dragoman.train("text.en", "text.de", "tuned", start_from=run, max_steps=2, device="cpu")',
    "check": 'dragoman.check("text.en", "text.de")',
    "mistake": 'dragoman.train(src="text.en", tgt="text.de", max_step=3)',
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notebook")
    pairs = load_phrasebook().generate(seed=1, count=300)
    write_sides(folder / "text", pairs)
    return folder


@pytest.fixture(scope="module")
def outputs(folder: Path) -> dict[str, list[Any]]:
    """The outputs of each cell."""
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(dedent(cell).strip()) for cell in CELLS.values()]
    for name, cell in zip(CELLS, notebook.cells, strict=True):
        if name in ("show", "changed", "mistake"):  # tests look at all of their outputs
            cell.metadata["tags"] = ["raises-exception"]
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
        ("trace", ["encoder.layers.0.self_attn.scores", "2 x 8 x 3 x 3"]),
        ("train", ["en to de, 4 steps", "chrF2"]),
        ("resume", ["en to de, 6 steps", "chrF2"]),
        ("inspect", ["<iframe", "Where is the station?"]),
        ("report", ["<iframe"]),
        ("translation", ["<table>", "Where &lt;i&gt;is&lt;/i&gt; the station?", "score"]),
        ("candidate", ["<table>", "token_log_probs"]),
        ("pair", ["<table>", "Guten Morgen."]),
        ("sentence", ["<table>", "SOURCE", "TARGET", "PREDICTED"]),
        ("card", ["<table>", "train_pairs", "BLEU"]),
        ("model", ["<table>", "en to de", "num_heads 2"]),
        ("tokenizer", ["<table>", "vocab_size", "&lt;unk&gt;"]),
        ("tokenizers", ["<table>", "300"]),
        ("attention", ["<table>", "decoder_self", "2 x 2 x 1 x 1"]),
        ("early", ["without a finished validation"]),
        ("scores", ["BLEU", "95 % interval", "nrefs:1"]),
        ("compare", ["BLEU", "p (bootstrap)", "100.00"]),
        ("fine-tune", ["Run(&#x27;tuned&#x27;)", "2 steps"]),
        ("check", ["300 pairs"]),
    ],
)
def test_a_result_displays_itself(outputs: dict[str, list[Any]], name: str, words: list[str]) -> None:
    page = shown(outputs[name])["text/html"]
    assert [word for word in words if word not in page] == []


@pytest.mark.parametrize(
    "name",
    "translation candidate pair card model tokenizer tokenizers attention early train inspect report scores compare "
    "check".split(),
)
def test_the_text_of_a_result_is_one_screen_without_markup(outputs: dict[str, list[Any]], name: str) -> None:
    text = shown(outputs[name])["text/plain"]
    lines = text.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 100 or len(lines) == 1
    assert not re.search(r"<(table|td|iframe|p)\b|[A-Za-z0-9+/]{60}", text)


def test_training_updates_one_display_with_its_figures_and_curve(outputs: dict[str, list[Any]]) -> None:
    live, result = outputs["train"]
    assert (live.output_type, result.output_type) == ("display_data", "execute_result")
    page = live.data["text/html"]
    for words in ("step 4 ", "tokens/s", "validation after step 4: perplexity", "<polyline", "<circle", "Stopped: "):
        assert words in page
    assert live.data["text/plain"].startswith("Stopped: train.max_steps = 4 reached.")


@pytest.mark.parametrize("name", ["diagram", "mask", "curves", "heads", "changed"])
def test_a_figure_displays_itself_once(outputs: dict[str, list[Any]], name: str) -> None:
    (result,) = outputs[name]
    assert result.output_type == "execute_result"
    data = b64decode(result.data["image/png"])
    assert int.from_bytes(data[16:20]) == pytest.approx(2 * result.metadata["image/png"]["width"], abs=1), "sharp"


def kinds_of(outputs: list[Any]) -> str:
    """What a cell prints, and the types of what it shows, in their order."""
    kinds = [
        output.text if output.output_type == "stream" else next(key for key in output.data if key != "text/plain")
        for output in outputs
    ]
    return " ".join(" ".join(kinds).split())


def test_figures_of_a_cell_are_shown_as_those_of_matplotlib(outputs: dict[str, list[Any]]) -> None:
    assert kinds_of(outputs["loop"]) == "1 2 image/png image/png"
    assert kinds_of(outputs["loop with show"]) == "1 image/png 2 image/png"
    assert shown(outputs["nothing is left"])["text/plain"] == "[]"
    assert kinds_of(outputs["show"]) == "image/png after"


def test_a_text_gives_a_text_and_a_mistake_is_one_line(outputs: dict[str, list[Any]]) -> None:
    assert shown(outputs["translate"])["text/plain"].startswith("'")
    (error,) = (output for output in outputs["mistake"] if output.output_type == "error")
    assert error.ename == "ConfigError"
    assert error.evalue == "`max_step` is not a setting. Did you mean `max_steps`?"
    assert error.traceback == [f"ConfigError: {error.evalue}"]


def test_words_are_streamed_and_decoding_by_hand_with_and_without_a_cache_agrees(outputs: dict[str, list[Any]]) -> None:
    streamed = "".join(output.text for output in outputs["stream"])
    assert streamed.replace("|", "") == ast.literal_eval(shown(outputs["translate greedily"])["text/plain"])
    assert outputs["full pass"] == []
    assert shown(outputs["cache"])["text/plain"] == "True"


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
    client.execute("run", user_expressions={"text": "repr(run)"})
    found = client.get_shell_msg(timeout=100)["content"]["user_expressions"]["text"]
    assert found["status"] == "ok"
    assert "Run('stopped'): " in found["data"]["text/plain"]
    client.execute("run.resume(max_steps=1)", user_expressions={"steps": "run.card.steps"})
    assert client.get_shell_msg(timeout=100)["content"]["status"] == "ok"
    assert list((folder / "stopped" / "checkpoints").glob("step_*"))
