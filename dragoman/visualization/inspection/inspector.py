"""Looks inside a model while it translates one text: everything that the inspection page shows.

Off the fast path: the plain model and the plain search, whose results the fast ones share (in float32).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from dragoman.bundle import Bundle
from dragoman.config import WITHOUT_SAMPLING, InferenceSettings
from dragoman.data.batch import Batch, pad_ids
from dragoman.errors import DataError
from dragoman.inference.alignment import DEFAULT_READING, alignment_layer, attention_links
from dragoman.inference.preservation.capitals import is_all_caps, sentence_case
from dragoman.inference.scoring import score_tokens
from dragoman.inference.search.beam import beam_search
from dragoman.inference.search.constraints import NEVER_WRITTEN, hide
from dragoman.inference.search.step_model import SingleModel
from dragoman.model.transformer import AttentionWeights, Transformer
from dragoman.records import Hypothesis
from dragoman.text.surrogates import well_formed
from dragoman.text.tokenization.tokenizer import BOS_ID, EOS_ID, PAD_ID, Tokenizer
from dragoman.text.tokenization.words import words_of
from dragoman.visualization.inspection.beam_tree import traced_search
from dragoman.visualization.inspection.coverage import cut_notes, notes_of
from dragoman.visualization.inspection.inspection import Alternative, Inspection, Note, Opinions, Ranked, Side, Step
from dragoman.visualization.inspection.second_opinion import opinions_of
from dragoman.visualization.inspection.weights import MOST_TOKENS_WITH_HEADS, packed, shows_heads, weights_of

MOST_TOKENS = 500
"""A longer text is refused: nobody could look at it."""

NUM_ALTERNATIVES, NUM_UNCERTAIN = 5, 5


def inspect_text(
    bundle: Bundle,
    text: str,
    settings: InferenceSettings | None = None,
    *,
    name: str = "",
    reference: str = "",
    prefix_ids: Sequence[int] = (),
) -> Inspection:
    """Translates a text by beam search and collects everything there is to see.

    `settings` replace the model's own; `name` and `reference` (a translation to compare with) are shown. The
    translation begins with the tokens `prefix_ids`. Raises DataError for a text without tokens, or with more than
    `MOST_TOKENS` or than the model has positions for, and for a prefix that cannot be written.
    """
    model, tokenizers = bundle.model, bundle.tokenizers
    text = well_formed(text).strip()
    src_ids = tokenizers.src.encode(text)
    _check_length(src_ids, model)
    _check_prefix(prefix_ids, model)
    settings = settings or bundle.config.inference
    settings = replace(settings, n_best=settings.beam_size, **WITHOUT_SAMPLING)
    hypotheses, beam = traced_search(_ReadAgain(model), src_ids, settings, tokenizers.tgt, prefix_ids)
    best = hypotheses[0]
    src = _side(text, src_ids, tokenizers.src)
    tgt = _side(tokenizers.tgt.detokenize(best.ids), best.ids, tokenizers.tgt)
    seen = _seen(model, src_ids, best.ids)
    steps = _steps(seen, best, settings.min_tokens, tokenizers.tgt)
    return Inspection(
        model=name,
        src_lang=bundle.card.src_lang or bundle.config.data.src_lang,
        tgt_lang=bundle.card.tgt_lang or bundle.config.data.tgt_lang,
        src=src,
        tgt=tgt,
        reference=well_formed(reference),
        reading=DEFAULT_READING,
        layer=alignment_layer(model.settings.num_decoder_layers),
        links=packed(seen.links),
        steps=_with_continuations(steps, seen, model, src_ids, best.ids, settings, tokenizers.tgt),
        n_best=tuple(
            Ranked(tokenizers.tgt.detokenize(one.ids), round(one.score, 4), round(one.log_prob, 4))
            for one in hypotheses
        ),
        beam=beam,
        weights=weights_of(seen.attention, src.tokens, tgt.tokens),
        opinions=_opinions(model, src_ids, best.ids, src, tgt, seen),
        notes=_notes(bundle, src, tgt, seen, best),
        forced=len(prefix_ids),
    )


class _ReadAgain(SingleModel):
    """Writes one token less than the model has positions for: they are all read again, with bos before them."""

    @property
    def max_length(self) -> int | None:
        """The longest output in tokens."""
        most = super().max_length
        return None if most is None else most - 1


@dataclass(frozen=True, slots=True)
class _Seen:
    """One teacher-forced pass over the source and the best hypothesis, and one over the target alone."""

    attention: AttentionWeights
    links: Float[Tensor, "T S"]
    log_probs: Float[Tensor, "T1 V"]
    alone: tuple[float, ...]


@torch.inference_mode()
def _seen(model: Transformer, src_ids: Sequence[int], tgt_ids: Sequence[int]) -> _Seen:
    src, src_lengths = (one.to(model.device) for one in pad_ids([[*src_ids, EOS_ID]], PAD_ID))
    decoder_input = torch.tensor([[BOS_ID, *tgt_ids]], device=model.device)
    attention = model.attention(src, src_lengths, decoder_input)
    cross = attention.cross[alignment_layer(len(attention.cross))][0]
    logits = model(src, src_lengths, decoder_input)[0].float()
    nothing = Batch(
        *pad_ids([[EOS_ID]], PAD_ID), torch.tensor([[BOS_ID, *tgt_ids, EOS_ID]]), torch.tensor([len(tgt_ids) + 1])
    )
    return _Seen(
        attention,
        attention_links(cross, len(src_ids), len(tgt_ids), DEFAULT_READING),
        torch.log_softmax(logits, dim=-1).cpu(),
        tuple(score_tokens(model, nothing.to(model.device))[0].tolist()),
    )


def _most_tokens(model: Transformer) -> int:
    """That can be looked at on either side; one position is eos's."""
    return MOST_TOKENS if model.max_positions is None else min(MOST_TOKENS, model.max_positions - 1)


