"""Five things that people do in a notebook, each in at most twenty lines of their own, in a real Jupyter kernel."""

from base64 import b64decode
from pathlib import Path
from textwrap import dedent
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

TINY = 'tiny = dict(preset="custom", d_model=16, d_ff=32, num_heads=2, num_decoder_layers=2, device="cpu")'
FLOWS = {
    "build and look inside": (
        """
        import dragoman
        from dragoman.visualization import plot_heads, plot_layer, plot_transformer
        model = dragoman.Transformer.build(src_vocab_size=9, tgt_vocab_size=9, d_model=16, num_heads=2, d_ff=32)
        model.parameter_table()""",
        "plot_transformer(model)",
        """
        batch = dragoman.Batch.from_ids([[4, 5, 6], [7]], [[4, 5], [7, 8]])
        trace = model.trace(batch)
        trace""",
        'trace["decoder.layers.0.cross_attn.weights"].shape',
        "plot_heads(model, batch, layer=1)",
        "dragoman.greedy(model, batch, max_tokens=5)",
    ),
    "train on lists": (
        """
        import dragoman
        pairs = dragoman.corpora.load_phrasebook().generate(seed=1, count=300)
        english, german = [pair.src for pair in pairs], [pair.tgt for pair in pairs]
        languages = dict(src_lang="en", tgt_lang="de")
        dragoman.check(english, german, **languages)""",
        f"""
        {TINY}
        run = dragoman.train(english, german, "on lists", max_steps=4, vocab_size=300, **languages, **tiny)
        run""",
        "run = run.resume(max_steps=6); run.scores",
        "run.test_sentence()",
        "report = dragoman.evaluate(run, src=english[:20], ref=german[:20], beam_size=1); report",
        'report.scores["BLEU"]',
    ),
    "word translator": (
        f"""
        import dragoman
        from dragoman.visualization import plot_heads, plot_lengths
        corpus = dragoman.corpora.phrasebook(pairs=300)
        words = dict(kind="word", joint=False, tie="decoder", vocab_size=8000)
        {TINY}
        run = dragoman.train(**corpus.files, out="words", max_steps=4, **words, **tiny)
        translator = run.translator("cpu")
        translator.tokenizers""",
        "plot_lengths(*corpus.sides('train'))",
        """
        for layer in range(1, translator.model.config.model.num_decoder_layers + 1):
            plot_heads(translator, "Where is the station?", layer=layer, kind="cross")""",
        'translator.translate_detailed(["Where is the station?"], n_best=2)[0]',
    ),
    "copy task": (
        """
        import torch
        import dragoman
        from dragoman.data import copy_task
        torch.manual_seed(1)
        task = copy_task(num_train=400, num_held_out=20, seed=1, num_symbols=4, length=5)
        train, held_out = ([part.src_ids(row) for row in range(len(part))] for part in (task.train, task.held_out))
        size = dict(d_model=32, num_heads=4, d_ff=64, num_encoder_layers=1, num_decoder_layers=1, dropout=0.0)
        model = dragoman.Transformer.build(src_vocab_size=task.vocab_size, tgt_vocab_size=task.vocab_size, **size)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
        for step in range(150):
            batch = dragoman.Batch.from_ids(*2 * [train[step % 4 :: 4]])
            logits = model(batch.src_ids, batch.src_lengths, batch.decoder_input)
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=0)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        copies = dragoman.greedy(model, dragoman.Batch.from_ids(held_out))
        sum(copy == list(row) for copy, row in zip(copies, held_out))""",
    ),
    "Marian": (
        """
        import dragoman
        translator = dragoman.load("marian", device="cpu")
        translator.card""",
        'translator("Where is the station?", beam_size=1)',
        'dragoman.inspect(translator, "Where?", max_extra_tokens=5)',
        """
        pairs = dragoman.corpora.load_phrasebook().generate(seed=1, count=300)
        english, german = [pair.src for pair in pairs], [pair.tgt for pair in pairs]
        tuned = dragoman.train(english, german, "tuned", start_from="marian", max_steps=2, device="cpu")
        tuned""",
        'tuned.translator("cpu").save("copy")',
    ),
}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory, small_marian: Path) -> dict[str, list[list[dict[str, Any]]]]:
    """What each cell of each flow shows: the data of each output by type."""
    folder = tmp_path_factory.mktemp("flows")
    (folder / "marian").symlink_to(small_marian)
    notebook = nbformat.v4.new_notebook()
    for cells in FLOWS.values():  # one kernel, whose names are forgotten between the flows
        notebook.cells += [nbformat.v4.new_code_cell(dedent(cell).strip()) for cell in (*cells, "%reset -f")]
    NotebookClient(notebook, timeout=200, resources={"metadata": {"path": str(folder)}}).execute()
    cells = iter(notebook.cells)
    found = {}
    for name, sources in FLOWS.items():
        outputs = [next(cells).outputs for _ in (*sources, "%reset -f")][:-1]
        found[name] = [[dict(each.data) for each in own if "data" in each] for own in outputs]
    return found


@pytest.mark.parametrize("name", FLOWS)
def test_a_flow_has_at_most_twenty_lines(name: str) -> None:
    lines = [line for cell in FLOWS[name] for line in dedent(cell).strip().splitlines()]
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 120


def last(outputs: list[dict[str, Any]], kind: str = "text/plain") -> str:
    return str(outputs[-1][kind])


def pictures(outputs: list[dict[str, Any]]) -> list[bytes]:
    return [b64decode(each["image/png"]) for each in outputs if "image/png" in each]


def test_a_model_is_built_and_looked_into(shown: dict[str, list[list[dict[str, Any]]]]) -> None:
    table, diagram, trace, shape, heads, greedy = shown["build and look inside"]
    assert "projection.weight" in last(table, "text/html")
    assert "decoder.layers.0.cross_attn.weights" in last(trace, "text/html")
    assert last(shape) == "torch.Size([2, 2, 3, 4])"  # bos and two targets; three sources and eos
    assert [len(pictures(each)) for each in (diagram, heads)] == [1, 1]
    assert last(greedy).startswith("[[")


def test_a_translator_is_trained_on_lists(shown: dict[str, list[list[dict[str, Any]]]]) -> None:
    check, run, scores, sentence, report, score = shown["train on lists"]
    assert "300 pairs" in last(check, "text/html")
    assert "en to de, 4 steps" in last(run)
    assert "'BLEU'" in last(scores)
    assert last(sentence).startswith("SOURCE")
    assert "BLEU" in last(report, "text/html")
    assert 0 <= float(last(score)) <= 100


def test_a_word_translator_shows_a_heatmap_for_each_layer(shown: dict[str, list[list[dict[str, Any]]]]) -> None:
    tokenizers, lengths, heads, translation = shown["word translator"]
    assert "word" in last(tokenizers)
    assert [len(pictures(each)) for each in (lengths, heads)] == [1, 2]
    assert len(set(pictures(heads))) == 2
    assert "score" in last(translation)


def test_the_copy_task_is_learned(shown: dict[str, list[list[dict[str, Any]]]]) -> None:
    [copies] = shown["copy task"]
    assert int(last(copies)) >= 18


def test_a_marian_folder_is_loaded_inspected_and_fine_tuned(shown: dict[str, list[list[dict[str, Any]]]]) -> None:
    card, text, inspection, tuned, copy = shown["Marian"]
    assert "en" in last(card)
    assert last(text).startswith("'")
    assert "<iframe" in last(inspection, "text/html")
    assert "2 steps" in last(tuned)
    assert "copy" in last(copy)
