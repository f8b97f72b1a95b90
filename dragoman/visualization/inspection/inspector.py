"""Inspects a model while it translates one text, and collects the data of the inspection page.

The search runs in the tensor decoder in float32. Everything else comes from full forward passes of the model.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.bundle import Model
from dragoman.config import WITHOUT_SAMPLING, InferenceSettings
from dragoman.errors import DataError
from dragoman.inference.alignment import DEFAULT_READING, alignment_layer, attention_links
from dragoman.inference.output_rules import unwritable
from dragoman.inference.search.beam import beam_search
from dragoman.inference.search.continuations import hide
from dragoman.inference.tensors.engine import score_tokens
from dragoman.model.transformer import AttentionWeights
from dragoman.records import Hypothesis
from dragoman.text.charsets import replace_surrogates
from dragoman.text.tokenization.control_ids import EOS_ID, NEVER_WRITTEN
from dragoman.text.tokenization.tokenizer import Tokenizer
from dragoman.text.tokenization.words import words_of
from dragoman.visualization.inspection import attributions
from dragoman.visualization.inspection.beam_tree import RereadableModel, SearchTree, trace_search
from dragoman.visualization.inspection.inspection import Alternative, Inspection, RankedTranslation, Side, Step
from dragoman.visualization.inspection.notes import find_notes, length_notes

MOST_TOKENS = 500
"""Limit for a text: a page of a longer text would be unreadable."""

NUM_ALTERNATIVES, NUM_UNCERTAIN = 5, 5


def inspect_text(
    trained: Model,
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
    settings = settings or trained.config.inference
    settings = replace(settings, n_best=settings.beam_size, **WITHOUT_SAMPLING)
    src, hypotheses, beam = _search(trained, text, settings, prefix_ids)
    best = hypotheses[0]
    seen = _observe(trained, src, best)
    tgt, tokenizer = seen.tgt, trained.tokenizers.tgt
    links = seen.links.cpu().double().numpy()  # Apple's GPU has no float64
    opinions = None  # without a target, and for a text so long that they would take minutes
    if tgt.ids and attributions.shows_heads(len(src.ids), len(tgt.ids)):
        words = src.words, tgt.words
        opinions = attributions.compute_attributions(trained.transformer, src.ids, tgt.ids, words, links)
    return Inspection(
        model=name,
        src_lang=trained.card.src_lang or trained.config.data.src_lang,
        tgt_lang=trained.card.tgt_lang or trained.config.data.tgt_lang,
        src=src,
        tgt=tgt,
        reference=replace_surrogates(reference),
        reading=DEFAULT_READING,
        layer=alignment_layer(trained.config.model.num_decoder_layers),
        links=attributions.encode_weights(seen.links),
        steps=_add_continuations(_steps(seen, settings.min_tokens, tokenizer), seen, trained, settings),
        n_best=tuple(
            RankedTranslation(tokenizer.detokenize(one.ids), round(one.score, 4), round(one.log_prob, 4))
            for one in hypotheses
        ),
        beam=beam,
        weights=attributions.collect_weights(seen.attention, src.tokens, tgt.tokens),
        opinions=opinions,
        notes=(
            *length_notes(src, tgt, trained.config, finished=best.finished),
            *find_notes(src, tgt, links, best.token_log_probs, seen.alone),
        ),
        forced=len(prefix_ids),
    )


def observe_translation(trained: Model, text: str) -> "ObservedTranslation":
    """Translate a text by beam search, and pass the translation through the model. Errors are those of `inspect_text`.

    This is the part of an inspection that takes less than a second.
    """
    settings = replace(trained.config.inference, n_best=1, **WITHOUT_SAMPLING)
    src, hypotheses, _ = _search(trained, text, settings)
    return _observe(trained, src, hypotheses[0])


def trace_text(trained: Model, text: str, settings: InferenceSettings) -> SearchTree:
    """The tree of the beam search of a text. Errors are those of `inspect_text`."""
    return _search(trained, text, replace(settings, n_best=1, **WITHOUT_SAMPLING))[2]


def _search(
    trained: Model, text: str, settings: InferenceSettings, prefix_ids: Sequence[int] = ()
) -> tuple[Side, list[Hypothesis], SearchTree]:
    """The source, the hypotheses of the search, and its tree. Raises the errors of `inspect_text`."""
    model, tokenizer = trained.transformer, trained.tokenizers.src
    text = replace_surrogates(text).strip()
    src_ids, most = tokenizer.encode(text), model.settings.longest_text(MOST_TOKENS)  # one position is that of eos
    if not src_ids:
        raise DataError("the text is empty. Give a sentence to translate.")
    if len(src_ids) > most:
        raise DataError(f"the text may have at most {most} tokens, but has {len(src_ids):,}. Give a shorter text.")
    *before_last, _ = prefix_ids or [0]
    written = all(0 <= one < model.tgt_vocab_size and one not in NEVER_WRITTEN for one in prefix_ids)
    if len(prefix_ids) > most or not written or EOS_ID in before_last:
        raise DataError("the translation cannot start with these tokens. Choose tokens from the alternatives shown.")
    return _side(text, src_ids, tokenizer), *trace_search(trained, src_ids, settings, prefix_ids)


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
def _observe(trained: Model, src: Side, best: Hypothesis) -> ObservedTranslation:
    model, tokenizer = trained.transformer, trained.tokenizers.tgt
    tgt = _side(tokenizer.detokenize(best.ids), best.ids, tokenizer)
    batch, without_source = (attributions.pair_batch([ids], tgt.ids, model.device) for ids in (src.ids, ()))
    attention = model.attention(batch.src_ids, batch.src_lengths, batch.decoder_input)
    cross = attention.cross[alignment_layer(len(attention.cross))][0]
    links = attention_links(cross, len(src.ids), len(tgt.ids), DEFAULT_READING)
    logits = model(batch.src_ids, batch.src_lengths, batch.decoder_input)[0].float()
    alone = tuple(score_tokens(model, without_source)[0].tolist())
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
    steps: tuple[Step, ...], seen: ObservedTranslation, trained: Model, settings: InferenceSettings
) -> tuple[Step, ...]:
    """Complete the least certain steps with the translation that follows each alternative."""
    src_ids, tgt_ids = seen.src.ids, seen.tgt.ids
    uncertain = sorted(range(len(steps)), key=lambda place: -steps[place].entropy_bits)
    uncertain = sorted(uncertain[: NUM_UNCERTAIN if attributions.shows_heads(len(src_ids), len(tgt_ids)) else 1])
    prefixes = [[*tgt_ids[:place], one.id] for place in uncertain for one in steps[place].alternatives]
    model = RereadableModel(trained.transformer)
    batch = attributions.pair_batch([src_ids] * len(prefixes), (), model.device)
    found = iter(beam_search(model, batch.src_ids, batch.src_lengths, replace(settings, n_best=1), prefixes))
    completed = list(steps)
    for place in uncertain:
        alternatives = []
        for one, (best, *_) in zip(steps[place].alternatives, found, strict=False):  # the next of all that were found
            text = trained.tokenizers.tgt.detokenize(best.ids)
            alternatives.append(replace(one, continuation=text, score=round(best.score, 4)))
        completed[place] = replace(steps[place], alternatives=tuple(alternatives))
    return tuple(completed)
