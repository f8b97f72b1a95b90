"""Translations that keep protected spans, markers of markup and the user's terms.

What the model writes correctly by itself stays. If a term is missing, the translation up to its place and the term
become a prefix, and the rest is searched again. If a protected span is missing, it is taken out of the text, the text
is translated again, and the span is inserted where the attention points, as all markers are (`markers.py`).
`docs/terms.md` compares this with other ways.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dragoman.errors import ConfigError
from dragoman.evaluation.flags import FLAGS
from dragoman.inference.options import Preserve
from dragoman.inference.segments import InputText, Request, Source
from dragoman.records import Candidate, Translation
from dragoman.text.documents.markers import AlignedPart, Range, aligned_run, insert_markers
from dragoman.text.documents.protected_spans import find_protected_spans, lost_spans, remove_protected_spans
from dragoman.text.documents.terms import Term, Terms, missing_terms
from dragoman.text.tokenization.sentence_splitting import separators
from dragoman.text.tokenization.tokenizer import Tokenizer, TokenizerPair
from dragoman.text.tokenization.words import Word, words_of

if TYPE_CHECKING:
    from dragoman.inference.alignment import Aligner

_Matrix = NDArray[Any]

# White space between words is seldom longer than this.
_FAR = 64


@dataclass(frozen=True, slots=True)
class Preserver:
    """Translates so that markers, protected spans and terms come through.

    `search` turns texts into requests that have their hypotheses; `search_again` gives sources new ones. `flag` adds
    what looks wrong with a translation, None if that is not wanted.
    """

    search: Callable[[Sequence[InputText]], list[Request]]
    search_again: Callable[[Sequence[Source]], None]
    aligner: "Aligner | None"
    tokenizers: TokenizerPair
    flag: Callable[[Translation], Translation] | None = None

    def answers(self, texts: Sequence[InputText], preserve: Preserve) -> tuple[list[Request | None], list[Translation]]:
        """One translation a text, and its request if the translation is the plain answer of that request.

        A text that was put together has its best candidate only. One with a prefix is not translated again.
        """
        requests, answers = self._translate_marked(texts, preserve)
        sources = [text.marked for text in texts]
        plain: list[Request | None] = [
            None if source.markers else one for source, one in zip(sources, requests, strict=True)
        ]
        if not preserve.protect:
            return plain, answers
        places = [
            place
            for place, source in enumerate(sources)
            if (pieces := find_protected_spans(source.text)) and lost_spans(pieces, self._written(requests[place]))
        ]
        chosen = [place for place in places if not texts[place].prefix]
        masked = [
            replace(texts[place], marked=remove_protected_spans(sources[place], preserve.escape)) for place in chosen
        ]
        _, repaired = self._translate_marked(masked, preserve)
        for place, answer in zip(chosen, repaired, strict=True):
            answers[place], plain[place] = replace(answer, src=sources[place].text), None
        for place in places:
            missing = lost_spans(find_protected_spans(preserve.escape(sources[place].text)), answers[place].text)
            answer = replace(answers[place], lost=(*answers[place].lost, *missing))
            if self.flag:
                is_text = not sources[place].markers and preserve.escape is str
                answer = self.flag(answer) if is_text else _flag_lost(answer)
            answers[place] = answer
        return plain, answers

    def _translate_marked(
        self, texts: Sequence[InputText], preserve: Preserve
    ) -> tuple[list[Request], list[Translation]]:
        requests, sources = self.search(texts), [text.marked for text in texts]
        lost = self._force_terms(requests, preserve.terms) if preserve.terms else [()] * len(requests)
        answers = [
            replace(request.answer(self.tokenizers.tgt), lost=own) for request, own in zip(requests, lost, strict=True)
        ]
        if self.flag:  # now, because neither tags nor escapes are the model's, and the source has none of them
            answers = [self.flag(answer) for answer in answers]
        marked = [place for place, source in enumerate(sources) if source.markers]
        for place, parts in zip(marked, self._parts([requests[place] for place in marked]), strict=True):
            answers[place] = _set_text(
                answers[place], insert_markers(sources[place], answers[place].text, parts, preserve.escape)
            )
        if preserve.escape is not str:
            for place in set(range(len(sources))).difference(marked):
                answers[place] = _set_text(answers[place], preserve.escape(answers[place].text))
        return requests, answers

    def _written(self, request: Request) -> str:
        return request.answer(self.tokenizers.tgt).text

    def _weights(self, sources: Sequence[Source]) -> list[_Matrix]:
        if not sources:
            return []
        if self.aligner is None:
            raise ConfigError("this translator has no attention to place pieces and terms by. Give it an aligner.")
        return self.aligner.weights([(one.ids, _best(one)) for one in sources])

    def _parts(self, requests: Sequence[Request]) -> list[list[AlignedPart]]:
        """How the words of each request and its answer are aligned, segment by segment."""
        sources = [source for request in requests for source in request.sources]
        weights = iter(self._weights(sources))
        return [self._parts_of(request, [next(weights) for _ in request.sources]) for request in requests]

    def _parts_of(self, request: Request, weights: Sequence[_Matrix]) -> list[AlignedPart]:
        written = [self.tokenizers.tgt.detokenize(_best(source)) for source in request.sources]
        after = separators(request.segments, written)
        src_start, tgt_start = len(request.text) - len(request.text.lstrip()), 0
        parts = []
        for segment, source, text, space, own in zip(
            request.segments, request.sources, written, after, weights, strict=True
        ):
            if own.size:
                part = self._part(source, segment.text, text, own)
                parts.append(
                    AlignedPart(
                        _shift_ranges(part.src_spans, src_start), _shift_ranges(part.tgt_spans, tgt_start), part.weights
                    )
                )
            src_start += len(segment.text) + len(segment.separator)
            tgt_start += len(text) + len(space)
        return parts

    def _part(self, source: Source, src_text: str, tgt_text: str, weights: _Matrix) -> AlignedPart:
        src_words = words_of(self.tokenizers.src.tokens(source.ids))
        tgt_words = words_of(self.tokenizers.tgt.tokens(_best(source)))
        by_word = np.add.reduceat(weights, [word.start for word in src_words], axis=1)
        by_word = np.add.reduceat(by_word, [word.start for word in tgt_words], axis=0)
        return AlignedPart(_spans(src_words, src_text), _spans(tgt_words, tgt_text), by_word)

    def _force_terms(self, requests: Sequence[Request], terms: Terms) -> list[tuple[str, ...]]:
        """Forces the terms that were not written; for each request those that are still missing."""
        tokenizer = self.tokenizers.tgt
        wanted = [
            _Wanted(source, segment.text, terms.find(segment.text))
            for request in requests
            for source, segment in zip(request.sources, request.segments, strict=True)
        ]
        waiting = [one for one in wanted if one.terms and _best(one.source)]
        while waiting := [one for one in waiting if one.next_terms(tokenizer)]:
            weights = self._weights([one.source for one in waiting])
            for one, own in zip(waiting, weights, strict=True):
                one.force_next(self._part(one.source, one.text, one.written, own), tokenizer)
            self.search_again([one.source for one in waiting])
        segments = iter(wanted)
        return [
            tuple(term for _ in request.sources for term in next(segments).missing(tokenizer)) for request in requests
        ]


@dataclass(slots=True)
class _Wanted:
    """A segment, the terms in it, and how far its translation is settled (in characters).

    Of a term that was forced `before` has the translation up to then, and where in it the term was to go.
    """

    source: Source
    text: str
    terms: list[Term]
    written: str = ""
    settled: int = 0
    before: dict[Term, tuple[str, Range]] = field(default_factory=dict)
    given_up: set[Term] = field(default_factory=set)

    def missing(self, tokenizer: Tokenizer) -> list[str]:
        """The targets of terms that are not written as often as they should."""
        return missing_terms(self.terms, tokenizer.detokenize(_best(self.source)))

    def next_terms(self, tokenizer: Tokenizer) -> list[Term]:
        """The terms that may be missing, those that were not forced yet if there are any; none when all is done."""
        self.written = tokenizer.detokenize(_best(self.source))
        missing = missing_terms(self.terms, self.written)
        left = [term for term in self.terms if term.target in missing and term not in self.given_up]
        return [term for term in left if term not in self.before] or left

    def force_next(self, part: AlignedPart, tokenizer: Tokenizer) -> None:
        """Makes the first missing term part of the beginning, with the word after it, so that it is not said twice.

        Where that did not do, the translation from before is kept, with the term in it.
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
        self.source.prefix = tokenizer.encode(beginning)

    def _place(self, part: AlignedPart, term: Term) -> Range:
        """The characters of the translation that the term takes the place of."""
        first_free = sum(stop <= self.settled for _, stop in part.tgt_spans)
        start, stop = aligned_run(self.text, self.written, part, (term.start, term.stop), first_free)
        if start == stop:
            end = part.tgt_spans[start - 1][1] if start else 0
            return end, end
        return part.tgt_spans[start][0], part.tgt_spans[stop - 1][1]


