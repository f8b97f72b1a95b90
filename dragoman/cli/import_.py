"""``dragoman import MODEL``: convert a Marian (OPUS-MT) model in Hugging Face format into a model folder."""

from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from dragoman.cli.arguments import ArgumentParser, path_name
from dragoman.errors import ModelError
from dragoman.exchange.hub import fetch_model, is_hub_name
from dragoman.exchange.marian_import import import_marian
from dragoman.files import check_new_folder
from dragoman.messages import say


def run(arguments: Sequence[str]) -> int:
    """Print the path of the new model folder. Returns the exit code."""
    parser = ArgumentParser("import", "dragoman import Helsinki-NLP/opus-mt-de-en --out de-en")
    parser.add_argument("model", metavar="MODEL", help="Folder, or name on the Hugging Face hub")
    parser.add_flag("--out", "FOLDER", "Model folder to write [default: models/NAME]", path_name)
    given = parser.parse(arguments)
    name = Path(given.model).resolve().name
    out = given.out or Path("models") / name
    check_new_folder(out)
    folder = _folder(given.model)
    imported = import_marian(folder, name if folder == Path(given.model) else given.model)
    imported.trained.save(out)
    for note in imported.notes:
        say(note)
    card = imported.trained.card
    languages = f"{card.src_lang or '?'} to {card.tgt_lang or '?'}"
    say(f"{languages}, {card.parameters:,} parameters; translate with `dragoman translate {quote(str(out))}`")
    print(out)
    return 0


def _folder(model: str) -> Path:
    if Path(model).is_dir():
        return Path(model)
    if Path(model).exists() or not is_hub_name(model):
        raise ModelError(
            f"{model} is not a folder. Give the folder of a Marian model in Hugging Face format, or its name on the "
            "hub, such as Helsinki-NLP/opus-mt-de-en."
        )
    say(f"downloading {model}")
    return fetch_model(model)
