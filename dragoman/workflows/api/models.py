"""The functions of ``import dragoman`` that make, convert, complete and measure models."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dragoman.config.settings import MOST_ENTRIES
from dragoman.files import sibling_path
from dragoman.records import NUM_CONTROL_IDS
from dragoman.visualization.arguments import check_choice, check_count
from dragoman.workflows.api.functions import AnyModel, model_request
from dragoman.workflows.api.keywords import check_path, naming_keywords, overrides_of_keywords
from dragoman.workflows.api.loading import PathName
from dragoman.workflows.api.notebook import default_progress
from dragoman.workflows.api.run import Run
from dragoman.workflows.api.sentences import SentenceData, SentenceFiles
from dragoman.workflows.calibration import Calibration, calibrate_model
from dragoman.workflows.evaluation import ScoredTest
from dragoman.workflows.inspection import ModelSummary, summarize_model
from dragoman.workflows.models import convert_model, export_model
from dragoman.workflows.runs import average_run

if TYPE_CHECKING:
    from dragoman.model.transformer import Transformer


@naming_keywords()
def import_model(model: PathName, out: PathName | None = None) -> Path:
    """Convert a Marian (OPUS-MT) model in Hugging Face format into a model folder.

    `dragoman.load` imports such a model by itself, into a cache. A file ``pytorch_model.bin`` is read only if there is
    no ``model.safetensors``. Nothing but tensors is read from it.

    Parameters
    ----------
    model : str or Path
        A folder, or ``owner/name`` of a model on the Hugging Face hub, which needs the extra ``hub``.
    out : str or Path
        The folder to write, which must not exist. By default, ``models/NAME``.

    Returns
    -------
    Path
        The model folder, for `dragoman.load` and every other function that takes a model.

    Raises
    ------
    ModelError
        If `out` exists, or if the model is missing, damaged or not supported.

    Examples
    --------
    >>> translator = dragoman.load(dragoman.import_model("Helsinki-NLP/opus-mt-en-de", "opus"))
    """
    return convert_model(str(check_path("model", model)), out, default_progress())


@naming_keywords()
def export(
    model: AnyModel,
    to: Literal["int8", "ctranslate2", "marian"],
    out: PathName | None = None,
    *,
    quantization: Literal["float32", "float16", "int8"] = "float32",
    embeddings: Literal["float32", "int8"] = "float32",
) -> Path:
    """Write a model with int8 weights, for CTranslate2, or in the Hugging Face format of Marian.

    Parameters
    ----------
    model : str, Path, Run or Translator
        The model.
    to : {"int8", "ctranslate2", "marian"}
        The format. "int8" is a model folder that takes less space.
    out : str or Path
        The folder to write, which must not exist. By default, the path of the model with ``-`` and the format after it.
    quantization : {"float32", "float16", "int8"}
        The number format of the weights for "ctranslate2".
    embeddings : {"float32", "int8"}
        The number format of the embeddings for "int8".

    Returns
    -------
    Path
        The new folder.

    Raises
    ------
    ConfigError
        If an argument does not fit the format.
    ModelError
        If `out` exists, or if the model is missing, damaged, or cannot be written in this format.

    Examples
    --------
    >>> small = dragoman.load(dragoman.export("run", "int8", "small"))
    """
    check_choice("to", to, ("int8", "ctranslate2", "marian"))
    check_choice("quantization", quantization, ("float32", "float16", "int8"))
    check_choice("embeddings", embeddings, ("float32", "int8"))
    if out is None and isinstance(model, str | os.PathLike):
        out = sibling_path(Path(model), f"-{to}")  # not beside a Marian model's copy in the cache
    return export_model(model_request(model, {}), to, out, quantization, embeddings, default_progress())


@naming_keywords()
def average(run: PathName | Run, last: int = 5, out: PathName | None = None) -> Path:
    """Average the weights of the last checkpoints of a run into a new model.

    Parameters
    ----------
    run : str, Path or Run
        The run.
    last : int
        The number of checkpoints, counted from the newest.
    out : str or Path
        The folder to write, which must not exist. By default ``mean`` in the run's folder, which is replaced.

    Returns
    -------
    Path
        The model folder. Its card lists the steps of the checkpoints.

    Raises
    ------
    CheckpointError
        If the run has no checkpoints.
    ModelError
        If the run is missing or damaged, or if `out` exists.

    Examples
    --------
    >>> dragoman.evaluate(dragoman.average("run", last=10), src="test.en", ref="test.de")
    """
    return average_run(check_path("run", run, " or a run"), check_count("last", last), out)


@naming_keywords()
def calibrate(model: PathName | Run, src: SentenceData, ref: SentenceData) -> Calibration:
    """Learn the lexicon of a model from parallel text, so that words are aligned and markup is placed better.

    `dragoman.train` learns a lexicon by itself. Use this for an imported model, for one of an earlier version, or to
    add text of another kind. The model folder is changed. Its translations stay the same.

    Parameters
    ----------
    model : str, Path or Run
        The model folder, or a run, whose best model is changed.
    src, ref : str, Path or iterable of str
        Both sides: two aligned files, twice one file with both sides, or the sentences themselves. At most 200,000
        different pairs are used, evenly spaced. If they have more than 16 million pairs of tokens, the longest are not.

    Returns
    -------
    Calibration
        The folder, the size of its lexicon, and the share of tokens that it links in other pairs.

    Raises
    ------
    DataError
        If the text is not parallel, too short, in another language, or cannot be read.
    ModelError
        If the model is missing, damaged, or part of the package.

    Examples
    --------
    >>> dragoman.calibrate("opus", "corpus.en", "corpus.de")
    >>> dragoman.load("opus").translate_detailed(["How are you?"], details=dragoman.Details(alignment=True))
    """
    folder = check_path("model", model, " or a run")
    with SentenceFiles() as files:
        text = ScoredTest(src=str(files.path("src", src)), ref=str(files.path("ref", ref)))
        return calibrate_model(folder, text, files.progress)


@naming_keywords()
def summary(
    model: "AnyModel | Transformer | None" = None,
    *,
    src_vocab_size: int = 0,
    tgt_vocab_size: int = 0,
    **settings: object,
) -> ModelSummary:
    """List the parameters of a model or a configuration, and compare their number with the formula.

    Parameters
    ----------
    model : str, Path, Run, Translator or Transformer
        A model, or a TOML file with settings. Without it, the configuration of the settings alone.
    src_vocab_size, tgt_vocab_size : int
        Entries of both vocabularies of a configuration. By default, `tokenizer.vocab_size`.
    **settings
        Settings of [model], [tokenizer] and [train] of a configuration, such as ``preset="base"``.

    Returns
    -------
    ModelSummary
        Displays itself by parts of the model. ``print`` shows every parameter.

    Raises
    ------
    ConfigError
        If a setting is wrong, or if settings or sizes are given for a trained model.
    ModelError
        If the model is missing or damaged.

    Examples
    --------
    >>> dragoman.summary(preset="base", vocab_size=37000).rows.total
    63121544
    """
    sizes = src_vocab_size, tgt_vocab_size
    for name, size in zip(("src_vocab_size", "tgt_vocab_size"), sizes, strict=True):
        check_count(name, size or NUM_CONTROL_IDS, NUM_CONTROL_IDS, MOST_ENTRIES)
    found: Any = model
    if model is not None and not hasattr(model, "parameter_table"):
        request = model_request(model, {})
        found = request.translator.model if request.translator else Path(request.paths[0])
    overrides = overrides_of_keywords(settings, ("model", "tokenizer", "train"))
    return summarize_model(found, overrides, sizes, default_progress())
