"""Beam search steps in machine code, for many sentences at once. `engines/search/beam.py` explains the algorithm.

The logits of the whole vocabulary are never stored. One pass computes them 64 (VOCABULARY_BAND) at a time and keeps,
for each row, the normalizer and the largest logit of each band. The bands that can contain one of the best
continuations are then computed again, the same to the last bit. Compiling everything, with tiled products and this
reduction, took a step from 65 to 41 us per hypothesis (docs/log/2026.md, 2026-11-21).

Logits are in base 2. Log-probabilities are natural logarithms.
"""

import math
from typing import Any

import numpy as np

from dragoman.engines.compiled.layers import decode
from dragoman.engines.compiled.layout import (
    FREE,
    BeamRules,
    DecoderWeights,
    Floats,
    Floats1,
    Integers1,
    PackedLinear,
    RowBuffers,
    SearchState,
    Shape,
    as_variable,
)
from dragoman.kernels.jit import jit_without_nan
from dragoman.kernels.matrix_products import multiply
from dragoman.kernels.processor import PRODUCT_COLUMNS, PRODUCT_ROWS, VOCABULARY_BAND
from dragoman.kernels.vectors import exp2, maximum, sum_of_powers
from dragoman.records import EOS_ID, NEVER_WRITTEN, NUM_CONTROL_IDS

_ZERO = np.float32(0)
_NONE = np.float32(-np.inf)
_LEAST = np.float32(-3e38)
_LN2 = np.float32(math.log(2.0))


@jit_without_nan
def decode_steps(
    weights: DecoderWeights,
    shape: Shape,
    rules: BeamRules,
    rows: RowBuffers,
    search: SearchState,
    active: Integers1,
    done: Integers1,
    num_active: int,
    room: int,
) -> int:
    """Decode one token at a time for all active slots until at least one search finishes.

    Stops earlier if an output has `room` tokens, which is all that the buffers have space for. Returns the number of
    slots that are still active. They come first in `active`. The finished ones are in `done`.
    """
    longest = as_variable(0)
    for n in range(num_active):
        longest = max(longest, search.position[active[n]])
    going = num_active
    while going == num_active and longest < room:
        num_rows = place_rows(rows, search, active, num_active)
        decode(weights, shape, rows, num_rows, search)
        score_vocabulary(weights.vocabulary, rules, rows, num_rows, search)
        going = choose_hypotheses(weights.vocabulary, rules, rows, search, active, num_active, done)
        longest += 1
    return going


@jit_without_nan
def place_rows(rows: RowBuffers, search: SearchState, active: Integers1, num_active: int) -> int:
    """Assign a row to every live hypothesis of the active slots. Returns the number of rows."""
    num_rows = as_variable(0)
    for n in range(num_active):
        slot = active[n]
        search.first_row[slot] = num_rows
        for hypothesis in range(search.live[slot]):
            rows.slot[num_rows], rows.hypothesis[num_rows] = slot, hypothesis
            num_rows += 1
    return num_rows


@jit_without_nan
def choose_hypotheses(
    vocabulary: PackedLinear,
    rules: BeamRules,
    rows: RowBuffers,
    search: SearchState,
    active: Integers1,
    num_active: int,
    done: Integers1,
) -> int:
    """Move every search to its best continuations, or finish it. Returns the number of active slots."""
    going = finished = as_variable(0)
    for n in range(num_active):
        slot = active[n]
        found = find_continuations(slot, vocabulary, rules, rows, search)
        if continue_hypotheses(slot, found, rules, search):
            active[going] = slot
            going += 1
        else:
            done[finished] = slot
            finished += 1
    return going


@jit_without_nan
def _logits(row: int, band: int, linear: PackedLinear, rows: RowBuffers) -> None:
    """rows.band = the logits of one band, in base 2, of PRODUCT_ROWS rows from `row` on."""
    panels, correction, scale, bias = linear.panels[0], linear.correction[0], linear.scale[0], linear.bias[0]
    for first in range(0, VOCABULARY_BAND, PRODUCT_COLUMNS):
        panel = (band * VOCABULARY_BAND + first) // PRODUCT_COLUMNS
        multiply(rows.inputs, rows.scales, row, panels, correction, scale, bias, panel, rows.band, 0, first)


@jit_without_nan
def _may_be_written(token: int, position: int, rules: BeamRules) -> bool:
    """Whether the search may write a token at a position. The same rule as `interface.unwritable`."""
    if token >= NUM_CONTROL_IDS:
        return True
    if token == EOS_ID:
        return position >= rules.min_tokens
    return token not in NEVER_WRITTEN


