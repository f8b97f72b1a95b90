"""`import dragoman`: train, load, evaluate, compare, inspect, plan and check, and the errors of the command line."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import dragoman
from dragoman.cli.main import run_command
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.errors import CheckpointError, ConfigError, DataError, DragomanError, ModelError
from dragoman.training.run.run_folder import lock_run
from dragoman.visualization.inspection.inspection import Inspection
from dragoman.workflows.api.keywords import name_keywords
from tests.system.commands import write_sides

SIZES: dict[str, Any] = {"preset": "custom", "d_model": 16, "d_ff": 16, "num_heads": 2, "vocab_size": 300}
MODEL = "must be a path, a run or a translator, but is"
SENTENCES = "must be a path or strings in order (a list, a column), but is"
HUB = "`model` must be a path, a run, or a model of the hub as owner/name, but is <Translator: en to de, beam size 5>."
ONE = "For a single text, pass [text]."
ONE_EACH = (
    "`n_best` is 3, but each text gets one translation here. Use `translate_detailed`, which returns all candidates."
)
SMALL: dict[str, Any] = SIZES | {"max_steps": 4, "device": "cpu", "test_fraction": 0.1, "train_seed": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("python")
    pairs = load_phrasebook().generate(seed=1, count=300)
    write_sides(folder / "text", pairs)
    (folder / "short.de").write_text("Eins.\n", encoding="utf-8")
    write_sides(folder / "few", pairs[:20])
    for name in ("empty", "corpus"):
        (folder / name).mkdir()
    (folder / "corpus" / "text.en").write_text("One.\n", encoding="utf-8")
    (folder / "unclear.toml").write_text("[train]\nmax_step = 3\n", encoding="utf-8")
    dragoman.train(folder / "text.en", folder / "text.de", folder / "run", **SMALL)
    return folder


@pytest.fixture(scope="module")
def translator(folder: Path) -> dragoman.Translator:
    return dragoman.load(folder / "run", device="cpu")


@pytest.fixture
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


def test_importing_the_package_imports_nothing_large() -> None:
    program = """
