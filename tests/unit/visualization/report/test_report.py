"""The report: correct content, safe with any text, and never written in part."""

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

from dragoman.bundle import Model, resolve_model_folder
from dragoman.cli.main import run_command
from dragoman.data.batch import Batch
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.text.tokenization.words import words_of
from dragoman.visualization.report.report import (
    ReportedTest,
    WordWeights,
    choose_rows,
    choose_sentences,
    clip_text,
    cross_attention_of,
    hover_rules,
    report_html,
    shade_level,
    write_report,
)
from dragoman.visualization.report.run_facts import TrainingLog, open_stored_part, read_log, read_run
from dragoman.visualization.report.run_figures import draw_lengths, draw_run, inline_svg
from tests.system.commands import write_tsv

HOSTILE = [
    "</script><script>alert(1)</script>",
    "</style><img src=x onerror=alert(2)>",
    '"><svg onload=alert(3)>{{ 7 * 7 }}{% raw %}',
    "right\u202eto\u200fleft\u2066",
    "😀👩‍👩‍👧 emoji \U000e0041",
    "z" + "\u0301" * 5000,
    "שלום עולם",
    "a\x00b\x1bc",
    "",
    "word " * 2000,
]


class Page(HTMLParser):
    """A parsed page: elements with attributes, and the text outside style elements."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.style = "", ""
        self._in_style = False
        self.feed(content)

    def handle_starttag(self, tag, attrs) -> None:
        self.elements.append((tag, dict(attrs)))
        self._in_style = tag == "style"

    def handle_endtag(self, tag) -> None:
        self._in_style = False

    def handle_data(self, data) -> None:
        if self._in_style:
            self.style += data
        else:
            self.text += data

    def values(self, name: str) -> list[str]:
        return [str(attributes[name]) for _, attributes in self.elements if name in attributes]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of six steps with a test set."""
    folder = tmp_path_factory.mktemp("report")
    pairs = load_phrasebook().generate(seed=5, count=330)
    for name, part in (("train", pairs[:270]), ("test", pairs[270:])):
        write_tsv(folder / f"{name}.en-de.tsv", part)
    arguments = [
        "train", "--data", str(folder / "train.en-de.tsv"), "--data.test", str(folder / "test.en-de.tsv"),
        "--out", str(folder / "run"), "--model.preset", "custom", "--model.d-model", "32", "--model.d-ff", "64",
        "--model.num-encoder-layers", "1", "--model.num-decoder-layers", "2", "--train.max-steps", "6",
        "--train.log-every-steps", "2", "--tokenizer.vocab-size", "400", "--validate.every-steps", "3",
        "--train.device", "cpu", "--train.precision", "float32",
        "--train.average-last", "0", "--inference.max-extra-tokens", "3",
    ]  # fmt: skip
    assert run_command(arguments) == 0
    return folder / "run"


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of the run that tests may change."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


def echo(texts: Sequence[str]) -> list[str]:
    return list(texts)


def hostile() -> ReportedTest:
    words = WordWeights(("<b>", " & "), (" </p>", '"'), ((0.7, 0.1), (0.2, 0.4)))
    return ReportedTest("test", HOSTILE, HOSTILE[::-1], HOSTILE, ["<i>few</i>"], echo, lambda source, output: words)


def assert_safe(content: str) -> Page:
    """Assert that the page runs and loads nothing and that its policy allows its own style only."""
    page = Page(content)
    assert {tag for tag, _ in page.elements} & {"script", "img", "link", "iframe", "object", "form", "base"} == set()
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert "style" not in {name for _, attributes in page.elements for name in attributes}
    assert [tag for tag, _ in page.elements].count("style") == 1
    allowed = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
    (policy,) = [value for value in page.values("content") if "default-src" in value]
    assert policy == f"default-src 'none'; style-src 'sha256-{allowed}'; base-uri 'none'; form-action 'none'"
    assert not re.search(r"url\(|@import|expression", page.style)
    assert all(value.startswith("#") for name in ("href", "src", "xlink:href") for value in page.values(name))
    identities = page.values("id")
    assert len(identities) == len(set(identities))
    assert {target[1:] for target in page.values("href")} <= set(identities)
    return page