@jit_without_nan
def score_vocabulary(
    linear: PackedLinear, rules: BeamRules, rows: RowBuffers, num_rows: int, search: SearchState
) -> None:
    """Compute every row's normalizer, log2 of the sum of 2 ** logit, and the largest logit of each band.

    The sum is relative to the largest logit so far and is rescaled when a larger one appears (online softmax). The
    first band contains the control tokens. Its maximum counts only tokens that may be written.
    """
    largest, sums = rows.largest, rows.normalisers
    for row in range(num_rows):
        largest[row], sums[row] = _LEAST, _ZERO
    for band in range(rows.best_of_band.shape[1]):
        for first in range(0, num_rows, PRODUCT_ROWS):
            _logits(first, band, linear, rows)
            for i in range(min(PRODUCT_ROWS, num_rows - first)):
                row, line = first + i, rows.band[i]
                top = _LEAST
                for c in range(VOCABULARY_BAND):
                    top = maximum(top, line[c])
                if top > largest[row]:
                    sums[row] *= exp2(largest[row] - top)
                    largest[row] = top
                sums[row] += sum_of_powers(line, largest[row])
                if band == 0:
                    position, top = search.position[rows.slot[row]], _LEAST
                    for c in range(VOCABULARY_BAND):
                        if line[c] > top and _may_be_written(c, position, rules):
                            top = line[c]
                rows.best_of_band[row, band] = top
    for row in range(num_rows):
        sums[row] = largest[row] + np.float32(np.log2(sums[row]))


@jit_without_nan
def _insert(values: Floats, size: int, value: Any) -> int:
    """Insert `value` into the first `size` of `values`, sorted descending, after equal ones. Returns its index.

    If the array is full, the last value is dropped. The index is the array's size if `value` was not inserted.
    """
    place = size
    while place > 0 and value > values[place - 1]:
        place -= 1
    for k in range(min(size, values.size - 1), place, -1):
        values[k] = values[k - 1]
    if place < values.size:
        values[place] = value
    return place


