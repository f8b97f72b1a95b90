"""The public way to translate: plain text in, plain text out, one answer a text, in the order of the input."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count, islice, repeat
from pathlib import Path
from typing import Any

from dragoman.bundle import resolve_model_folder
from dragoman.config import SETTINGS, Config, InferenceSettings, check_config
from dragoman.config.fields import SettingValue, did_you_mean
from dragoman.config.history import RENAMED
from dragoman.errors import ConfigError, ModelError
from dragoman.inference.alignment import Aligner
from dragoman.inference.options import DEFAULT_DETAILS, NO_DETAILS, PRESERVE_NOTHING, Details, Preserve
from dragoman.inference.preservation.capitals import retry_all_caps
from dragoman.inference.preservation.preserver import translate_preserving
from dragoman.inference.searches import TransformerSearch
from dragoman.inference.segments import InputText, Search
from dragoman.inference.tensors.products import resolve_inference_precision
from dragoman.inference.text_search import TextSearch, TranslationOptions
from dragoman.model.trained import TrainedModel
from dragoman.model.transformer import Transformer
from dragoman.records import Translation
from dragoman.text.documents.markers import MarkedText
from dragoman.text.documents.terms import Terms
from dragoman.text.tokenization.tokenizer import TokenizerPair

WINDOW_TEXTS = 4096
"""Texts held at once: they are sorted by length, translated in batches and put back in order."""


class Translator:
    """A model, or several as one, that translates texts.

    >>> translator = Translator.load("run")
    >>> translator.translate(["Ein Mann fährt Rad.", ""])
    ['A man rides a bike.', '']

    Every method takes settings as keywords, by their names in the [inference] table of the configuration, which
    replace the model's own for that call: ``translate(texts, beam_size=1)``. A setting that is unknown, out of range
    or contradicts another raises ConfigError. `settings` are the model's own.
    """

    def __init__(
        self,
        search: Search,
        tokenizers: TokenizerPair,
        settings: InferenceSettings,
        max_src_tokens: int,
        aligner: Aligner | None = None,
    ) -> None:
        """Texts of more than `max_src_tokens` are split. The search is told all settings at every call.

        Without an `aligner` there are no alignments.
        """
        self._search = TextSearch(search, tokenizers, max_src_tokens, aligner)
        self.settings = settings

    @classmethod
    def load(cls, path: str | Path, device: str = "auto", precision: str | None = None) -> "Translator":
        """The translator in a model folder or run; `device` is auto (cuda, mps, cpu) or a device by name.

        `precision` replaces the model's own setting.
        Raises ModelError where the folder is missing, damaged or no model.
        """
        return cls.from_trained([TrainedModel.load(resolve_model_folder(Path(path)), device)], precision)

    @classmethod
    def load_ensemble(
        cls, paths: Sequence[str | Path], device: str = "auto", precision: str | None = None
    ) -> "Translator":
        """Several models with the same tokenizers as one: the mean of their probabilities (settings of the first)."""
        trained_models = [TrainedModel.load(resolve_model_folder(Path(path)), device) for path in paths]
        return cls.from_trained(trained_models, precision)

    @classmethod
    def from_trained(
        cls, trained_models: Sequence[TrainedModel], precision: str | None = None, search: Search | None = None
    ) -> "Translator":
        """One loaded model, or several as an ensemble. Raises ModelError where their tokenizers differ.

        `search` does what our own would.
        """
        first, *others = trained_models
        settings = (
            first.config.inference
            if precision is None
            else override_settings(first.config.inference, {"precision": precision})
        )
        # What can't be computed is better said now than at the first text.
        resolve_inference_precision(settings.precision, first.model.device)
        if not all(first.tokenizers.same_as(other.tokenizers) for other in others):
            raise ModelError(
                "the models of an ensemble must share their tokenizers, but these have different ones. "
                "Train them on the same text, with another `train.seed` each, or translate with one model."
            )
        models = [trained.model for trained in trained_models]
        longest = min(_max_src_tokens(trained.model, trained.config.data.max_tokens) for trained in trained_models)
        aligner = Aligner(models, first.tokenizers)
        return cls(search or TransformerSearch(models), first.tokenizers, settings, longest, aligner)

    @classmethod
    def from_model(
        cls, model: Transformer, tokenizers: TokenizerPair, settings: InferenceSettings, max_src_tokens: int
    ) -> "Translator":
        """A model in memory, such as one in training. `max_src_tokens`: the longest source it was trained on."""
        longest = _max_src_tokens(model, max_src_tokens)
        return cls(TransformerSearch([model]), tokenizers, settings, longest, Aligner([model], tokenizers))

    def translate(
        self,
        texts: Iterable[str],
        *,
        protect: bool = False,
        terms: Terms | None = None,
        by_sentence: bool = False,
        **overrides: SettingValue,
    ) -> list[str]:
        """One translation a text, in the same order. An empty or blank text gives an empty one.

        `protect`, `terms` and `by_sentence` are those of `dragoman.inference.options.Preserve`. The first two raise
        ConfigError without an aligner.
        """
        inputs = _without_markers(_check_texts(texts))
        options = self._options(Preserve(protect, terms, by_sentence), NO_DETAILS, overrides)
        return [one.text for one in self._translate(inputs, options)]

    def translate_marked(
        self,
        sources: Sequence[MarkedText],
        preserve: Preserve = PRESERVE_NOTHING,
        details: Details = DEFAULT_DETAILS,
        **overrides: SettingValue,
    ) -> list[Translation]:
        """The same for texts with markers in them, which come back at the words they belong to."""
        texts = (InputText(source, "", number) for number, source in enumerate(sources))
        return list(self._translate(texts, self._options(preserve, details, overrides)))

    def translate_detailed(
        self,
        texts: Iterable[str],
        preserve: Preserve = PRESERVE_NOTHING,
        details: Details = DEFAULT_DETAILS,
        prefixes: Sequence[str] | None = None,
        first_number: int = 0,
        **overrides: SettingValue,
    ) -> list[Translation]:
        """`translate` with candidates, tokens and scores. `prefixes`: what each translation must begin with, or "".

        The random numbers that sample a text follow from the seed and the number of the text; `first_number` is that of
        the first one. A text that was put together from its translation and its protected spans has an empty alignment
        and one candidate. Raises ConfigError unless there are as many prefixes as texts.
        """
        texts = _check_texts(texts)
        if prefixes is not None and len(prefixes) != len(texts):
            raise ConfigError(f"`prefixes` must be as many as the texts ({len(texts)}), but are {len(prefixes)}.")
        options = self._options(preserve, details, overrides)
        return list(self._translate(_without_markers(texts, prefixes or repeat(""), first_number), options))

    def translate_stream(
        self, texts: Iterable[str], window_texts: int = WINDOW_TEXTS, **overrides: SettingValue
    ) -> Iterator[Translation]:
        """Translations of a stream of any length, in order, holding at most `window_texts` texts at once.

        A larger window pads less; with a window of 1 each answer comes before the next text is read.
        Raises ConfigError for a window below 1, and for a single text, which would be its letters.
        """
        if isinstance(texts, str):
            raise ConfigError(_ONE_TEXT)
        if window_texts < 1:
            raise ConfigError(f"`window_texts` must be at least 1, but is {window_texts}.")
        options = self._options(PRESERVE_NOTHING, DEFAULT_DETAILS, overrides)
        return self._translate(_without_markers(texts), options, window_texts)

    def _options(self, preserve: Preserve, details: Details, overrides: dict[str, SettingValue]) -> TranslationOptions:
        return TranslationOptions(override_settings(self.settings, overrides), preserve, details)

    def _translate(
        self, texts: Iterable[InputText], options: TranslationOptions, window_texts: int = WINDOW_TEXTS
    ) -> Iterator[Translation]:
        """Search, preservation, capitals and alignment, window by window."""
        search, settings, rest = self._search, options.settings, iter(texts)
        retries_capitals = settings.retry_all_caps and not (settings.sample or settings.mbr_samples)  # no best sample
        while window := list(islice(rest, window_texts)):
            answers = translate_preserving(search, window, options)
            if retries_capitals:
                answers = retry_all_caps(search, window, answers, options)
            if options.details.alignment and search.aligner:
                answers = search.aligner.add_alignments(answers)
            yield from (answer.translation for answer in answers)


_ONE_TEXT = "`texts` must be a list of texts. For one text, give a list with it: [text]."


def _check_texts(texts: object) -> list[str]:
    """The texts as a list. Raises ConfigError for what is none of texts; a single text would be its letters."""
    found: list[Any] = list(texts) if isinstance(texts, Iterable) and not isinstance(texts, str) else [None]
    if not all(isinstance(text, str) for text in found):
        raise ConfigError(_ONE_TEXT)
    return found


def _without_markers(
    texts: Iterable[str], prefixes: Iterable[str] = repeat(""), first_number: int = 0
) -> Iterator[InputText]:
    """Plain texts as the search takes them, one at a time."""
    for number, text, prefix in zip(count(first_number), texts, prefixes, strict=False):
        yield InputText(MarkedText(text, ()), prefix, number)


def override_settings(settings: InferenceSettings, overrides: dict[str, SettingValue]) -> InferenceSettings:
    """The settings with some replaced. Raises ConfigError for an unknown name, a bad value or a contradiction."""
    checked: dict[str, Any] = {}
    for name, value in overrides.items():
        key = f"inference.{name}"
        if key not in SETTINGS:
            raise ConfigError(f"`{name}` is not a setting of a translation.{_setting_hint(name)}")
        checked[name] = SETTINGS[key].check(value, f"`{key}`")
    result = replace(settings, **checked)
    check_config(Config(inference=result))
    return result


def _setting_hint(name: str) -> str:
    if new := RENAMED.get(f"inference.{name}"):
        return f" It is now `{new.partition('.')[2]}`."
    names = [setting.name for setting in SETTINGS.values() if setting.table == "inference"]
    return did_you_mean(name, names) or f" The settings are {', '.join(names)}."


def _max_src_tokens(model: Transformer, max_tokens: int) -> int:
    """The longest source without eos that the model was trained for and has positions for."""
    return max_tokens if model.max_positions is None else min(max_tokens, model.max_positions - 1)
