import itertools
import time

import numpy as np

from xla_server.codegen.kernel import Kernels
from xla_server.runtime.native import callable_at
from xla_server.runtime.thunk_times import ThunkTimes, mark


def _mark(times: int, thunk: int) -> None:
    mark(times, thunk)


def marked(times: ThunkTimes, *thunks: int) -> None:
    kernels = Kernels()
    call = callable_at(kernels.native(_mark), 2)
    for thunk in thunks:
        call(times.address, thunk)


def test_a_thunk_s_time_ends_where_the_next_begins() -> None:
    times = ThunkTimes(3)
    begun = time.monotonic_ns()
    marked(times, 0, 1, 1, 2, 3)
    ended = time.monotonic_ns()
    assert [count for _, count in times.totals] == [1, 2, 1]
    spans = times.spans
    assert [thunk for thunk, _, _ in spans] == [0, 1, 1, 2]
    for (_, _, stop), (_, start, _) in itertools.pairwise(spans):
        assert stop == start
    assert begun <= spans[0][1] <= spans[-1][2] <= ended
    for thunk in range(3):
        spent = sum(stop - start for each, start, stop in spans if each == thunk)
        assert times.totals[thunk][0] == spent


def test_of_many_runs_the_first_are_kept_and_all_are_counted() -> None:
    times = ThunkTimes(1, max_spans=2)
    marked(times, *np.zeros(6, int).tolist())
    assert len(times.spans) == 2
    assert times.run_count == 5
    assert times.totals[0][1] == 5
