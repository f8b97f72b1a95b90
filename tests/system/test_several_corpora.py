"""A run with three corpora, tags and stages, from the command line: shares, resuming, tags in use, mistakes."""

import json
import os
import random
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

import dragoman
from dragoman.cli.main import run_command
from dragoman.config import load_config
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.training.run.run_folder import RunFolder, TrainState
from tests.system.commands import events, write_tsv

FLAGS = (
    "--model.preset=custom --model.d-model=16 --model.d-ff=32 --model.num-heads=2 --model.num-encoder-layers=1 "
    "--model.num-decoder-layers=1 --tokenizer.vocab-size=450 --train.batch-tokens=512 --train.precision=float32 "
    "--train.threads=1 --train.log-every-steps=1 --train.checkpoint-every-steps=3 --train.average-last=0 "
    "--train.warmup-steps=20 --validate.max-sentences=5 --inference.max-extra-tokens=3 --src-lang=en --tgt-lang=de"
).split()
CONFIG = """
[[corpora]]
data = "memory.tsv"
weight = 2
tag = "legal"
[[corpora]]
data = "crawl.tsv"
synthetic = "src"
until = 0.5
[[corpora]]
data = "news.tsv"
weight = 0.5
from = 0.25
[train]
max_epochs = 4
[tokenizer]
bpe_dropout = 0.1
"""


def distinct(count: int) -> list[Any]:
    found = {pair.src: pair for pair in load_phrasebook().generate(seed=5, count=4 * count)}
    return list(found.values())[:count]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("several")
    pairs = distinct(560)
    for name, part in (("memory", pairs[:120]), ("crawl", pairs[120:400]), ("news", pairs[400:])):
        write_tsv(path / f"{name}.tsv", part)
    (path / "run.toml").write_text(CONFIG)
    return path


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    out = folder / "run"
    assert ended(start(folder, out)) == 0
    return out


def start(folder: Path, out: Path) -> int:
    """Train in a process of its own, on one thread. Returns its id."""
    child = os.fork()
    if not child:
        code = 1
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            code = train(folder, out)
        finally:
            os._exit(code)
    return child


