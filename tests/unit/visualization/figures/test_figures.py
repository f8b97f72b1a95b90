"""Figures show what the library computes and open no window."""

import io
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dragoman import visualization
from dragoman.bundle import Model
from dragoman.config import PRESETS, ModelSettings, TrainSettings
from dragoman.errors import ConfigError
from dragoman.inference.translator import Translator
from dragoman.model.embedding import sinusoidal_positions
from dragoman.model.shapes import ParameterRow
from dragoman.model.transformer import Transformer
from dragoman.training.step.loss import smoothed_cross_entropy
from dragoman.training.step.optimizer import learning_rate
from dragoman.visualization.figures.attention_figures import plot_heads
from dragoman.visualization.figures.figure import png_of, svg_of
from dragoman.visualization.inspection.attributions import decode_weights, encode_weights
from dragoman.visualization.inspection.inspection import KIND_NAMES, Inspection, PackedAttention, Side
from dragoman.visualization.inspection.inspector import inspect_text
from dragoman.visualization.report.run_figures import INK, LINE


def image_of(axes) -> np.ndarray:
    return np.asarray(axes.images[0].get_array())


def points_of(line) -> tuple[list[float], list[float]]:
    return list(line.get_xdata()), list(line.get_ydata())


def heights_of(axes) -> list[int]:
    return [bar.get_height() for bar in axes.patches]


def test_encodings_match_the_model() -> None:
    figure = visualization.plot_encodings(30, 16)
    np.testing.assert_array_equal(image_of(figure.axes[0]), sinusoidal_positions(30, 16).numpy())
    curves = visualization.plot_encoding_curves((2, 3), 30, 16).axes[0].lines
    np.testing.assert_array_equal(curves[1].get_ydata(), sinusoidal_positions(30, 16)[:, 3].numpy())
    with pytest.raises(ConfigError, match="`dimensions` must be at most 15, but is 16"):
        visualization.plot_encoding_curves((16,), 30, 16)


def test_masks_hide_padding_and_later_positions() -> None:
    source, target, both = visualization.plot_masks(["a", "b", "<pad>"], ["<bos>", "c", "d", "<pad>"], 2, 3).axes
    assert image_of(source).tolist() == [[1, 1, 0], [1, 1, 0], [2, 2, 2]]
    assert image_of(target).tolist() == np.tril(np.ones((4, 4))).tolist()
    assert image_of(both).tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [2, 2, 2, 2]]
    with pytest.raises(ConfigError, match="`src_length` must be at most 1, but is 2"):
        visualization.plot_masks(["a"], ["b"], 2, 1)


def test_the_schedule_peaks_at_the_warm_up() -> None:
    axes = visualization.plot_schedules([(512, 4000), (256, 3333)], 10_000).axes[0]
    for line, d_model, warmup in zip(axes.lines, (512, 256), (4000, 3333), strict=True):
        steps, rates = points_of(line)
        assert steps[np.argmax(rates)] == warmup
        assert max(rates) == pytest.approx(d_model**-0.5 * warmup**-0.5)
        assert axes.get_ylim()[1] > max(rates)
    settings = TrainSettings(max_steps=37, warmup_steps=10)
    steps, rates = points_of(visualization.plot_schedule(settings, 64).axes[0].lines[0])
    assert rates[-1] == learning_rate(37, settings, 64)
    assert len(steps) == 37


def test_target_distributions_match_the_loss() -> None:
    targets = visualization.target_distributions([5, 0, 2], vocab_size=6, epsilon=0.3, pad_id=0)
    assert targets[1].tolist() == [0.0] * 6
    assert targets[:, 0].tolist() == [0.0] * 3
    torch.testing.assert_close(targets.sum(1), torch.tensor([1.0, 0.0, 1.0]))
    assert targets[0, 5].item() == pytest.approx(0.7 + 0.3 / 5)
    logits = torch.randn(1, 6)
    expected = -(targets[0] * torch.log_softmax(logits[0], -1)).sum()
    torch.testing.assert_close(smoothed_cross_entropy(logits, torch.tensor([5]), 0.3, 0)[0], expected)
    assert visualization.target_distributions([0], 4, 0.1, 0).tolist() == [[0.0] * 4]
    assert len(visualization.plot_smoothed_targets().axes) == 2


def test_both_heads_share_one_colour_scale() -> None:
    first, second = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.1, 0.9]])
    axes = visualization.plot_untrained_and_trained(first, second, ["q"], ["k1", "k2"]).axes
    np.testing.assert_allclose(image_of(axes[1]), second)
    assert axes[0].images[0].get_clim() == axes[1].images[0].get_clim() == (0, 1)
    assert [text.get_text() for text in axes[0].get_xticklabels()] == ["k1", "k2"]
    with pytest.raises(ConfigError, match=r"`untrained` must have the shape 1 x 3 \(`queries` x `keys`\)"):
        visualization.plot_untrained_and_trained(first, second, ["q"], ["a", "b", "c"])