def _check_length(src_ids: Sequence[int], model: Transformer) -> None:
    most = _most_tokens(model)
    if not src_ids:
        raise DataError("the text is empty. Give a sentence to look at, in quotes.")
    if len(src_ids) > most:
        raise DataError(
            f"the text has {len(src_ids):,} tokens, but at most {most} can be looked at. Give a sentence of it."
        )


def _check_prefix(prefix_ids: Sequence[int], model: Transformer) -> None:
    *before_last, _ = prefix_ids or [0]
    written = all(0 <= one < model.tgt_vocab_size and one not in NEVER_WRITTEN for one in prefix_ids)
    if len(prefix_ids) > _most_tokens(model) or not written or EOS_ID in before_last:
        raise DataError("the translation cannot begin with these tokens. Choose them among the alternatives shown.")


def _side(text: str, ids: Sequence[int], tokenizer: Tokenizer) -> Side:
    tokens = tuple(tokenizer.tokens(ids))
    return Side(text, tokens, words_of(tokens), tuple(ids))


def _steps(seen: _Seen, best: Hypothesis, min_tokens: int, tokenizer: Tokenizer) -> tuple[Step, ...]:
    """Every token of the hypothesis, and eos where it ended by itself."""
    ids = (*best.ids, EOS_ID) if best.finished else best.ids
    steps, total = [], 0.0
    for place, (token_id, log_probs) in enumerate(zip(ids, seen.log_probs[: len(ids)], strict=True)):
        total += float(log_probs[token_id])
        probabilities = log_probs.exp()
        entropy = -float((probabilities * log_probs.clamp(min=-1e4)).sum()) / math.log(2)
        others = _alternatives(log_probs, token_id, may_end=place >= min_tokens)
        names = tokenizer.tokens([token_id, *others])
        steps.append(
            Step(
                names[0],
                round(float(probabilities[token_id]), 5),
                round(max(0.0, entropy), 4),
                round(total, 4),
                tuple(
                    Alternative(name, round(float(probabilities[other]), 5), id=other)
                    for name, other in zip(names[1:], others, strict=True)
                ),
            )
        )
    return tuple(steps)


