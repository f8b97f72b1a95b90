"""``dragoman import MODEL``: convert a Marian (OPUS-MT) model in Hugging Face format into a model folder."""

from shlex import quote

from dragoman.bundle.card import read_card
from dragoman.cli.arguments import ArgumentParser, Options, path_name
from dragoman.display import say
from dragoman.workflows.models import convert_model
from dragoman.workflows.progress import TerminalProgress


def run(options: Options) -> None:
    """Print the path of the new model folder."""
    folder = convert_model(options.model, options.out, TerminalProgress())
    card = read_card(folder)
    say(f"{card.languages}, {card.parameters:,} parameters; translate with `dragoman translate {quote(str(folder))}`")
    print(folder)


def build_parser() -> ArgumentParser:
    """The parser of ``dragoman import``."""
    parser = ArgumentParser("import", "dragoman import Helsinki-NLP/opus-mt-de-en --out de-en")
    parser.add_argument("model", metavar="MODEL", help="Folder, or name on the Hugging Face hub")
    parser.add_flag("--out", "FOLDER", "Model folder to write [default: models/NAME]", path_name)
    return parser
