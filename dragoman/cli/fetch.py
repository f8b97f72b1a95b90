"""``dragoman fetch NAME LANGS``: a parallel corpus of the Hugging Face hub, as files that ``dragoman train`` reads."""

from shlex import quote

from dragoman.cli.arguments import ArgumentParser, Options, path_name
from dragoman.config.loading import flag_of
from dragoman.display import say
from dragoman.errors import ConfigError
from dragoman.workflows.api.keywords import CORPUS_KEYWORDS


def run(options: Options) -> None:
    """Print the path of the corpus, or the table of known corpora."""
    from dragoman import corpora

    if options.list:
        print(repr(corpora.names()))
        return
    if options.name is None or options.langs is None:
        missing = "NAME and LANGS are" if options.name is None else "LANGS is"
        raise ConfigError(
            f"{missing} missing. Write `dragoman fetch opus_books en-it`, or see `dragoman fetch --list`."
        )
    names = "config", "columns", "revision"
    corpus = corpora.fetch(options.name, options.langs, options.out, **{name: getattr(options, name) for name in names})
    for part, count in corpus.pairs.items():
        say(f"{part}: {count:,} pairs in {' and '.join(map(str, corpus.sides(part)))}")
    if "train" in corpus.pairs:
        flags = " ".join(
            f"{flag_of(key if key in CORPUS_KEYWORDS else f'data.{key}')} {quote(file)}"
            for key, file in corpus.files.items()
            if "lang" not in key  # the names of the files have the languages
        )
        say(f"train with `dragoman train {flags} --out {quote(f'runs/{corpus.path.name}')}`")
    print(corpus.path)


def build_parser() -> ArgumentParser:
    """The parser of ``dragoman fetch``."""
    parser = ArgumentParser(
        "fetch",
        "dragoman fetch --list",
        "dragoman fetch opus_books en-it",
        "dragoman fetch Helsinki-NLP/opus-100 de-en --out corpora/opus-100",
    )
    parser.add_argument(
        "name", metavar="NAME", nargs="?", help="Short name of a corpus, or name of a data set on the hub"
    )
    parser.add_argument("langs", metavar="LANGS", nargs="?", help="Source and target language, such as en-de")
    parser.add_switch("--list", "List the short names, with languages, sizes and licenses")
    parser.add_flag("--out", "FOLDER", "Folder to write [default: corpora/NAME.LANGS]", path_name)
    parser.add_flag(
        "--config", "NAME", "Configuration of the data set, if its name does not show the languages", default=""
    )
    parser.add_flag("--columns", "SRC,TGT", "Columns of the texts, if their names are not the languages", default="")
    parser.add_flag("--revision", "COMMIT", "Commit of the data set [default: the newest]", default="")
    return parser
