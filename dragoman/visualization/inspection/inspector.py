"""Inspects a model while it translates one text, and collects the data of the inspection page.

The search runs in the tensor decoder in float32. Everything else comes from full forward passes of the model.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.config import WITHOUT_SAMPLING, InferenceSettings
from dragoman.errors import DataError
from dragoman.inference.alignment import alignment_layer, attention_links
from dragoman.inference.output_rules import unwritable
from dragoman.inference.preservation.capitals import is_all_caps, sentence_case
from dragoman.inference.scoring import score_tokens
from dragoman.inference.search.beam import beam_search
from dragoman.inference.search.constraints import hide
from dragoman.inference.tensors.fast_model import FastModel
from dragoman.model.trained import TrainedModel
from dragoman.model.transformer import AttentionWeights, Transformer
from dragoman.records import Hypothesis
from dragoman.text.charsets import replace_surrogates
from dragoman.text.tokenization.control_ids import EOS_ID, NEVER_WRITTEN
from dragoman.text.tokenization.tokenizer import Tokenizer
from dragoman.text.tokenization.words import words_of
from dragoman.visualization.inspection.attributions import (
    MOST_TOKENS_WITH_HEADS,
    collect_weights,
    compute_attributions,
    encode_weights,
    pair_batch,
    shows_heads,
)
from dragoman.visualization.inspection.beam_tree import trace_search
from dragoman.visualization.inspection.inspection import (
    Alternative,
    Attributions,
    BeamNode,
    Inspection,
    Note,
    RankedTranslation,
    Side,
    Step,
)
from dragoman.visualization.inspection.notes import find_notes, length_notes

MOST_TOKENS = 500
"""Limit for a text: a page of a longer text would be unreadable."""

NUM_ALTERNATIVES, NUM_UNCERTAIN = 5, 5


def inspect_text(
    trained: TrainedModel,
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
    model, tokenizers = trained.model, trained.tokenizers
    src = _source_side(text, model, tokenizers.src)
    _check_prefix(prefix_ids, model)
    settings = replace(settings or trained.config.inference, **WITHOUT_SAMPLING)
    settings = replace(settings, n_best=settings.beam_size)
    searched = _RereadableModel(model)
    hypotheses, beam = trace_search(searched, src.ids, settings, tokenizers.tgt, prefix_ids)
    best = hypotheses[0]
    tgt = _side(tokenizers.tgt.detokenize(best.ids), best.ids, tokenizers.tgt)
    forced = _forced_pass(model, src.ids, best.ids)
    steps = _steps(forced, best, settings.min_tokens, tokenizers.tgt)
    return Inspection(
        model=name,
        src_lang=trained.card.src_lang or trained.config.data.src_lang,
        tgt_lang=trained.card.tgt_lang or trained.config.data.tgt_lang,
        src=src,
        tgt=tgt,
        reference=replace_surrogates(reference),
        reading="prediction",
        layer=alignment_layer(model.settings.num_decoder_layers),
        links=encode_weights(forced.links),
        steps=_add_continuations(steps, forced, searched, settings, tokenizers.tgt),
        n_best=_n_best(hypotheses, tokenizers.tgt),
        beam=beam,
        weights=collect_weights(forced.attention, src.tokens, tgt.tokens),
        opinions=_attributions(model, src, tgt, forced),
        notes=_notes(trained, src, tgt, forced, best),
        forced=len(prefix_ids),
    )


@dataclass(frozen=True, slots=True)
class ObservedTranslation:
    """One translation with the attention and the log-probabilities (target tokens and eos, V) of a forced pass."""

    src: Side
    tgt: Side
    finished: bool
    attention: AttentionWeights
    log_probs: Float[Tensor, "T1 V"]


def observe_translation(trained: TrainedModel, text: str) -> ObservedTranslation:
    """Translate a text by beam search, and pass the translation through the model. Errors are those of `inspect_text`.

    This is the part of an inspection that takes less than a second.
    """
    model, tokenizers = trained.model, trained.tokenizers
    src = _source_side(text, model, tokenizers.src)
    batch = pair_batch([src.ids], (), model.device)
    settings = replace(trained.config.inference, n_best=1, **WITHOUT_SAMPLING)
    best = beam_search(_RereadableModel(model), batch.src_ids, batch.src_lengths, settings)[0][0]
    forced = _forced_pass(model, src.ids, best.ids)
    tgt = _side(tokenizers.tgt.detokenize(best.ids), best.ids, tokenizers.tgt)
    return ObservedTranslation(src, tgt, best.finished, forced.attention, forced.log_probs)


def trace_text(trained: TrainedModel, text: str, settings: InferenceSettings) -> tuple[BeamNode, ...]:
    """The tree of the beam search of a text. Errors are those of `inspect_text`."""
    src = _source_side(text, trained.model, trained.tokenizers.src)
    settings = replace(settings, n_best=1, **WITHOUT_SAMPLING)
    return trace_search(_RereadableModel(trained.model), src.ids, settings, trained.tokenizers.tgt)[1]


def _n_best(hypotheses: Sequence[Hypothesis], tokenizer: Tokenizer) -> tuple[RankedTranslation, ...]:
    return tuple(
        RankedTranslation(tokenizer.detokenize(one.ids), round(one.score, 4), round(one.log_prob, 4))
        for one in hypotheses
    )


class _RereadableModel(FastModel):
    """Limits the output to one token less than the model's positions: a full pass reads it again after bos."""

    @property
    def max_length(self) -> int | None:
        """The longest output in tokens."""
        most = super().max_length
        return None if most is None else most - 1


