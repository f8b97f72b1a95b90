"""Records show themselves: one screen of text, a table in a notebook, and no error, whatever they hold."""

import copy
import html
import pickle
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dragoman

# The small model that is stored for tests is older than a name of a setting.
pytestmark = pytest.mark.filterwarnings("ignore:.* is now `inference.length_penalty_alpha`")

SOURCES = ["Where is the station?", "Good morning.", "I am tired.", "We need two tickets.", "The museum is closed."]
TARGETS = ["Wo ist der Bahnhof?", "Guten Morgen.", "Ich bin müde.", "Wir brauchen zwei Karten.", "Das ist falsch."]
MANY = 10_000
MODEL = Path(__file__).parents[1] / "data" / "models" / "format_1"  # with weights in float32


@pytest.fixture(scope="module")
def translator() -> dragoman.Translator:
    return dragoman.load("demo", device="cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("records")
    for language, texts in (("en", SOURCES), ("de", TARGETS)):
        (folder / f"test.{language}").write_text("\n".join([*texts, ""]), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def records(translator: dragoman.Translator, folder: Path) -> dict[str, Any]:
    """One of each record, as a user gets it."""
    files = folder / "test.en", folder / "test.de"
    details = dragoman.Details(alignment=True)
    [translation] = translator.translate_detailed([SOURCES[0]], details=details, n_best=3)
    [model] = translator.models
    batch = dragoman.Batch.from_ids([[4, 5]], [[4, 5, 6]])
    transformer = dragoman.Transformer.build(src_vocab_size=9, tgt_vocab_size=9, d_model=8, num_heads=2, d_ff=8)
    return {
        "Translation": translation,
        "Candidate": translation.candidates[0],
        "PairScore": translator.score(SOURCES[:1], TARGETS[:1])[0],
        "Card": model.card,
        "Model": model,
        "Tokenizer": model.tokenizers.src,
        "TokenizerPair": model.tokenizers,
        "AttentionWeights": transformer.attention(batch.src_ids, batch.src_lengths, batch.decoder_input),
        "Inspection": dragoman.inspect(MODEL, SOURCES[0]),
        "EvaluationReport": dragoman.evaluate(translator, *files, checklist=True),
        "Comparison": dragoman.compare(translator, files[1], *files),
        "Examination": dragoman.check(*files),
    }


def is_one_screen(text: str) -> bool:
    lines = text.splitlines()
    return len(lines) <= 24 and max(map(len, lines), default=0) <= 100


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Translation", ["Where is the station?", "Bahnhof", "score", "alignment"]),
        ("Candidate", ["Bahnhof", "score", "token_log_probs"]),
        ("PairScore", ["Where is the station?", "Wo ist der Bahnhof?", "log_prob"]),
        ("Card", ["src_lang", "steps", "validation, beam 4: BLEU"]),
        ("Model", ["en to de", "4,956,032", "5 of the encoder", "BLEU"]),
        ("Tokenizer", ["byte_bpe", "8,000", "<pad> <s> </s> <unk>", "▁"]),
        ("TokenizerPair", ["8,000, byte_bpe", "the same tokenizer"]),
        ("AttentionWeights", ["encoder_self", "layers: 6", "1 x 2 x 3 x 3", "cross", "1 x 2 x 4 x 3"]),
        ("Inspection", ["Where is the station?", "probabilities", "cross-attention", "layers: 1, heads: 2"]),
        ("EvaluationReport", ["BLEU", "chrF2", "95 % interval", "nrefs:1", "warning", "none: the output"]),
        ("Comparison", ["BLEU", "p (bootstrap)", "5; B wins"]),
        ("Examination", ["5 pairs"]),
    ],
)
def test_a_record_is_one_screen_of_text_and_a_table(records: dict[str, Any], name: str, words: list[str]) -> None:
    record, text = records[name], repr(records[name])
    assert is_one_screen(text), text
    assert text.startswith(f"{name}\n")
    assert [word for word in words if word not in re.sub(r"\s+", " ", text)] == []
    page = getattr(record, "_repr_html_", str)()
    assert page.startswith("<iframe" if name == "Inspection" else "<table>")
    assert [word for word in words if word not in html.unescape(page)] == [] or name == "Inspection"


