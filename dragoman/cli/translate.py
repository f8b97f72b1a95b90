"""``dragoman translate``: translate text line by line, whole documents, or folders of documents."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any, BinaryIO

from dragoman.cli.arguments import ArgumentParser, Options, file_name, whole_number
from dragoman.cli.translation import output
from dragoman.cli.translation.documents import DocumentFolder, DocumentTranslator
from dragoman.cli.translation.sources import InputLines, open_source, standard_input, wait_for_input
from dragoman.display import say
from dragoman.errors import ConfigError, ModelError
from dragoman.files import check_target, partial_path, stream_to_file
from dragoman.languages import check_language
from dragoman.records import Details, Preserve, Translation
from dragoman.text.documents.document import Document, open_document, read_document
from dragoman.text.documents.kinds import DOCUMENTS, OFFICE, PAIRS, kind_of_name
from dragoman.text.documents.terms import Terms
from dragoman.workflows.bilingual import Review, check_bilingual, open_review
from dragoman.workflows.documents import check_output, write_document
from dragoman.workflows.models import LoadedTranslator, ModelRequest, load_model
from dragoman.workflows.progress import QUIET, TerminalProgress

_PIECE_LINES = 5000


def run(options: Options) -> None:
    """Translate the input to the output."""
    request = replace(options.model_request(*options.model), hint=" To translate a text, use `--text`.")
    _check_flags(options)
    _check_models(options)
    if options.input and Path(options.input).is_dir():
        _translate_folder(options, request)
        return
    _check_output(options)
    with ExitStack() as files:
        source, requested_format = open_source(options, files), options.format
        options.format = requested_format or (source.kind if source.kind in DOCUMENTS else "text")
        _check_format(options, source)
        document = _read_document(options, source) if options.input and options.format in DOCUMENTS else None
        terms, model = _load(options, request)
        named = _with_languages(options, model)
        review = files.enter_context(_open_review(options, source.name, named))
        if not options.input and options.text is None:
            source = wait_for_input(source, requested_format, options.text_encoding(), files)
        elif source.kind == PAIRS:
            from dragoman.cli.translation.pairs import source_side

            source = replace(source, texts=source_side(Path(options.input), options, model))
        preserve = Preserve(options.protect, terms, _splits(options))
        if options.format in DOCUMENTS:
            document = document or _read_document(options, source)
            translated = DocumentTranslator(named, preserve, options.split, review).translate(document)
            if options.output:
                write_document(translated, Path(options.output))
            else:
                sys.stdout.buffer.write(translated)
            return
        notes = output.Notes(preserve.by_sentence, _says_unsure(options))
        write = output.line_format(options.format, options.flags)
        details = Details(options.alignment, options.flags or options.format == "jsonl" or review.needs_flags)
        opens = options.output and not options.cluster
        stream = files.enter_context(_open_output(Path(options.output))) if opens else sys.stdout.buffer
        files.enter_context(notes)  # prints its counts before the output is closed or kept in part
        if options.cluster:
            wanted = {"preserve": preserve, "details": details, **asdict(model.translator.settings)}
            _translate_on_cluster(options, wanted, write, notes)
        elif options.stream:
            output.stream_lines(source, stream, model, notes, preserve)
        else:
            windows = output.translate_windows(source, model, notes, preserve, details)
            progress = TerminalProgress() if options.output and sys.stderr.isatty() else QUIET
            with progress.counting("translating", unit="lines"):
                _write_windows(windows, stream, write, review, terms, options)


@contextmanager
def _open_review(options: Options, name: str, model: LoadedTranslator) -> Iterator[Review]:
    """A review of the translation, whose summary is printed at the end, also after an error."""
    hint = ", or name both: `--src-lang en --tgt-lang de`"
    path = Path(options.bilingual) if options.bilingual else None
    with open_review(path, name.strip("`"), (model.src_lang, model.tgt_lang), options.review, hint) as review:
        try:
            yield review
        finally:
            if options.review:
                is_seen = options.bilingual or os.path.isdir(options.input or "") or not review.flags
                say(review.summary() + " `--bilingual review.html` shows the flagged ones." * (not is_seen))


def _load(options: Options, request: ModelRequest) -> tuple[Terms | None, LoadedTranslator]:
    """The terms and the model, with notes about the model."""
    terms = Terms.load(options.terms, options.text_encoding()) if options.terms else None
    model = load_model(request, TerminalProgress())
    if options.verbose:
        say(_describe_engine(model))
    if options.alignment or options.format in (None, *DOCUMENTS) or terms:  # None: a folder
        _note_missing_lexicon(options, model)
    return terms, model


def _with_languages(options: Options, model: LoadedTranslator) -> LoadedTranslator:
    """The model with the languages that the flags name."""
    src_lang = check_language(options.src_lang, "`--src-lang`") or model.src_lang
    tgt_lang = check_language(options.tgt_lang, "`--tgt-lang`") or model.tgt_lang
    return replace(model, src_lang=src_lang, tgt_lang=tgt_lang)


def _translate_folder(options: Options, request: ModelRequest) -> None:
    """Translate the documents in the folder that is the input, one by one."""
    if not options.output:
        raise ConfigError(f"`--input` {options.input} is a folder, but `--output` is not given. Name a folder for it.")
    for flag in ("format", "prefix", "alignment", "flags", "cluster", "stream", "columns", "header"):
        if getattr(options, flag):
            raise ConfigError(f"`--{flag}` is not for folders such as {options.input}. Leave it out, or name a file.")
    if options.overrides().get("inference.n_best", "1") != "1":
        raise ConfigError("`--inference.n-best` must be 1 for a folder of documents. Leave it out.")
    if options.bilingual:
        advice = "Translate its files one by one"
        raise ConfigError(f"`--bilingual` is for one file, but `--input` {options.input} is a folder. {advice}.")
    folder = DocumentFolder(Path(options.input), Path(options.output))
    terms, model = _load(options, request)
    model, encoding = _with_languages(options, model), options.text_encoding()
    preserve = Preserve(options.protect, terms, _splits(options))
    with _open_review(options, options.input, model) as review:
        translator = DocumentTranslator(model, preserve, options.split, review)
        folder.translate(translator, lambda path: open_document(path, encoding, *_reading(options)))


def _read_document(options: Options, source: InputLines) -> Document:
    document = read_document(source.stream.read(), source.name, options.format, *_reading(options))
    if options.output:
        check_output(document.kind, source.name, Path(options.output))
    return document


def _reading(options: Options) -> tuple[bool, list[str]]:
    """What the flags tell about the reading of office documents."""
    return options.comments, [name.strip() for name in (options.keep_styles or "").split(",") if name.strip()]


def _describe_engine(model: LoadedTranslator) -> str:
    """Which engine translates with these models and settings, and why it is not machine code."""
    from dragoman.devices.without_torch import resolve_inference_precision

    translator = model.translator
    precision = resolve_inference_precision(translator.settings.precision, translator.models[0].weights.device)
    if reason := translator.engine_reason():
        return f"torch translates in {precision}: machine code does not support {reason}"
    return f"machine code translates in {precision}"


def _note_missing_lexicon(options: Options, model: LoadedTranslator) -> None:
    """Tell how words are aligned better, if the model has no lexicon."""
    from dragoman.bundle import is_built_in

    has_lexicon = any(one.lexicon_file for one in model.translator.models)
    if not has_lexicon and not any(map(is_built_in, options.model)):
        say(
            "the model has no lexicon, so words are aligned by its attention, with more errors. "
            f"`dragoman calibrate {options.model[0]} --src FILE --ref FILE` learns one from parallel text."
        )


def _is_typed(options: Options) -> bool:
    """Whether a person types the texts: as an argument, or at a terminal."""
    return options.text is not None or (not options.input and sys.stdin is not None and sys.stdin.isatty())


def _splits(options: Options) -> bool:
    """Whether each sentence is translated alone. Lines of files are segments, unless the flags tell otherwise."""
    from dragoman.bundle import is_built_in

    if options.split is not None:
        return bool(options.split)
    return any(map(is_built_in, options.model)) or _is_typed(options)


def _says_unsure(options: Options) -> bool:
    """Whether notes name the lines that the model is unsure of: if a person reads along, and no flags tell it."""
    reads_along = _is_typed(options) or (sys.stdout.isatty() and not options.output)
    return reads_along and sys.stderr.isatty() and not options.flags and options.format == "text"


def _write_windows(
    windows: Iterable[Sequence[Translation]],
    stream: BinaryIO,
    write: Callable[[Translation], str],
    review: Review,
    terms: Terms | None,
    options: Options,
) -> None:
    """Write each window as soon as it is translated. Then print notes about unused terms and the counts of flags."""
    has_terms = terms is None
    for window in windows:
        has_terms = has_terms or any(terms.find(translation.src) for translation in window if terms)
        stream.writelines(write(translation).encode() + b"\n" for translation in window)
        stream.flush()
        for translation in window:
            review.add(translation)
    if terms is not None and not has_terms:
        say(f"the text has none of the {len(terms.pairs):,} terms in {options.terms}; check the order of its columns")
    if options.flags:
        say(f"flagged lines: {review.found or 'none'}.")


@contextmanager
def _open_output(path: Path) -> Iterator[BinaryIO]:
    """The output file. After an error, print the path of the finished part."""
    try:
        with stream_to_file(path) as stream:
            yield stream
    except BaseException:
        if partial_path(path).exists():
            say(f"the finished part of the translation is in {partial_path(path)}.")
        raise


def _translate_on_cluster(
    options: Options, settings: dict[str, Any], write: Callable[[Translation], str], notes: output.Notes
) -> None:
    from dragoman.bundle import resolve_model_folder
    from dragoman.workflows.cluster import ClusterJob, translate_on_cluster

    job = ClusterJob(
        options.cluster,
        options.worker_cpus or 0,
        Path(options.input),
        Path(options.output),
        tuple(resolve_model_folder(Path(path)) for path in options.model),
        settings,
        options.device,
        options.piece_lines or _PIECE_LINES,
        options.text_encoding(),
        write,
        notes.line,
        notes.invalid,
    )
    translate_on_cluster(job, TerminalProgress())


def _check_format(options: Options, source: InputLines) -> None:
    """Raise ConfigError for flags that the format of the input or output does not support."""
    n_best = options.overrides().get("inference.n_best", "1")
    if options.format != "jsonl" and n_best != "1":
        raise ConfigError(
            f"`--inference.n-best` must be 1 with `--format {options.format}`, but is {n_best}. Use "
            "`--format jsonl` for all candidates."
        )
    if options.output and options.format not in DOCUMENTS:
        check_output(options.format, source.name, Path(options.output))
    elif options.format in OFFICE and not options.output and sys.stdout.isatty():
        advice = "Name a file for it with `--output`."
        raise ConfigError(f"the translation of {source.name} is a {options.format} file, not text. {advice}")
    if options.format not in OFFICE and (options.comments or options.keep_styles):
        flag = "--comments" if options.comments else "--keep-styles"
        raise ConfigError(f"`{flag}` is for office documents, but {source.name} is none. Leave it out.")
    if options.format in DOCUMENTS:
        if source.kind and source.kind not in OFFICE:
            say(f"{source.name} is translated as with `--format {source.kind}`; `--format text` translates its lines")
        _refuse_together(options, "format", "prefix", "alignment", "flags", "cluster", "stream")
    if source.kind == PAIRS and options.cluster:
        raise ConfigError(f"`--cluster` translates lines, but {source.name} holds pairs. Leave `--cluster` out.")
    if source.kind != PAIRS and (options.columns or options.header):
        raise ConfigError(
            f"`--columns` and `--header` are for files with pairs (.tsv, .csv, .jsonl), but {source.name} is none. "
            "Leave them out, or name such a file with `--input`."
        )


def _check_flags(options: Options) -> None:
    """Raise ConfigError for flags that need or exclude each other."""
    if options.cluster:
        if not options.input or not options.output:
            missing = "--output" if options.input else "--input"
            raise ConfigError(f"`--cluster` needs `--input` and `--output`, but `{missing}` is not given. Add it.")
        _refuse_together(options, "cluster", "prefix", "bilingual", "review")
    for flag, value in (("--piece-lines", options.piece_lines), ("--worker-cpus", options.worker_cpus)):
        if value is not None and not options.cluster:
            raise ConfigError(f"`{flag}` has no effect without `--cluster`. Add `--cluster`, or leave `{flag}` out.")
    if options.text is not None:
        _refuse_together(options, "text", "input", "cluster")
    if options.stream:
        other_format = ["format"] if options.format not in (None, "text") else []
        others = "output", "prefix", "cluster", *other_format, "alignment", "flags", "bilingual", "review"
        _refuse_together(options, "stream", *others)


def _refuse_together(options: Options, flag: str, *others: str) -> None:
    """Raise ConfigError if one of the other flags is set too."""
    for other in others:
        if getattr(options, other):
            one, two = (f"`--{name}{f' {options.format}' * (name == 'format')}`" for name in (flag, other))
            raise ConfigError(f"{one} and {two} must not both be given. Leave one out.")


def _check_models(options: Options) -> None:
    """Raise ModelError if a model is a file, such as a text to translate."""
    for path in filter(os.path.isfile, options.model):
        from dragoman.bundle import resolve_model_folder

        try:
            resolve_model_folder(Path(path))
        except ModelError as error:
            raise ModelError(f"{error} To translate a text file, use `--input`.") from None


def build_parser() -> ArgumentParser:
    """The parser of ``dragoman translate``."""
    parser = ArgumentParser(
        "translate",
        "echo 'Where is the station?' | dragoman translate demo",
        "dragoman translate run --input report.docx --output bericht.docx",
        "dragoman translate run --input text.en --output text.de",
    )
    text = "Model folder or run; several form an ensemble, with the same tokenizers"
    parser.add_argument("model", nargs="+", metavar="MODEL", help=text)
    parser.add_flag("--text", "TEXT", "Text to translate, instead of a file or stdin")
    text = "Text of one sentence per line, pairs (.tsv, .csv, .jsonl, .tmx), a document or a folder [default: stdin]"
    parser.add_flag("--input", "FILE", text, file_name)
    text = "File or folder for the translations, packed if it ends in .gz [default: stdout]"
    parser.add_flag("--output", "FILE", text, file_name)
    text = "Lines (text, jsonl) or documents (srt includes WebVTT) [default: from the file]"
    parser.add_choice("--format", ("text", "jsonl", *DOCUMENTS), text)
    text = "Translate each sentence alone [default: for typed text, html, office documents and demo]"
    parser.add_argument("--split", action="store_true", default=None, help=text)
    text = "Translate each line as a whole [default: for lines of files, and subtitles]"
    parser.add_argument("--no-split", dest="split", action="store_false", default=None, help=text)
    parser.add_flag("--terms", "FILE", "Terminology: lines of source<TAB>translation", file_name)
    parser.add_switch("--alignment", "Append the word alignment: ` ||| 0-0 1-2`, source-target, counted from 0")
    text = "Append a tab and suspected errors: `number,long` (always in jsonl)"
    parser.add_switch("--flags", text)
    parser.add_flag("--bilingual", "FILE", "File with source and translation: .html, .tsv or .tmx", file_name)
    parser.add_switch("--review", "Count segments that are flagged or lost a placeholder or term")
    parser.add_switch("--stream", "Print each word as soon as the decoder has written it")
    parser.add_switch("--verbose", "Tell on standard error what translates, machine code or torch, and why")
    parser.add_model_flags()
    parser.start_section("Office documents")
    parser.add_switch("--comments", "Translate comments, too")
    parser.add_flag("--keep-styles", "NAME,...", "Styles whose text is not translated, besides those for code")
    parser.start_section("More flags")
    text = "Translate URLs, e-mail addresses, placeholders, tags and measures, too"
    parser.add_argument("--no-protect", dest="protect", action="store_false", help=text)
    parser.add_flag("--prefix", "FILE", "File with the required beginning of each translation, line by line", file_name)
    parser.add_layout_flags()
    parser.add_languages(" of documents, and in files with several [default: from the model]", default="")
    parser.start_section("Ray cluster (extra `cluster`)")
    text = "Address: HOST:PORT, auto or local. A stopped job continues"
    parser.add_flag("--cluster", "ADDRESS", text)
    parser.add_flag("--piece-lines", "N", f"Lines per task [default: {_PIECE_LINES}]", whole_number(1))
    text = "Processors per worker [default: all of the smallest machine]"
    parser.add_flag("--worker-cpus", "N", text, whole_number(0))
    return parser


def _check_output(options: Options) -> None:
    """Raise ConfigError if an output cannot be written, or would overwrite an input file."""
    target = Path(options.output) if options.output else None
    if target:
        known = kind_of_name(options.input or "")
        is_document = known is not None and known.name in DOCUMENTS
        example = f"translated{Path(options.input).suffix}" if is_document else "translations.txt"
        check_target(target, "--output", example)
    if options.bilingual:
        check_bilingual(Path(options.bilingual), target)
    read = {"`--input`": options.input, "`--prefix`": options.prefix, "`--terms`": options.terms}
    if not options.input and options.text is None:
        with suppress(OSError, ValueError):  # standard input is not a file
            read["standard input"] = standard_input().fileno()
    outputs = [(flag, Path(path)) for flag in ("output", "bilingual") if (path := getattr(options, flag))]
    for (name, source), (flag, path) in product(read.items(), outputs):
        for written in (path, partial_path(path)):
            if source is not None and _is_same_file(source, written):
                raise ConfigError(f"{name} is {written}, which `--{flag}` {path} would replace. Choose another name.")


def _is_same_file(source: str | int, target: Path) -> bool:
    """True if `source`, a path or a file descriptor, and `target` are one regular file."""
    with suppress(OSError):  # one of them does not exist
        return target.is_file() and os.path.samestat(os.stat(source), os.stat(target))
    return False
