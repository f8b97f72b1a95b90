"""The served models, the paths through them from one language to another, and the detection of a text's language.

`cli/serve.py` loads each MODEL argument with `load_served_model`, adds terms, and makes a `Models` of them. `Service`
and the APIs find languages and paths in it. It does not change while the server runs.

Language codes have three spellings: the client's, the canonical one (`canonical_code`), and that of the served model,
which answers use. `Models.find` maps the first to the last.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.bundle import Model, resolve_model_folder
from dragoman.config import WITHOUT_SAMPLING, Config, InferenceSettings, read_config
from dragoman.devices.without_torch import resolve_inference_precision
from dragoman.display import one_line
from dragoman.engines.choice import check_engine
from dragoman.errors import ConfigError
from dragoman.inference.translator import Translator, override_settings
from dragoman.languages import LANGUAGE_NAMES, name_with_code, normalize_code
from dragoman.records import NO_DETAILS, Details, Escape, Preserve, Translation
from dragoman.serving.limits import Refused
from dragoman.text.doctor.languages import SURE_NATS, are_similar, detector_code, language_scores
from dragoman.text.documents.markers import MarkedText
from dragoman.text.documents.terms import Terms
from dragoman.workflows.progress import QUIET, Progress

_BY_LOWER_CASE = {code.lower(): code for code in LANGUAGE_NAMES}
# Codes that LibreTranslate treats as the same language.
_SAME = {"zh-hans": "zh", "zh": "zh-hans", "zt": "zh-hant", "zh-hant": "zt", "pb": "pt-br", "pt-br": "pb"}


@dataclass(frozen=True, eq=False, slots=True)
class ServedModel:
    """A model in memory. Two models are equal only if they are the same object, so one can be part of a batch key.

    Attributes
    ----------
    source, target
        Canonical language codes.
    model, translator
        The model, and the translator around it.
    overrides
        Settings of the search that replace the model's, by field name.
    folder
        The folder it was loaded from.
    terms
        The user's terms, or None.
    """

    source: str
    target: str
    model: Model
    translator: Translator
    overrides: dict[str, Any]
    folder: Path
    terms: Terms | None = None

    @property
    def pair(self) -> str:
        """The language pair, such as en-de."""
        return f"{self.source}-{self.target}"

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags that requests can set."""
        return self.model.tokenizers.src.tags

    def translate(self, texts: Sequence[MarkedText], key: "BatchKey") -> list[Translation]:
        """Translate a batch, with protected spans and terms. The beam is at least `n_best` wide."""
        preserve = Preserve(True, self.terms, key.by_sentence, key.escape)
        return self.translator.translate_marked(texts, preserve, key.details, **self._overrides(key.n_best, key.tag))

    def settings(self, n_best: int = 1, tag: str = "") -> InferenceSettings:
        """The search settings for `n_best` candidates and a tag. A tag that the model lacks changes nothing."""
        return override_settings(self.translator.settings, self._overrides(n_best, tag))

    def _overrides(self, n_best: int, tag: str) -> dict[str, Any]:
        found = self.overrides | ({"tag": tag} if tag in self.tags else {})
        if n_best > 1:
            beam_size = found.get("beam_size", self.translator.settings.beam_size)
            found |= {"n_best": n_best, "beam_size": max(beam_size, n_best)}
        return found


class BatchKey(NamedTuple):
    """The model and the options of a text. Texts with the same key can be in one batch.

    Attributes
    ----------
    model
        The model that translates the batch.
    n_best
        Candidates for each text, the best one included.
    details
        Whether to compute word alignments and flags.
    escape
        The function that escapes translations.
    by_sentence
        Whether a text may have several sentences, which are then translated one by one.
    tag
        The tag of the request. If it is "" or not one of the model's tags, the default of the model applies.
    """

    model: ServedModel
    n_best: int = 1
    details: Details = NO_DETAILS
    escape: Escape = str
    by_sentence: bool = False
    tag: str = ""

    def translate(self, texts: Sequence[MarkedText]) -> list[Translation]:
        """Translate a batch."""
        return self.model.translate(texts, self)


