"""``dragoman calibrate MODEL``: learn the lexicon for word alignments from parallel text."""

from dragoman.cli.arguments import ArgumentParser, Options
from dragoman.cli.evaluate import add_test_flags, test_files
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
    add_test_flags(parser, "--ref", "--tgt", of="")
    parser.start_section("More flags")
    text = "Accept files that seem to be in the wrong language"
    parser.add_argument("--no-language-check", dest="check_languages", action="store_false", help=text)
    parser.add_layout_flags()
    return parser
