"""``dragoman summary CONFIG|MODEL``: list all parameters, compare their number with the formula, print the card."""

from dataclasses import asdict

from dragoman.cli.arguments import ArgumentParser, Options, path_name, whole_number
from dragoman.config.settings import MOST_ENTRIES
from dragoman.display import json_text, say
from dragoman.text.tokenization.pipelines import CONTROL_TOKENS
from dragoman.workflows.inspection import summarize_model
from dragoman.workflows.progress import TerminalProgress


def run(options: Options) -> int:
    """Print the table. Returns 1 if the number of parameters differs from the formula, else 0."""
    if options.plot is not None:
        from dragoman.visualization.arguments import check_figure_path

        check_figure_path(options.plot, "--plot")
    sizes = options.src_vocab_size, options.tgt_vocab_size
    summary = summarize_model(options.what, options.overrides(), sizes, TerminalProgress())
    rows, total, formula = summary.rows, summary.rows.total, summary.formula
    if options.json:
        facts = {"tensors": [asdict(row) for row in rows], "total": total, "formula": formula}
        print(json_text({**facts, "model": asdict(summary.config.model)}))
    else:
        print(summary)
    if options.plot is not None:
        from dragoman.visualization.figures.figure import save_figure
        from dragoman.visualization.figures.model_figures import plot_summary

        config = summary.config
        save_figure(plot_summary(rows, config.train, config.model.d_model), options.plot)
        say(f"wrote the picture to {options.plot}")
    return 0 if total == formula else 1


def build_parser() -> ArgumentParser:
    """The parser of ``dragoman summary``."""
    parser = ArgumentParser("summary", "dragoman summary run", "dragoman summary --model.preset base")
    text = "TOML file, model folder or run"
    parser.add_argument("what", metavar="CONFIG|MODEL", nargs="?", type=path_name, help=text)
    size = whole_number(len(CONTROL_TOKENS), MOST_ENTRIES)
    for side, name in (("src", "source"), ("tgt", "target")):
        text = f"Entries of the {name} vocabulary [default: tokenizer.vocab_size]"
        parser.add_flag(f"--{side}-vocab-size", "N", text, size, default=0)
    parser.add_switch("--json", "Print JSON instead of a table")
    text = "Picture of parameters and learning rate to write: .png, .svg or .pdf"
    parser.add_flag("--plot", "FILE", text, path_name)
    parser.add_settings("model", "tokenizer", "train", common=["model.preset", "model.tie", "tokenizer.joint"])
    return parser
