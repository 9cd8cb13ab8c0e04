"""Times of a program's thunks by their numbers, which the executor measures on request.

A thunk's time ends when the next one begins, so thunks of the host are measured too.
"""

from typing import Any

import numpy as np

from xla_server.codegen.instructions.memory import MEMORY
from xla_server.runtime.native import callee, foreign

MAX_SPANS = 1 << 16
"""Bound of executions of thunks whose times are kept individually; later ones are only summed."""

_SECONDS, _NANOSECONDS, _LAST, _SINCE, _CAPACITY, _COUNT, _SPANS = range(7)
_FIRST = 7
_MONOTONIC = 1
"""Index of the first thunk's sum and count, and Linux's number of CLOCK_MONOTONIC."""

_word = MEMORY["peek_i64"]
_set_word = MEMORY["poke_i64"]
_clock_gettime = foreign("clock_gettime", 2)


@callee  # type: ignore[untyped-decorator]
def mark(times: int, thunk: int) -> None:
    """Record that the thunk before ends now, and that `thunk` begins."""
    _clock_gettime((_MONOTONIC, times + 8 * _SECONDS))
    now = _word(times, _SECONDS) * 1_000_000_000 + _word(times, _NANOSECONDS)
    last = _word(times, _LAST)
    if last >= 0:
        since = _word(times, _SINCE)
        index = _FIRST + 2 * last
        _set_word(times, index, _word(times, index) + now - since)
        _set_word(times, index + 1, _word(times, index + 1) + 1)
        count = _word(times, _COUNT)
        if count < _word(times, _CAPACITY):
            span = _word(times, _SPANS) + 3 * count
            _set_word(times, span, last)
            _set_word(times, span + 1, since)
            _set_word(times, span + 2, now)
        _set_word(times, _COUNT, count + 1)
    _set_word(times, _LAST, thunk)
    _set_word(times, _SINCE, now)


class ThunkTimes:
    """The times of one execution, or of several one after the other."""

    def __init__(self, thunk_count: int, max_spans: int = MAX_SPANS) -> None:
        self._thunk_count = thunk_count
        first = _FIRST + 2 * (thunk_count + 1)
        self._words: Any = np.zeros(first + 3 * max_spans, np.int64)
        self._words[_LAST] = -1
        self._words[_CAPACITY] = max_spans
        self._words[_SPANS] = first

    @property
    def address(self) -> int:
        """The address to which the executor writes, valid as long as this object lives."""
        return int(self._words.ctypes.data)

    def add(self, thunk: int, start: int, stop: int) -> None:
        """Add an execution of a thunk that native code does not measure: start and stop in ns."""
        words = self._words
        words[_FIRST + 2 * thunk] += stop - start
        words[_FIRST + 2 * thunk + 1] += 1
        count = int(words[_COUNT])
        if count < words[_CAPACITY]:
            span = int(words[_SPANS]) + 3 * count
            words[span : span + 3] = thunk, start, stop
        words[_COUNT] = count + 1

    def pause(self) -> None:
        """Stop measuring until the next thunk begins, perhaps in another run of the program."""
        self._words[_LAST] = -1

    @property
    def totals(self) -> list[tuple[int, int]]:
        """Return the nanoseconds and the number of executions of each thunk."""
        totals = self._words[_FIRST : _FIRST + 2 * self._thunk_count].reshape(-1, 2)
        return [(int(time), int(count)) for time, count in totals]

    @property
    def spans(self) -> list[tuple[int, int, int]]:
        """The first executions of thunks, MAX_SPANS at most: the thunk, its start and end in ns."""
        kept = min(int(self._words[_COUNT]), int(self._words[_CAPACITY]))
        first = int(self._words[_SPANS])
        spans = self._words[first : first + 3 * kept].reshape(-1, 3)
        return [(int(thunk), int(start), int(stop)) for thunk, start, stop in spans]

    @property
    def run_count(self) -> int:
        """Number of all executions of thunks, with those beyond `spans`."""
        return int(self._words[_COUNT])
