"""``dragoman summary CONFIG|MODEL``: list all parameters, compare their number with the formula, print the card."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from dragoman.cli.arguments import ArgumentParser, overrides_of, path_name, whole_number
from dragoman.config import Config, ModelSettings, read_given
from dragoman.config.loading import flag_of
from dragoman.config.settings import MOST_ENTRIES
from dragoman.errors import ConfigError
from dragoman.messages import say
from dragoman.text.tokenization.pipelines import CONTROL_TOKENS
from dragoman.workflows.models import require_model

if TYPE_CHECKING:
    from dragoman.model.parameters import ParameterRow
    from dragoman.model.transformer import Transformer


def run(arguments: Sequence[str]) -> int:
    """Print the table. Returns 1 if the number of parameters differs from the formula, else 0."""
    given = _parser().parse(arguments)
    if given.what is not None and given.what.suffix != ".toml":
        require_model(given.what)
    # torch and matplotlib: after the arguments are checked
    from dragoman.bundle import resolve_model_folder
    from dragoman.model.parameters import expected_parameters, parameter_table
    from dragoman.model.trained import TrainedModel
    from dragoman.visualization.figures.figure import check_figure_path, save_figure
    from dragoman.visualization.figures.summary import plot_summary

    if given.plot is not None:
        check_figure_path(given.plot, "--plot")
    card = ""
    if given.what is not None and (given.what.is_dir() or given.what.suffix != ".toml"):
        _refuse_settings(given)
        trained = TrainedModel.load(resolve_model_folder(given.what), "cpu")
        model, config = trained.model, trained.config
        card = trained.card.to_markdown()
    else:
        model, config = _model_without_values(given)
    rows = parameter_table(model)
    expected = expected_parameters(config.model, model.src_vocab_size, model.tgt_vocab_size)
    _print(rows, expected, config.model, card, given.json)
    if given.plot is not None:
        save_figure(plot_summary(rows, config.train, config.model.d_model), given.plot)
        say(f"wrote the picture to {given.plot}")
    return 0 if sum(row.count for row in rows) == expected else 1


def _parser() -> ArgumentParser:
    parser = ArgumentParser("summary", "dragoman summary run", "dragoman summary --model.preset base")
    text = "TOML file, model folder or run"
    parser.add_argument("what", metavar="CONFIG|MODEL", nargs="?", type=path_name, help=text)
    size = whole_number(len(CONTROL_TOKENS), MOST_ENTRIES)
    for side, name in (("src", "source"), ("tgt", "target")):
        text = f"Entries of the {name} vocabulary [default: tokenizer.vocab_size]"
        parser.add_flag(f"--{side}-vocab-size", "N", text, size)
    parser.add_switch("--json", "Print JSON instead of a table")
    text = "Picture of parameters and learning rate to write: .png, .svg or .pdf"
    parser.add_flag("--plot", "FILE", text, path_name)
    parser.add_settings("model", "tokenizer", "train", common=["model.preset", "model.tie", "tokenizer.joint"])
    return parser


def _model_without_values(given: argparse.Namespace) -> "tuple[Transformer, Config]":
    """The model of a configuration, without values for its parameters. Raises ConfigError for contradicting sizes."""
    from dragoman.devices.device import build_without_values
    from dragoman.model.transformer import Transformer

    settings = read_given([given.what] if given.what else [], overrides_of(given))
    base = Config().model
    if not settings.unchecked_over(Config()).tokenizer.joint:
        base = replace(base, tie="decoder")  # as in every recipe
    loaded = settings.over(Config(model=base))
    config = loaded.config
    one_size = (given.src_vocab_size or given.tgt_vocab_size) if config.model.tie == "all" else None
    src_size = given.src_vocab_size or one_size or config.tokenizer.vocab_size
    tgt_size = given.tgt_vocab_size or one_size or config.tokenizer.vocab_size
    if config.model.tie == "all" and src_size != tgt_size:
        raise ConfigError(
            f'`--src-vocab-size` and `--tgt-vocab-size` must be equal if `model.tie` is "all", but are {src_size} and '
            f"{tgt_size}. Give one size, or `--model.tie decoder`."
        )
    if not loaded.given & {"model.preset", "model.d_model"}:
        say("the size of the model is not given: this is the default; `train` chooses a size by the amount of text")
    with build_without_values():
        return Transformer(config.model, src_size, tgt_size), config


def _refuse_settings(given: argparse.Namespace) -> None:
    """Raise ConfigError for flags that set a configuration, because a trained model cannot change."""
    sizes = [flag for flag in ("src_vocab_size", "tgt_vocab_size") if getattr(given, flag)]
    if flags := [*map(flag_of, overrides_of(given)), *(f"--{flag.replace('_', '-')}" for flag in sizes)]:
        raise ConfigError(f"`{flags[0]}` is for a configuration, but {given.what} is a trained model. Leave it out.")


def _print(rows: "list[ParameterRow]", expected: int, settings: ModelSettings, card: str, as_json: bool) -> None:
    total = sum(row.count for row in rows)
    if as_json:
        tensors = [asdict(row) for row in rows]
        print(json.dumps({"tensors": tensors, "total": total, "formula": expected, "model": asdict(settings)}))
        return
    width = max(len(row.name) for row in rows)
    for row in rows:
        shape = " x ".join(map(str, row.shape))
        shared = f"  (also {', '.join(row.shared_with)})" if row.shared_with else ""
        print(f"{row.name:<{width}}  {shape:>14}  {row.count:>12,}{shared}")
    print(f"{'total':<{width}}  {'':>14}  {total:>12,}")
    verdict = "equal" if total == expected else "DIFFERENT"
    print(f"{'by the formula':<{width}}  {'':>14}  {expected:>12,}  ({verdict})")
    if card:
        print(f"\n{card}", end="")
