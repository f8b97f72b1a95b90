"""``dragoman score``: log-probabilities of given translations, per sentence and per token."""

from dataclasses import asdict, replace

from dragoman.cli.arguments import ArgumentParser, Options
from dragoman.cli.evaluate import add_test_flags, test_files
from dragoman.config import SETTINGS, WITHOUT_SAMPLING
from dragoman.display import json_text
from dragoman.records import PairScore
from dragoman.text.corpus.splitting import chunks
from dragoman.workflows.evaluation import read_test
from dragoman.workflows.models import load_model
from dragoman.workflows.progress import TerminalProgress

_PAIRS_AT_ONCE = 4096
_KEPT = ("inference.precision", "inference.tag")
_SEARCH = tuple(key for key in SETTINGS if key.startswith("inference.") and key not in _KEPT)

# A model that samples needs torch to translate, but not to score.
_NO_SAMPLES = {f"inference.{name}": str(value).lower() for name, value in {**WITHOUT_SAMPLING, "n_best": 1}.items()}


def run(options: Options) -> None:
    """Print a line for each pair."""
    request = options.model_request(*options.model)
    src, tgt = test_files(options, "--src", "--tgt")
    model = load_model(replace(request, overrides=_NO_SAMPLES | dict(request.overrides)), TerminalProgress())
    texts = read_test(src, tgt, options.layout(), known=(model.src_lang, model.tgt_lang))
    for pairs in chunks(zip(texts.sources, texts.references, strict=True), _PAIRS_AT_ONCE):
        sources, targets = zip(*pairs, strict=True)
        for one in model.translator.score(sources, targets):
            print(json_text(asdict(one)) if options.json else _line(one))


def build_parser() -> ArgumentParser:
    """The parser of ``dragoman score``."""
    parser = ArgumentParser(
        "score",
        "dragoman score run --src test.en --tgt test.de",
        "dragoman score run --src corpus.en --tgt corpus.de --json",
    )
    text = "Model folder or run; several average their probabilities"
    parser.add_argument("model", nargs="+", metavar="MODEL", help=text)
    add_test_flags(parser, "--ref", "--tgt")
    parser.add_switch("--json", "Print JSON with the tokens: an object per line")
    parser.start_section("More flags")
    parser.add_layout_flags()
    parser.add_model_flags(without=_SEARCH)
    return parser


def _line(score: PairScore) -> str:
    """The log-probability of the sentence, a tab, and those of its tokens and of the end, separated by spaces."""
    return f"{score.log_prob:.4f}\t{' '.join(f'{one:.4f}' for one in score.token_log_probs)}"
