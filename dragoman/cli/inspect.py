"""``dragoman inspect MODEL TEXT``: show one translation from inside, as a page, a picture or data."""

import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.cli.arguments import ArgumentParser, Options, path_name, whole_number
from dragoman.config import WITHOUT_SAMPLING
from dragoman.display import say
from dragoman.errors import ConfigError
from dragoman.files import check_target, write_file
from dragoman.workflows.inspection import inspect_model
from dragoman.workflows.progress import TerminalProgress

if TYPE_CHECKING:
    from dragoman.visualization.inspection.inspection import AttentionKind, Inspection

_PAGE = Path("inspection.html")
_KINDS: "dict[str, AttentionKind]" = {"cross": "cross", "encoder": "encoder_self", "decoder": "decoder_self"}
_SECONDS_A_TOKEN = 0.04
# Inspection runs a plain beam search in float32 on one text and shows the whole beam.
_IGNORED = tuple(f"inference.{name}" for name in ("seed", "n_best", "precision", "batch_tokens", *WITHOUT_SAMPLING))


def run(options: Options) -> None:
    """Translate a text, print it, and write the requested files."""
    model = options.model_request(options.model)
    _check(options)
    inspection = inspect_model(model, options.text or "", options.test, TerminalProgress())
    if options.png is not None:
        from dragoman.visualization.figures.attention_figures import plot_heads
        from dragoman.visualization.figures.figure import save_figure

        kind, layer = _KINDS[options.kind or "cross"], options.layer
        most = inspection.of_kind(kind).num_layers
        if layer is not None and layer > most:
            raise ConfigError(f"`--layer` must be from 1 to {most}, the layers of this model, but is {layer}.")
        save_figure(plot_heads(inspection, layer=layer, kind=kind), options.png)
        say(f"wrote the picture to {options.png}")
    if options.out is not None:
        from dragoman.visualization.inspection.inspection import inspection_page

        write_file(options.out, inspection_page(inspection))
        say(f"wrote the page to {options.out}; open it in a browser")
    if options.json:
        print(inspection.to_json())
    else:
        _show(inspection)


def build_parser() -> ArgumentParser:
    """The parser of ``dragoman inspect``."""
    parser = ArgumentParser(
        "inspect",
        'dragoman inspect run "Where is the station?"',
        "dragoman inspect run --test 3 --png heads.png --layer 1",
    )
    parser.add_argument("model", metavar="MODEL", help="Model folder or run")
    parser.add_argument("text", metavar="TEXT", nargs="?", help="Text to translate")
    parser.add_flag("--test", "N", "Test sentence of a run to translate instead, counted from 1", whole_number(1))
    parser.add_flag("--out", "FILE", f"HTML page to write [default: {_PAGE}]", path_name)
    parser.add_flag("--png", "FILE", "Picture of all heads of a layer to write: .png, .svg or .pdf", path_name)
    parser.add_flag("--layer", "N", "Layer in the picture, counted from 1 [default: the last]", whole_number(1))
    text = "Attention in the picture [default: cross, from decoder to source]"
    parser.add_choice("--kind", tuple(_KINDS), text)
    parser.add_switch("--json", "Print JSON instead of text")
    parser.add_model_flags(without=_IGNORED)
    return parser


def _check(options: Options) -> None:
    """Raise ConfigError for flags that fit no model, before a model is loaded."""
    if (options.text is None) == (options.test is None):
        raise ConfigError(
            "TEXT or `--test` must be given, but not both. Write TEXT in quotes, or `--test N` for a run."
        )
    if options.png is not None:
        from dragoman.visualization.arguments import check_figure_path

        check_figure_path(options.png, "--png")
    for flag in ("layer", "kind"):
        if getattr(options, flag) is not None and options.png is None:
            raise ConfigError(f"`--{flag}` has no effect without `--png`. Add `--png`, or leave `--{flag}` out.")
    if options.out is None and options.png is None and not options.json:
        options.out = _PAGE
    if options.out is not None:
        check_target(options.out, "--out", _PAGE.name)
        if options.png is not None and options.out.resolve() == options.png.resolve():
            raise ConfigError(
                f"`--out` and `--png` must differ, but both are {options.out}. Choose another name for the picture."
            )


def _show(inspection: "Inspection") -> None:
    """Print SOURCE, TARGET if it is known, and PREDICTED, which a terminal shows token by token."""
    for name, text in (("SOURCE", inspection.src.text), ("TARGET", inspection.reference)):
        if text:
            print(f"{name:<10}{_one_line(text)}")
    sys.stdout.write(f"{'PREDICTED':<10}")
    for piece in _token_texts(inspection):
        sys.stdout.write(piece)
        if sys.stdout.isatty():
            sys.stdout.flush()
            time.sleep(_SECONDS_A_TOKEN)
    print()


def _token_texts(inspection: "Inspection") -> list[str]:
    """The translation in parts, one for each token. Joined, they are exactly the text."""
    text = _one_line(inspection.tgt.text)
    ends = [-1]  # the first token starts with a space that the text does not have
    for token in inspection.tgt.tokens:
        ends.append(min(len(text), ends[-1] + len(token)))
    return [*(text[max(0, start) : max(0, end)] for start, end in pairwise(ends)), text[max(0, ends[-1]) :]]


def _one_line(text: str) -> str:
    """The text with a space for each control character. Zero-width joiners, which shape letters and emoji, stay."""
    return "".join(char if char.isprintable() or char in "\u200c\u200d" else " " for char in text)
