"""``dragoman export MODEL --to int8|ctranslate2|marian``: write a small model, or one for another toolkit."""

from dragoman.cli.arguments import ArgumentParser, Options, one_of, path_name
from dragoman.workflows.models import ModelRequest, export_model
from dragoman.workflows.progress import TerminalProgress


def run(options: Options) -> None:
    """Print the path of the new folder."""
    formats = options.quantization, options.embeddings
    model = ModelRequest((str(options.model),), device="cpu")
    print(export_model(model, options.to, options.out, *formats, TerminalProgress()))


def build_parser() -> ArgumentParser:
    """The parser of ``dragoman export``."""
    parser = ArgumentParser(
        "export", "dragoman export run --to int8", "dragoman export run --to ctranslate2 --quantization int8"
    )
    parser.add_argument("model", metavar="MODEL", type=path_name, help="Model folder or run")
    text = "Format to write; int8: a smaller model folder; marian: the format of Hugging Face"
    kind = one_of("int8", "ctranslate2", "marian")
    parser.add_argument("--to", metavar="int8|ctranslate2|marian", type=kind, required=True, help=text)
    parser.add_flag("--out", "FOLDER", "Folder to write [default: MODEL-FORMAT]", path_name)
    text = "Number format of the weights, for ctranslate2 [default: float32]"
    parser.add_choice("--quantization", ("float32", "float16", "int8"), text, "float32")
    text = "Number format of the embeddings, for int8; int8 is smaller [default: float32]"
    parser.add_choice("--embeddings", ("float32", "int8"), text, "float32")
    return parser
