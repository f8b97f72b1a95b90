"""Translations that keep protected spans, markers of markup, the user's terms and capitals.

Everything that the model translates correctly by itself stays as it is.

- Missing term: the translation up to its place, and the term, become a forced prefix, and the rest is searched again.
- Missing protected span: the span is removed from the text, the text is translated again, and the span is inserted
  where the words align.
- Markers of markup: removed before the search and inserted in the same way (`text/documents/placement.py`).
- Capitals: such a text is also translated in sentence case. The translation that loses fewer terms wins, then the one
  with the higher score. So a model trained on capitals keeps its own, and names such as NATO are unharmed.

`translate_html`, `translate_xml` and `translate_srt` translate whole documents in this way.

`docs/explanation/protected-text.md` compares this with other methods.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from dragoman.display import one_line
from dragoman.engines.interface import Source
from dragoman.errors import ConfigError
from dragoman.evaluation.flags import flags_of
from dragoman.inference.segments import InputText, SearchedText, as_sentence
from dragoman.inference.text_search import TextSearch, TranslationOptions
from dragoman.records import (
    NO_DETAILS,
    PRESERVE_DOCUMENT,
    PRESERVE_SUBTITLES,
    Candidate,
    Hypothesis,
    Preserve,
    Translation,
)
from dragoman.text.documents.markers import MarkedText, has_between, marker_edges, plain_text
from dragoman.text.documents.markup import MarkupRules, escape_text, read_markup
from dragoman.text.documents.placement import AlignedPart, Range, aligned_run, insert_markers
from dragoman.text.documents.protected_spans import find_protected_spans, lost_spans, remove_protected_spans
from dragoman.text.documents.subtitles import read_subtitles
from dragoman.text.documents.terms import Term, Terms, missing_terms
from dragoman.text.lines import checked_texts
from dragoman.text.tokenization.sentence_splitting import join_segments, separators, split_sentences
from dragoman.text.tokenization.tokenizer import Tokenizer, TokenizerPair
from dragoman.text.tokenization.words import Word, words_of

if TYPE_CHECKING:
    from dragoman.config.keyword_types import TranslateKeywords
    from dragoman.inference.translator import Translator

_Matrix = NDArray[Any]

# Characters to search for the next word. White space between words is seldom longer.
_FAR = 64


def translate_preserving(
    search: TextSearch, texts: Sequence[InputText], options: TranslationOptions
) -> list[SearchedText]:
    """Translate texts so that markers, protected spans and terms are preserved. Returns one answer for each text.

    A translation with inserted markers or spans has one candidate only. Texts with a prefix are not translated again
    if they lose spans. Raises ConfigError if markers or terms must be placed and the search has no aligner.
    """
    answers = _translate_marked(search, texts, options)
    return _restore_spans(search, texts, answers, options) if options.preserve.protect else answers


def may_change(text: InputText, options: TranslationOptions) -> bool:
    """Whether the text has markers, protected spans or terms, for which its translation may change after the search."""
    preserve, plain = options.preserve, text.marked.text
    has_terms = preserve.terms is not None and bool(preserve.terms.find(plain))
    return bool(text.marked.markers) or has_terms or (preserve.protect and bool(find_protected_spans(plain)))


def _translate_marked(
    search: TextSearch, texts: Sequence[InputText], options: TranslationOptions
) -> list[SearchedText]:
    """Translate with the terms, then insert the markers and escape the text between them."""
    terms, escape = options.preserve.terms, options.preserve.escape
    found = search.search_texts(texts, options)
    if terms:
        found = _force_terms(search, found, terms, options)
    cut = [_cut_segments(text.marked, searched) for text, searched in zip(texts, found, strict=True)]
    pairs = [pair for one, own in zip(found, cut, strict=True) for pair in compress(one.best_pairs(), own)]
    weights = iter(_weights(search, pairs))
    answers = []
    for text, searched, own in zip(texts, found, cut, strict=True):
        translation = searched.translation
        if options.details.flags:  # before tags and escapes are inserted, which the model does not see
            translation = _add_flags(search, translation)
        if text.marked.markers:
            parts = _align_segments(search.tokenizers, searched, own, weights)
            translation = _set_text(translation, insert_markers(text.marked, translation.text, parts, escape))
        elif escape is not str:
            translation = _set_text(translation, escape(translation.text))
        answers.append(replace(searched, translation=translation, is_plain=not text.marked.markers))
    return answers


def _restore_spans(
    search: TextSearch, texts: Sequence[InputText], answers: Sequence[SearchedText], options: TranslationOptions
) -> list[SearchedText]:
    """Translate texts that lost protected spans again, without the spans, and insert the spans afterwards."""
    escape, tokenizer = options.preserve.escape, search.tokenizers.tgt
    losing = {
        place
        for place, (text, answer) in enumerate(zip(texts, answers, strict=True))
        if (spans := find_protected_spans(text.marked.text))
        and lost_spans(spans, join_segments(answer.segments, answer.written(tokenizer)))
    }
    again = [place for place in sorted(losing) if not texts[place].prefix]
    masked = [replace(texts[place], marked=remove_protected_spans(texts[place].marked, escape)) for place in again]
    restored = dict(zip(again, _translate_marked(search, masked, options), strict=True))
    return [
        _report_lost(search, text, restored.get(place, answer), place in restored, options)
        if place in losing
        else answer
        for place, (text, answer) in enumerate(zip(texts, answers, strict=True))
    ]


def _report_lost(
    search: TextSearch, text: InputText, answer: SearchedText, is_restored: bool, options: TranslationOptions
) -> SearchedText:
    """Add the protected spans that are still missing to the answer's `lost`."""
    escape, translation = options.preserve.escape, replace(answer.translation, src=text.marked.text)
    plain = plain_text(text.marked, translation.text, escape)
    missing = map(escape, lost_spans(find_protected_spans(text.marked.text), plain))
    translation = replace(translation, lost=(*translation.lost, *missing))
    if is_restored:  # the sentences that the model has translated lack the spans
        translation = replace(translation, parts=((translation.src, plain),))
    if options.details.flags:
        translation = replace(translation, flags=_add_flags(search, _set_text(translation, plain)).flags)
    return replace(answer, translation=translation, is_plain=answer.is_plain and not is_restored)


