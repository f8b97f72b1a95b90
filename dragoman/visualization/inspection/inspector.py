"""Inspects a model while it translates one text, and collects data and notes for the inspection page.

The search runs in the tensor decoder in float32. Everything else comes from full forward passes of the model.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from dragoman.bundle import Model
from dragoman.config import WITHOUT_SAMPLING, Config, InferenceSettings
from dragoman.engines.interface import unwritable
from dragoman.engines.search.beam import beam_search
from dragoman.engines.search.continuations import hide
from dragoman.engines.tensors.engine import score_tokens
from dragoman.errors import DataError
from dragoman.inference.alignment import DEFAULT_READING, alignment_layer, attention_links
from dragoman.inference.preservation import is_all_caps, sentence_case
from dragoman.model.transformer import AttentionWeights
from dragoman.records import EOS_ID, NEVER_WRITTEN, Hypothesis
from dragoman.text.lines import replace_surrogates
from dragoman.text.tokenization.tokenizer import Tokenizer
from dragoman.text.tokenization.words import words_of
from dragoman.visualization.inspection import attributions
from dragoman.visualization.inspection.attributions import MOST_TOKENS_WITH_HEADS, shows_heads
from dragoman.visualization.inspection.beam_tree import RereadableModel, SearchTree, trace_search
from dragoman.visualization.inspection.inspection import Alternative, Inspection, Note, RankedTranslation, Side, Step

# A source word is uncovered if it gets less than this share of the mean attention per word.
_MIN_ATTENTION = 0.2
# A target word is independent of the source if its probability without it, divided by that with it, is at least this.
_MIN_RATIO = 0.5
# A target word is improbable below this probability.
_MIN_PROBABILITY = 0.5
# Lengths do not match if one side has this many times the words of the other, and more than `_FEW_WORDS`.
_MAX_LENGTH_RATIO, _FEW_WORDS = 3, 6
_MOST_REPEATED_WORDS = 4

_Matrix = NDArray[np.float64]


def find_notes(
    src: Side, tgt: Side, links: _Matrix, log_probs: Sequence[float], log_probs_alone: Sequence[float]
) -> Iterator[Note]:
    """The notes of all checks that found something.

    `links` is attention (target tokens, source tokens). `log_probs` holds the log-probability of each target token,
    and `log_probs_alone` the same with an empty source.
    """
    if words := _uncovered_words(src, links):
        yield Note("uncovered", "Source words with little attention. They may be missing in the translation:", words)
    # Words that would be at least half as likely after the same beginning without the source.
    if words := _words_where(tgt, lambda span: sum(log_probs_alone[span]) >= sum(log_probs[span]) + np.log(_MIN_RATIO)):
        text = "Target words that hardly depend on the source. Without it they would be at least half as likely:"
        yield Note("prefix", text, tgt_words=words)
    if words := _words_where(tgt, lambda span: sum(log_probs[span]) < np.log(_MIN_PROBABILITY)):
        yield Note("improbable", f"Target words with a probability below {_MIN_PROBABILITY:.0%}:", tgt_words=words)
    here, there = len(src.words), len(tgt.words)
    if max(here, there) > _FEW_WORDS and max(here, there) >= _MAX_LENGTH_RATIO * min(here, there):
        text = f"The source has {here} words and the translation has {there}. Check for missing or invented text."
        yield Note("length", text)
    if words := _repeated_words(src, tgt):
        yield Note("repeated", "Repeated words in the translation:", tgt_words=words)
    known = {word.text: number for number, word in enumerate(src.words) if sum(map(str.isalpha, word.text)) > 1}
    if words := tuple(number for number, word in enumerate(tgt.words) if word.text in known):
        text = "Words that are the same on both sides: names, loan words or untranslated text:"
        yield Note("copied", text, tuple(sorted({known[tgt.words[number].text] for number in words})), words)
    if words := tuple(number for number, word in enumerate(src.words) if "<unk>" in src.tokens[word.start : word.stop]):
        text = "Source words without a token in the model's vocabulary, which the model reads as unknown:"
        yield Note("unknown", text, words)


def length_notes(src: Side, tgt: Side, config: Config, *, finished: bool) -> Iterator[Note]:
    """Notes on a text that is too long or in capitals, and on an output that was cut."""
    if len(src.tokens) > config.data.max_tokens:
        text = (
            f"The text has {len(src.tokens)} tokens, but the model was trained with at most {config.data.max_tokens}. "
        )
        yield Note("long", text + "`translate` would split it; here the model reads it whole.")
    if not finished:
        yield Note("cut", "The translation was cut at the length limit.")
    if not shows_heads(len(src.tokens), len(tgt.tokens)):
        text = f"More than {MOST_TOKENS_WITH_HEADS} tokens on a side: the page only has the mean of each layer's heads."
        yield Note("mean", text)
    if config.inference.retry_all_caps and is_all_caps(src.text):
        text = f"All capitals: `translate` also tries “{sentence_case(src.text)}” and returns the more probable result."
        yield Note("capitals", text)


def _words_where(side: Side, is_odd: Callable[[slice], bool]) -> tuple[int, ...]:
    """The indices of the words with letters or digits for whose tokens `is_odd` is true."""
    spans = [slice(word.start, word.stop) for word in side.words]
    words = zip(side.words, spans, strict=True)
    return tuple(number for number, (word, span) in enumerate(words) if _has_alphanumerics(word.text) and is_odd(span))


def _uncovered_words(src: Side, links: _Matrix) -> tuple[int, ...]:
    if not links.size or len(src.words) <= 2:
        return ()
    received = links.sum(0)
    fair = received.sum() / len(src.words)
    return _words_where(src, lambda span: received[span].sum() < _MIN_ATTENTION * fair)


def _repeated_words(src: Side, tgt: Side) -> tuple[int, ...]:
    """Repetitions of up to four words that are longer or more numerous than repetitions in the source."""
    allowed = sorted((run.times for run in _runs([word.text for word in src.words])), reverse=True)
    runs = sorted(_runs([word.text for word in tgt.words]), key=lambda run: -run.times)
    odd = [run for place, run in enumerate(runs) if run.times > (allowed[place] if place < len(allowed) else 1)]
    return tuple(sorted(number for run in odd for number in range(run.start, run.start + run.size * run.times)))


class _Run(NamedTuple):
    """`size` words from `start` on that occur `times` times in a row."""

    start: int
    size: int
    times: int


def _runs(texts: Sequence[str]) -> list[_Run]:
    """Repetitions from left to right, without overlaps. If several start at a word, the longest one counts."""
    folded = [text.casefold() for text in texts]
    found: list[_Run] = []
    start = 0
    while start < len(folded):
        here = [_Run(start, size, _times(folded, start, size)) for size in range(1, _MOST_REPEATED_WORDS + 1)]
        best = max(here, key=lambda run: (run.times > 1, run.size * run.times, -run.size))
        if best.times > 1 and any(map(_has_alphanumerics, folded[start : start + best.size])):
            found.append(best)
            start += best.size * best.times
        else:
            start += 1
    return found


def _times(texts: Sequence[str], start: int, size: int) -> int:
    run = texts[start : start + size]
    times = 1
    while texts[start + times * size : start + (times + 1) * size] == run:
        times += 1
    return times


def _has_alphanumerics(text: str) -> bool:
    return any(char.isalnum() for char in text)


MOST_TOKENS = 500
"""Limit for a text: a page of a longer text would be unreadable."""

NUM_ALTERNATIVES, NUM_UNCERTAIN = 5, 5


def inspect_text(
    model: Model,
    text: str,
    settings: InferenceSettings | None = None,
    *,
    name: str = "",
    reference: str = "",
    prefix_ids: Sequence[int] = (),
) -> Inspection:
    """Translate a text by beam search and collect the data of its inspection.

    `settings` replace the model's own. The page shows `name` and `reference`, a translation to compare with. The
    translation starts with the tokens `prefix_ids`. Raises DataError for an empty text, for more tokens than
    `MOST_TOKENS` or the model's positions, and for an impossible prefix.
    """
    settings = settings or model.config.inference
    settings = replace(settings, n_best=settings.beam_size, **WITHOUT_SAMPLING)
    src, hypotheses, beam = _search(model, text, settings, prefix_ids)
    best = hypotheses[0]
    seen = _observe(model, src, best)
    tgt, tokenizer = seen.tgt, model.tokenizers.tgt
    links = seen.links.cpu().double().numpy()  # Apple's GPU has no float64
    opinions = None  # without a target, and for a text so long that they would take minutes
    if tgt.ids and attributions.shows_heads(len(src.ids), len(tgt.ids)):
        words = src.words, tgt.words
        opinions = attributions.compute_attributions(model.transformer, src.ids, tgt.ids, words, links)
    return Inspection(
        model=name,
        src_lang=model.card.src_lang or model.config.data.src_lang,
        tgt_lang=model.card.tgt_lang or model.config.data.tgt_lang,
        src=src,
        tgt=tgt,
        reference=replace_surrogates(reference),
        reading=DEFAULT_READING,
        layer=alignment_layer(model.config.model.num_decoder_layers),
        links=attributions.encode_weights(seen.links),
        steps=_add_continuations(_steps(seen, settings.min_tokens, tokenizer), seen, model, settings),
        n_best=tuple(
            RankedTranslation(tokenizer.detokenize(one.ids), round(one.score, 4), round(one.log_prob, 4))
            for one in hypotheses
        ),
        beam=beam,
        weights=attributions.collect_weights(seen.attention, src.tokens, tgt.tokens),
        opinions=opinions,
        notes=(
            *length_notes(src, tgt, model.config, finished=best.finished),
            *find_notes(src, tgt, links, best.token_log_probs, seen.alone),
        ),
        forced=len(prefix_ids),
    )


def observe_translation(model: Model, text: str) -> "ObservedTranslation":
    """Translate a text by beam search, and pass the translation through the model. Errors are those of `inspect_text`.

    This is the part of an inspection that takes less than a second.
    """
    settings = replace(model.config.inference, n_best=1, **WITHOUT_SAMPLING)
    src, hypotheses, _ = _search(model, text, settings)
    return _observe(model, src, hypotheses[0])


def trace_text(model: Model, text: str, settings: InferenceSettings) -> SearchTree:
    """The tree of the beam search of a text. Errors are those of `inspect_text`."""
    return _search(model, text, replace(settings, n_best=1, **WITHOUT_SAMPLING))[2]


def _search(
    model: Model, text: str, settings: InferenceSettings, prefix_ids: Sequence[int] = ()
) -> tuple[Side, list[Hypothesis], SearchTree]:
    """The source, the hypotheses of the search, and its tree. Raises the errors of `inspect_text`."""
    transformer, tokenizer = model.transformer, model.tokenizers.src
    text = replace_surrogates(text).strip()
    src_ids = tokenizer.encode(text)
    tag_ids = tokenizer.tag_ids(settings.tag)
    most = transformer.settings.longest_text(MOST_TOKENS) - len(tag_ids)  # one position is that of eos
    if not src_ids:
        raise DataError("the text is empty. Give a sentence to translate.")
    if len(src_ids) > most:
        raise DataError(f"the text may have at most {most} tokens, but has {len(src_ids):,}. Give a shorter text.")
    *before_last, _ = prefix_ids or [0]
    written = all(0 <= one < transformer.tgt_vocab_size and one not in NEVER_WRITTEN for one in prefix_ids)
    if len(prefix_ids) > most or not written or EOS_ID in before_last:
        raise DataError("the translation cannot start with these tokens. Choose tokens from the alternatives shown.")
    src_ids = [*tag_ids, *src_ids]
    return _side(text, src_ids, tokenizer), *trace_search(model, src_ids, settings, prefix_ids)


def _side(text: str, ids: Sequence[int], tokenizer: Tokenizer) -> Side:
    tokens = tuple(tokenizer.tokens(ids))
    return Side(text, tokens, words_of(tokens), tuple(ids))


@dataclass(frozen=True, slots=True)
class ObservedTranslation:
    """A translation with the results of a teacher-forced pass over it, and of a pass without the source.

    `log_probs` are those of all tokens at each position, the end included. `alone` holds the log-probability of each
    target token without the source.
    """

    src: Side
    tgt: Side
    finished: bool
    attention: AttentionWeights
    links: Float[Tensor, "T S"]
    log_probs: Float[Tensor, "T1 V"]
    alone: tuple[float, ...]


@torch.inference_mode()
def _observe(model: Model, src: Side, best: Hypothesis) -> ObservedTranslation:
    transformer, tokenizer = model.transformer, model.tokenizers.tgt
    tgt = _side(tokenizer.detokenize(best.ids), best.ids, tokenizer)
    batch, without_source = (attributions.pair_batch([ids], tgt.ids, transformer.device) for ids in (src.ids, ()))
    attention = transformer.attention(batch.src_ids, batch.src_lengths, batch.decoder_input)
    cross = attention.cross[alignment_layer(len(attention.cross))][0]
    links = attention_links(cross, len(src.ids), len(tgt.ids), DEFAULT_READING)
    logits = transformer(batch.src_ids, batch.src_lengths, batch.decoder_input)[0].float()
    alone = tuple(score_tokens(transformer, without_source)[0].tolist())
    return ObservedTranslation(src, tgt, best.finished, attention, links, logits.log_softmax(-1).cpu(), alone)


def _steps(seen: ObservedTranslation, min_tokens: int, tokenizer: Tokenizer) -> tuple[Step, ...]:
    """One step for every token of the translation, and one for eos if it is finished."""
    ids = (*seen.tgt.ids, EOS_ID) if seen.finished else seen.tgt.ids
    steps, total = [], 0.0
    for place, (token_id, log_probs) in enumerate(zip(ids, seen.log_probs[: len(ids)], strict=True)):
        total += float(log_probs[token_id])
        probabilities = log_probs.exp()
        entropy = -float((probabilities * log_probs.clamp(min=-1e4)).sum()) / math.log(2)
        others = _alternatives(log_probs, token_id, unwritable(place, min_tokens))
        name, *names = tokenizer.tokens([token_id, *others])
        chance, *chances = (round(float(probabilities[other]), 5) for other in (token_id, *others))
        found = zip(names, chances, others, strict=True)
        alternatives = tuple(Alternative(token, likely, id=other) for token, likely, other in found)
        steps.append(Step(name, chance, round(max(0.0, entropy), 4), round(total, 4), alternatives))
    return tuple(steps)


def _alternatives(log_probs: Float[Tensor, " V"], token_id: int, hidden: tuple[int, ...]) -> list[int]:
    """The most probable tokens other than the chosen token and the hidden tokens."""
    others = log_probs.clone()[None]
    others[:, token_id] = float("-inf")
    hide(others, hidden)
    found = others[0].topk(min(NUM_ALTERNATIVES, others.size(1)))
    return [index for index, value in zip(found.indices.tolist(), found.values.tolist(), strict=True) if value > -1e30]


def _add_continuations(
    steps: tuple[Step, ...], seen: ObservedTranslation, model: Model, settings: InferenceSettings
) -> tuple[Step, ...]:
    """Complete the least certain steps with the translation that follows each alternative."""
    src_ids, tgt_ids = seen.src.ids, seen.tgt.ids
    uncertain = sorted(range(len(steps)), key=lambda place: -steps[place].entropy_bits)
    uncertain = sorted(uncertain[: NUM_UNCERTAIN if attributions.shows_heads(len(src_ids), len(tgt_ids)) else 1])
    prefixes = [[*tgt_ids[:place], one.id] for place in uncertain for one in steps[place].alternatives]
    reread = RereadableModel(model.transformer)
    batch = attributions.pair_batch([src_ids] * len(prefixes), (), reread.device)
    found = iter(beam_search(reread, batch.src_ids, batch.src_lengths, replace(settings, n_best=1), prefixes))
    completed = list(steps)
    for place in uncertain:
        alternatives = []
        for one, (best, *_) in zip(steps[place].alternatives, found, strict=False):  # the next of all that were found
            text = model.tokenizers.tgt.detokenize(best.ids)
            alternatives.append(replace(one, continuation=text, score=round(best.score, 4)))
        completed[place] = replace(steps[place], alternatives=tuple(alternatives))
    return tuple(completed)
