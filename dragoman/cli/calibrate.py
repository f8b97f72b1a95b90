"""``dragoman calibrate MODEL``: learn the lexicon for word alignments from parallel text."""

from dragoman.cli.arguments import ArgumentParser, Options, file_name
from dragoman.cli.evaluate import test_files
from dragoman.workflows.calibration import calibrate_model
from dragoman.workflows.evaluation import ScoredTest
from dragoman.workflows.progress import TerminalProgress


def run(options: Options) -> None:
    """Print what was learned."""
    src, ref = test_files(options, "--src", "--ref")
    text = ScoredTest(src=src, ref=ref, layout=options.layout(), check_languages=options.check_languages)
    print(calibrate_model(options.model, text, TerminalProgress()))


def build_parser() -> ArgumentParser:
    """The parser of ``dragoman calibrate``."""
    parser = ArgumentParser("calibrate", "dragoman calibrate opus --src corpus.en --ref corpus.de")
    parser.add_argument("model", metavar="MODEL", help="Model folder or run")
    parser.add_flag("--src", "FILE", "Source side, one sentence per line", file_name)
    text = "Target side, one sentence per line"
    parser.add_argument("--ref", "--tgt", metavar="FILE", help=text, type=file_name, dest="ref")
    parser.add_flag("--data", "FILE", "File with both sides: .tsv, .csv, .jsonl or .tmx, plain or .gz", file_name)
    parser.start_section("More flags")
    text = "Accept files that seem to be in the wrong language"
    parser.add_argument("--no-language-check", dest="check_languages", action="store_false", help=text)
    parser.add_layout_flags()
    return parser
