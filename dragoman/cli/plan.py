"""``dragoman plan``: estimate time, memory and disk space of `train` from a few measured steps on this machine."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from dragoman.cli.arguments import ArgumentParser
from dragoman.cli.train import add_data_flags, run_request
from dragoman.training.run.log import duration, finite_or_none
from dragoman.training.run.signals import Interrupted
from dragoman.workflows.progress import TerminalProgress

if TYPE_CHECKING:
    from dragoman.workflows.training.planning import Plan


def run(arguments: Sequence[str]) -> int:
    """Print the plan. Returns the exit code."""
    parser = ArgumentParser("plan", "dragoman plan --src train.en --tgt train.de")
    add_data_flags(parser)
    parser.add_switch("--json", "Print JSON instead of a table")
    given = parser.parse(arguments)
    request = run_request(given)
    from dragoman.workflows.training.planning import plan_run  # torch: only once the flags are right

    try:
        plan = plan_run(request, TerminalProgress())
    except Interrupted as stop:
        return stop.exit_code
    if given.json:
        parts = {"rule": asdict(plan.recipe), "measured": asdict(plan.measured), "forecast": asdict(plan.forecast)}
        found = {name: {key: finite_or_none(value) for key, value in part.items()} for name, part in parts.items()}
        print(json.dumps(asdict(plan.size) | found))
    else:
        _print(plan)
    return 0


def _print(plan: "Plan") -> None:
    config, recipe, measured, forecast = plan.run.config, plan.recipe, plan.measured, plan.forecast
    model, train = config.model, config.train
    limit = "more words" if math.isinf(recipe.max_words) else f"up to {recipe.max_words:,.0f} words"
    per_epoch = measured.steps_per_epoch * measured.step_seconds
    end = f"`{forecast.ends_by}` ends it"
    if forecast.ends_by == "train.patience":
        end = "when patience usually ends it, which is a guess"
        if math.isfinite(forecast.hours_at_most):
            end += f"; at most {duration(3600 * forecast.hours_at_most)}"
    shape = f"{model.num_encoder_layers}+{model.num_decoder_layers} layers, d_model {model.d_model}"
    suggested = f"{recipe.preset}, vocabulary {recipe.vocab_size:,}: the default recipe for {limit} ({recipe.why})"
    if train.teachers:
        suggested += "; tokenizer and vocabulary are the teachers'"
    if train.start_from:
        suggested = f"that of {train.start_from}, which is fine-tuned"
    rows = [
        ("suggested size", suggested),
        ("this model", f"{shape}, {measured.parameters:,} parameters; {train.precision}"),
        ("a step", f"{measured.step_seconds:.3g} s for {train.batch_tokens:,} target tokens "
                   f"(mean of {measured.steps_measured})"),
        ("an epoch", f"{measured.steps_per_epoch:,.0f} steps, {duration(per_epoch)}"),
        ("a validation", f"{duration(measured.validation_seconds)}, and {measured.save_seconds:.1f} s to save"),
        ("before and after", f"{duration(measured.prepare_seconds)} to prepare, "
                             f"{duration(measured.scoring_seconds)} to score"),
        ("the whole run", f"{duration(3600 * forecast.hours)}: {forecast.steps:,} steps, {forecast.epochs:,.1f} "
                          f"epochs, {forecast.validations:,} validations; {end}"),
        ("memory", f"{measured.peak_bytes / 1e9:.1f} GB"),
        ("disk", f"{forecast.disk_bytes / 1e9:.2f} GB"),
    ]  # fmt: skip
    table = Table(box=None, show_header=False)
    for name, value in rows:
        table.add_row(name, value)
    Console(highlight=False, markup=False).print(table)