def grow(record: Any) -> Any:
    """The record with 10,000 times its texts, tokens or findings, and markup in its texts."""
    text = "<b>word</b> & <script>" * MANY
    match type(record).__name__:
        case "Candidate":
            return replace(record, text=text, tokens=("<i>",) * MANY, token_log_probs=(-0.5,) * MANY)
        case "Translation":
            candidates = (grow(record.candidates[0]),) * 100
            return replace(record, src=text, candidates=candidates, lost=("<u>",) * MANY, alignment=((1, 2),) * MANY)
        case "PairScore":
            return replace(record, src=text, tgt=text, tokens=("<i>",) * MANY, token_log_probs=(-0.5,) * MANY)
        case "Card":
            rows = tuple((f"<b>{n}, beam 4", "BLEU", 1.0, "signature") for n in range(MANY))
            return replace(record, scores=rows, credit=text, lineage=("<i>run",) * MANY)
        case "Model":
            return replace(record, card=grow(record.card))
        case "Inspection":
            side, notes = replace(record.src, text=text), record.notes * 100
            return replace(record, src=side, tgt=side, notes=notes, steps=record.steps * MANY, n_best=record.n_best * 9)
        case "EvaluationReport":
            return replace(record, whole=replace(record.whole, warnings=(text,) * 100))
        case "Comparison":
            return replace(record, warnings=(text,) * 100)
        case "Examination":
            finding = {"advice": text, "preview": (text,) * 3}
            return replace(record, name=text, findings=tuple(replace(one, **finding) for one in record.findings) * 100)
    return record


@pytest.mark.parametrize("name", ["Translation", "Candidate", "PairScore", "Card", "Model", "Inspection",
                                  "EvaluationReport", "Comparison", "Examination"])  # fmt: skip
def test_a_record_of_any_size_is_one_screen_and_its_texts_are_no_markup(records: dict[str, Any], name: str) -> None:
    record = grow(records[name])
    assert is_one_screen(repr(record)), repr(record)[:3000]
    if name != "Inspection":  # its page is tested in a browser
        page = getattr(record, "_repr_html_", str)()
        assert page.startswith("<table>")
        assert not re.search("<(b|i|u|script)>", page)


def test_a_text_from_outside_cannot_change_a_terminal_or_break_a_message(records: dict[str, Any]) -> None:
    record = replace(records["Translation"], src="a\x1b[31m\nb\u2028c\udc80")
    assert r"a\x1b[31m b c\udc80" in repr(record)
    assert r"a\x1b[31m b c\udc80" in getattr(record, "_repr_html_", str)()


def test_an_empty_line_and_an_empty_card_show_themselves(translator: dragoman.Translator) -> None:
    [translation] = translator.translate_detailed([""])
    assert re.sub(r" +", " ", repr(translation)).splitlines() == [
        "Translation", " src", " text", " score 0", " segments 0", " cut False",
    ]  # fmt: skip
    assert repr(type(translator.models[0].card)()) == "Card"


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda record: pickle.loads(pickle.dumps(record))])
def test_copies_show_the_same(records: dict[str, Any], copied: Callable[[Any], Any]) -> None:
    for name in ("Translation", "PairScore", "Card", "Tokenizer", "TokenizerPair", "Inspection", "Examination"):
        assert str(copied(records[name])) == str(records[name])


@pytest.fixture
def run_folder(translator: dragoman.Translator, tmp_path: Path) -> Path:
    """A run that was stopped before its first validation."""
    checkpoint = tmp_path / "run" / "checkpoints" / "step_0000004"
    checkpoint.parent.mkdir(parents=True)
    translator.models[0].save(checkpoint)
    shutil.copy(checkpoint / "config.toml", tmp_path / "run")
    return tmp_path / "run"


def shown(record: object) -> str:
    """Everything that a notebook, `print` and the Python prompt show of a record, or the error."""
    try:
        return "\n".join([repr(record), str(record), record._repr_html_()])  # type: ignore[attr-defined]
    except Exception as error:
        return f"raises {error!r}"


def finish(folder: Path, *scores: tuple[str, str, float, str]) -> Path:
    """Give the run a best model, with scores. Returns the folder of the model."""
    best = folder / "checkpoints" / "step_0000004"
    (folder / "best").write_text("checkpoints/step_0000004\n", encoding="utf-8")
    card = (best / "card.json").read_text(encoding="utf-8")
    rows = ", ".join(f'["{data}", "{name}", {value}, "{signature}"]' for data, name, value, signature in scores)
    (best / "card.json").write_text(re.sub(r'"scores": \[.*?\n \]', f'"scores": [{rows}]', card, flags=re.DOTALL))
    return best


