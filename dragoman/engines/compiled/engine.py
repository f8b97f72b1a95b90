"""Runs of the machine code: memory, the search of many sentences, and passes over given translations.

All threads take sentences from one queue (`Waiting`), the longest first. Each thread has a batch of slots. When a
sentence is finished, the next one takes its slot, so the number of rows in a step stays about the same. A sentence's
results do not depend on the sentences in other slots, to the last bit.
"""

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dragoman.config import InferenceSettings
from dragoman.engines.compiled.layout import FREE, NUMBER_TYPES, BeamRules, Integers, RowBuffers, SearchState
from dragoman.engines.compiled.weights import CompiledWeights
from dragoman.engines.interface import ForcedPass, IdPair, Source, length_penalties, output_limit, pair_batches
from dragoman.kernels import VECTOR_WIDTH, processor
from dragoman.kernels.library import pack
from dragoman.records import BOS_ID, EOS_ID, Hypothesis


def allocate_rows(weights: CompiledWeights, count: int, src_length: int, positions: int) -> RowBuffers:
    """Allocate buffers for `count` rows whose attention covers up to `positions` positions.

    Rows are padded to whole tiles, and one more tile, because products read and write whole tiles. Source keys are
    stored for `src_length` positions.
    """
    room = processor.to_multiple(count, processor.PRODUCT_ROWS) + processor.PRODUCT_ROWS
    width, heads_width, inner = weights.width, weights.heads_width, weights.inner_width
    inputs, at_once = NUMBER_TYPES[weights.precision]["inputs"], processor.MULTIPLIED_TOGETHER[weights.precision]
    inner_width = processor.to_multiple(inner, at_once)
    outputs = np.zeros(
        (room, processor.to_multiple(max(3 * heads_width, inner), processor.PRODUCT_COLUMNS)), np.float32
    )
    of_states = np.zeros((room, processor.to_multiple(width, at_once)), inputs)
    return RowBuffers(
        states=np.zeros((room, width), np.float32),
        inputs=of_states,
        attended=of_states if heads_width == width else np.zeros((room, heads_width), inputs),
        inner_inputs=np.zeros((room, inner_width), inputs),
        scales=np.ones(room, np.float32),
        outputs=outputs,
        all_outputs=outputs.reshape(-1),
        band=np.zeros((processor.PRODUCT_ROWS, processor.VOCABULARY_BAND), np.float32),
        line=np.zeros(max(width, inner_width, processor.PRODUCT_COLUMNS), np.float32),
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


# Slots are refilled once one in eight is free.
_REFILL_SHARE = 8
# Source tokens that the memory of a sentence is computed for at least. Outputs of very short sources are longer.
_MIN_LENGTH = 12
# Output tokens that a batch has space for at first. The space doubles when an output reaches the end.
_FIRST_LENGTH = 32


class WaitingWork(NamedTuple):
    """The number of waiting sentences, and the largest sizes among them, in tokens."""

    sentences: int
    src_length: int
    max_length: int
    max_prefix: int


class _Limited(NamedTuple):
    """A source, its index among all sources, and the limit of its output, in tokens."""

    place: int
    source: Source
    limit: int


def _check_ids(name: str, rows: Iterable[Sequence[int]], vocab_size: int) -> None:
    """Raise ValueError unless all ids are of the vocabulary. Machine code does not check them."""
    if any(row and not 0 <= min(row) <= max(row) < vocab_size for row in rows):
        raise ValueError(f"{name} must be below {vocab_size}")


class Waiting:
    """The queue of sentences to search, longest first, shared by all threads.

    `found` receives the hypotheses of each source. Raises ValueError for ids outside the vocabularies.

    Parameters
    ----------
    sources
        The sources to search. Sources without ids are skipped.
    settings
        The settings of the search.
    max_length
        The longest output that the model allows, in tokens. None: no limit.
    weights
        The weights that the search uses. Their vocabularies must have all ids.
    """

    def __init__(
        self, sources: Sequence[Source], settings: InferenceSettings, max_length: int | None, weights: CompiledWeights
    ) -> None:
        for side, size in zip(("ids", "prefix"), weights.vocab_sizes, strict=True):
            _check_ids(f"a source's {side}", [getattr(one, side) for one in sources], size)
        limited = (
            _Limited(place, source, output_limit(source.length, len(source.prefix), settings, max_length))
            for place, source in enumerate(sources)
            if source.ids
        )
        self._queue = deque(sorted(limited, key=lambda one: -one.source.length))
        self.found: list[list[Hypothesis]] = [[] for _ in sources]
        self._lock = threading.Lock()
        self.given_up = False

    def __len__(self) -> int:
        return len(self._queue)

    def next(self) -> WaitingWork | None:
        """Describe the waiting sentences, or return None if there are none."""
        with self._lock:
            if not self._queue:
                return None
            longest = max(one.limit for one in self._queue)
            prefix = max(len(one.source.prefix) for one in self._queue)
            return WaitingWork(len(self._queue), self._queue[0].source.length, longest, prefix)

    def longest(self) -> int:
        """Source tokens of the longest waiting sentence, or 0 if there is none."""
        with self._lock:
            return self._queue[0].source.length if self._queue else 0

    def take(self, count: int) -> list[_Limited]:
        """Remove up to `count` sources from the queue and return them."""
        with self._lock:
            return [self._queue.popleft() for _ in range(min(count, len(self._queue)))]

    def give_up(self) -> None:
        """Empty the queue and make all threads stop after their current call into machine code."""
        with self._lock:
            self.given_up = True
            self._queue.clear()


def search_all(weights: CompiledWeights, waiting: Waiting, settings: InferenceSettings, workers: int) -> None:
    """Search sentences from `waiting` until there are none. Each of `workers` threads calls this once."""
    try:
        while following := waiting.next():
            share = -(-following.sentences // workers)
            # The output is about as long as the source, so the source's length determines the memory of a slot.
            budget = settings.batch_tokens // (settings.beam_size * max(following.src_length, _MIN_LENGTH))
            _Batch(weights, settings, max(1, min(budget, share)), following).run(waiting)
    except BaseException:
        waiting.give_up()
        raise


def stream_search(weights: CompiledWeights, waiting: Waiting, settings: InferenceSettings) -> Iterator[list[int]]:
    """Search one sentence. After each step, yield the ids that its best output certainly starts with."""
    following = waiting.next()
    if following is not None:
        yield from _Batch(weights, settings, 1, following).run_in_steps(waiting)


class _Batch:
    """Slots for sentences of up to `most.src_length` source tokens, and the searches in them."""

    def __init__(self, weights: CompiledWeights, settings: InferenceSettings, slots: int, most: WaitingWork) -> None:
        self._weights, self._settings, self._most = weights, settings, most
        self._src_length = processor.to_multiple(most.src_length, processor.HEAD_WIDTH_MULTIPLE)
        self._rules = BeamRules(settings.beam_size, settings.n_best, settings.min_tokens)
        self._slots, self._free = slots, list(range(slots))
        self._places: dict[int, int] = {}
        self._active, self._done = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
        self._encoder = weights.encoder(most.src_length)
        self._make_room(_FIRST_LENGTH)

    def _make_room(self, length: int, before: SearchState | None = None) -> None:
        """Allocate buffers for outputs of `length` tokens (at most the longest limit), and copy the searches so far."""
        self._length = length = min(length, self._most.max_length)
        weights, settings, slots = self._weights, self._settings, self._slots
        count = max(slots * settings.beam_size, self._src_length)
        self._rows = allocate_rows(weights, count, self._src_length, max(self._src_length, length))
        search = allocate_search(weights, settings, slots, self._src_length, length, self._most.max_prefix)
        self._search = search if before is None else extend_search(before, search)
        self._ids, self._log_probs = np.zeros(length, np.int64), np.zeros(length, np.float32)
        code, decoder, shape = weights.code, weights.decoder(length), weights.shape
        rows, state = pack(self._rows), pack(self._search)
        self._encode = code.bind("encode", self._encoder, decoder, shape, rows, state)
        self._decode_steps = code.bind(
            "decode_steps", decoder, shape, self._rules, rows, state, self._active, self._done
        )
        self._finished_path = code.bind("finished_path", state, self._ids, self._log_probs)

    def run(self, waiting: Waiting) -> None:
        """Search until all slots are empty and the queue has no sentences left that fit this batch well.

        Sentences half as long as the batch's sources would waste memory. They get a new batch with more slots.
        """
        while not waiting.given_up:
            suits = 2 * waiting.longest() > self._src_length or self._src_length == processor.HEAD_WIDTH_MULTIPLE
            if suits and (not self._places or len(self._free) * _REFILL_SHARE >= self._slots):
                self._add(waiting.take(len(self._free)))
            if not self._places:
                return
            # Many steps in one call, because other threads can hold Python's lock for milliseconds between two calls.
            self._decode(waiting, self._length)

    def run_in_steps(self, waiting: Waiting) -> Iterator[list[int]]:
        """Search one sentence. After each step, yield the ids that its best output certainly starts with."""
        self._add(waiting.take(1))
        while self._places:
            self._decode(waiting, 1)
            if self._places:
                yield self._certain_ids(0)

    def _decode(self, waiting: Waiting, max_steps: int) -> None:
        """Decode up to `max_steps` tokens, until a search finishes or the buffers are full. Empty finished slots."""
        num_active = len(self._places)
        written = int(self._search.position[self._active[:num_active]].max())
        if written >= self._length:
            self._make_room(2 * self._length, self._search)
        going = self._decode_steps(num_active, min(self._length, written + max_steps))
        for slot in self._done[: num_active - going].tolist():
            waiting.found[self._places.pop(slot)] = self._hypotheses(slot)
            self._free.append(slot)

    def _add(self, taken: Sequence[_Limited]) -> None:
        """Give each source a slot, and encode as many sources at once as the row buffers have space for."""
        group: list[tuple[int, Source]] = []
        num_rows = 0
        of_limits = length_penalties(self._settings, [one.limit for one in taken])
        for one, penalty in zip(taken, of_limits, strict=True):
            source = one.source
            if num_rows + source.length > self._rows.states.shape[0] - processor.PRODUCT_ROWS:
                self._read(group)
                group, num_rows = [], 0
            slot = self._free.pop()
            self._begin(slot, one, penalty)
            group.append((slot, source))
            num_rows += source.length
        if group:
            self._read(group)

    def _begin(self, slot: int, taken: _Limited, penalty: np.float32) -> None:
        """Set a slot to the start of a search: one hypothesis with bos."""
        search, source = self._search, taken.source
        search.limit[slot], search.position[slot], search.live[slot] = taken.limit, 0, 1
        search.limit_penalties[slot] = penalty
        search.ids[slot, 0], search.log_probs[slot, 0] = BOS_ID, 0.0
        search.prefixes[slot] = FREE
        search.prefixes[slot, : len(source.prefix)] = source.prefix
        search.finished[slot] = 0
        search.finished_scores[slot] = -np.inf
        self._active[len(self._places)] = slot
        self._places[slot] = taken.place

    def _read(self, group: Sequence[tuple[int, Source]]) -> None:
        """Encode the sources of some slots."""
        starts = np.cumsum([0, *(source.length for _, source in group)], dtype=np.int64)
        ids = np.fromiter((one for _, source in group for one in (*source.ids, EOS_ID)), np.int64, int(starts[-1]))
        self._encode(ids, starts, np.array([slot for slot, _ in group], np.int64))

    def _certain_ids(self, slot: int) -> list[int]:
        """The ids with which all live hypotheses and the best finished one start: one of them leads to the best output.

        Paths that meet at a position are equal before it. So the ids are read backwards, from where only one path is
        left.
        """
        search = self._search
        paths = set(range(int(search.live[slot])))
        finished = int(search.finished_lengths[slot, 0]) if search.finished[slot] else None
        ids = []
        for position in reversed(range(int(search.position[slot]))):
            if finished is not None and position == finished - 2:  # its last token is not in the table of paths
                paths.add(int(search.finished_parents[slot, 0]))
            if len(paths) == 1 and (finished is None or position <= finished - 2):
                ids.append(int(search.path_ids[slot, position, min(paths)]))
            paths = {int(search.path_parents[slot, position, path]) for path in paths}
        return ids[::-1]

    def _hypotheses(self, slot: int) -> list[Hypothesis]:
        """The finished hypotheses of a slot, best first, at most `n_best`."""
        search, found = self._search, []
        for rank in range(min(int(search.finished[slot]), self._settings.n_best)):
            length = self._finished_path(slot, rank)
            finished = bool(self._ids[length - 1] == EOS_ID)
            log_probs = tuple(self._log_probs[:length].tolist())
            ids = tuple(self._ids[: length - finished].tolist())
            score = float(search.finished_scores[slot, rank])
            found.append(Hypothesis(ids, log_probs, sum(log_probs), score, finished))
        return found


def force_targets(
    weights: CompiledWeights, pairs: Sequence[IdPair], *, layer: int | None = None, with_log_probs: bool = True
) -> list[ForcedPass]:
    """Run the decoder over given targets, in one pass for each batch of pairs, in the calling thread.

    Machine code runs without Python's lock, so threads with a part of the pairs each run at the same time. The result
    of a pair does not depend on the other pairs. Log-probabilities equal those that a search finds for the same tokens,
    to the last bit. In float32 they differ from the definition's by about 1e-5.

    Parameters
    ----------
    weights
        The weights, which must be finite (`is_finite`).
    pairs
        Source and target ids without control ids. A side may be empty.
    layer
        The decoder layer, from 0, whose cross-attention is returned. None: no attention.
    with_log_probs
        Whether to compute log-probabilities, which takes most of the time. Otherwise they are empty.

    Raises
    ------
    ValueError
        If an id is not in its vocabulary, or if the model has no such layer.
    DataError
        If a side has more tokens than the model has learned positions.
    """
    for side, size in enumerate(weights.vocab_sizes):
        _check_ids(f"the ids of side {side} of a pair", [pair[side] for pair in pairs], size)
    if layer is not None and not 0 <= layer < weights.num_layers:
        raise ValueError(f"`layer` must be from 0 to {weights.num_layers - 1}, but is {layer}")
    found: dict[int, ForcedPass] = {}
    for batch in pair_batches(pairs):
        passes = _force_batch(weights, [pairs[place] for place in batch], layer, with_log_probs)
        found.update(zip(batch, passes, strict=True))
    return [found[place] for place in range(len(pairs))]


def _force_batch(
    weights: CompiledWeights, pairs: Sequence[IdPair], layer: int | None, with_log_probs: bool
) -> Iterator[ForcedPass]:
    """Run a batch of targets through the decoder, and yield the result of each pair."""
    src_starts, src_ids = _flatten([[*src, EOS_ID] for src, _ in pairs])
    starts, ids = _flatten([[BOS_ID, *tgt] for _, tgt in pairs])
    _, labels = _flatten([[*tgt, EOS_ID] for _, tgt in pairs])
    src_lengths = np.diff(src_starts)
    length, longest = int(np.diff(starts).max()), int(src_lengths.max())
    positions = processor.to_multiple(longest, processor.HEAD_WIDTH_MULTIPLE)
    rows = allocate_rows(weights, max(len(ids), len(src_ids)), positions, max(positions, length))
    search = allocate_search(weights, InferenceSettings(beam_size=1), len(pairs), positions, length, 1)
    attention = np.zeros((0, 0, 0) if layer is None else (len(ids), weights.shape.num_heads, positions), np.float32)
    log_probs = np.zeros(len(labels) if with_log_probs else 0, np.float32)
    fixed = weights.decoder(length), weights.shape, rows, search
    weights.code.call("encode", weights.encoder(longest), *fixed, src_ids, src_starts, np.arange(len(pairs)))
    weights.code.call("decode_targets", *fixed, ids, starts, -1 if layer is None else layer, attention)
    if with_log_probs:
        search.live[0] = 1
        weights.code.call("score_labels", weights.decoder(length), rows, search, labels, log_probs)
    for n, src_length in enumerate(src_lengths.tolist()):
        of_pair = slice(starts[n], starts[n + 1])
        yield ForcedPass(log_probs[of_pair], attention[of_pair, :, :src_length].transpose(1, 0, 2).copy())


def _flatten(ids: Sequence[Sequence[int]]) -> tuple[Integers, Integers]:
    """Where each sequence starts in the flat array, with the end of the last one, and the flat array."""
    return np.cumsum([0, *map(len, ids)], dtype=np.int64), np.array([one for row in ids for one in row], np.int64)
