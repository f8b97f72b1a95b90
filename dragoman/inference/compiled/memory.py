"""Allocation of the arrays of `layout.py` for a batch of sentences."""

import numpy as np

from dragoman.config import InferenceSettings
from dragoman.inference.compiled.layout import FREE, NUMBER_TYPES, RowBuffers, SearchState
from dragoman.inference.compiled.weights import CompiledWeights
from dragoman.inference.output_rules import length_penalties
from dragoman.kernels import VECTOR_WIDTH
from dragoman.kernels.tiles import MULTIPLIED_TOGETHER, PRODUCT_COLUMNS, PRODUCT_ROWS, VOCABULARY_BAND


def allocate_rows(weights: CompiledWeights, count: int, src_length: int, positions: int) -> RowBuffers:
    """Allocate buffers for `count` rows whose attention covers up to `positions` positions.

    Rows are padded to whole tiles, and one more tile, because products read and write whole tiles. Source keys are
    stored for `src_length` positions.
    """
    room = -(-count // PRODUCT_ROWS) * PRODUCT_ROWS + PRODUCT_ROWS
    width, heads_width, inner = weights.width, weights.heads_width, weights.inner_width
    inputs, at_once = NUMBER_TYPES[weights.precision]["inputs"], MULTIPLIED_TOGETHER[weights.precision]
    inner_width = -(-inner // at_once) * at_once
    outputs = np.zeros((room, -(-max(3 * heads_width, inner) // PRODUCT_COLUMNS) * PRODUCT_COLUMNS), np.float32)
    of_states = np.zeros((room, -(-width // at_once) * at_once), inputs)
    return RowBuffers(
        states=np.zeros((room, width), np.float32),
        inputs=of_states,
        attended=of_states if heads_width == width else np.zeros((room, heads_width), inputs),
        inner_inputs=np.zeros((room, inner_width), inputs),
        scales=np.ones(room, np.float32),
        outputs=outputs,
        all_outputs=outputs.reshape(-1),
        band=np.zeros((PRODUCT_ROWS, VOCABULARY_BAND), np.float32),
        line=np.zeros(max(width, inner_width, PRODUCT_COLUMNS), np.float32),
        scores=np.zeros((weights.shape.num_heads, positions + VECTOR_WIDTH), np.float32),
        places=np.zeros(positions, np.int64),
        dimensions=np.arange(heads_width // weights.shape.num_heads, dtype=np.int64) * src_length,
        merged=np.zeros(heads_width, np.float32),
        slot=np.zeros(room, np.int64),
        hypothesis=np.zeros(room, np.int64),
        best_of_band=np.zeros((room, weights.vocabulary_bands), np.float32),
        normalisers=np.zeros(room, np.float32),
        largest=np.zeros(room, np.float32),
    )


def allocate_search(
    weights: CompiledWeights, settings: InferenceSettings, slots: int, src_length: int, length: int, max_prefix: int
) -> SearchState:
    """Allocate the state of `slots` sentences, for outputs up to `length` tokens.

    `src_length` is the longest source and `max_prefix` the longest prefix, in tokens.
    """
    width, beam_size, layers = weights.heads_width, settings.beam_size, weights.num_layers
    per_slot, per_beam = (slots,), (slots, beam_size)
    kept = NUMBER_TYPES[weights.precision]["cache"]
    return SearchState(
        src_lengths=np.zeros(per_slot, np.int64),
        src_keys=np.empty((layers, slots, src_length * width), kept),
        src_values=np.empty((layers, slots, src_length * width), kept),
        keys=np.empty((layers, slots, length * beam_size * width), kept),
        values=np.empty((layers, slots, length * beam_size * width), kept),
        ancestors=np.empty((slots, beam_size, length), np.int16),
        moved=np.empty((beam_size, length), np.int16),
        position=np.zeros(per_slot, np.int64),
        limit=np.zeros(per_slot, np.int64),
        limit_penalties=np.ones(per_slot, np.float32),
        live=np.zeros(per_slot, np.int64),
        first_row=np.zeros(per_slot, np.int64),
        ids=np.zeros(per_beam, np.int64),
        log_probs=np.zeros(per_beam, np.float32),
        path_ids=np.empty((slots, length, beam_size), np.int32),
        path_parents=np.empty((slots, length, beam_size), np.int16),
        path_log_probs=np.empty((slots, length, beam_size), np.float32),
        prefixes=np.full((slots, max_prefix), FREE, np.int64),
        finished=np.zeros(per_slot, np.int64),
        finished_scores=np.zeros(per_beam, np.float32),
        finished_lengths=np.zeros(per_beam, np.int64),
        finished_parents=np.zeros(per_beam, np.int64),
        finished_ids=np.zeros(per_beam, np.int64),
        finished_log_probs=np.zeros(per_beam, np.float32),
        candidates=np.zeros((2, 2 * beam_size), np.int64),
        candidate_log_probs=np.zeros((2, 2 * beam_size), np.float32),
        bounds=np.zeros(2 * beam_size, np.float32),
        penalties=length_penalties(settings, np.arange(1, length + 1)),
    )


def extend_search(search: SearchState, room: SearchState) -> SearchState:
    """Copy the searches into `room`, a state allocated for the same slots and longer outputs, and return that."""
    size = search.keys.shape[2]
    for name in ("keys", "values"):
        getattr(room, name)[:, :, :size] = getattr(search, name)
    length = search.path_ids.shape[1]
    room.ancestors[:, :, :length] = search.ancestors
    for name in ("path_ids", "path_parents", "path_log_probs"):
        getattr(room, name)[:, :length] = getattr(search, name)
    grown = {"keys", "values", "ancestors", "moved", "path_ids", "path_parents", "path_log_probs", "penalties"}
    return room._replace(**{name: value for name, value in search._asdict().items() if name not in grown})