def test_training_writes_the_report_and_the_card(run: Path, capsys: pytest.CaptureFixture) -> None:
    page = assert_safe((run / "report.html").read_text(encoding="utf-8"))
    card = json.loads((resolve_model_folder(run) / "card.json").read_text())
    assert (run / "card.md").read_text() == (resolve_model_folder(run) / "card.md").read_text()
    assert len(card["scores"]) == 6
    for data, metric, value, signature in card["scores"]:
        assert all(part in page.text for part in (data, metric, f"{value:.2f}", signature))
    assert f"{card['train_pairs']} sentence pairs from en to de" in page.text
    assert "60 for the test" in page.text
    assert "20 of 60 sentences, selected by sentence chrF" in page.text
    articles = [attributes for tag, attributes in page.elements if tag == "article"]
    assert len(articles) == 20
    assert all(heading in page.text for heading in ("Worst", "Median", "Best"))
    for phenomenon in "numbers names negation questions long short".split():
        assert phenomenon in page.text
    assert "max_steps = 6" in page.text
    assert "curves" in {identity.split("-")[0] for identity in page.values("id")}
    labels = ["Histograms of sentence lengths"] * 2 + ["Training curves by step"] * 2
    assert page.values("aria-label") == labels, "one version for wide pages and one for phones"
    assert not list(run.glob(".writing-*"))


def test_the_report_command_writes_the_same_page(run: Path, capsys: pytest.CaptureFixture) -> None:
    before = (run / "report.html").read_text(encoding="utf-8")
    (run / "report.html").unlink()
    assert run_command(["report", str(run), "--device", "cpu"]) == 0
    assert capsys.readouterr().out == f"{run / 'report.html'}\n"
    after = (run / "report.html").read_text(encoding="utf-8")
    # The copied run has another path, which the last section shows.
    assert after.split('<section id="again">')[0] == before.split('<section id="again">')[0]


def test_hostile_text_is_shown_as_text(run: Path) -> None:
    page = assert_safe(write_report(run, hostile()).read_text(encoding="utf-8"))
    assert "</script><script>alert(1)</script>" in page.text
    assert "{{ 7 * 7 }}" in page.text
    assert "<i>few</i>" in page.text
    assert "… (10,000 characters)" in page.text
    assert "(empty)" in page.text
    texts = [attributes for tag, attributes in page.elements if tag == "p" and "text" in str(attributes.get("class"))]
    assert texts
    assert all(attributes["dir"] == "auto" for attributes in texts)


def test_lone_surrogates_are_replaced(run: Path) -> None:
    torn = ["\ud83d torn"]
    page = write_report(run, ReportedTest("test", torn, torn, torn, [], echo)).read_text(encoding="utf-8")
    assert "\ufffd torn" in Page(page).text


def test_a_run_without_a_test_set_shows_validation(run: Path) -> None:
    shutil.rmtree(run / "data" / "test")
    assert run_command(["report", str(run), "--device", "cpu"]) == 0
    page = assert_safe((run / "report.html").read_text(encoding="utf-8"))
    assert "Sentences of the validation" in page.text
    assert "There is no test set" in page.text


def test_a_report_without_data_and_log(run: Path, capsys: pytest.CaptureFixture) -> None:
    shutil.rmtree(run / "data")
    (run / "log.jsonl").unlink()
    assert run_command(["report", str(run), "--device", "cpu"]) == 0
    assert "the report has no sentences" in capsys.readouterr().err
    page = assert_safe((run / "report.html").read_text(encoding="utf-8"))
    assert "The log has no curves" in page.text
    assert {"article", "svg"} & {tag for tag, _ in page.elements} == set()
    assert "BLEU" in page.text


def test_findings_of_the_watchdog_are_shown(run: Path) -> None:
    with (run / "log.jsonl").open("a") as stream:
        stream.write('{"event": "watchdog", "step": 4, "name": "odd", "text": "All <b>odd</b>."}\n')
    assert "Watchdog, step 4: All <b>odd</b>." in assert_safe(report_html(read_run(run), None)).text


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"averaged_steps": (3, 4)}, "The weights are the mean of the weights after steps 3, 4."),
        ({"averaged_steps": (1200,), "ema_decay": 0.999}, "their running mean with decay 0.999 at step 1,200."),
        ({"lineage": ("old", "older")}, "The model was fine-tuned from old, then older."),
        ({"teachers": ("one", "two")}, "It was also trained on the predictions of one, two."),
    ],
)
def test_the_origin_of_the_weights_matches_the_card(run: Path, known: dict[str, Any], said: str) -> None:
    facts = read_run(run)
    page = assert_safe(report_html(replace(facts, card=replace(facts.card, **known)), None)).text
    assert said in page
    assert ("scored best on the validation data" in page) == ("averaged_steps" not in known)