def _add_flags(search: TextSearch, translation: Translation) -> Translation:
    is_new = search.tokenizers.src.has_new_characters
    flags = flags_of(translation, lambda text: is_new(as_sentence(text)), search.languages)
    return replace(translation, flags=flags)


def _weights(search: TextSearch, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[_Matrix]:
    """The weights between each target token of a pair and its source tokens, from the aligner."""
    if not pairs:
        return []
    if search.aligner is None:
        raise ConfigError("this translator cannot place markers and terms. Create it with an aligner.")
    return list(search.aligner.weights(pairs))


def _cut_segments(marked: MarkedText, found: SearchedText) -> list[bool]:
    """Whether a marker starts or ends inside of each segment. Only such segments need an alignment of their words."""
    edges, source = marker_edges(marked), found.translation.src
    start, cut = len(source) - len(source.lstrip()), list[bool]()
    for segment in found.segments:
        cut.append(has_between(edges, start, start + len(segment.text)))
        start += len(segment.text) + len(segment.separator)
    return cut


def _align_segments(
    tokenizers: TokenizerPair, found: SearchedText, cut: Sequence[bool], weights: Iterator[_Matrix]
) -> list[AlignedPart]:
    """The alignments of one text's segments, in character positions of the whole text.

    A segment that no marker cuts is like one word. `weights` are those of the others.
    """
    segments, written, source = found.segments, found.written(tokenizers.tgt), found.translation.src
    after = separators(segments, written)
    src_start, tgt_start = len(source) - len(source.lstrip()), 0
    parts = []
    for pair, segment, text, space, is_cut in zip(found.best_pairs(), segments, written, after, cut, strict=True):
        if not is_cut and segment.text and text:
            src_span, tgt_span = (src_start, src_start + len(segment.text)), (tgt_start, tgt_start + len(text))
            parts.append(AlignedPart([src_span], [tgt_span], np.ones((1, 1))))
        elif is_cut and (own := next(weights)).size:
            part = _align_segment(tokenizers, pair, (segment.text, text), own)
            spans = _shift_ranges(part.src_spans, src_start), _shift_ranges(part.tgt_spans, tgt_start)
            parts.append(AlignedPart(*spans, part.weights))
        src_start += len(segment.text) + len(segment.separator)
        tgt_start += len(text) + len(space)
    return parts


def _align_segment(
    tokenizers: TokenizerPair, ids: tuple[Sequence[int], Sequence[int]], texts: tuple[str, str], weights: _Matrix
) -> AlignedPart:
    """The alignment between the words of two texts: the weights between their tokens, summed by word."""
    src_words, tgt_words = words_of(tokenizers.src.tokens(ids[0])), words_of(tokenizers.tgt.tokens(ids[1]))
    by_word = np.add.reduceat(weights, [word.start for word in src_words], axis=1)
    by_word = np.add.reduceat(by_word, [word.start for word in tgt_words], axis=0)
    return AlignedPart(_spans(src_words, texts[0]), _spans(tgt_words, texts[1]), by_word)


def _force_terms(
    search: TextSearch, found: Sequence[SearchedText], terms: Terms, options: TranslationOptions
) -> list[SearchedText]:
    """Search again with missing terms forced. The translations have the terms that they still lack as `lost`."""
    tokenizer = search.tokenizers.tgt
    by_text = [
        [
            _SegmentTerms(source, hypotheses, terms.find(source.segment.text))
            for source, hypotheses in zip(one.sources, one.hypotheses, strict=True)
        ]
        for one in found
    ]
    waiting = [one for own in by_text for one in own if one.terms and one.best_ids]
    while waiting := [one for one in waiting if one.next_terms(tokenizer)]:
        pairs = [(one.source.ids, one.best_ids) for one in waiting]
        for one, pair, weights in zip(waiting, pairs, _weights(search, pairs), strict=True):
            part = _align_segment(search.tokenizers, pair, (one.source.segment.text, one.written), weights)
            one.force_next(part, tokenizer)
        answers = search.search_sources([one.source for one in waiting], options.settings)
        for one, hypotheses in zip(waiting, answers, strict=True):
            one.hypotheses = hypotheses
    forced = []
    for text, own in zip(found, by_text, strict=True):
        sources, by_segment = [segment.source for segment in own], [segment.hypotheses for segment in own]
        searched = SearchedText.of(text.translation.src, sources, by_segment, tokenizer)
        lost = tuple(term for segment in own for term in segment.missing(tokenizer))
        forced.append(replace(searched, translation=replace(searched.translation, lost=lost)))
    return forced


@dataclass(slots=True)
class _SegmentTerms:
    """The state of a segment while its terms are forced, one after the other.

    Attributes
    ----------
    written
        The current best translation.
    settled
        Number of its characters that later terms must not change.
    before
        For each forced term, the translation before it was forced, and the term's place in that.
    given_up
        Terms that were forced twice. They are not forced again.
    """

    source: Source
    hypotheses: list[Hypothesis]
    terms: list[Term]
    written: str = ""
    settled: int = 0
    before: dict[Term, tuple[str, Range]] = field(default_factory=dict)
    given_up: set[Term] = field(default_factory=set)

    @property
    def best_ids(self) -> tuple[int, ...]:
        """Ids of the best hypothesis, empty if there is no hypothesis."""
        return self.hypotheses[0].ids if self.hypotheses else ()

    def missing(self, tokenizer: Tokenizer) -> list[str]:
        """Targets of the terms that occur less often in the translation than they should."""
        return missing_terms(self.terms, tokenizer.detokenize(self.best_ids))

    def next_terms(self, tokenizer: Tokenizer) -> list[Term]:
        """The missing terms that can still be forced: those never forced, or else those forced once."""
        self.written = tokenizer.detokenize(self.best_ids)
        missing = missing_terms(self.terms, self.written)
        left = [term for term in self.terms if term.target in missing and term not in self.given_up]
        return [term for term in left if term not in self.before] or left

    def force_next(self, part: AlignedPart, tokenizer: Tokenizer) -> None:
        """Make the first missing term part of the forced prefix.

        The prefix includes the next word, because the model may otherwise repeat the term. A term that is missing a
        second time replaces its place in the translation from before it was forced.
        """
        terms = self.next_terms(tokenizer)
        if terms[0] in self.before:
            before, place = self.before[terms[0]]
            self.given_up.add(terms[0])
            beginning, rest = _replace_place(before, place, terms[0].target)
            beginning += rest
            self.settled = len(beginning)
        else:
            place, term = min((self._place(part, term), term) for term in terms)
            self.before[term] = self.written, place
            beginning, rest = _replace_place(self.written, place, term.target)
            self.settled = len(beginning)
            next_word = next((stop for start, stop in part.tgt_spans if start >= place[1]), len(self.written))
            beginning += rest[: next_word - place[1] + len(rest) - len(self.written[place[1] :])]
        self.source = replace(self.source, prefix=tokenizer.encode(beginning))

    def _place(self, part: AlignedPart, term: Term) -> Range:
        """The characters of the translation that the term replaces."""
        first_free = sum(stop <= self.settled for _, stop in part.tgt_spans)
        start, stop = aligned_run(self.source.segment.text, self.written, part, (term.start, term.stop), first_free)
        if start == stop:
            end = part.tgt_spans[start - 1][1] if start else 0
            return end, end
        return part.tgt_spans[start][0], part.tgt_spans[stop - 1][1]


def _replace_place(text: str, place: Range, target: str) -> tuple[str, str]:
    """Replace a place in a text. Returns the text up to and including `target`, and the text after it.

    At the start of the text, the target gets a capital if the text had one.
    """
    start, stop = place
    before, after = text[:start], text[stop:]
    if start == 0 and text[:1].isupper():
        target = target[:1].upper() + target[1:]
    gap_before = " " if before[-1:].isalnum() and target[:1].isalnum() else ""
    gap_after = " " if after[:1].isalnum() and target[-1:].isalnum() else ""
    return before + gap_before + target, gap_after + after


def _set_text(answer: Translation, text: str) -> Translation:
    best = answer.candidates[0] if answer.candidates else Candidate("", (), (), 0.0, 0.0)
    return replace(answer, candidates=(replace(best, text=text),) if text else ())


def _spans(words: Sequence[Word], text: str) -> list[Range]:
    """Character ranges of words in a text. A word that is not found, because it was normalized, gets an empty range."""
    spans: list[Range] = []
    place = 0
    for word in words:
        found = text.find(word.text, place, place + len(word.text) + _FAR)
        start = place if found < 0 else found
        place = start if found < 0 else found + len(word.text)
        spans.append((start, place))
    return spans


def _shift_ranges(spans: Sequence[Range], by: int) -> list[Range]:
    return [(start + by, stop + by) for start, stop in spans]


_WORD = re.compile(r"[^\W\d_]{2,}")
_LEAST_WORDS, _LEAST_LETTERS = 2, 8


def is_all_caps(text: str) -> bool:
    """Whether a text has at least two words and eight letters, all capitals. Shorter texts may be names."""
    if text != text.upper():
        return False
    words = [word for word in _WORD.findall(text) if word != word.lower()]
    return len(words) >= _LEAST_WORDS and sum(map(len, words)) >= _LEAST_LETTERS


def sentence_case(text: str) -> str:
    """The text in lower case, with a capital at the start of each sentence."""
    return "".join(_capitalize_first(sentence.lower()) for sentence in split_sentences(text))


def retry_all_caps(
    search: TextSearch, texts: Sequence[InputText], answers: Sequence[SearchedText], options: TranslationOptions
) -> list[SearchedText]:
    """Replace the answers of texts in capitals by the answers of their sentence case, where those are better.

    Texts with markers or a prefix keep their answers. The tokens of a candidate stay as the model wrote them, in lower
    case.
    """
    capitals = {
        place: text
        for place, text in enumerate(texts)
        if not text.marked.markers and not text.prefix and is_all_caps(text.marked.text)
    }
    recased = [replace(text, marked=MarkedText(sentence_case(text.marked.text), ())) for text in capitals.values()]
    if not recased:
        return list(answers)
    unescaped = replace(options, preserve=replace(options.preserve, escape=str))
    others = dict(zip(capitals, translate_preserving(search, recased, unescaped), strict=True))
    return [
        _in_capitals(other, texts[place].marked.text, options.preserve.escape)
        if (other := others.get(place)) and _sureness(other.translation) > _sureness(answer.translation)
        else answer
        for place, answer in enumerate(answers)
    ]


def _sureness(answer: Translation) -> tuple[int, float]:
    """Sort key of translations: fewer lost terms first, then the higher score."""
    score = answer.candidates[0].score if answer.candidates else float("-inf")
    return -len(answer.lost), score


def _in_capitals(answer: SearchedText, src: str, escape: Callable[[str], str]) -> SearchedText:
    translation = answer.translation
    candidates = tuple(replace(each, text=escape(each.text.upper())) for each in translation.candidates)
    lost = tuple(each.upper() for each in translation.lost)
    parts = ((src, translation.text.upper()),)
    return replace(answer, translation=replace(translation, src=src, candidates=candidates, lost=lost, parts=parts))


def _capitalize_first(sentence: str) -> str:
    for place, character in enumerate(sentence):
        if character.isalnum():  # a sentence that starts with a number gets no capital
            return sentence[:place] + character.upper() + sentence[place + 1 :]
    return sentence


Report = Callable[[Translation], None]


def translate_html(
    translator: "Translator", html: str, preserve: Preserve = PRESERVE_DOCUMENT, **settings: "Unpack[TranslateKeywords]"
) -> str:
    """Translate an HTML page.

    Tags, attributes and comments stay the same to the byte. So do the contents of script, style, pre, code and similar
    elements, and of elements with ``translate="no"`` or the class ``notranslate``. Escaped characters stay escaped.

    Parameters
    ----------
    translator : Translator
        The translator.
    html : str
        The page.
    preserve : Preserve
        What to preserve besides, and whether to translate each sentence alone.
    **settings
        Settings of [inference], as for `Translator.translate`.

    Returns
    -------
    str
        The translated page.

    Raises
    ------
    ConfigError
        If `translator` is not a loaded translator, and as for `Translator.translate`.
    """
    _check_document(translator, "html", html)
    return translate_markup(translator, [html], MarkupRules(), preserve, None, **settings)[0]


def translate_xml(
    translator: "Translator",
    xml: str,
    *,
    ignore_tags: Collection[str] = (),
    splitting_tags: Collection[str] = (),
    preserve: Preserve = PRESERVE_DOCUMENT,
    **settings: "Unpack[TranslateKeywords]",
) -> str:
    """Translate XML, or text with any tags in it.

    Tags are inline, so that text on both sides belongs to one sentence, except `splitting_tags`.

    Parameters
    ----------
    translator : Translator
        The translator.
    xml : str
        The text.
    ignore_tags : collection of str
        Names of elements that are not translated.
    splitting_tags : collection of str
        Names of tags that end a sentence.
    preserve, **settings
        As for `translate_html`.

    Returns
    -------
    str
        The translated text.

    Raises
    ------
    ConfigError
        If `translator` is not a loaded translator, and as for `Translator.translate`.
    """
    _check_document(translator, "xml", xml)
    ignored = {tag.lower() for tag in checked_texts(ignore_tags, "ignore_tags")}
    splitting = {tag.lower() for tag in checked_texts(splitting_tags, "splitting_tags")}
    return translate_markup(translator, [xml], MarkupRules(True, ignored, splitting), preserve, None, **settings)[0]


def translate_markup(
    translator: "Translator",
    pages: Sequence[str],
    rules: MarkupRules,
    preserve: Preserve = PRESERVE_DOCUMENT,
    report: Report | None = None,
    **settings: "Unpack[TranslateKeywords]",
) -> list[str]:
    """Translate several pages at once, which is faster than one by one.

    `report` is called with the `Translation` of every block of text, which has lost terms and cut outputs.
    """
    marked = [read_markup(page, rules) for page in pages]
    texts = [text for page in marked for text in page.texts]
    written = iter(_translate(translator, texts, replace(preserve, escape=escape_text), report, settings))
    return [page.with_translations([next(written) for _ in page.texts]) for page in marked]


def translate_srt(
    translator: "Translator",
    srt: str,
    preserve: Preserve = PRESERVE_SUBTITLES,
    report: Report | None = None,
    **settings: "Unpack[TranslateKeywords]",
) -> str:
    """Translate SubRip subtitles. Numbers, times and tags are kept, and every cue keeps its number of lines.

    Parameters
    ----------
    translator : Translator
        The translator.
    srt : str
        The subtitles.
    preserve
        As for `translate_html`.
    report : callable, optional
        A function that gets the `Translation` of every cue, which has lost terms and cut outputs.
    **settings
        Settings of [inference], as for `Translator.translate`.

    Returns
    -------
    str
        The translated subtitles.

    Raises
    ------
    ConfigError
        If `translator` is not a loaded translator, and as for `Translator.translate`.
    """
    _check_document(translator, "srt", srt)
    subtitles = read_subtitles(srt)
    return subtitles.with_translations(_translate(translator, subtitles.texts, preserve, report, settings))


def _check_document(translator: object, name: str, text: object) -> None:
    if not hasattr(translator, "translate_marked"):
        advice = "Call `dragoman.load`."
        raise ConfigError(f"`translator` must be a loaded translator, but is {one_line(translator)}. {advice}")
    if not isinstance(text, str):
        raise ConfigError(f"`{name}` must be a string, but is {one_line(text)}.")


def _translate(
    translator: "Translator",
    texts: Sequence[MarkedText],
    preserve: Preserve,
    report: Report | None,
    settings: "TranslateKeywords",
) -> list[str]:
    answers = translator.translate_marked(texts, preserve, NO_DETAILS, **settings)
    if report:
        for answer in answers:
            report(answer)
    return [answer.text for answer in answers]