class Models:
    """The served models by language pair. With `pivot`, two models are chained for pairs that no single model has.

    Raises ConfigError if two models have the same pair, or if no model has the language `pivot`.

    Attributes
    ----------
    all, codes
        The models, and the codes of their languages.
    pivot
        The code of the language between two chained models, or "".
    sources, pairs
        The languages with at least one other target language, and all translatable pairs, such as en-de.
    """

    def __init__(self, models: Sequence[ServedModel], pivot: str = "") -> None:
        self._by_pair: dict[tuple[str, str], ServedModel] = {}
        for model in models:
            other = self._by_pair.setdefault((model.source, model.target), model)
            if other is not model:
                raise ConfigError(f"{other.folder} and {model.folder} both translate {model.pair}. Serve one of them.")
        self.all = list(models)
        self.codes = list(dict.fromkeys(code for pair in self._by_pair for code in pair))
        self.pivot = canonical_code(pivot) if pivot else ""
        if self.pivot and self.pivot not in self.codes:
            raise ConfigError(f"`--pivot` must be one of {', '.join(self.codes)}, but is {pivot}.")
        others = {code: [target for target in self.targets(code) if target != code] for code in self.codes}
        self.sources = [code for code in self.codes if others[code]]
        self.pairs = [f"{source}-{target}" for source in self.sources for target in others[source]]

    def find(self, code: str) -> str | None:
        """The served code for a client's spelling of it, or None."""
        served = {one.lower(): one for one in self.codes}
        wanted = canonical_code(code).lower()
        return served.get(wanted) or served.get(_SAME.get(wanted, ""))

    def path(self, source: str, target: str) -> list[ServedModel] | None:
        """The models from source to target, in order. Empty if both are the same, None if there is no path."""
        if source == target:
            return []
        for steps in ([(source, target)], [(source, self.pivot), (self.pivot, target)]):
            if all(pair in self._by_pair for pair in steps):
                return [self._by_pair[pair] for pair in steps]
        return None

    def require_path(self, source: str, target: str, tag: str = "") -> list[ServedModel]:
        """The models from source to target, in order. Raises Refused (400) without a path, and as `check_tag` does."""
        path = self.path(source, target)
        if path is None:
            problem = f"{name_with_code(target)} is not available as a target language from {name_with_code(source)}"
            raise Refused(400, problem)
        self.check_tag(tag, path)
        return path

    def check_tag(self, tag: str, path: Sequence[ServedModel]) -> None:
        """Raise Refused (400) if no model of a path has the tag. For an empty path, any model may have it."""
        known = dict.fromkeys(one for model in path or self.all for one in model.tags) if tag else {}
        if tag and tag not in known:
            advice = f"one of {', '.join(known)}" if known else "left out, because the models have no tags"
            raise Refused(400, f"Invalid request: tag must be {advice}, but is {one_line(tag)}")

    def sources_for(self, target: str) -> list[str]:
        """The languages with a path to `target`. A reload may have removed all of them since a file arrived."""
        return [code for code in self.codes if self.path(code, target) is not None]

    def targets(self, source: str) -> list[str]:
        """The languages that `source` can be translated to, `source` included, in alphabetical order."""
        return sorted(target for target in self.codes if self.path(source, target) is not None)


def canonical_code(code: str) -> str:
    """The spelling of a code in answers: ``EN``, ``eng`` and ``en`` give en, ``pt_br`` gives pt-BR."""
    plain = normalize_code(code)
    return _BY_LOWER_CASE.get(plain, plain)


def _split_pair(argument: str) -> tuple[str, str]:
    """The language pair and the path of an argument such as ``en-de=runs/demo``, or "" and the argument without a pair.

    An existing path is taken as a path even if it contains ``=``.
    """
    pair, equals, path = argument.partition("=")
    return (pair, path) if equals and not Path(argument).exists() else ("", argument)


def load_served_model(
    argument: str, overrides: Mapping[str, str] = {}, device: str = "auto", progress: Progress = QUIET
) -> ServedModel:
    """Load the model of an argument such as ``en-de=runs/demo``.

    The model does not sample, and uses bfloat16 only if `overrides` set it, because then answers would depend on the
    other texts in the batch. Notes this if the model has such settings.

    Parameters
    ----------
    argument
        The argument: a model folder or a run, maybe after its languages and ``=``.
    overrides
        Settings as text by key, such as ``inference.beam_size``.
    device
        A device of torch, or "auto".
    progress
        Receives the notes.

    Raises
    ------
    ModelError
        If the folder is missing, damaged or no model.
    ConfigError
        If settings do not fit the model, or its languages are unknown.
    """
    pair, path = _split_pair(argument)
    source, _, target = pair.partition("-")
    if path != argument and not (source and target):
        raise ConfigError(f"the languages in `{argument}` must be a pair such as en-de, but are `{pair}`.")
    folder = resolve_model_folder(Path(path))
    model = Model.load(folder, device)
    source = source or model.card.src_lang or model.config.data.src_lang
    target = target or model.card.tgt_lang or model.config.data.tgt_lang
    if not source or not target:
        raise ConfigError(f"{path} has no languages. Write them in front of it: en-de={path}.")
    own = model.config.inference
    fixed: dict[str, Any] = {**WITHOUT_SAMPLING, "n_best": 1}
    loaded = read_config([], overrides, Config(inference=replace(own, **fixed)))
    settings = loaded.config.inference
    names = sorted(key.removeprefix("inference.") for key in loaded.given)
    given: dict[str, Any] = {name: getattr(settings, name) for name in names}
    precision = resolve_inference_precision(settings.precision, model.weights.device)
    if precision == "bfloat16" and "precision" not in given:
        progress.note(f"{folder} is served in float32, because bfloat16 answers depend on the other texts in the batch")
        given["precision"] = "float32"
    if own.sample or own.mbr_samples:
        progress.note(f"{folder} is served by beam search, because samples depend on the other texts in the batch")
    check_engine([model.weights], replace(settings, precision=given.get("precision", settings.precision)))
    codes = canonical_code(source), canonical_code(target)
    return ServedModel(*codes, model, Translator.from_models([model]), given | fixed, folder)