import sys, dragoman
print(dir(dragoman) == sorted(dragoman.__all__), sorted({"torch", "numpy", "numba"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True []\n"


@pytest.mark.parametrize("name", ["visualization", "corpora", "model", "text", "data", "training", "evaluation"])
def test_a_public_package_lists_its_public_names_only(name: str) -> None:
    package = getattr(dragoman, name)
    assert dir(package) == sorted(package.__all__)
    assert all(getattr(package, each) is not None for each in package.__all__)
    with pytest.raises(AttributeError, match=f"module 'dragoman.{name}' has no attribute 'nothing'"):
        package.nothing  # noqa: B018


@pytest.mark.parametrize("name", dragoman.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(dragoman, name) is not None
    assert name in dir(dragoman)


def test_a_run_has_scores_history_figure_report_and_sentences(inside: Path) -> None:
    run = dragoman.Run("run")
    assert repr(run).startswith("Run('run'): en to de, 4 steps, BLEU ")
    assert set(run.scores["test, beam 5"]) == {"BLEU", "chrF2", "TER"}
    records = run._records()
    assert [record["step"] for record in records if record["event"] == "validation"] == [4]
    assert len(run.plot().axes) >= 3
    assert run.report.path == Path("run/report.html")
    assert "<iframe" in run.report._repr_html_()
    sentence = run.test_sentence(2)
    assert sentence.source in (inside / "text.en").read_text()
    assert sentence.reference in (inside / "text.de").read_text()
    assert sentence.prediction == run.translator("cpu")(sentence.source)
    sentence = replace(sentence, source="a " * 50, reference="Eins <b>.", prediction="Zwei.")
    lines = ["SOURCE     " + "a " * 44 + "a", "           a a a a a", "TARGET     Eins <b>.", "PREDICTED  Zwei."]
    assert str(sentence).splitlines() == lines
    assert all(f">{text}</td>" in sentence._repr_html_() for text in ("SOURCE", "Eins &lt;b&gt;.", "PREDICTED"))


def test_training_again_continues_and_resume_takes_new_limits(inside: Path) -> None:
    again = dragoman.train("text.en", "text.de", "continued", **SMALL)
    assert again.card.steps == 4
    same = dragoman.train("text.en", "text.de", "continued", **SMALL)
    assert same.card.steps == 4
    assert same.resume(max_steps=6).card.steps == 6
    with pytest.raises(CheckpointError, match="d_model"):
        same.resume(d_model=32)


def test_a_text_gives_a_text_and_a_list_gives_a_list(inside: Path) -> None:
    translator = dragoman.load("run", device="cpu")
    text = "Where is the station?"
    assert translator(text) == translator.translate([text])[0]
    assert translator([text, ""], beam_size=1) == translator.translate([text, ""], beam_size=1)
    assert repr(translator) == "<Translator: en to de, beam size 5>"
    ensemble = dragoman.load("run", dragoman.Run("run"), device="cpu")
    assert "2 models" in repr(ensemble)


def test_evaluate_compare_inspect_plan_and_check(inside: Path) -> None:
    translator = dragoman.load("run", device="cpu")
    (report, same) = (dragoman.evaluate(model, "text.en", "text.de", beam_size=1) for model in ("run", translator))
    assert report == same
    assert [score.name for score in report.whole.scores] == ["BLEU", "chrF2", "TER"]
    assert dragoman.compare("run", "text.de", "text.en", "text.de", beam_size=1).b_wins > 0
    assert isinstance(dragoman.inspect(translator, "Where is the station?"), Inspection)
    plan = dragoman.plan("text.en", "text.de", **SIZES, max_steps=5)
    assert plan.forecast.steps == 5
    assert max(map(len, repr(plan).splitlines())) <= 100
    assert all(name in repr(plan) and name in plan._repr_html_() for name, _ in plan.rows())
    assert dragoman.check("text.en", "text.de").pairs == 300


# What a user can get wrong: the arguments of the command, and the same from Python.
MISTAKES: list[tuple[str, str, Callable[[], object]]] = [
    ("ConfigError", "train --src text.en --tgt text.de --train.max-steps x",
     lambda: dragoman.train("text.en", "text.de", max_steps="x")),
    ("ConfigError", "train --src text.en --tgt text.de --train.max-steps -1",
     lambda: dragoman.train("text.en", "text.de", max_steps=-1)),
    ("ConfigError", "train --src text.en --tgt text.de --model.d-model 9",
     lambda: dragoman.train("text.en", "text.de", d_model=9)),
    ("ConfigError", "train --src text.en --tgt text.de --model.preset huge",
     lambda: dragoman.train("text.en", "text.de", preset="huge")),
    ("ConfigError", "train --src text.en --tgt text.de --train.device cuda:9",
     lambda: dragoman.train("text.en", "text.de", device="cuda:9")),
    ("ConfigError", "train --src text.en --tgt text.de --tgt-lang nowhere",
     lambda: dragoman.train("text.en", "text.de", tgt_lang="nowhere")),
    ("ConfigError", "train --src text.en --tgt text.de --src-lang de --tgt-lang de",
     lambda: dragoman.train("text.en", "text.de", src_lang="de", tgt_lang="de")),
    ("ConfigError", "train unclear.toml --src text.en --tgt text.de",
     lambda: dragoman.train("text.en", "text.de", config="unclear.toml")),
    ("DataError", "train --src none.en --tgt text.de", lambda: dragoman.train("none.en", "text.de")),
    ("DataError", "train --src text.en --tgt short.de", lambda: dragoman.train("text.en", "short.de")),
    ("ConfigError", "train --src text.de --tgt text.en --src-lang en --tgt-lang de",
     lambda: dragoman.train("text.de", "text.en", src_lang="en", tgt_lang="de")),
    ("ModelError", "train --src text.en --tgt text.de --from none",
     lambda: dragoman.train("text.en", "text.de", start_from="none")),
    ("CheckpointError", "train --src text.en --tgt text.de --out run --model.d-model 32",
     lambda: dragoman.train("text.en", "text.de", "run", d_model=32)),
    ("CheckpointError", "train --src text.en --tgt text.de --out text.en",
     lambda: dragoman.train("text.en", "text.de", "text.en")),
    ("ModelError", "evaluate none --src text.en --ref text.de",
     lambda: dragoman.evaluate("none", "text.en", "text.de")),
    ("DataError", "evaluate run --src text.en --ref short.de",
     lambda: dragoman.evaluate("run", "text.en", "short.de")),
    ("DataError", "evaluate run --src text.en --ref none.de", lambda: dragoman.evaluate("run", "text.en", "none.de")),
    ("ConfigError", "evaluate run --src text.en --ref text.de --inference.beam-size 0",
     lambda: dragoman.evaluate("run", "text.en", "text.de", beam_size=0)),
    ("DataError", "compare run none.de --src text.en --ref text.de",
     lambda: dragoman.compare("run", "none.de", "text.en", "text.de")),
    ("ModelError", "inspect none Hello", lambda: dragoman.inspect("none", "Hello")),
    ("DataError", "check none.en none.de", lambda: dragoman.check("none.en", "none.de")),
    ("ConfigError", "check text.en text.de text.en", lambda: dragoman.check("text.en", "text.de", "text.en")),
    ("ConfigError", "train --src text.en --tgt text.de --train.max-minutes x",
     lambda: dragoman.train("text.en", "text.de", max_minutes="x")),
    ("ModelError", "evaluate text.en --src text.en --ref text.de",
     lambda: dragoman.evaluate("text.en", "text.en", "text.de")),
    ("ModelError", "evaluate empty --src text.en --ref text.de", lambda: dragoman.load("empty")),
    ("ModelError", "evaluate corpus --src text.en --ref text.de", lambda: dragoman.load("corpus")),
    ("DataError", "compare none run --src text.en --ref text.de",
     lambda: dragoman.compare("none", dragoman.load("run", device="cpu"), "text.en", "text.de")),
    ("ConfigError", "check text.en text.de --dev text.en text.de text.en",
     lambda: dragoman.check("text.en", "text.de", dev=["text.en", "text.de", "text.en"])),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "command", "call"), MISTAKES, ids=[command for _, command, _ in MISTAKES])
def test_a_mistake_is_the_same_error_from_python_and_from_the_command_line(
    inside: Path, capsys: pytest.CaptureFixture[str], kind: str, command: str, call: Callable[[], object]
) -> None:
    assert run_command(command.split()) == 2
    printed = capsys.readouterr().err.strip().split("\n")[-1]
    with pytest.raises(DragomanError) as refusal:
        call()
    assert name_keywords(printed) == f"dragoman: {refusal.value}"
    assert "`--" not in str(refusal.value)
    assert type(refusal.value).__name__ == kind
    assert "\n" not in str(refusal.value)


def test_what_is_no_run_or_no_model_is_refused(inside: Path) -> None:
    with pytest.raises(DataError, match="not a run"):
        dragoman.Run(inside)
    with pytest.raises(ModelError, match="does not exist"):
        dragoman.Run("none")
    with pytest.raises(ModelError, match="owner/name"):
        dragoman.load("none")
    with pytest.raises(ConfigError, match="`src` is given, but `tgt` is not"):
        dragoman.train("text.en")


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (
            lambda t: dragoman.evaluate(None, "text.en", "text.de"),
            f"`model` {MODEL} None.",
        ),
        (lambda t: dragoman.evaluate(t, 1, "text.de"), f"`src` {SENTENCES} 1."),
        (
            lambda t: dragoman.compare("text.de", 2, "text.en", "text.de"),
            "`b` must be a path, a run, a translator or strings in order (a list, a column), but is 2.",
        ),
        (lambda t: dragoman.inspect(t, ["Hello"]), "`text` must be a string, but is ['Hello']."),
        (lambda t: dragoman.inspect(None, "Hello"), f"`model` {MODEL} None."),
        (
            lambda t: dragoman.load(t),
            HUB,
        ),
        (lambda t: dragoman.train(src=1, tgt="text.de"), f"`src` {SENTENCES} 1."),
        (lambda t: dragoman.train("text.en", "text.de", out=3), "`out` must be a path, but is 3."),
        (
            lambda t: dragoman.plan("text.en", "text.de", config=3),
            "`config` must be a path or a list of paths, but is 3.",
        ),
        (
            lambda t: dragoman.check(),
            "`files` must be one file with both sides, or two aligned files, but none is given.",
        ),
        (lambda t: dragoman.Run(None), "`path` must be a path, but is None."),
        (
            lambda t: dragoman.Run("run").test_sentence("1"),
            "`number` must be a whole number from 1 to 30, but is '1'.",
        ),
        (
            lambda t: dragoman.Run("run").test_sentence(2.0),
            "`number` must be a whole number from 1 to 30, but is 2.0.",
        ),
        (lambda t: dragoman.Run("run").test_sentence(0), "`number` must be a whole number from 1 to 30, but is 0."),
        (lambda t: t(None), f"`texts` must be a list of texts, but is None. {ONE}"),
        (lambda t: t(3), f"`texts` must be a list of texts, but is 3. {ONE}"),
        (lambda t: t([1]), "`texts` must be a list of texts, but text 1 is 1."),
        (lambda t: t(["a", None]), "`texts` must be a list of texts, but text 2 is None."),
        (lambda t: t("a", beam_size="5"), '`inference.beam_size` must be a whole number, but is "5".'),
        (lambda t: t("a", n_best=3), ONE_EACH),
        (lambda t: t(["a", "b"], n_best=3), ONE_EACH),
        (lambda t: t.translate(["a"], n_best=3, sample=True), ONE_EACH),
        (
            lambda t: t.translate_detailed(["a"], details={"alignment": True}),
            "`details` must be `dragoman.Details(...)`, but is {'alignment': True}.",
        ),
        (
            lambda t: t.translate_detailed(["a"], {"protect": True}),
            "`preserve` must be `dragoman.Preserve(...)`, but is {'protect': True}.",
        ),
        (
            lambda t: t.translate(["a"], terms={}),
            "`terms` must be `dragoman.Terms(...)`, but is {}.",
        ),
        (
            lambda t: next(t.stream("a", terms="terms.tsv")),
            "`terms` must be `dragoman.Terms(...)`, but is 'terms.tsv'.",
        ),
        (
            lambda t: t.translate_detailed(["a", "b"], prefixes="xy"),
            f"`prefixes` must be a list of texts, but is 'xy'. {ONE}",
        ),
        (lambda t: list(t.translate_stream(["a", 2])), "`texts` must be a list of texts, but text 2 is 2."),
        (lambda t: t.score(["a"], "b"), f"`targets` must be a list of texts, but is 'b'. {ONE}"),
        (lambda t: t.save(3), "`path` must be a path, but is 3."),
        (lambda t: dragoman.average("run", last=0), "`last` must be at least 1, but is 0."),
        (
            lambda t: dragoman.export("run", "onnx"),
            '`to` must be one of int8, ctranslate2, marian, but is "onnx".',
        ),
        (
            lambda t: dragoman.export("run", "marian", embeddings="int8"),
            "`embeddings` is for int8, but `to` is marian. Leave it out.",
        ),
        (
            lambda t: dragoman.export(t, "int8"),
            "`out` is missing. Name the folder to write, because a loaded translator has no path.",
        ),
        (
            lambda t: dragoman.summary("run", d_model=8),
            "`d_model` is for a configuration, but run is a trained model. Leave it out.",
        ),
        (
            lambda t: dragoman.summary(t, src_vocab_size=8),
            "`src_vocab_size` is for a configuration, but this is a trained model. Leave it out.",
        ),
        (
            lambda t: dragoman.train("text.en", "text.de", start_from=t),
            "`start_from` must be a number, a text, a path or a list of these, but is a Translator. Save it first: "
            '`start_from=translator.save("model")`.',
        ),
    ],
)
def test_an_argument_of_a_wrong_type_is_one_line(
    inside: Path, translator: dragoman.Translator, call: Callable[[dragoman.Translator], object], line: str
) -> None:
    assert result_of(lambda: call(translator)) == f"ConfigError: {line}"


def result_of(call: Callable[[], object]) -> str:
    """What a call returned or raised, so that a wrong error fails as a difference of two texts."""
    try:
        return f"returned {call()!r}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def test_a_translator_of_a_model_in_memory_is_evaluated_compared_and_inspected(
    inside: Path, translator: dragoman.Translator
) -> None:
    [trained] = translator.models
    memory = dragoman.Translator.from_model(trained.transformer, trained.tokenizers, trained.config.inference, 100)
    assert repr(memory) == "<Translator: beam size 5>"
    files, found = ("few.en", "few.de"), translator("Where is the station?")
    assert memory("Where is the station?") == found
    (own, other) = (dragoman.evaluate(each, *files, beam_size=1).whole for each in (memory, translator))
    assert own == other
    comparison = dragoman.compare(memory, translator, *files, beam_size=1)
    assert comparison.metrics[0].a == comparison.metrics[0].b
    assert dragoman.inspect(memory, "Where is the station?").tgt.text == found