@jit_without_nan
def find_continuations(slot: int, linear: PackedLinear, rules: BeamRules, rows: RowBuffers, search: SearchState) -> int:
    """Write the best continuations of one sentence, best first, into the candidates. Returns their number.

    With a beam of W, 2 W candidates are kept: up to W may end, and the others still fill the beam.
    """
    position, first_row, live = search.position[slot], search.first_row[slot], search.live[slot]
    if position < search.prefixes.shape[1] and search.prefixes[slot, position] != FREE:
        found = as_variable(0)
        for hypothesis in range(live):
            token = search.prefixes[slot, position]
            found = _scan_band(slot, hypothesis, token // VOCABULARY_BAND, token, found, linear, rules, rows, search)
        return found
    best = search.bounds
    for k in range(best.size):
        best[k] = _LEAST
    for hypothesis in range(live):
        row, before = first_row + hypothesis, search.log_probs[slot, hypothesis]
        normaliser = rows.normalisers[row]
        for band in range(rows.best_of_band.shape[1]):
            bound = before + (rows.best_of_band[row, band] - normaliser) * _LN2
            if bound > best[best.size - 1]:
                _insert(best, best.size, bound)
    # The best tokens of the best 2 W bands are 2 W tokens, so no token below all of them can be among the best 2 W.
    threshold, found = best[best.size - 1], as_variable(0)
    for hypothesis in range(live):
        row, before = first_row + hypothesis, search.log_probs[slot, hypothesis]
        normaliser = rows.normalisers[row]
        for band in range(rows.best_of_band.shape[1]):
            bound = before + (rows.best_of_band[row, band] - normaliser) * _LN2
            if bound >= threshold:
                found = _scan_band(slot, hypothesis, band, as_variable(FREE), found, linear, rules, rows, search)
    return found


@jit_without_nan
def _scan_band(
    slot: int,
    hypothesis: int,
    band: int,
    only: int,
    found: int,
    linear: PackedLinear,
    rules: BeamRules,
    rows: RowBuffers,
    search: SearchState,
) -> int:
    """Insert the tokens of one band, or the token `only`, into the candidates. Returns the number of candidates."""
    row = search.first_row[slot] + hypothesis
    _logits(row, band, linear, rows)
    line = rows.band[0]
    totals, log_probs = search.candidate_log_probs[0], search.candidate_log_probs[1]
    parents, ids = search.candidates[0], search.candidates[1]
    before, position = search.log_probs[slot, hypothesis], search.position[slot]
    for c in range(VOCABULARY_BAND):
        token = band * VOCABULARY_BAND + c
        log_prob = (line[c] - rows.normalisers[row]) * _LN2
        total = before + log_prob
        if only != FREE:
            if token != only:
                continue
        elif (
            not total > _LEAST
            or (found == totals.size and total <= totals[found - 1])
            or not _may_be_written(token, position, rules)
        ):
            continue
        place = _insert(totals, found, total)
        if place == totals.size:
            continue
        found = min(found + 1, totals.size)
        for k in range(found - 1, place, -1):
            parents[k], ids[k], log_probs[k] = parents[k - 1], ids[k - 1], log_probs[k - 1]
        parents[place], ids[place], log_probs[place] = hypothesis, token, log_prob
    return found


@jit_without_nan
def continue_hypotheses(slot: int, found: int, rules: BeamRules, search: SearchState) -> bool:
    """Finish the candidates that end and make the others the new beam. Returns whether the search continues."""
    totals, log_probs = search.candidate_log_probs[0], search.candidate_log_probs[1]
    parents, ids = search.candidates[0], search.candidates[1]
    position = search.position[slot]
    below_limit = search.limit[slot] > position + 1
    live, best_live = 0, _NONE
    for rank in range(found):
        if ids[rank] != EOS_ID and below_limit and live < rules.beam_size:
            search.path_ids[slot, position, live] = ids[rank]
            search.path_parents[slot, position, live] = parents[rank]
            search.path_log_probs[slot, position, live] = log_probs[rank]
            live += 1
            best_live = max(best_live, totals[rank])
        elif rank < rules.beam_size and not (ids[rank] != EOS_ID and below_limit):
            _keep_finished(slot, rank, search)
    if live == 0:
        return False
    scores, penalties = search.finished_scores[slot], search.penalties
    if _unbeatable(scores, best_live / penalties[position], rules.beam_size) or _unbeatable(
        scores, best_live / search.limit_penalties[slot], rules.n_best
    ):
        return False
    ancestors, moved = search.ancestors[slot], search.moved
    for hypothesis in range(live):
        parent = search.path_parents[slot, position, hypothesis]
        for k in range(position):
            moved[hypothesis, k] = ancestors[parent, k]
        moved[hypothesis, position] = parent
    number = 0
    for rank in range(found):
        if ids[rank] != EOS_ID and number < live:
            search.ids[slot, number], search.log_probs[slot, number] = ids[rank], totals[rank]
            for k in range(position + 1):
                ancestors[number, k] = moved[number, k]
            number += 1
    search.live[slot] = live
    search.position[slot] = position + 1
    return True


@jit_without_nan
def _unbeatable(scores: Floats, attainable: Any, places: int) -> bool:
    """Whether the first `places` finished scores are at least the best score that a live hypothesis can attain."""
    for place in range(places):  # noqa: SIM110
        if not scores[place] >= attainable:
            return False
    return True


@jit_without_nan
def _keep_finished(slot: int, rank: int, search: SearchState) -> None:
    """Insert a candidate into the finished hypotheses of its slot.

    Hypotheses that end with eos come before those cut at the limit, then higher scores, then earlier ones.
    """
    scores, ids = search.finished_scores[slot], search.finished_ids[slot]
    position = search.position[slot]
    token, score = search.candidates[1, rank], search.candidate_log_probs[0, rank] / search.penalties[position]
    place = search.finished[slot]
    while place > 0:
        earlier_cut, cut = ids[place - 1] != EOS_ID, token != EOS_ID
        if earlier_cut < cut or (earlier_cut == cut and scores[place - 1] >= score):
            break
        place -= 1
    if place == scores.size:
        return
    search.finished[slot] = min(search.finished[slot] + 1, scores.size)
    lengths, parents, log_probs = (
        search.finished_lengths[slot],
        search.finished_parents[slot],
        search.finished_log_probs[slot],
    )
    for k in range(search.finished[slot] - 1, place, -1):
        scores[k], ids[k], lengths[k] = scores[k - 1], ids[k - 1], lengths[k - 1]
        parents[k], log_probs[k] = parents[k - 1], log_probs[k - 1]
    scores[place], ids[place], lengths[place] = score, token, position + 1
    parents[place], log_probs[place] = search.candidates[0, rank], search.candidate_log_probs[1, rank]


@jit_without_nan
def finished_path(search: SearchState, ids: Integers1, log_probs: Floats1, slot: int, rank: int) -> int:
    """Write the token ids and log-probabilities of a finished hypothesis. Returns the number of tokens."""
    length: int = search.finished_lengths[slot, rank]
    ids[length - 1], log_probs[length - 1] = (search.finished_ids[slot, rank], search.finished_log_probs[slot, rank])
    place = search.finished_parents[slot, rank]
    for position in range(length - 2, -1, -1):
        ids[position] = search.path_ids[slot, position, place]
        log_probs[position] = search.path_log_probs[slot, position, place]
        place = search.path_parents[slot, position, place]
    return length