def add_terms(models: Sequence[ServedModel], files: Sequence[str]) -> list[ServedModel]:
    """Add terms to the models, from arguments such as ``en-de=terms.tsv``, or ``terms.tsv`` if there is one model.

    Raises ConfigError for a pair that is not served or is given twice, and DataError for a file that is not a term
    file.
    """
    found: dict[str, Terms] = {}
    for one in files:
        pair, path = _split_pair(one)
        pair = pair or (models[0].pair if len(models) == 1 else "")
        if not path or pair not in (model.pair for model in models) or pair in found:
            served = ", ".join(model.pair for model in models)
            raise ConfigError(f"`--terms` must be PAIR=FILE, once per pair, with a pair of {served}, but is {one}.")
        found[pair] = Terms.load(path)
    return [replace(model, terms=found.get(model.pair)) for model in models]


def drop_unknown_tags(models: Sequence[ServedModel], progress: Progress) -> None:
    """Leave out the tag of ``--tag`` where a model does not have it, and note this.

    Raises ConfigError if no model has the tag.
    """
    unknown = [one for one in models if one.overrides.get("tag", "") not in ("", *one.tags)]
    if len(unknown) == len(models):
        most = max(models, key=lambda one: len(one.tags))
        most.model.tokenizers.src.tag_ids(most.overrides["tag"])  # raises the error
    for one in unknown:
        progress.note(f"{one.folder} is served without the tag {one.overrides.pop('tag')}, which it does not have")


# Letters needed for full confidence. Shorter texts get a lower confidence.
_SURE_CHARS = 20
# The code of ISO 639 for text that is not in a language, such as a row of numbers.
_NO_LANGUAGE = "zxx"


class Detection(NamedTuple):
    """A language code with a confidence from 0 to 100, as in LibreTranslate's API."""

    language: str
    confidence: float


def detect_language(text: str, codes: Sequence[str]) -> list[Detection]:
    """Detections of the languages `codes`, the likeliest first.

    If the text is clearly in another language, that language comes first. Confidence is 0 for a text without letters,
    and for languages that the library does not support. The first call loads the library's model: half a second and
    80 MB. Raises ResourceError if ``TMPDIR`` has no space for it.
    """
    labels = {code: detector_code(code) for code in codes}
    letters = sum(map(str.isalpha, text))
    scores = language_scores(text) if letters else {}
    told = [label for label in labels.values() if label in scores]
    if not told:
        return [Detection(code, 0.0) for code in codes]
    highest = max(scores.values())
    # Softened for long texts, whose words are not independent.
    scale = math.sqrt(len(text.encode("utf-8", "surrogatepass")))
    weights = {label: math.exp((score - highest) / scale) for label, score in scores.items()}
    others = [label for label in scores if not any(are_similar(label, each) for each in labels.values())]
    other = max(others, key=scores.__getitem__, default="")
    served = {code: weights.get(label, 0.0) for code, label in labels.items()}
    total = sum(served.values()) + weights.get(other, 0.0)
    sure = 100.0 * min(1.0, letters / _SURE_CHARS) ** 0.5
    found = [Detection(code, round(sure * weight / total, 1)) for code, weight in served.items()]
    found.sort(key=lambda one: -one.confidence)
    is_other = other not in ("", _NO_LANGUAGE) and letters >= _SURE_CHARS
    if is_other and scores[other] - max(scores[label] for label in told) > SURE_NATS:
        found.insert(0, Detection(other, round(sure * weights[other] / total, 1)))
    return found