def test_a_damaged_test_set_is_reported_before_translating(run: Path, capsys: pytest.CaptureFixture) -> None:
    largest = max((run / "data" / "test").iterdir(), key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-1])
    before = (run / "report.html").read_bytes()
    assert run_command(["report", str(run), "--device", "cpu"]) == 2
    error = capsys.readouterr().err
    assert f"{run / 'data' / 'test'} is not a complete store" in error.splitlines()[-1]
    assert (run / "report.html").read_bytes() == before


def test_a_folder_without_a_run_is_reported_before_loading_a_model(
    run: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.bundle.weights.parse_weights", None)
    (run / "config.toml").unlink()
    assert run_command(["report", str(run), "--device", "cpu"]) == 2
    assert "is not a run: it has no config.toml" in capsys.readouterr().err


def test_a_killed_run_has_no_report_and_a_one_line_error(run: Path, capsys: pytest.CaptureFixture) -> None:
    (run / "report.html").unlink()
    for name in ("best", "last"):
        (run / name).unlink()
    assert run_command(["report", str(run)]) == 2
    assert "is a run without a finished validation" in capsys.readouterr().err
    assert not (run / "report.html").exists()
    assert run_command(["report", str(run / "nowhere")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_a_model_folder_is_refused_and_unchanged(run: Path, capsys: pytest.CaptureFixture) -> None:
    folder = resolve_model_folder(run)
    before = sorted(path.name for path in folder.iterdir())
    assert run_command(["report", str(folder), "--device", "cpu"]) == 2
    assert "is a model folder, not a run" in capsys.readouterr().err.splitlines()[-1]
    assert sorted(path.name for path in folder.iterdir()) == before
    Model.load(folder, "cpu")
    assert run_command(["report", str(run / "checkpoints"), "--device", "cpu"]) == 2


def test_complete_lines_of_a_truncated_log_are_read(tmp_path: Path) -> None:
    lines = [
        '{"event": "train", "step": 10, "loss": 4.0, "perplexity": Infinity, "epoch": 0}',
        '{"event": "train", "step": 10, "loss": 3.5}',
        '{"event": "validation", "step": 10, "loss": 3.0, "bleu": NaN, "chrf": 20.5}',
        "[1, 2]", "null", '{"event": ["train"], "step": 1}', '{"event": "train", "loss": 1.0}', "[" * 5000,
        '{"event": "watchdog", "step": 20, "name": "same output", "text": "All the same."}', '{"event": "watchdog"}',
        '{"event": "train", "step": 20, "lo',
    ]  # fmt: skip
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    log = read_log(tmp_path / "log.jsonl")
    assert log.train == {"loss": ((10.0, 3.5),), "epoch": ((10.0, 0.0),)}
    assert log.validation == {"loss": ((10.0, 3.0),), "chrf": ((10.0, 20.5),)}
    assert log.findings == ((20, "All the same."),)
    assert read_log(tmp_path / "nothing") == TrainingLog({}, {})
    assert len(draw_run(log).axes[0].lines) == 2
    assert draw_run(TrainingLog()) is None


def test_forecasts_of_bleu_are_a_band_around_the_scores() -> None:
    scores = {"bleu": ((10.0, 9.0), (20.0, 18.0), (30.0, 23.0), (40.0, 25.0))}
    bounds = {"bleu_at_end_low": ((20.0, 14.0), (30.0, 21.0)), "bleu_at_end_high": ((20.0, 40.0), (30.0, 30.0))}
    (axes,) = draw_run(TrainingLog(validation=scores | bounds)).axes
    [band] = axes.collections
    assert {tuple(point) for point in band.get_paths()[0].vertices} == {(20, 14), (30, 21), (30, 30), (20, 40)}
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["BLEU at the end, forecast", "BLEU"]
    assert axes.get_ylim()[1] == 40
    (without,) = draw_run(TrainingLog(validation=scores)).axes
    assert not without.collections


def test_histograms_count_every_pair(run: Path) -> None:
    facts, store = read_run(run), open_stored_part(run, "train")
    figure = draw_lengths(facts.lengths, ("a", "b"), facts.config.data.max_tokens)
    for axes, values in zip(figure.axes, (store.src_counts, store.tgt_counts), strict=True):
        counts = [bar.get_height() for bar in axes.patches]
        assert sum(counts) == len(store) == facts.card.train_pairs
        assert axes.get_title(loc="left").endswith(f"(mean {values.mean():.1f})")
        assert len(counts) <= 32
    assert draw_lengths((), ("a", "b"), 100) is None
    assert facts.cleaning[0][0] == "read"
    assert facts.cleaning[0][1] == sum(count for name, count, _ in facts.cleaning[1:])


def test_figures_use_the_pages_colours_and_no_style(run: Path) -> None:
    figure = draw_run(read_run(run).log)
    drawn = inline_svg(figure, "one", "what it is")
    assert drawn.startswith('<svg class="chart" role="img" aria-label="what it is" viewBox=')
    assert "style" not in drawn
    assert "currentColor" in drawn
    assert "var(--line)" in drawn
    assert "#01020" not in drawn
    assert set(re.findall(r'(?:id="|href="#|url\(#)(\w+)-', drawn)) == {"one"}


def test_the_worst_median_and_best_sentences_are_chosen() -> None:
    chosen = choose_rows([float(row) for row in range(101)], [1] * 101)
    assert [row for _, row in chosen] == [*range(7), *range(47, 54), *range(95, 101)]
    assert [group for group, _ in chosen] == ["worst"] * 7 + ["median"] * 7 + ["best"] * 6
    assert choose_rows([2.0, 1.0], [1, 1]) == [("all", 1), ("all", 0)]
    assert len(set(choose_rows([0.0] * 21, [1] * 21))) == 20
    equal = [0.0] * 20 + [50.0] * 20 + [100.0] * 20
    lengths = [*range(20)] * 3
    rows = [row for _, row in choose_rows(equal, lengths)]
    assert rows[:7] == [19, 18, 17, 16, 15, 14, 13], "the longest of equally bad sentences"
    assert rows[-6:] == [59, 58, 57, 56, 55, 54], "and of equally good sentences"
    assert choose_rows([], []) == []


def test_words_are_shaded_by_their_weights() -> None:
    words = WordWeights(("A", " b"), ("x", " y"), ((0.9, 0.05), (0.1, 0.4)))
    (shown,) = choose_sentences(["A b"], ["x z"], ["x y"], lambda source, output: words)
    assert [word.classes for word in shown.src_words] == ["w o0 h0 l4", "w o1 h1 l3"]
    assert [word.classes for word in shown.tgt_words] == ["w t0 h0 l4", "w t1 h1 l3"]
    assert [(word.text, word.spaced, word.hint) for word in shown.tgt_words] == [
        ("x", False, "A 90%"), ("y", True, "b 40%, A 10%")
    ]  # fmt: skip
    rules = hover_rules("s0", words).split("\n")
    assert "#s0:has(.t1:is(:hover,:focus)) :is(.o1){background:var(--b3)}" in rules
    assert "#s0:has(.o0:is(:hover,:focus)) :is(.t0){background:var(--b4)}" in rules
    assert [shade_level(weight) for weight in (0.0, 0.07, 0.08, 0.18, 0.35, 0.6, 1.0)] == [0, 0, 1, 2, 3, 4, 4]
    many = WordWeights(("a",) * 61, ("b",), ((0.9,) * 61,))
    assert hover_rules("s0", many) == ""
    assert clip_text("x" * 601).endswith("… (601 characters)")


def test_word_weights_match_the_models_attention(run: Path) -> None:
    trained = Model.load(resolve_model_folder(run), "cpu")
    align = cross_attention_of(trained)
    source, output = "Where is the train station?", "Wo ist der Bahnhof?"
    words = align(source, output)
    assert words is not None
    assert "".join(words.src_words).lstrip() == source
    assert "".join(words.tgt_words).lstrip() == output
    src_ids, tgt_ids = trained.tokenizers.src.encode(source), trained.tokenizers.tgt.encode(output)
    batch = Batch.from_ids([src_ids], [tgt_ids])
    with torch.no_grad():
        cross = (
            trained.transformer.attention(batch.src_ids, batch.src_lengths, batch.decoder_input).cross[-1][0].mean(0)
        )
    to_words = 1 - cross[: len(tgt_ids), -1]  # what did not go to the end token
    tgt_words = words_of(trained.tokenizers.tgt.tokens(tgt_ids))
    expected = torch.stack([to_words[word.start : word.stop].mean() for word in tgt_words])
    torch.testing.assert_close(torch.tensor(words.weights).sum(1), expected)
    assert align("", output) is None
    assert align("word " * 300, output) is None
    assert align("日本語", "これは") is not None


def test_an_empty_test_set_gives_a_page(run: Path) -> None:
    assert_safe(report_html(read_run(run), ReportedTest("test", [], [], [], [], echo)))
    assert_safe(report_html(read_run(run), None))
