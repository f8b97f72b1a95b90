"""``dragoman demo``: train, score and try a small model in a few minutes, on the phrasebook or on the copy task."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from dragoman.cli.arguments import ArgumentParser, Options, path_name
from dragoman.cli.train import run_training
from dragoman.config import SETTINGS, read_given
from dragoman.data.store import copy_task
from dragoman.demo.phrasebook import PhrasebookPair
from dragoman.demo.phrasebook_file import load_phrasebook
from dragoman.display import say
from dragoman.errors import ConfigError
from dragoman.files import sibling_path, write_file
from dragoman.records import NUM_CONTROL_IDS
from dragoman.training.run.frozen_settings import frozen_config
from dragoman.workflows.training.settings import RunRequest, check_early

_SEED = 1
_TRAIN_PAIRS, _TEST_PAIRS, _SHOWN = 30_000, 500, 10
# Few words and simple sentences: little dropout and a high learning rate fit best.
_SETTINGS = {
    "data.src_lang": "en",
    "data.tgt_lang": "de",
    "tokenizer.vocab_size": "2000",
    "model.preset": "tiny",
    "model.num_encoder_layers": "3",
    "model.num_decoder_layers": "2",
    "model.d_ff": "512",
    "model.dropout": "0.1",
    "train.batch_tokens": "2048",
    "train.learning_rate": "0.008",
    "train.warmup_steps": "300",
    "train.max_minutes": "4.5",
    "train.patience": "0",
    "train.average_last": "3",
    "validate.every_epochs": "1",
    "inference.beam_size": "4",
}
# Sequences of 10 symbols (docs/guide/10_copy_task.md). These settings solve the task in 200 of 300 steps.
_COPY_SETTINGS = {
    "data.check_languages": "false",
    "tokenizer.kind": "word",
    "tokenizer.vocab_size": "15",
    "model.preset": "custom",
    "model.d_model": "64",
    "model.d_ff": "128",
    "model.num_encoder_layers": "2",
    "model.num_decoder_layers": "2",
    "model.dropout": "0",
    "train.batch_tokens": "704",
    "train.optimizer": "adam",
    "train.learning_rate": "0.003",
    "train.warmup_steps": "60",
    "train.max_steps": "300",
    "train.average_last": "0",
    "validate.metric": "loss",  # chrF soon has its maximum, and the first model with it need not be the best
    "inference.beam_size": "1",
}
_COPY_TRAIN, _COPY_HELD_OUT, _COPY_SHARE = 4000, 200, 0.95


def run(options: Options) -> int:
    """Train, score held-out sentences, and print ten of them with their references. Returns the exit code."""
    if options.copy:
        return _copy(options.out, options.overrides())
    limits = {} if options.minutes is None else {"train.max_minutes": options.minutes}
    if limits and options.overrides().get("train.max_minutes", options.minutes) != options.minutes:
        raise ConfigError("`--minutes` and `--train.max-minutes` are one setting, but differ. Leave one out.")
    for minutes in limits.values():
        SETTINGS["train.max_minutes"].parse(minutes, "`--minutes`")
    files = _corpus_files(options.out, ".en-de.tsv")
    settings = {**_SETTINGS, **files, **limits, **options.overrides()}
    check_early(read_given([], settings), frozen_config(options.out))
    split = load_phrasebook().split(_SEED, _TRAIN_PAIRS, _TEST_PAIRS)
    parts = ([(pair.src, pair.tgt) for pair in pairs] for pairs in (split.train, split.dev, split.test))
    if code := _train(options.out, settings, files, *parts):
        return code
    _show(options.out, split.test)
    return 0


def _corpus_files(out: Path, ending: str) -> dict[str, str]:
    """The settings for the files of the corpus, in a folder beside the run."""
    corpus = sibling_path(out, "-corpus")
    return {f"data.{name}": str(corpus / f"{name}{ending}") for name in ("train", "dev", "test")}


def _train(out: Path, settings: Mapping[str, str], files: Mapping[str, str], *parts: Sequence[tuple[str, str]]) -> int:
    """Write the parts of the corpus, and train on it. Returns the exit code."""
    for file, pairs in zip(map(Path, files.values()), parts, strict=True):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, "".join(f"{src}\t{tgt}\n" for src, tgt in pairs))
    return run_training(RunRequest(overrides=settings, out=out))


def build_parser() -> ArgumentParser:
    """The parser of ``dragoman demo``."""
    parser = ArgumentParser("demo", "dragoman demo --minutes 2", "dragoman demo --copy")
    parser.add_switch("--copy", "Learn to copy random sequences instead, to check in a minute that training works")
    parser.add_flag("--out", "RUN", "Folder of the run [default: runs/demo]", path_name, default=Path("runs/demo"))
    parser.add_flag("--minutes", "X", "Minutes of training, as --train.max-minutes [default: 4.5]")
    parser.add_settings(
        "train", "inference", common=["train.device", "train.seed"], without=["train.start_from"], defaults=_SETTINGS
    )
    return parser


def _copy(out: Path, overrides: Mapping[str, str]) -> int:
    """Train on the copy task. Returns 2 if the model copies fewer than 95 % of new sequences exactly."""
    task = copy_task(_COPY_TRAIN, _COPY_HELD_OUT, _SEED)
    half = _COPY_HELD_OUT // 2
    texts = [_symbols(pairs.src_ids(index)) for pairs in (task.train, task.held_out) for index in range(len(pairs))]
    held_out, files = texts[_COPY_TRAIN:], _corpus_files(out, ".tsv")
    parts = ([(text, text) for text in part] for part in (texts[:_COPY_TRAIN], held_out[:half], held_out[half:]))
    if code := _train(out, {**_COPY_SETTINGS, **files, **overrides}, files, *parts):
        return code
    from dragoman.inference.translator import Translator

    outputs = Translator.load(out).translate(held_out[half:])
    right = sum(output == text for output, text in zip(outputs, held_out[half:], strict=True))
    print(f"exactly copied: {right} of {half} new sequences")
    if right >= _COPY_SHARE * half:
        return 0
    say("the model did not learn to copy. Run `dragoman demo --copy` again with --train.device cpu, and report this.")
    return 2


def _symbols(ids: Any) -> str:
    """The ids of a sequence as letters, without control tokens."""
    return " ".join(chr(ord("a") + number - NUM_CONTROL_IDS) for number in ids.tolist() if number >= NUM_CONTROL_IDS)


def _show(run: Path, test: Sequence[PhrasebookPair]) -> None:
    """Print the share of held-out sentences translated exactly right, the weakest patterns, and ten examples."""
    from dragoman.inference.translator import Translator
    from dragoman.visualization.report.report import REPORT

    outputs = Translator.load(run).translate([pair.src for pair in test])
    right = [output == pair.tgt for output, pair in zip(outputs, test, strict=True)]
    print(f"exactly right: {sum(right)} of {len(test)} held-out sentences ({sum(right) / len(test):.1%})")
    asked = Counter(pair.pattern for pair in test)
    hit = Counter(pair.pattern for pair, is_right in zip(test, right, strict=True) if is_right)
    worst = sorted(asked, key=lambda pattern: hit[pattern] / asked[pattern])[:3]
    print("The phrasebook is easy. Expect lower scores on real text.")
    print("weakest patterns: " + ", ".join(f"{pattern} {hit[pattern]}/{asked[pattern]}" for pattern in worst))
    for index in range(0, len(test), max(1, len(test) // _SHOWN))[:_SHOWN]:
        pair = test[index]
        print(f"\n  {pair.src}\n  {outputs[index]}" + ("" if right[index] else f"\n  reference: {pair.tgt}"))
    print(f"\nRead the report: {run / REPORT}")
    print(f'Try it: echo "Where is the train station?" | dragoman translate {quote(str(run))}')