def _replace_place(text: str, place: Range, target: str) -> tuple[str, str]:
    """The text up to a place and the target there, with a capital where one began the text; and what follows."""
    start, stop = place
    before, after = text[:start], text[stop:]
    if start == 0 and text[:1].isupper():
        target = target[:1].upper() + target[1:]
    gap_before = " " if before[-1:].isalnum() and target[:1].isalnum() else ""
    gap_after = " " if after[:1].isalnum() and target[-1:].isalnum() else ""
    return before + gap_before + target, gap_after + after


def _best(source: Source) -> tuple[int, ...]:
    return source.hypotheses[0].ids if source.hypotheses else ()


def _set_text(answer: Translation, text: str) -> Translation:
    best = answer.candidates[0] if answer.candidates else Candidate("", (), (), 0.0, 0.0)
    return replace(answer, candidates=(replace(best, text=text),) if text else ())


def _flag_lost(answer: Translation) -> Translation:
    """With the flag for what is lost beside the others."""
    found = {*answer.flags, *(["lost"] if answer.lost else [])}
    return replace(answer, flags=tuple(flag for flag in FLAGS if flag in found))


def _spans(words: Sequence[Word], text: str) -> list[Range]:
    """Where the words stand; one that is written otherwise there (normalised by the tokeniser) is taken to be empty."""
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