def test_a_model_with_n_best_of_its_own_translates(translator: dragoman.Translator) -> None:
    several = dragoman.Translator.from_models(translator.models)
    several.settings = replace(translator.settings, n_best=3)
    assert several("How are you?") == translator("How are you?") == several("How are you?", n_best=1)
    [translation] = several.translate_detailed(["How are you?"])
    assert len(translation.candidates) == 3


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: dragoman.train("text.en", "text.de", "empty/.."), "Choose another `out`, or an empty folder."),
        (lambda: dragoman.train("text.en", "text.de", "run", d_model=32), "or choose another `out`."),
        (lambda: dragoman.train(data="three.tsv", src_lang="en"), 'Skip this row with `header="yes"`, or keep it'),
        (lambda: dragoman.train(data="three.tsv", columns="x,de"), "`columns` names x, but"),
        (lambda: dragoman.check("three.tsv", tgt_lang="nowhere"), "`tgt_lang` is"),
        (lambda: dragoman.load("run", device="cuda:9"), "`device` is 'cuda:9'"),
        (lambda: dragoman.Translator.load("run", device="cuda:9"), "`device` is 'cuda:9'"),
        (lambda: dragoman.average("run", out="empty"), "Choose another `out`, or remove it."),
        (lambda: dragoman.export("run", "int8", "run"), "Choose another `out`, or remove it."),
        (
            lambda: dragoman.summary(src_vocab_size=8, tgt_vocab_size=9),
            '`src_vocab_size` and `tgt_vocab_size` must be equal if `model.tie` is "all", but are 8 and 9. Give one '
            'size, or `tie="decoder"`.',
        ),
    ],
)
def test_an_error_names_keywords_and_no_flags(inside: Path, call: Callable[[], object], words: str) -> None:
    (inside / "three.tsv").write_text("en\tde\tfr\nOne\tEins\tUn\n", encoding="utf-8")
    said = result_of(call)
    assert words in said
    assert "--" not in said


