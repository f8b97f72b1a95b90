"""`Translator`, the public class for translation: texts in, one translation per text out, in the same order."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import count, islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, overload

from dragoman.bundle import Card, Model, Weights, resolve_model_folder
from dragoman.config import Config, DataSettings, InferenceSettings, check_config
from dragoman.counting import count_items, counting, start_window
from dragoman.devices.without_torch import choose_device, resolve_inference_precision
from dragoman.display import one_line
from dragoman.engines.choice import Engines
from dragoman.engines.interface import Search
from dragoman.errors import ConfigError, ModelError
from dragoman.files import check_new_folder
from dragoman.inference.alignment import Aligner
from dragoman.inference.preservation import is_all_caps, may_change, retry_all_caps, translate_preserving
from dragoman.inference.segments import InputText, as_sentence
from dragoman.inference.text_search import TextSearch, TranslationOptions
from dragoman.records import DEFAULT_DETAILS, NO_DETAILS, PRESERVE_NOTHING, Details, PairScore, Preserve, Translation
from dragoman.text.documents.markers import MarkedText
from dragoman.text.documents.terms import Terms
from dragoman.text.lexicon import Lexicon
from dragoman.text.lines import checked_texts
from dragoman.text.tokenization.tokenizer import TokenizerPair

if TYPE_CHECKING:
    from dragoman.config.keyword_types import TranslateKeywords
    from dragoman.model.transformer import Transformer

WINDOW_TEXTS = 4096
"""Texts in memory at once. They are sorted by length, translated in batches and put back in order."""


class Translator:
    """Translates texts with a model, or with an ensemble of models.

    Use `Translator.load` to create one. Methods that translate accept the settings of the [inference] table as
    keywords. They replace the model's settings for that call, for example ``translate(texts, beam_size=1)``.

    Parameters
    ----------
    search
        The search, which gets all settings at every call.
    tokenizers
        Tokenizers of both sides.
    settings
        The model's settings of inference.
    max_src_tokens
        The longest source in tokens. Longer texts are split.
    aligner
        Links the words. Without it, there are no alignments, and terms and markers cannot be placed.
    models
        The models behind the search, for functions that look inside them.

    Raises
    ------
    ConfigError
        From every method that translates, if a setting is unknown, out of range or contradicts another.

    Examples
    --------
    >>> translator = Translator.load("run")
    >>> translator.translate(["Ein Mann fährt Rad.", ""])
    ['A man rides a bike.', '']
    """

    def __init__(
        self,
        search: Search,
        tokenizers: TokenizerPair,
        settings: InferenceSettings,
        max_src_tokens: int,
        aligner: Aligner | None = None,
        models: Sequence[Model] = (),
    ) -> None:
        card = models[0].card if models else Card()
        languages = card.src_lang, card.tgt_lang
        self._search = TextSearch(search, tokenizers, max_src_tokens, aligner, languages)
        tokenizers.src.tag_ids(settings.tag)  # raises an error for an unknown tag
        self.settings, self.models = settings, tuple(models)

    @overload
    def __call__(self, text: str, **overrides: "Unpack[TranslateKeywords]") -> str: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(self, text: Iterable[str], **overrides: "Unpack[TranslateKeywords]") -> list[str]: ...

    def __call__(self, text: str | Iterable[str], **overrides: "Unpack[TranslateKeywords]") -> str | list[str]:
        """Translate one text, or several: a string gives a string, and a list of strings gives a list.

        `overrides` are settings of [inference] for this call, such as ``beam_size=1``. `translate` has more options.
        """
        return self.translate([text], **overrides)[0] if isinstance(text, str) else self.translate(text, **overrides)

    @property
    def model(self) -> Model:
        """The model: its weights, `transformer`, tokenizers, settings and card. Raises ModelError for an ensemble."""
        if len(self.models) != 1:
            raise ModelError(
                f"the translator has {len(self.models)} models, not one. Choose one of `models`, or load one with "
                "`dragoman.load`."
            )
        return self.models[0]

    @property
    def tokenizers(self) -> TokenizerPair:
        """The tokenizers of both sides: `tokenizers.src` and `tokenizers.tgt`."""
        return self._search.tokenizers

    @property
    def card(self) -> Card:
        """The facts of the model: languages, sizes, scores with signatures. Raises ModelError for an ensemble."""
        return self.model.card

    def save(self, path: str | Path) -> Path:
        """Write the model as a new model folder, whole or not at all. `dragoman.load` reads it.

        Parameters
        ----------
        path
            The folder to write, which must not exist.

        Returns
        -------
        Path
            The folder. Its settings of inference are those of this translator.

        Raises
        ------
        ModelError
            If the folder exists or is inside a model folder, or if the translator is an ensemble.
        ResourceError
            If the disk is full.
        """
        model = replace(self.model, config=replace(self.model.config, inference=self.settings))
        folder = check_new_folder(path, "path")
        model.save(folder)
        return folder

    def __repr__(self) -> str:
        card, count = (self.models[0].card if self.models else Card()), len(self.models)
        languages = f"{card.languages}, " if card.src_lang or card.tgt_lang else ""
        models = f"{count} models, " if count > 1 else ""
        return f"<Translator: {languages}{models}beam size {self.settings.beam_size}>"

    @classmethod
    def load(cls, path: str | Path, device: str = "auto", precision: str | None = None) -> "Translator":
        """Load a model.

        Parameters
        ----------
        path
            A model folder, or a run.
        device
            Name of a torch device. "auto": the first available of cuda, mps and cpu.
        precision
            Replaces the model's setting `inference.precision`.

        Raises
        ------
        ModelError
            If the folder is missing, damaged or no model.
        ConfigError
            If this machine does not have the device, or the device does not support the precision.
        """
        return cls.load_ensemble([path], device, precision)

    @classmethod
    def load_ensemble(
        cls, paths: Sequence[str | Path], device: str = "auto", precision: str | None = None
    ) -> "Translator":
        """Load several models with the same tokenizers as an ensemble, which averages their probabilities.

        Parameters
        ----------
        paths
            Model folders or runs. The settings are those of the first one.
        device, precision
            As for `load`.

        Raises
        ------
        ModelError
            If a model is missing or damaged, or if the tokenizers differ.
        ConfigError
            As for `load`.
        """
        device = choose_device(device, "device")
        models = [Model.load(resolve_model_folder(Path(path)), device) for path in paths]
        return cls.from_models(models, precision)

    @classmethod
    def from_models(
        cls, models: Sequence[Model], precision: str | None = None, search: Search | None = None
    ) -> "Translator":
        """Create a translator from one loaded model, or an ensemble from several.

        Parameters
        ----------
        models
            The models. Settings and tokenizers are those of the first one.
        precision
            Replaces the setting `inference.precision` of the first model.
        search
            Replaces `Engines`, for example by another search.

        Raises
        ------
        ModelError
            If the tokenizers of the models differ.
        """
        if not models:
            raise ModelError("there is no model to translate with. Give at least one.")
        first, *others = models
        settings = first.config.inference
        if precision is not None:
            settings = override_settings(settings, {"precision": precision})
        # Raise errors about the precision now, not at the first text.
        resolve_inference_precision(settings.precision, first.weights.device)
        if not all(first.tokenizers.same_as(other.tokenizers) for other in others):
            raise ModelError(
                "the models of an ensemble must share their tokenizers, but these have different ones. "
                "Train them on the same text with different values of `train.seed`, or translate with one model."
            )
        weights = [model.weights for model in models]
        longest = min(each.config.model.longest_text(each.config.data.max_tokens) for each in models)
        aligner = Aligner(weights, first.tokenizers, lexicon=lambda: _lexicon_of(models))
        return cls(search or Engines(weights), first.tokenizers, settings, longest, aligner, models)

    @classmethod
    def from_model(
        cls, model: "Transformer", tokenizers: TokenizerPair, settings: InferenceSettings, max_src_tokens: int
    ) -> "Translator":
        """Create a translator from a model in memory, for example during training.

        Parameters
        ----------
        model, tokenizers
            The model and the tokenizers of both sides.
        settings
            How to search.
        max_src_tokens
            Length of the longest source that the model was trained on, in tokens. Longer texts are split.
        """
        config = Config(data=DataSettings(max_tokens=max_src_tokens), model=model.settings, inference=settings)
        return cls.from_models([Model(Weights.of(model), tokenizers, config, Card())])

    def translate(
        self,
        texts: Iterable[str],
        *,
        protect: bool = False,
        terms: Terms | None = None,
        by_sentence: bool = False,
        **overrides: "Unpack[TranslateKeywords]",
    ) -> list[str]:
        """Translate texts.

        Parameters
        ----------
        texts
            The texts, of any length.
        protect
            Keep URLs, placeholders, tags and other protected spans unchanged.
        terms
            Required translations of certain words.
        by_sentence
            Translate each sentence alone, for models that were trained on single sentences.
        **overrides
            Settings of [inference] for this call.

        Returns
        -------
        list of str
            One translation for each text, in the same order. An empty or blank text has an empty translation.

        Raises
        ------
        ConfigError
            If `texts` is a single string, if a setting is wrong, if `n_best` is above 1, or if `protect` or `terms`
            need an aligner and the translator has none.
        """
        inputs = list(checked_texts(texts))
        options = self._options(Preserve(protect, terms, by_sentence), NO_DETAILS, overrides)
        if (count := overrides.get("n_best", 1)) != 1:  # which the model's own settings may have
            advice = "Use `translate_detailed`, which returns all candidates."
            raise ConfigError(f"`n_best` is {count}, but each text gets one translation here. {advice}")
        with counting("translating", total=len(inputs)):
            return [one.text for one in self._translate(_without_markers(inputs), options)]

    def translate_marked(
        self,
        sources: Sequence[MarkedText],
        preserve: Preserve = PRESERVE_NOTHING,
        details: Details = DEFAULT_DETAILS,
        **overrides: "Unpack[TranslateKeywords]",
    ) -> list[Translation]:
        """Translate texts with markers, such as inline tags. Markers are inserted again beside the words they mark.

        Parameters
        ----------
        sources
            The texts with the places of their markers.
        preserve, details, **overrides
            As for `translate_detailed`.

        Returns
        -------
        list of Translation
            One for each text, in the same order.
        """
        texts = (InputText(source, "", number) for number, source in enumerate(sources))
        return list(self._translate(texts, self._options(preserve, details, overrides)))

    def translate_detailed(
        self,
        texts: Iterable[str],
        preserve: Preserve = PRESERVE_NOTHING,
        details: Details = DEFAULT_DETAILS,
        prefixes: Sequence[str] | None = None,
        first_number: int = 0,
        **overrides: "Unpack[TranslateKeywords]",
    ) -> list[Translation]:
        """Translate texts, with candidates, tokens, scores, flags and alignments.

        Parameters
        ----------
        texts
            The texts, of any length.
        preserve
            What to preserve, and whether to split texts into sentences.
        details
            Whether to compute alignments and flags.
        prefixes
            The forced start of each translation, "" for none.
        first_number
            Number of the first text. The random numbers of sampling depend on the seed and the number of a text.
        **overrides
            Settings of [inference] for this call.

        Returns
        -------
        list of Translation
            One translation for each text, in the same order. A translation with protected spans that were inserted
            afterwards has an empty alignment and one candidate.

        Raises
        ------
        ConfigError
            As for `translate`, and if `prefixes` does not have one entry for each text.
        """
        texts = list(checked_texts(texts))
        prefixes = None if prefixes is None else list(checked_texts(prefixes, "prefixes"))
        if prefixes is not None and len(prefixes) != len(texts):
            raise ConfigError(f"`prefixes` must have one entry per text ({len(texts)}), but has {len(prefixes)}.")
        options = self._options(preserve, details, overrides)
        with counting("translating", total=len(texts)):
            return list(self._translate(_without_markers(texts, prefixes or repeat(""), first_number), options))

    def translate_stream(
        self, texts: Iterable[str], window_texts: int = WINDOW_TEXTS, **overrides: "Unpack[TranslateKeywords]"
    ) -> Iterator[Translation]:
        """Translate a stream of any length, with at most `window_texts` texts in memory.

        Parameters
        ----------
        texts
            An iterable of texts. It is read one window at a time.
        window_texts
            Texts per window. A larger window needs less padding. With 1, each translation is yielded before the next
            text is read.
        **overrides
            Settings of [inference] for this call.

        Returns
        -------
        Iterator of Translation
            One for each text, in the same order.

        Raises
        ------
        ConfigError
            If `texts` is a single string, or if `window_texts` is below 1.
        """
        checked = checked_texts(texts)
        if window_texts < 1:
            raise ConfigError(f"`window_texts` must be at least 1, but is {window_texts}.")
        options = self._options(PRESERVE_NOTHING, DEFAULT_DETAILS, overrides)
        return self._translate(_without_markers(checked), options, window_texts)

    def score(
        self, sources: Sequence[str], targets: Sequence[str], **overrides: "Unpack[TranslateKeywords]"
    ) -> list[PairScore]:
        """Compute the log-probability of given translations, such as to rank or filter sentence pairs.

        Parameters
        ----------
        sources
            The texts. They are not split, so keep them within the length that the model was trained on.
        targets
            The translation of each text.
        **overrides
            Settings of [inference] for this call. Only the precision matters.

        Returns
        -------
        list of PairScore
            One for each pair, in the same order.

        Raises
        ------
        ConfigError
            If the numbers of sources and targets differ, if a setting is wrong, or if the translator has no model.

        Examples
        --------
        >>> translator.score(["Where is the station?"], ["Wo ist der Bahnhof?"])[0].log_prob
        -0.41
        """
        sources, targets = list(checked_texts(sources, "sources")), list(checked_texts(targets, "targets"))
        if len(sources) != len(targets):
            raise ConfigError(f"`targets` must have one text per source ({len(sources)}), but has {len(targets)}.")
        if not self.models:
            raise ConfigError("this translator has no model to score with. Load one with `dragoman.load`.")
        settings, tokenizers = override_settings(self.settings, overrides), self._search.tokenizers
        controls = tokenizers.src.tag_ids(settings.tag)
        src_ids = [[*controls, *ids] for ids in tokenizers.src.encode_batch([as_sentence(text) for text in sources])]
        tgt_ids = tokenizers.tgt.encode_batch([text.strip() for text in targets])
        engines = Engines([model.weights for model in self.models])
        passes = engines.force(list(zip(src_ids, tgt_ids, strict=True)), settings.precision)
        log_probs = [tuple(one.log_probs.tolist()) for one in passes]
        return [
            PairScore(src, tgt, tuple(tokenizers.tgt.tokens(ids)), own, sum(own))
            for src, tgt, ids, own in zip(sources, targets, tgt_ids, log_probs, strict=True)
        ]

    def stream(
        self,
        text: str,
        *,
        protect: bool = False,
        terms: Terms | None = None,
        by_sentence: bool = False,
        **overrides: "Unpack[TranslateKeywords]",
    ) -> Generator[str, None, Translation]:
        """Translate one text, and yield its words as the decoder writes them.

        No word is ever taken back: the parts, joined, are the result of `translate`. With ``beam_size=1``, a word is
        yielded when the next one starts. With a wider beam, it is yielded when all hypotheses agree on it.

        Parameters
        ----------
        text
            The text, of any length.
        protect, terms, by_sentence, **overrides
            As for `translate`.

        Returns
        -------
        Generator of str
            Yields parts of the translation. Its return value is the `Translation`. The whole translation is one part if
            words may change afterwards: with samples, in texts with protected spans or terms, and in capitals.

        Raises
        ------
        ConfigError
            As for `translate`.

        Examples
        --------
        >>> for part in translator.stream("Where is the station?"):
        ...     print(part, end="", flush=True)
        Wo ist der Bahnhof?
        """
        if not isinstance(text, str):
            raise ConfigError(f"`text` must be a string, but is {one_line(text)}. Use `translate` for a list of texts.")
        options = self._options(Preserve(protect, terms, by_sentence), NO_DETAILS, overrides)
        return self._stream(InputText(MarkedText(text, ())), options)

    def engine_reason(self, **overrides: "Unpack[TranslateKeywords]") -> str:
        """What keeps machine code from translating with these settings, such as "an ensemble of models".

        Parameters
        ----------
        **overrides
            Settings of [inference], as for `translate`.

        Returns
        -------
        str
            The reason to translate with PyTorch instead, or "" if machine code translates. Also "" if the translator
            was made from another search.

        Raises
        ------
        ConfigError
            If a setting is unknown or out of range, or if the device does not support the precision.
        MissingExtraError
            If PyTorch would translate, but is not installed.
        """
        engines = self._search.search
        return engines.choose(override_settings(self.settings, overrides))[1] if isinstance(engines, Engines) else ""

    def _stream(self, text: InputText, options: TranslationOptions) -> Generator[str, None, Translation]:
        if may_change(text, options) or (_retries_capitals(options.settings) and is_all_caps(text.marked.text)):
            [translation] = self._translate([text], options)
            yield translation.text
            return translation
        searched = yield from self._search.stream_text(text, options)
        return searched.translation

    def _options(self, preserve: Preserve, details: Details, overrides: Mapping[str, object]) -> TranslationOptions:
        terms = getattr(preserve, "terms", None)
        given = (preserve, Preserve), (details, Details), (Terms(()) if terms is None else terms, Terms)
        for value, kind in given:
            if not isinstance(value, kind):
                name = kind.__name__
                raise ConfigError(f"`{name.lower()}` must be `dragoman.{name}(...)`, but is {one_line(value)}.")
        options = TranslationOptions(override_settings(self.settings, overrides), preserve, details)
        self.tokenizers.src.tag_ids(options.settings.tag)  # raises errors now, not at the first text
        return options

    def _translate(
        self, texts: Iterable[InputText], options: TranslationOptions, window_texts: int = WINDOW_TEXTS
    ) -> Iterator[Translation]:
        """Run all stages on one window of texts after the other: search, preservation, capitals and alignment."""
        search, settings, rest = self._search, options.settings, iter(texts)
        retries_capitals = _retries_capitals(settings)
        while window := list(islice(rest, window_texts)):
            start_window(len(window))
            answers = translate_preserving(search, window, options)
            if retries_capitals:
                answers = retry_all_caps(search, window, answers, options)
            if options.details.alignment and search.aligner:
                answers = search.aligner.add_alignments(answers)
            count_items(len(window))
            yield from (answer.translation for answer in answers)


def _lexicon_of(models: Sequence[Model]) -> Lexicon | None:
    """The first lexicon of the models of an ensemble, which share their tokenizers."""
    return next((model.lexicon for model in models if model.lexicon_file), None)


def _retries_capitals(settings: InferenceSettings) -> bool:
    """Whether texts in capitals are translated a second time. Samples are not, because none is better than another."""
    return settings.retry_all_caps and not (settings.sample or settings.mbr_samples)


def _without_markers(
    texts: Iterable[str], prefixes: Iterable[str] = repeat(""), first_number: int = 0
) -> Iterator[InputText]:
    """Plain texts as inputs of the search, one at a time."""
    for number, text, prefix in zip(count(first_number), texts, prefixes, strict=False):
        yield InputText(MarkedText(text, ()), prefix, number)


def override_settings(settings: InferenceSettings, overrides: Mapping[str, object]) -> InferenceSettings:
    """Replace some settings. Raises ConfigError for an unknown name, an invalid value or a contradiction."""
    result = replace(settings, **overrides) if overrides else settings  # type: ignore[arg-type]
    _check_together(result)
    return result


@lru_cache
def _check_together(settings: InferenceSettings) -> None:
    """Raise ConfigError for a contradiction. Calls of a translator mostly have the same settings."""
    check_config(Config(inference=settings))