@pytest.mark.parametrize(("num_queries", "num_keys"), [(3, 4), (12, 150), (150, 12), (200, 200)])
def test_heads_of_any_shape_have_readable_labels(num_queries: int, num_keys: int) -> None:
    cross = torch.rand(4, num_queries, num_keys)
    sides = [tuple(f"{side}{place}" for place in range(count)) for side, count in (("q", num_queries), ("k", num_keys))]
    weights = PackedAttention("cross", 1, 4, sides[0], sides[1], False, encode_weights(cross[None]), ())
    side = Side("", (), ())
    inspection = Inspection("", "", "", side, side, "", "", 0, "", (), (), (), (weights,), None, ())
    figure = plot_heads(inspection)
    figure.draw_without_rendering()
    assert figure.get_figwidth() <= 21
    np.testing.assert_allclose(image_of(figure.axes[1]), cross[1], atol=0.002)
    for axes in figure.axes[:4]:
        box = axes.get_window_extent()
        for labels, count, points in (
            (axes.get_xticklabels(), num_keys, box.width / figure.dpi * 72),
            (axes.get_yticklabels(), num_queries, box.height / figure.dpi * 72),
        ):
            size = labels[0].get_fontsize()
            assert size >= 5
            assert len(labels) * 0.8 * size <= points, "labels do not lie on one another"
            assert len(labels) >= count / 4


def test_heads_of_a_text_are_those_of_its_inspection(trained: Model) -> None:
    inspection = inspect_text(trained, "one two three")
    for kind in KIND_NAMES:
        figure = visualization.plot_heads(trained, "one two three", layer=2, kind=kind)
        weights = decode_weights(inspection.of_kind(kind))
        np.testing.assert_allclose(image_of(figure.axes[1]), weights[1, 1], atol=0.005)
        np.testing.assert_array_equal(image_of(visualization.plot_heads(inspection, kind=kind).axes[0]), weights[1, 0])
        assert figure.get_suptitle().endswith("layer 2")
        assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == list(inspection.of_kind(kind).keys)
    translator = Translator.from_models([trained])
    translator.settings = replace(translator.settings, max_extra_tokens=0, beam_size=1)
    short = visualization.plot_heads(translator, "one").axes[0]
    assert len(short.get_yticklabels()) < len(visualization.plot_heads(trained, "one").axes[0].get_yticklabels())


def test_lengths_of_a_corpus(tmp_path: Path) -> None:
    src, tgt = tmp_path / "a.en", tmp_path / "a.de"
    src.write_text("one two\n\nthree\nfour five\n")
    tgt.write_text("eins\nzwei\ndrei vier\nfünf sechs\n", encoding="utf-8")
    english, german, ratio = visualization.plot_lengths(src, tgt).axes
    assert heights_of(english) == [1, 1, 2]
    assert heights_of(german) == [0, 2, 2]
    assert sum(heights_of(ratio)) == 3
    assert ratio.get_xlabel() == "4 pairs, median 1.00, beyond 4 to 1: 0.0%"
    assert english.get_title(loc="left") == "en: words per sentence"
    both = tmp_path / "both.tsv"
    both.write_text("ab\tc\nd\tefg\n")
    assert visualization.plot_lengths(both, unit="characters").axes[1].get_xlabel() == "mean 2.0, longest 3"


def test_a_run_is_drawn_in_the_colours_of_figures(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"event": "train", "step": 1, "loss": 2.0}\n')
    (axes,) = visualization.plot_run(tmp_path).axes
    assert points_of(axes.lines[0]) == ([1], [2.0])
    assert INK not in (axes.title.get_color(), axes.spines["left"].get_edgecolor())
    assert svg_of(visualization.plot_run(tmp_path)).count(LINE) == 0


def test_a_notebook_shows_a_figure_at_twice_its_size_in_few_bytes() -> None:
    figure: Any = visualization.plot_encodings(8, 4)
    data, shown = figure._repr_png_()
    image = Image.open(io.BytesIO(data))
    assert abs(image.width - 2 * shown["width"]) <= 1
    assert abs(image.height - 2 * shown["height"]) <= 1
    assert 0.9 < shown["width"] / (figure.get_figwidth() * figure.dpi) < 1.1
    assert len(data) < 30_000


def test_curves_keep_their_points_and_empty_curves_are_left_out() -> None:
    figure = visualization.plot_initializations([(1, 5.0), (2, 4.0)], [])
    (line,) = figure.axes[0].lines
    assert points_of(line) == ([1, 2], [5.0, 4.0])
    assert not visualization.plot_training_curves({}).axes[0].lines


