"""Draws the pictures of docs/reference/figures.md, and the sheet with all of them.

    dragoman demo
    python tools/figure_page.py runs/demo docs/images

The diagrams show a model with the settings of the paper's base model. The other pictures show the run.
"""

import io
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from matplotlib.figure import Figure
from PIL import Image

import dragoman
from dragoman import visualization as pictures
from dragoman.inference.translator import Translator
from dragoman.visualization.figures.figure import png_of
from dragoman.visualization.inspection.attributions import pair_batch
from dragoman.visualization.report.run_facts import read_log

_TEXT = "Where is the train station?"
_SHEET_WIDTH, _GAP, _COLUMNS, _COLORS = 1500, 18, 4, 224
_PAGE_WIDTH, _PAGE_COLORS = 560, 128


def drawings(run: Path, folder: Path) -> dict[str, Callable[[], Figure]]:
    """A call of every function that draws, with `folder` for temporary files."""
    translator, base = dragoman.load(run), dragoman.ModelSettings(preset="base")
    src, tgt = dragoman.corpora.phrasebook(folder / "corpus").sides("train")
    model, train = translator.models[0].transformer, dragoman.TrainSettings()
    log = read_log(run / "log.jsonl")
    return {
        "plot_transformer": partial(pictures.plot_transformer, base),
        "plot_stacks": partial(pictures.plot_stacks, base),
        "plot_layer": partial(pictures.plot_layer, base),
        "plot_attention": partial(pictures.plot_attention, base, "decoder_self"),
        "plot_multi_head_attention": partial(pictures.plot_multi_head_attention, base),
        "plot_next_token": partial(pictures.plot_next_token, translator, _TEXT, 3),
        "plot_beam_tree": partial(pictures.plot_beam_tree, translator, _TEXT, 3),
        "plot_heads": partial(pictures.plot_heads, translator, _TEXT),
        "plot_weights": partial(pictures.plot_weights, *_first_heads(translator)[1:]),
        "plot_untrained_and_trained": partial(pictures.plot_untrained_and_trained, *_first_heads(translator)),
        "plot_encodings": partial(pictures.plot_encodings, 60, 64),
        "plot_encoding_curves": pictures.plot_encoding_curves,
        "plot_masks": partial(pictures.plot_masks, ["▁Where", "▁is", "</s>", "<pad>"], ["<s>", "▁Wo", "▁ist"], 3, 3),
        "plot_parameter_shares": partial(pictures.plot_parameter_shares, model),
        "plot_summary": partial(pictures.plot_summary, model, train),
        "plot_schedules": pictures.plot_schedules,
        "plot_schedule": partial(pictures.plot_schedule, train, 512),
        "plot_smoothed_targets": pictures.plot_smoothed_targets,
        "plot_run": partial(pictures.plot_run, run),
        "plot_training_curves": partial(pictures.plot_training_curves, {"validation": log.validation["loss"]}),
        "plot_lengths": partial(pictures.plot_lengths, src, tgt),
    }


def _first_heads(translator: Translator) -> tuple[np.ndarray, np.ndarray, list[str], list[str]]:
    """Cross-attention of the first head of a new model and of the trained one, and the tokens of both sides."""
    seen, model = dragoman.inspect(translator, _TEXT), translator.models[0].transformer
    torch.manual_seed(1)
    new = dragoman.Transformer(model.settings, model.src_vocab_size, model.tgt_vocab_size).eval()
    batch = pair_batch([seen.src.ids], seen.tgt.ids, torch.device("cpu"))
    with torch.no_grad():
        passes = [each.attention(batch.src_ids, batch.src_lengths, batch.decoder_input) for each in (new, model)]
    before, after = (one.cross[-1][0, 0].numpy() for one in passes)
    return before, after, ["<s>", *seen.tgt.tokens], [*seen.src.tokens, "</s>"]


def smaller(image: Image.Image, width: int) -> Image.Image:
    """The image at most `width` pixels wide."""
    width = min(width, image.width)
    return image.resize((width, round(image.height * width / image.width)), Image.Resampling.LANCZOS)


def sheet_of(images: list[Image.Image]) -> Image.Image:
    """Images in columns of one width, each under the last image of the shortest column."""
    width = (_SHEET_WIDTH - _GAP * (_COLUMNS + 1)) // _COLUMNS
    heights, placed = [_GAP] * _COLUMNS, []
    for image in images:
        small = smaller(image, width)
        column = heights.index(min(heights))
        placed.append((small, (_GAP + column * (width + _GAP), heights[column])))
        heights[column] += small.height + _GAP
    sheet = Image.new("RGB", (_SHEET_WIDTH, max(heights)), "white")
    for small, place in placed:
        sheet.paste(small, place)
    return sheet


def write_pictures(run: Path, out: Path) -> None:
    """Write figures.png and the folder figures with one picture for each function, and print their sizes."""
    (out / "figures").mkdir(exist_ok=True)
    images = []
    with TemporaryDirectory() as folder:
        for name, draw in drawings(run, Path(folder)).items():
            images.append(Image.open(io.BytesIO(png_of(draw()))).convert("RGB"))
            path = out / "figures" / f"{name.removeprefix('plot_')}.png"
            _save(smaller(images[-1], _PAGE_WIDTH), path, _PAGE_COLORS)
    _save(sheet_of(images), out / "figures.png", _COLORS)
    kilobytes = [path.stat().st_size / 1000 for path in (*(out / "figures").glob("*.png"), out / "figures.png")]
    print(f"{len(images)} pictures, {sum(kilobytes[:-1]):.0f} kB; figures.png {kilobytes[-1]:.0f} kB")


def _save(image: Image.Image, path: Path, colors: int) -> None:
    image.quantize(colors, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    write_pictures(Path(sys.argv[1]), Path(sys.argv[2]))
