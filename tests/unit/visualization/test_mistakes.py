"""Every function that draws refuses wrong arguments in one line that names the parameter and the value."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dragoman import visualization
from dragoman.bundle import Model
from dragoman.config import ModelSettings, TrainSettings
from dragoman.engines.choice import Engines
from dragoman.errors import ConfigError, DataError, ModelError
from dragoman.inference.translator import Translator
from dragoman.model.transformer import Transformer
from dragoman.visualization.figures.figure import svg_of

MODEL = ModelSettings(preset="tiny")
ODD = ModelSettings(preset="custom", d_model=9, num_heads=3)
WEIGHTS = [[0.5, 0.5]]

# Correct arguments of every function, and for each parameter some wrong values with a part of the message.
RIGHT: dict[str, dict[str, Any]] = {
    "plot_transformer": {"model": MODEL, "src_vocab_size": 9, "tgt_vocab_size": 9},
    "plot_stacks": {"model": MODEL, "src_vocab_size": 9, "tgt_vocab_size": 9},
    "plot_layer": {"model": MODEL, "stack": "encoder"},
    "plot_attention": {"model": MODEL, "kind": "cross"},
    "plot_multi_head_attention": {"model": MODEL, "kind": "cross"},
    "plot_next_token": {"model": None, "text": "one two", "position": 1},
    "plot_beam_tree": {"translator": None, "text": "one two", "beam_size": 2},
    "plot_heads": {"translator": None, "text": "one two", "layer": 1, "kind": "cross"},
    "plot_weights": {"weights": WEIGHTS, "queries": ["q"], "keys": ["a", "b"]},
    "plot_untrained_and_trained": {"untrained": WEIGHTS, "trained": WEIGHTS, "queries": ["q"], "keys": ["a", "b"]},
    "plot_encodings": {"length": 4, "d_model": 4},
    "plot_encoding_curves": {"dimensions": [1], "length": 4, "d_model": 4},
    "plot_masks": {"src_tokens": ["a", "b"], "tgt_tokens": ["c"], "src_length": 1, "tgt_length": 1},
    "plot_parameter_shares": {"model": MODEL},
    "parameter_shares": {"model": MODEL},
    "plot_summary": {"model": MODEL, "settings": TrainSettings(), "d_model": 4},
    "plot_schedules": {"shapes": [(4, 10)], "num_steps": 20},
    "plot_schedule": {"settings": TrainSettings(), "d_model": 4, "num_steps": 20},
    "plot_smoothed_targets": {"labels": [1], "vocab_size": 4, "epsilon": 0.1, "pad_id": 0},
    "target_distributions": {"labels": [1], "vocab_size": 4, "epsilon": 0.1, "pad_id": 0},
    "plot_run": {"run": "run"},
    "plot_training_curves": {"curves": {"a": [(1, 2.0)]}, "value": "loss", "title": "Training"},
    "plot_initializations": {"xavier": [(1, 2.0)], "default": [(1, 2.0)]},
    "plot_lengths": {"src": "a.en", "tgt": "a.de", "unit": "words"},
    "save_figure": {"figure": None, "path": "a.png"},
}
COUNT = (0, -3, 2.5, True, "4", [4])
SIZE = (*COUNT, None)
TOKENS: tuple[Any, ...] = ("abc", [], [1], 3)
WRONG: dict[str, tuple[Any, ...]] = {
    "model": ("base", None, 3, ODD, torch.nn.Linear(2, 2), [1]),
    "translator": ("run", None, 3, torch.nn.Linear(2, 2)),
    "src_vocab_size": COUNT,
    "tgt_vocab_size": (*COUNT, 8),
    "stack": ("both", None, 3),
    "kind": ("self", None, ["cross"]),
    "text": (3, ["one"], "", "  ", "one " * 2000),
    "position": (*SIZE, 1000),
    "beam_size": (*COUNT, 1000),
    "layer": (*COUNT, 3),
    "weights": ("abc", None, 3, [[0.5, -1.0]], [[np.nan, 0.5]], [torch.rand(2, 1, 2)] * 2, [WEIGHTS, []]),
    "untrained": ("abc", None, [[0.5]], [[0.5, -1.0]], [[np.nan, 0.5]]),
    "trained": ("abc", None, [[0.5]], [[0.5, 2.0]]),
    "queries": (*TOKENS, ["a", "b"]),
    "keys": (*TOKENS, ["a"]),
    "length": SIZE,
    "d_model": COUNT,
    "dimensions": ([4], [-1], ["a"], 3, None, "1"),
    "src_tokens": (*TOKENS, None),
    "tgt_tokens": (*TOKENS, None),
    "src_length": (*SIZE, 3),
    "tgt_length": (*SIZE, 2),
    "settings": (None, "noam", MODEL, TrainSettings(schedule="cosine")),
    "shapes": ([(1,)], [1], [(0, 4)], [(4, "a")], 3, None, "ab"),
    "num_steps": (-3, 2.5, True, "4", None),
    "labels": ([4], [-1], [], ["a"], 3, None, "12"),
    "vocab_size": (1, 2.5, "4", None),
    "epsilon": (-0.1, 1.5, "a", None, float("nan")),
    "pad_id": (-1, 4, None, "0"),
    "run": (None, 3, "nowhere", "empty"),
    "curves": ([1], None, {1: []}, {"a": [1]}, {"a": [(1, "x")]}, {"a": "bc"}),
    "value": (None, 3),
    "title": (None, 3),
    "xavier": (None, 3, [1], [(1, 2, 3)]),
    "default": (None, 3, [1], "ab"),
    "src": (None, 3, "nowhere.en"),
    "tgt": (3, "nowhere.de", ["a.de"]),
    "unit": ("tokens", None),
    "figure": (None, "a.png"),
    "path": (None, 3, "a.jpeg2000", "a", "nowhere/a.png"),
}
# Arguments that one function refuses, and another one takes.
MORE: dict[tuple[str, str], tuple[Any, ...]] = {
    ("plot_untrained_and_trained", "queries"): (None,),
    ("plot_untrained_and_trained", "keys"): (None,),
    ("plot_encodings", "d_model"): (5, None),
    ("plot_encoding_curves", "d_model"): (5, None),
    ("plot_schedule", "d_model"): (None,),
    ("plot_schedules", "num_steps"): (0,),
}


@pytest.fixture
def arguments(trained: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """Correct arguments of a function, in a folder that has the files that they name."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.en", "a.de"):
        Path(name).write_text("one two\n\nthree\n")
    for name in ("run", "empty"):
        Path(name).mkdir()
    Path("run/log.jsonl").write_text('{"event": "train", "step": 1, "loss": 2.0}\n')

    def find(name: str) -> dict[str, Any]:
        right = dict(RIGHT[name])
        for parameter, value in {"model": trained, "translator": trained}.items():
            if parameter in right and right[parameter] is None:
                right[parameter] = value
        if "figure" in right:
            right["figure"] = visualization.plot_encodings(4, 4)
        return right

    return find


