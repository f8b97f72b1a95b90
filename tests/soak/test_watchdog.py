"""The watchdog names each fault of a run, and is silent in good runs."""

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import pytest

from dragoman.cli.main import run_command
from dragoman.config import PRESETS, Config, InferenceSettings
from dragoman.inference.translator import Translator
from dragoman.model.transformer import Transformer
from dragoman.training.run.watchdog import WatchdogState
from dragoman.training.trainer import fit
from tests.soak.conftest import Report
from tests.soak.processes import run_in_new_process
from tests.soak.runs import CONFIG, Texts, events_of, make_session, override_train, phrasebook_texts, scaled_gradients

STEPS = 480
FAULTY_STEP = 40
MODEL = replace(PRESETS["tiny"], d_model=64, d_ff=128, num_encoder_layers=2, num_decoder_layers=2, dropout=0.1)
RUN = override_train(
    replace(CONFIG, model=MODEL, validate=replace(CONFIG.validate, every_steps=STEPS // 8)),
    batch_tokens=1000,
    max_steps=STEPS,
    warmup_steps=STEPS // 6,
    learning_rate=0.004,
    checkpoint_every_steps=0,
)
SHORT = override_train(RUN, max_steps=60)
NO_DROPOUT = replace(RUN, model=replace(MODEL, dropout=0.0))
CASES: dict[str, tuple[Config, Callable[[Texts], Texts], float]] = {
    "": (RUN, lambda texts: texts, 1.0),
    "learning rate too high": (override_train(RUN, learning_rate=0.4), lambda texts: texts, 1.0),
    "ignores the source": (RUN, lambda texts: replace(texts, tgt=random.Random(6).sample(texts.tgt, 3000)), 1.0),
    "same output": (RUN, lambda texts: replace(texts, tgt=[texts.tgt[0]] * 3000), 1.0),
    "over-fitting": (
        override_train(NO_DROPOUT, warmup_steps=50),
        lambda texts: replace(texts, src=texts.src[:200], tgt=texts.tgt[:200]),
        1.0,
    ),
    "not finite": (SHORT, lambda texts: texts, math.nan),
    "gradient spike": (SHORT, lambda texts: texts, 1e6),
}
"""By the name that the watchdog should give: settings, what becomes of the texts, and of the gradient of one step."""


@pytest.mark.parametrize("name", CASES, ids=lambda name: name or "a good run")
def test_a_fault_is_named(name: str, tmp_path: Path, report: Report) -> None:
    config, change, factor = CASES[name]
    texts = change(phrasebook_texts(3000))
    session = make_session(tmp_path, texts, config)
    session.validate = validate_distinct(texts)
    with scaled_gradients(session, set() if factor == 1.0 else {FAULTY_STEP}, factor):
        fit(session)
    found = list(dict.fromkeys(entry["name"] for entry in events_of(tmp_path, "watchdog")))
    broken = [] if (name in found if name else not found) else [session.state.watchdog.measured]
    report(f"watchdog: {name or 'a good run'}", 1, broken, f"{config.train.max_steps} steps; reported: {found}")


def validate_distinct(texts: Texts) -> Callable[[Transformer], Mapping[str, float]]:
    """The share of different translations of 50 validation sentences."""
    sources = [texts.tokenizers.src.detokenize(texts.dev.src_ids(index).tolist()) for index in range(50)]

    def validate(model: Transformer) -> Mapping[str, float]:
        found = Translator.from_model(model, texts.tokenizers, InferenceSettings(beam_size=1), 64).translate(sources)
        return {"distinct": len(set(found)) / len(set(sources))}

    return validate


def demo(minutes: float) -> list[str]:
    return ["demo", f"--minutes={minutes}"]


def multi30k(minutes: float) -> list[str]:
    config = Path(__file__).parents[2] / "configs" / "multi30k_en_de.toml"
    return ["train", str(config), f"--train.max-minutes={minutes}", "--validate.max-sentences=100"]


@pytest.mark.parametrize("command", [demo, multi30k])
def test_good_runs_get_no_warning(
    command: Callable[[float], list[str]],
    tmp_path: Path,
    scaled: Callable[[int], int],
    report: Report,
    request: pytest.FixtureRequest,
) -> None:
    if command is multi30k:
        request.getfixturevalue("data_folder")
    minutes, run = scaled(4), tmp_path / "run"
    norms = run_in_new_process(gradient_norms, [*command(minutes), f"--out={run}", "--train.patience=0"])
    found = [entry["name"] for entry in events_of(run, "watchdog")]
    figures = f"{len(norms)} steps, {len(events_of(run, 'validation'))} validations; reported: {found}; "
    figures += f"largest gradient {max(norms):.1f} times the median before it"
    report(f"watchdog: {command.__name__}, {minutes} minutes", 1, found[:1], figures)


def gradient_norms(command: list[str]) -> list[float]:
    """Train with a command; return each step's gradient norm divided by the median of the steps before."""
    original, times = WatchdogState.judge_step, []

    def judge_step(self: WatchdogState, step: int, loss: float, norm: float) -> Any:
        if len(self.norms) >= 16:
            times.append(norm / median(self.norms))
        return original(self, step, loss, norm)

    with mock.patch.object(WatchdogState, "judge_step", judge_step):
        assert run_command(command) == 0
    return times