@dataclass(frozen=True, slots=True)
class _ForcedPass:
    """Results of a teacher-forced pass over the source and the best hypothesis, and of a pass without the source."""

    src_ids: Sequence[int]
    tgt_ids: Sequence[int]
    attention: AttentionWeights
    links: Float[Tensor, "T S"]
    log_probs: Float[Tensor, "T1 V"]
    alone: tuple[float, ...]


@torch.inference_mode()
def _forced_pass(model: Transformer, src_ids: Sequence[int], tgt_ids: Sequence[int]) -> _ForcedPass:
    batch, without_source = (pair_batch([source], tgt_ids, model.device) for source in (src_ids, ()))
    attention = model.attention(batch.src_ids, batch.src_lengths, batch.decoder_input)
    cross = attention.cross[alignment_layer(len(attention.cross))][0]
    logits = model(batch.src_ids, batch.src_lengths, batch.decoder_input)[0].float()
    links = attention_links(cross, len(src_ids), len(tgt_ids))
    alone = tuple(score_tokens(model, without_source)[0].tolist())
    return _ForcedPass(src_ids, tgt_ids, attention, links, torch.log_softmax(logits, dim=-1).cpu(), alone)


def _most_tokens(model: Transformer) -> int:
    """The limit for the tokens of either side. One position is reserved for eos."""
    return model.settings.longest_text(MOST_TOKENS)


def _check_prefix(prefix_ids: Sequence[int], model: Transformer) -> None:
    *before_last, _ = prefix_ids or [0]
    written = all(0 <= one < model.tgt_vocab_size and one not in NEVER_WRITTEN for one in prefix_ids)
    if len(prefix_ids) > _most_tokens(model) or not written or EOS_ID in before_last:
        raise DataError("the translation cannot start with these tokens. Choose tokens from the alternatives shown.")


def _source_side(text: str, model: Transformer, tokenizer: Tokenizer) -> Side:
    text = replace_surrogates(text).strip()
    src_ids, most = tokenizer.encode(text), _most_tokens(model)
    if not src_ids:
        raise DataError("the text is empty. Give a sentence to translate.")
    if len(src_ids) > most:
        raise DataError(f"the text may have at most {most} tokens, but has {len(src_ids):,}. Give a shorter text.")
    return _side(text, src_ids, tokenizer)


def _side(text: str, ids: Sequence[int], tokenizer: Tokenizer) -> Side:
    tokens = tuple(tokenizer.tokens(ids))
    return Side(text, tokens, words_of(tokens), tuple(ids))