def test_a_translator_shows_what_is_inside_and_saves_a_copy(inside: Path, translator: dragoman.Translator) -> None:
    assert hasattr(translator, "save")
    [trained] = translator.models
    assert (translator.model, translator.tokenizers, translator.card) == (trained, trained.tokenizers, trained.card)
    text, copy = ["Where is the station?", ""], inside / "saved" / "copy"
    assert translator.save(str(copy)) == copy
    original = dragoman.Run("run").model
    for name in ("model.safetensors", "tokenizer.json", "card.json", "config.toml"):
        assert (copy / name).read_bytes() == (original / name).read_bytes()
    again = dragoman.load(copy, device="cpu")
    assert again(text) == translator(text)
    with pytest.raises(ModelError, match=r"copy exists already\. Choose another `path`, or remove it\."):
        translator.save(copy)
    with pytest.raises(ModelError, match="is in a model folder"):
        translator.save(copy / "inside")
    again.settings = replace(again.settings, beam_size=1)
    assert dragoman.load(again.save("greedy"), device="cpu").settings.beam_size == 1
    ensemble = dragoman.load("run", copy, device="cpu")
    for door in (lambda: ensemble.model, lambda: ensemble.card, lambda: ensemble.save("both")):
        with pytest.raises(ModelError, match=r"the translator has 2 models, not one\. Choose one of `models`"):
            door()
    assert ensemble.tokenizers.same_as(translator.tokenizers)