def test_every_function_is_tested() -> None:
    assert set(RIGHT) == set(visualization.__all__)


@pytest.mark.parametrize("name", RIGHT)
def test_a_wrong_argument_is_an_error_of_one_line(name: str, arguments: Callable[[str], dict[str, Any]]) -> None:
    right, draw = arguments(name), getattr(visualization, name)
    draw(**right)
    for parameter in right:
        for value in (*WRONG[parameter], *MORE.get((name, parameter), ())):
            with pytest.raises((ConfigError, DataError, ModelError)) as refused:
                draw(**right | {parameter: value})
            message = str(refused.value)
            assert "\n" not in message
            assert len(message) < 300, message
            assert message.endswith((".", "?")), message
            named = [parameter, str(value) or "empty", "text is empty", "text may have", "max_steps"]
            assert any(part in message for part in named), (parameter, value, message)


def test_ensembles_and_other_engines_are_refused_with_the_way_out(trained: Model) -> None:
    ensemble = Translator.from_models([trained, trained])
    in_memory = Translator.from_model(trained.transformer, trained.tokenizers, trained.config.inference, 24)
    other = Translator(Engines([trained.weights]), trained.tokenizers, trained.config.inference, 24)
    for draw in (
        visualization.plot_transformer,
        partial(visualization.plot_heads, text="one"),
        partial(visualization.plot_next_token, text="one"),
    ):
        with pytest.raises(ConfigError, match=r"an ensemble of 2 models\. Give one, such as `\w+\.models\["):
            draw(ensemble)
        with pytest.raises(ConfigError, match=r"has a search, but no model to look into\. Load one with"):
            draw(other)
        assert svg_of(draw(in_memory)) == svg_of(draw(ensemble.models[1]))
    with pytest.raises(ConfigError, match="`src_vocab_size` is a size of the model already, but 9 is given"):
        visualization.plot_transformer(trained.transformer, 9)
    with pytest.raises(
        ConfigError, match=r"`text` must be a list of ids or a `dragoman\.Batch`, or a text for a translator, but"
    ):
        visualization.plot_heads(trained.transformer, "one")
    with pytest.raises(ConfigError, match="`model` must be a translator"):
        visualization.plot_next_token(Transformer.build(5, 5, "tiny"), "one")
