"""The queue of sentences and the slots that they are searched in.

All threads take sentences from one queue (`Waiting`), the longest first. Each thread has a batch of slots. When a
sentence is finished, the next one takes its slot, so the number of rows in a step stays about the same. A sentence's
results do not depend on the sentences in other slots, to the last bit.
"""

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dragoman.config import InferenceSettings
from dragoman.inference.compiled.layout import FREE, BeamRules, SearchState
from dragoman.inference.compiled.memory import allocate_rows, allocate_search, extend_search
from dragoman.inference.compiled.weights import CompiledWeights
from dragoman.inference.output_rules import length_penalties, output_limit
from dragoman.inference.segments import Source
from dragoman.kernels.library import pack
from dragoman.kernels.tiles import HEAD_WIDTH_MULTIPLE, PRODUCT_ROWS
from dragoman.records import Hypothesis
from dragoman.text.tokenization.control_ids import BOS_ID, EOS_ID

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
            if any(row and not 0 <= min(row) <= max(row) < size for row in (getattr(one, side) for one in sources)):
                raise ValueError(f"a source's {side} must be below {size}")
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
        self._src_length = -(-most.src_length // HEAD_WIDTH_MULTIPLE) * HEAD_WIDTH_MULTIPLE
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
            suits = 2 * waiting.longest() > self._src_length or self._src_length == HEAD_WIDTH_MULTIPLE
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
            if num_rows + source.length > self._rows.states.shape[0] - PRODUCT_ROWS:
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