def test_models_are_saved_under_names_that_are_texts(inside: Path, translator: dragoman.Translator) -> None:
    assert hasattr(translator, "model")
    trained, words = translator.model, "texts"
    trained.save(f"{words}/model")
    assert (inside / words / "model" / "manifest.json").exists()
    trained.save(f"{words}/model")  # replaces a model
    assert type(trained).load(f"{words}/model", "cpu").card == trained.card
    (inside / words / "notes.txt").write_text("mine")
    with pytest.raises(ModelError, match=r"texts exists already and is not a model folder"):
        trained.save(words)
    assert (inside / words / "notes.txt").read_text() == "mine"
    (inside / "empty model").mkdir()
    trained.save("empty model")
    trained.tokenizers.save(words)
    assert type(trained.tokenizers).load(words).same_as(trained.tokenizers)


def test_models_are_averaged_exported_and_summarized_as_by_the_commands(
    inside: Path, translator: dragoman.Translator, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {"average", "export", "summary"} <= set(dragoman.__all__)
    mean = dragoman.average(dragoman.Run("run"), last=2, out="mean")
    assert mean == Path("mean")
    assert run_command(["average", "run", "--last", "2", "--out", "mean2"]) == 0
    assert (inside / "mean" / "model.safetensors").read_bytes() == (inside / "mean2" / "model.safetensors").read_bytes()
    assert dragoman.average("run") == Path("run/mean")
    small = dragoman.export(mean, "int8", embeddings="int8")
    assert small == Path("mean-int8")
    same = dragoman.export(dragoman.load(mean, device="cpu"), "int8", "small", embeddings="int8")
    assert (small / "model.safetensors").read_bytes() == (same / "model.safetensors").read_bytes()
    loaded = dragoman.load(small, device="cpu")
    assert dragoman.load(loaded.save("small-copy"), device="cpu")("Thank you.") == loaded("Thank you.")
    capsys.readouterr()
    assert run_command(["summary", "run"]) == 0
    printed, shown = capsys.readouterr().out, dragoman.summary(dragoman.Run("run"))
    assert f"{shown}\n" == printed
    assert repr(shown) == repr(dragoman.summary(translator)) == repr(dragoman.summary(translator.model))
    assert repr(shown) == repr(dragoman.summary(translator.models[0].transformer))
    base = dragoman.summary(preset="base", vocab_size=37000, norm_first=True)
    theirs = torch.nn.Transformer(batch_first=True, device="meta")  # the same size, without words
    count = sum(each.numel() for each in theirs.parameters()) + 37_000 * (512 + 1)
    assert base.rows.total == base.formula == count
    lines = repr(base).split("\n")
    assert len(lines) < 20
    assert lines[2].split() == ["encoder.layers.self_attn", f"{6 * 4 * (512 * 512 + 512):,}"]
    assert [line.split()[-1] for line in lines[-2:]] == [f"{count:,}"] * 2
    assert "<td" in base._repr_html_()


def test_a_run_loads_its_model_once_until_it_has_a_new_one(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder / "run", tmp_path / "run")
    run = dragoman.Run(copy)
    first = run.translator("cpu")
    assert run.translator("cpu") is first
    model = run.model
    os.utime(model / "manifest.json", ns=(1, 1))
    assert run.translator("cpu") is not first


def test_a_run_that_another_process_trains_is_read_but_not_continued(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder / "run", tmp_path / "run")
    with (copy / "log.jsonl").open("a", encoding="utf-8") as log:
        log.write('{"event": "validation", "st')  # what a reader sees while a line is written
    with lock_run(copy):
        run = dragoman.Run(copy)
        assert run.card.steps == 4
        assert [record["step"] for record in run._records()] == [4]
        with pytest.raises(CheckpointError, match=rf"is being trained by another process \(id {os.getpid()}\)"):
            run.resume(max_steps=9)
    shutil.rmtree(copy / "checkpoints")
    with lock_run(copy), pytest.raises(DataError, match="is a run without a checkpoint yet"):
        dragoman.Run(copy)
