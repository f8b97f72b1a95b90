"""``dragoman export MODEL --to ctranslate2|marian``: write a model in the format of another toolkit."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.cli.arguments import ArgumentParser, path_name
from dragoman.errors import ConfigError
from dragoman.files import check_new_folder, sibling_path
from dragoman.messages import say
from dragoman.workflows.models import require_model

if TYPE_CHECKING:
    from dragoman.exchange.ctranslate2_export import Quantization
    from dragoman.model.trained import TrainedModel

_FORMATS = ("ctranslate2", "marian")
_QUANTIZATIONS = ("float32", "float16", "int8")


def run(arguments: Sequence[str]) -> int:
    """Print the path of the new folder. Returns the exit code."""
    parser = ArgumentParser("export", "dragoman export run --to ctranslate2 --quantization int8")
    parser.add_argument("model", metavar="MODEL", type=path_name, help="Model folder or run")
    parser.add_choice("--to", _FORMATS, "Format to write; marian is the format of Hugging Face", required=True)
    parser.add_flag("--out", "FOLDER", "Folder to write [default: MODEL-FORMAT]", path_name)
    text = "Number format of the weights, for ctranslate2 [default: float32]"
    parser.add_choice("--quantization", _QUANTIZATIONS, text)
    given = parser.parse(arguments)
    if given.to == "marian" and given.quantization not in (None, "float32"):
        raise ConfigError(f"`--quantization` must be float32 for marian, but is {given.quantization}. Leave it out.")
    out = given.out or sibling_path(given.model, f"-{given.to}")
    check_new_folder(out)
    require_model(given.model)
    from dragoman.bundle import resolve_model_folder  # torch: after the arguments are checked
    from dragoman.model.trained import TrainedModel

    folder = resolve_model_folder(given.model)
    if folder != given.model:
        say(f"the model is {folder}")
    for note in _notes(TrainedModel.load(folder, "cpu"), given.to, out, given.quantization or "float32"):
        say(note)
    print(out)
    return 0


def _notes(trained: "TrainedModel", form: str, out: Path, quantization: "Quantization") -> tuple[str, ...]:
    """Write the folder and return notes about it."""
    from dragoman.exchange.ctranslate2_export import export_ctranslate2
    from dragoman.exchange.marian_export import export_marian

    if form == "marian":
        return export_marian(trained, out)
    return (f"{quantization}: {export_ctranslate2(trained, out, quantization)}",)