def _steps(forced: _ForcedPass, best: Hypothesis, min_tokens: int, tokenizer: Tokenizer) -> tuple[Step, ...]:
    """One step for every token of the hypothesis, and one for eos if it is finished."""
    ids = (*best.ids, EOS_ID) if best.finished else best.ids
    steps, total = [], 0.0
    for place, (token_id, log_probs) in enumerate(zip(ids, forced.log_probs[: len(ids)], strict=True)):
        total += float(log_probs[token_id])
        probabilities = log_probs.exp()
        entropy = -float((probabilities * log_probs.clamp(min=-1e4)).sum()) / math.log(2)
        others = _alternatives(log_probs, token_id, unwritable(place, min_tokens))
        name, *names = tokenizer.tokens([token_id, *others])
        chances = [round(float(probabilities[other]), 5) for other in (token_id, *others)]
        found = zip(names, chances[1:], others, strict=True)
        alternatives = tuple(Alternative(token, chance, id=other) for token, chance, other in found)
        steps.append(Step(name, chances[0], round(max(0.0, entropy), 4), round(total, 4), alternatives))
    return tuple(steps)


def _alternatives(log_probs: Float[Tensor, " V"], token_id: int, hidden: tuple[int, ...]) -> list[int]:
    """The most probable tokens other than the chosen token and the hidden tokens."""
    others = log_probs.clone()[None]
    others[:, token_id] = float("-inf")
    hide(others, hidden)
    found = others[0].topk(min(NUM_ALTERNATIVES, others.size(1)))
    return [index for index, value in zip(found.indices.tolist(), found.values.tolist(), strict=True) if value > -1e30]


def _add_continuations(
    steps: tuple[Step, ...], forced: _ForcedPass, model: FastModel, settings: InferenceSettings, tokenizer: Tokenizer
) -> tuple[Step, ...]:
    """Complete the least certain steps with the translation that follows each alternative."""
    src_ids, tgt_ids = forced.src_ids, forced.tgt_ids
    ids = (*tgt_ids, EOS_ID)
    uncertain = sorted(range(len(steps)), key=lambda place: -steps[place].entropy_bits)
    uncertain = uncertain[: NUM_UNCERTAIN if shows_heads(len(src_ids), len(tgt_ids)) else 1]
    prefixes = [
        (place, [*tgt_ids[:place], other])
        for place in sorted(uncertain)
        for other in _alternatives(forced.log_probs[place], ids[place], unwritable(place, settings.min_tokens))
    ]
    batch = pair_batch([src_ids] * len(prefixes), (), model.device)
    beginnings = [prefix for _, prefix in prefixes]
    found = beam_search(model, batch.src_ids, batch.src_lengths, replace(settings, n_best=1), beginnings)
    continued: dict[int, list[Hypothesis]] = {}
    for (place, _), hypotheses in zip(prefixes, found, strict=True):
        continued.setdefault(place, []).append(hypotheses[0])
    completed = list(steps)
    for place, hypotheses in continued.items():
        alternatives = tuple(
            replace(one, continuation=tokenizer.detokenize(then.ids), score=round(then.score, 4))
            for one, then in zip(steps[place].alternatives, hypotheses, strict=True)
        )
        completed[place] = replace(steps[place], alternatives=alternatives)
    return tuple(completed)


def _attributions(model: Transformer, src: Side, tgt: Side, forced: _ForcedPass) -> Attributions | None:
    """The attributions, or None without a target or for a text so long that they would take minutes."""
    if not tgt.ids or not shows_heads(len(src.ids), len(tgt.ids)):
        return None
    return compute_attributions(model, src.ids, tgt.ids, (src.words, tgt.words), forced.links)


def _notes(trained: TrainedModel, src: Side, tgt: Side, forced: _ForcedPass, best: Hypothesis) -> tuple[Note, ...]:
    links = forced.links.cpu().double().numpy()  # Apple's GPU has no float64
    notes = find_notes(src, tgt, links, best.token_log_probs, forced.alone)
    lengths = length_notes(len(src.tokens), trained.config.data.max_tokens, finished=best.finished)
    if not shows_heads(len(src.tokens), len(tgt.tokens)):
        text = f"More than {MOST_TOKENS_WITH_HEADS} tokens on a side: the page only has the mean of each layer's heads."
        lengths = (*lengths, Note("mean", text))
    if trained.config.inference.retry_all_caps and is_all_caps(src.text):
        text = f"All capitals: `translate` also tries “{sentence_case(src.text)}” and returns the more probable result."
        lengths = (*lengths, Note("capitals", text))
    return (*lengths, *notes)