def ended(child: int) -> int:
    """Wait for a process. Returns its exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def train(folder: Path, out: Path, *flags: str, config: str = "run.toml") -> int:
    before = Path.cwd()
    os.chdir(folder)
    try:
        return run_command(["train", config, "--out", str(out), *FLAGS, *flags])
    finally:
        os.chdir(before)


def newest(run: Path) -> tuple[Path, TrainState]:
    folder = RunFolder(run).step_folder(RunFolder(run).steps()[-1])
    return folder, TrainState.from_json((folder / "state.json").read_text())


def test_the_card_says_what_was_read_seen_and_learned_of_each_corpus(run: Path) -> None:
    _, state = newest(run)
    assert state.stages == [[0, 1 << 40], [0, 2], [1, 1 << 40]]
    rows = dragoman.load(run).card.corpora
    assert [row[:4] for row in rows] == [
        ("memory.tsv", 2.0, "legal", 120),
        ("crawl.tsv", 1.0, "back-translated", 280),
        ("news.tsv", 0.5, "", 160),
    ]
    kept = [row[4] for row in rows]
    assert sum(row[5] for row in rows) == state.sentences
    parts, total, expected = [2 * kept[0], kept[1], kept[2] / 2], sum(kept), [0.0, 0.0, 0.0]
    for used in ((0, 1), (0, 1, 2), (0, 2), (0, 2)):
        for place in used:
            expected[place] += total * parts[place] / sum(parts[one] for one in used)
    assert [row[5] for row in rows] == pytest.approx(expected, abs=1)
    assert all(1 < row[6] < 10 for row in rows)
    report = (run / "report.html").read_text()
    assert "memory.tsv" in report
    assert "held out of the corpus itself" in report
    card = next(run.rglob("card.md")).parent
    assert "## Training corpora" in (card / "card.md").read_text()


def killed_and_continued(folder: Path, run: Path, out: Path, kills: int, seed: int) -> None:
    """Kill a run at random instants, continue it each time, and compare it with the uninterrupted run at its end.

    A run that ends before it was killed often enough starts again.
    """
    rng, killed = random.Random(seed), 0
    while killed < kills:
        child = start(folder, out)
        time.sleep(rng.uniform(0.3, 1.5))
        os.kill(child, signal.SIGKILL)
        if ended(child) < 0:
            killed += 1
        else:
            assert_same(run, out)
            shutil.rmtree(out)
    assert ended(start(folder, out)) == 0
    assert_same(run, out)


def assert_same(run: Path, other: Path) -> None:
    """State, weights, and the loss of each step are those of the other run."""
    (ours, state), (theirs, other_state) = newest(run), newest(other)
    assert replace(state, seconds=0, window_seconds=0) == replace(other_state, seconds=0, window_seconds=0)
    weights = [load_file(each / "model.safetensors") for each in (ours, theirs)]
    assert all((weights[0][name] == weights[1][name]).all() for name in weights[0])
    logs = [[event for event in events(each) if event["event"] == "train"] for each in (run, other)]
    losses = [{event["step"]: event["loss"] for event in log} for log in logs]
    assert losses[0] == losses[1]


def test_a_killed_run_continues_bit_for_bit(folder: Path, run: Path, tmp_path: Path) -> None:
    killed_and_continued(folder, run, tmp_path / "run", kills=3, seed=1)


@pytest.mark.slow
def test_a_run_killed_at_twenty_instants_continues_bit_for_bit(folder: Path, run: Path, tmp_path: Path) -> None:
    killed_and_continued(folder, run, tmp_path / "run", kills=20, seed=2)


def test_a_tag_is_requested_by_name_and_the_default_is_none(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads((newest(run)[0] / "manifest.json").read_text())["format"] == 4
    translator = dragoman.load(run)
    assert translator.tokenizers.src.tags == ("legal",)
    texts = [pair.src for pair in distinct(40)]
    plain, tagged = translator.score(texts, texts), translator.score(texts, texts, tag="legal")
    assert [one.log_prob for one in plain] != [one.log_prob for one in tagged]
    assert [one.tokens for one in plain] == [one.tokens for one in tagged]
    source = run.parent / "source.en"
    source.write_text("".join(f"{text}\n" for text in texts))
    target = run.parent / "target.de"
    tag = {"tag": "legal"}
    for flags, expected in (([], {}), (["--tag", "legal"], tag), (["--inference.tag=legal"], tag)):
        assert run_command(["translate", str(run), "--input", str(source), "--output", str(target), *flags]) == 0
        assert target.read_text().split("\n")[:-1] == translator.translate(texts, **expected)
    capsys.readouterr()
    for command in (["translate", str(run), "--input"], ["score", str(run), "--tgt", str(target), "--src"]):
        assert run_command([*command, str(source), "--tag", "sports"]) == 2
        assert "(`--tag`) is 'sports', but the model has no such tag. Choose one of legal" in capsys.readouterr().err
    assert run_command(["translate", str(run), "--tag", "legal", "--inference.tag", "x", "--input", str(source)]) == 2
    assert "`--tag` and `--inference.tag` are one setting" in capsys.readouterr().err


def test_an_export_has_the_control_tokens_as_words(run: Path, tmp_path: Path) -> None:
    assert run_command(["export", str(run), "--to", "ctranslate2", "--out", str(tmp_path / "ct2")]) == 0
    words = json.loads((tmp_path / "ct2" / "shared_vocabulary.json").read_text())
    assert words[-2:] == ["<tag:legal>", "<bt>"]


def test_a_run_continues_only_with_the_same_corpora(
    folder: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = {
        "weight = 2\n": ("weight = 3\n", "is a run with `corpora[0].weight` = 2.0, but now it is 3.0"),
        'tag = "legal"': ('tag = "law"', "`corpora[0].tag` = 'legal'"),
        "until = 0.5": ("until = 0.6", "`corpora[1].until` = 0.5"),
        'data = "news.tsv"': ('data = "memory.tsv"', "has a file that `corpora[0]` has too"),
        '[[corpora]]\ndata = "crawl.tsv"\nsynthetic = "src"\nuntil = 0.5\n': (
            "",
            "is a run on 3 corpora, but now there are 2",
        ),
    }
    for old, (new, message) in changes.items():
        assert old in CONFIG
        (folder / "changed.toml").write_text(CONFIG.replace(old, new))
        assert train(folder, run, config="changed.toml") == 2
        assert message in (said := capsys.readouterr().err), said
    (folder / "changed.toml").unlink()
    news = (folder / "news.tsv").read_text()
    try:
        (folder / "news.tsv").write_text(news + "One more.\tNoch einer.\n")
        assert train(folder, run) == 2
        assert "news.tsv has changed since this run started" in capsys.readouterr().err
        (folder / "news.tsv").unlink()
        assert train(folder, run) == 2
        assert "news.tsv does not exist" in capsys.readouterr().err
    finally:
        (folder / "news.tsv").write_text(news)


def test_more_epochs_do_not_move_the_stages(folder: Path, run: Path, tmp_path: Path) -> None:
    longer = shutil.copytree(run, tmp_path / "longer")
    assert train(folder, longer, "--train.max-epochs=5") == 0
    _, state = newest(longer)
    assert (state.epoch, state.stages) == (5, [[0, 1 << 40], [0, 2], [1, 1 << 40]])
    assert load_config([longer / "config.toml"]).corpora[1].until == 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("max_epochs = 4", ""), "`corpora[1].until` is 0.5, a share of the run, but the run has no fixed length. Set"),
        (("max_epochs = 4", "max_minutes = 1"), "Set `train.max_epochs`, for example to 60, or `train.max_steps`."),
        (("from = 0.25", "from = 0.95"), "(news.tsv) is used in 5% of the run, less than an epoch of"),
        (("weight = 0.5", "weight = 0"), "`corpora[2].weight` (news.tsv) in changed.toml must be greater than 0"),
        (('"news.tsv"', '"gone.tsv"'), "gone.tsv does not exist"),
        (('"news.tsv"', '"swapped.tsv"'), "swapped.tsv"),
        (('"news.tsv"', '"blank.tsv"'), "blank.tsv: every source is the same line"),
        (
            ('"news.tsv"', '"copy.tsv"'),
            "No training pair is left in `corpora[2]` (copy.tsv): cleaning removed all 120 pairs",
        ),
    ],
)
def test_mistakes_are_one_line_that_names_the_corpus(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: tuple[str, str], message: str
) -> None:
    memory = (folder / "memory.tsv").read_text()
    (folder / "copy.tsv").write_text(memory)
    (folder / "blank.tsv").write_text("Hello there.\t\n" * 9)
    rows = [line.split("\t") for line in memory.splitlines()]
    (folder / "swapped.tsv").write_text("".join(f"{tgt}\t{src}\n" for src, tgt in rows))
    assert change[0] in CONFIG
    (folder / "changed.toml").write_text(CONFIG.replace(*change))
    assert train(folder, tmp_path / "run", config="changed.toml") == 2
    said = capsys.readouterr().err.splitlines()
    assert message in said[-1], said
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_flags_and_python_give_the_same_run_as_a_file(folder: Path, tmp_path: Path, capsys: Any) -> None:
    (folder / "two.toml").write_text(
        '[[corpora]]\ndata = "memory.tsv"\nweight = 3.0\n[[corpora]]\ndata = "news.tsv"\n[train]\nmax_steps = 6\n'
    )
    assert train(folder, tmp_path / "file", config="two.toml") == 0
    memory, news = str(folder / "memory.tsv"), str(folder / "news.tsv")
    flags = ["--data", memory, "--weight", "3", "--data", news, "--weight", "1"]
    assert run_command(["train", *flags, "--out", str(tmp_path / "flags"), *FLAGS, "--train.max-steps=6"]) == 0
    settings: dict[str, Any] = {flag[2:].partition("=")[0].replace("-", "_"): flag.partition("=")[2] for flag in FLAGS}
    rows = [tuple(line.split("\t")) for line in Path(news).read_text().splitlines()]
    kept = dragoman.train(
        corpora=[{"data": Path(memory), "weight": 3}, {"data": rows}], out=tmp_path / "python", max_steps=6, **settings
    )
    runs = [newest(tmp_path / name)[0] for name in ("file", "flags", "python")]
    weights = [load_file(each / "model.safetensors") for each in runs]
    assert all((weights[0][name] == other[name]).all() for other in weights[1:] for name in other)
    assert (kept.path / "corpus" / "corpora_1_data.jsonl").exists()
    assert json.loads((runs[0] / "manifest.json").read_text())["format"] == 1  # no control token
    capsys.readouterr()
    for wrong, message in (
        (["--weight", "1"], "`--weight` is given 1 time, for 2 corpora"),
        (["--weight", "0", "--weight", "1"], "`--weight` must be greater than 0, but is 0"),
        (["--src", news], f"`--src {news}` has no `--tgt`"),
        (["--data", memory], "`corpora[2]`"),
    ):
        assert run_command(["train", "--data", memory, "--data", news, *wrong, "--out", str(tmp_path / "x")]) == 2
        assert message in capsys.readouterr().err


def test_check_names_pairs_of_two_corpora(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memory = (folder / "memory.tsv").read_text()
    both = tmp_path / "both.tsv"
    both.write_text(memory[: memory.index("\n") + 1] + (folder / "news.tsv").read_text())
    names = [str(folder / "memory.tsv"), str(both)]
    assert run_command(["check", "--data", names[0], "--data", names[1], "--src-lang", "en", "--tgt-lang", "de"]) == 0
    said = capsys.readouterr().out
    assert "in two corpora: 1 (0.6%)  pairs are also in" in said
    assert said.count("you can train on this corpus") == 2
    first, second = dragoman.check(corpora=[{"data": name} for name in names], src_lang="en", tgt_lang="de")
    assert first.pairs == 120
    assert [one.count for one in second.findings if one.kind == "in two corpora"] == [1]
    assert run_command(["check", "--data", names[0], "--data", names[1], "--json"]) == 0
    assert [one["pairs"] for one in json.loads(capsys.readouterr().out)] == [120, 161]
    assert run_command(["check", *names, "--data", names[0]]) == 2


def test_corpora_have_the_languages_of_the_first_one(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [(pair.src, pair.tgt) for pair in distinct(400)]
    names = {"one": rows[:200], "swapped": [(tgt, src) for src, tgt in rows[200:]], "two": rows[200:]}
    paths = {name: tmp_path / f"{name}.tsv" for name in names}
    for name, pairs in names.items():
        paths[name].write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs))
    units = "".join(
        f'<tu><tuv xml:lang="de"><seg>{tgt}</seg></tuv><tuv xml:lang="en"><seg>{src}</seg></tuv></tu>'
        for src, tgt in rows[200:]
    )
    (tmp_path / "de.tmx").write_text(f'<tmx version="1.4"><header/><body>{units}</body></tmx>')
    flags = [flag for flag in FLAGS if "lang" not in flag] + ["--train.max-steps=2"]

    def train_on(other: Path) -> int:
        return run_command(
            ["train", "--data", str(paths["one"]), "--data", str(other), "--out", str(tmp_path / "r"), *flags]
        )

    assert train_on(paths["swapped"]) == 2
    assert "swapped.tsv" in (said := capsys.readouterr().err.splitlines()[-1])
    assert "English" in said or "en" in said
    assert train_on(tmp_path / "de.tmx") == 0  # a memory is read in the direction of the first corpus
    card = dragoman.load(tmp_path / "r").card
    assert (card.src_lang, card.tgt_lang) == ("en", "de")


def test_control_tokens_fit_into_learned_positions(folder: Path, tmp_path: Path) -> None:
    (folder / "learned.toml").write_text(
        '[[corpora]]\ndata = "memory.tsv"\ntag = "legal"\n[data]\nmax_tokens = 30\n[tokenizer]\nbpe_dropout = 0.5\n'
        '[model]\npositions = "learned"\nmax_positions = 32\n[train]\nmax_steps = 12\n'
    )
    assert train(folder, tmp_path / "run", config="learned.toml") == 0
    assert dragoman.load(tmp_path / "run")("Where is the station?", tag="legal") is not None


def test_a_report_has_no_path_of_the_machine(run: Path, folder: Path) -> None:
    assert f"{folder}/memory" not in (run / "report.html").read_text()
    assert "data = &#34;memory.tsv&#34;" in (run / "report.html").read_text()


def test_a_tag_that_is_added_before_the_first_checkpoint_counts(folder: Path, tmp_path: Path) -> None:
    text = '[[corpora]]\ndata = "memory.tsv"\n[train]\nmax_steps = 4\n'
    (folder / "later.toml").write_text(text)
    config = load_config([folder / "later.toml"])
    (tmp_path / "a").mkdir()
    assert train(folder, tmp_path / "fresh", config="later.toml") == 0
    shutil.copytree(tmp_path / "fresh" / "data", tmp_path / "late" / "data")
    (folder / "later.toml").write_text(text.replace("[train]", 'tag = "legal"\n[train]'))
    assert config.corpora[0].tag == ""
    for name in ("late", "tagged"):
        assert train(folder, tmp_path / name, config="later.toml") == 0
    late, tagged = (load_file(newest(tmp_path / name)[0] / "model.safetensors") for name in ("late", "tagged"))
    assert all((late[name] == tagged[name]).all() for name in late)


def test_corpora_of_one_file_name_are_told_apart(tmp_path: Path) -> None:
    pairs = distinct(200)
    for name, part in (("a", pairs[:100]), ("b", pairs[100:])):
        (tmp_path / name).mkdir()
        write_tsv(tmp_path / name / "train.tsv", part)
    data = [part for name in ("a", "b") for part in ("--data", str(tmp_path / name / "train.tsv"))]
    assert run_command(["train", *data, "--out", str(tmp_path / "run"), *FLAGS, "--train.max-steps=2"]) == 0
    assert [row[0] for row in dragoman.load(tmp_path / "run").card.corpora] == ["a/train.tsv", "b/train.tsv"]