def _alternatives(log_probs: Float[Tensor, "V"], token_id: int, *, may_end: bool) -> list[int]:
    """The best tokens besides the one that was taken, without those that the search may not write there."""
    others = log_probs.clone()[None]
    hide(others, (*NEVER_WRITTEN, token_id, *(() if may_end else (EOS_ID,))))
    found = others[0].topk(min(NUM_ALTERNATIVES, others.size(1)))
    return [index for index, value in zip(found.indices.tolist(), found.values.tolist(), strict=True) if value > -1e30]


def _with_continuations(
    steps: tuple[Step, ...],
    seen: _Seen,
    model: Transformer,
    src_ids: Sequence[int],
    tgt_ids: Sequence[int],
    settings: InferenceSettings,
    tokenizer: Tokenizer,
) -> tuple[Step, ...]:
    """The steps, the least certain ones with what would have followed each alternative."""
    ids = (*tgt_ids, EOS_ID)
    uncertain = sorted(range(len(steps)), key=lambda place: -steps[place].entropy_bits)
    uncertain = uncertain[: NUM_UNCERTAIN if shows_heads(len(src_ids), len(tgt_ids)) else 1]
    prefixes = [
        (place, [*tgt_ids[:place], other])
        for place in sorted(uncertain)
        for other in _alternatives(seen.log_probs[place], ids[place], may_end=place >= settings.min_tokens)
    ]
    src, src_lengths = pad_ids([[*src_ids, EOS_ID]] * len(prefixes), PAD_ID)
    found = beam_search(
        SingleModel(model),
        src.to(model.device),
        src_lengths.to(model.device),
        replace(settings, n_best=1),
        [prefix for _, prefix in prefixes],
    )
    continued: dict[int, list[Hypothesis]] = {}
    for (place, _), hypotheses in zip(prefixes, found, strict=True):
        continued.setdefault(place, []).append(hypotheses[0])
    return tuple(
        replace(
            step,
            alternatives=tuple(
                replace(one, continuation=tokenizer.detokenize(then.ids), score=round(then.score, 4))
                for one, then in zip(step.alternatives, continued[place], strict=True)
            ),
        )
        if place in continued
        else step
        for place, step in enumerate(steps)
    )


def _opinions(
    model: Transformer, src_ids: Sequence[int], tgt_ids: Sequence[int], src: Side, tgt: Side, seen: _Seen
) -> Opinions | None:
    """None where there is no target, or so much text that it would take minutes."""
    if not tgt_ids or not shows_heads(len(src_ids), len(tgt_ids)):
        return None
    return opinions_of(model, src_ids, tgt_ids, (src.words, tgt.words), seen.links)


def _notes(bundle: Bundle, src: Side, tgt: Side, seen: _Seen, best: Hypothesis) -> tuple[Note, ...]:
    links = seen.links.cpu().double().numpy()  # Apple's GPU has no float64
    notes = notes_of(src, tgt, links, best.token_log_probs, seen.alone)
    lengths = cut_notes(len(src.tokens), bundle.config.data.max_tokens, finished=best.finished)
    if not shows_heads(len(src.tokens), len(tgt.tokens)):
        text = f"More than {MOST_TOKENS_WITH_HEADS} tokens on a side: only the mean of each layer's heads is kept."
        lengths = (*lengths, Note("mean", text))
    if bundle.config.inference.capitals and is_all_caps(src.text):
        text = f"All in capitals: `translate` tries it as “{sentence_case(src.text)}” too, and gives the surer answer."
        lengths = (*lengths, Note("capitals", text))
    return (*lengths, *notes)