@pytest.mark.parametrize("tie", ["all", "decoder", "none"])
def test_every_parameter_is_in_one_share(tie: str) -> None:
    shape = ModelSettings(
        preset="custom", d_model=8, d_ff=16, num_heads=2, num_encoder_layers=2, num_decoder_layers=1, tie=tie,
        positions="learned", max_positions=5,
    )  # fmt: skip
    model = Transformer(shape, 11, 11)
    shares = visualization.parameter_shares(model.parameter_table())
    assert sum(shares.values()) == sum(parameter.numel() for parameter in model.parameters())
    assert shares["learned positions"] == 2 * 5 * 8
    assert shares["encoder: feed-forward"] == 2 * (2 * 8 * 16 + 16 + 8)
    assert shares["decoder: cross-attention"] == 4 * 8 * 8 + 4 * 8
    assert shares["layer norms"] == 16 * (2 * 2 + 3 + 2)
    names = {
        "all": "source embedding = target embedding = projection",
        "decoder": "target embedding = projection",
        "none": "projection",
    }
    assert shares[names[tie]] == 11 * 8
    assert "other" not in shares


def test_figures_open_no_window_and_keep_the_callers_settings(tmp_path: Path) -> None:
    code = """
import sys, matplotlib
from dragoman import visualization
before = dict(matplotlib.rcParams.copy())
visualization.save_figure(visualization.plot_encodings(8, 4), __import__("pathlib").Path(sys.argv[1]))
assert "matplotlib.pyplot" not in sys.modules
assert {k: v for k, v in matplotlib.rcParams.copy().items() if v != before[k]} == {}
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.svg")], check=True, timeout=120)
    assert (tmp_path / "a.svg").read_text().lstrip().startswith("<?xml")


def test_the_package_and_the_help_do_not_import_matplotlib() -> None:
    code = """
import sys
from dragoman.cli.main import run_command
assert run_command(["--help"]) == 0
assert "torch" not in sys.modules and "matplotlib" not in sys.modules
import dragoman.visualization
assert "torch" not in sys.modules and "matplotlib" not in sys.modules
dragoman.visualization.plot_transformer(dragoman.ModelSettings())
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_the_extension_selects_the_file_format(tmp_path: Path) -> None:
    figure = visualization.plot_schedule(TrainSettings(), 64)
    for ending, start in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")):
        visualization.save_figure(figure, tmp_path / f"picture.{ending}")
        assert (tmp_path / f"picture.{ending}").read_bytes().startswith(start)
    again = [svg_of(visualization.plot_schedule(TrainSettings(), 64)) for _ in range(2)]
    assert again[0] == again[1]
    assert png_of(figure).startswith(b"\x89PNG")
    with pytest.raises(ConfigError, match=r"png, \.svg, \.pdf"):
        visualization.save_figure(figure, tmp_path / "picture.jpeg2000")
    with pytest.raises(ConfigError, match=r"nowhere is not a folder\. Create it first\."):
        visualization.save_figure(figure, tmp_path / "nowhere" / "picture.png")
    assert {path.name for path in tmp_path.iterdir()} == {"picture.png", "picture.svg", "picture.pdf"}


def test_the_summary_has_the_schedule_of_the_width_of_the_model() -> None:
    settings = TrainSettings(schedule="noam", max_steps=20, warmup_steps=10)
    shares, rates = visualization.plot_summary(PRESETS["tiny"], settings).axes
    assert shares.get_title(loc="left").endswith(" parameters by part")
    assert points_of(rates.lines[0])[1][-1] == learning_rate(20, settings, PRESETS["tiny"].d_model)
    with pytest.raises(ConfigError, match="`model` must be a Transformer"):
        visualization.plot_summary([ParameterRow("weight", (2, 2), 4, ())], settings)


def test_summary_plots_a_preset_without_creating_its_weights(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    from dragoman.cli.main import run_command

    assert run_command(["summary", "--model.preset", "big", "--plot", str(tmp_path / "big.png")]) == 0
    assert f"wrote the picture to {tmp_path / 'big.png'}" in capsys.readouterr().err
    assert (tmp_path / "big.png").read_bytes().startswith(b"\x89PNG")
    assert run_command(["summary", "--plot", str(tmp_path / "big.txt")]) == 2
    assert "does not have the extension of a figure" in capsys.readouterr().err
    assert run_command(["summary", "--plot", str(tmp_path)]) == 2
    expected = f"`--plot` is {tmp_path}, which is a folder. Give a file name, such as {tmp_path / 'figure.png'}."
    assert expected in capsys.readouterr().err
    assert PRESETS["big"].d_model == 1024


def test_numbers_of_steps_do_not_touch() -> None:
    figure = visualization.plot_summary(PRESETS["tiny"], TrainSettings(max_steps=20_000))
    figure.draw_without_rendering()
    places = [text.get_window_extent() for text in figure.axes[1].get_xticklabels()]
    assert all(left.x1 + 3 < right.x0 for left, right in pairwise(places))