CONDITIONS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no validation yet": (lambda run: (), "without a finished validation"),
    "another process trains": (lambda run: (run / ".lock").write_text("1"), "without a finished validation"),
    "no checkpoint": (lambda run: (run / "checkpoints").rename(run / "other"), "neither a model folder"),
    "deleted": (lambda run: run.rename(run.parent / "other"), "does not exist"),
    "replaced by a file": (lambda run: (run.rename(f"{run}.0"), run.write_text("")), "does not lead to a model"),
    "card of another kind": (lambda run: (finish(run) / "card.json").write_text("[1]"), "is not a model card"),
    "card cut off": (lambda run: (finish(run) / "card.json").write_text('{"steps":'), "is not a model card"),
    "card of bytes": (lambda run: (finish(run) / "card.json").write_bytes(b"\xff"), "is not a model card"),
    "large score": (lambda run: finish(run, ("test, beam 4", "BLEU", 10**400, "")), "is not a model card"),
    "no card": (lambda run: (finish(run) / "card.json").unlink(), "? to ?, 0 steps"),
    "pointer to nothing": (lambda run: (run / "best").write_text("../none"), "does not lead to a model"),
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_run_shows_itself_whatever_is_wrong_with_its_folder(run_folder: Path, condition: str) -> None:
    run = dragoman.Run(run_folder)
    change, words = CONDITIONS[condition]
    change(run_folder)
    text = shown(run)
    assert text.startswith(f"Run({str(run_folder)!r}): ")
    assert words in text.splitlines()[0]
    assert f"<p>{html.escape(repr(run))}</p>" in text


def test_a_report_that_was_deleted_shows_why(run_folder: Path) -> None:
    (run_folder / "report.html").write_text("<p>report</p>", encoding="utf-8")
    report = dragoman.Run(run_folder).report
    assert "<iframe" in shown(report)
    (run_folder / "report.html").unlink()
    assert "No such file" in shown(report)


def looked_up(look_up: Callable[[], object]) -> object:
    """The value, or the name of the error."""
    try:
        return look_up()
    except (AttributeError, LookupError) as error:
        return type(error).__name__


def test_every_score_has_the_same_name(
    records: dict[str, Any], run_folder: Path, translator: dragoman.Translator
) -> None:
    finish(
        run_folder, ("test, before fine-tuning, beam 4", "BLEU", 9.0, ""), ("test, beam 4", "BLEU", 30.5, ""),
        ("test, beam 4", "TER", 40.0, ""), ("validation, beam 4", "BLEU", 31.5, ""),
    )  # fmt: skip
    run, report, translation = dragoman.Run(run_folder), records["EvaluationReport"], records["Translation"]
    assert looked_up(lambda: run.scores["BLEU"]) == run.scores["test, beam 4"]["BLEU"] == 30.5
    assert looked_up(lambda: run.scores["BLEURT"]) == "KeyError"
    assert "BLEU 30.5, TER 40.0" in repr(run)
    values = {score.name: score.value for score in report.whole.scores}
    assert looked_up(lambda: report.scores) == values
    assert looked_up(lambda: translation.score) == translation.candidates[0].score
    [empty] = translator.translate_detailed([""])
    assert looked_up(lambda: empty.score) == 0.0


@pytest.mark.parametrize(("rows", "score"), [([], "KeyError"), ([("validation, beam 4", "BLEU", 31.5, "")], 31.5)])
def test_a_run_without_a_test_set_has_the_scores_of_its_validation(
    run_folder: Path, rows: list[tuple[str, str, float, str]], score: object
) -> None:
    finish(run_folder, *rows)
    run = dragoman.Run(run_folder)
    assert looked_up(lambda: run.scores["BLEU"]) == score
    assert f"en to de, {run.card.steps:,} steps" in shown(run)


def test_a_trace_with_a_value_of_the_caller_shows_itself() -> None:
    model = dragoman.Transformer.build(src_vocab_size=9, tgt_vocab_size=9, d_model=8, num_heads=2, d_ff=8)
    trace = model.trace(dragoman.Batch.from_ids([[4, 5]], [[4, 5, 6]]))
    trace["mine"] = 3  # type: ignore[assignment]
    text = shown(trace)
    assert "mine" in text
    assert "logits" in text
