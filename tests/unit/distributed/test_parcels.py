"""Small arrays of other ranks, from when they come until they are taken."""

import numpy as np
import pytest

from xla_server.distributed.parcels import Shelf, Stamp


def stamp(run: int, visit: int = 0) -> Stamp:
    return Stamp(run, visit, b"sum")


def shelf(*runs: int) -> Shelf:
    """A shelf with what rank 1 sent for these runs."""
    made = Shelf()
    for run in runs:
        made.put(stamp(run), 1, np.full(1, run, np.uint8))
    return made


def test_what_ranks_send_is_taken_once_when_all_of_it_is_there() -> None:
    kept = shelf(7)
    assert kept.take(stamp(7), {1, 2}) is None
    kept.put(stamp(7, 1), 2, np.zeros(1, np.uint8))
    assert kept.take(stamp(7), {1, 2}) is None
    kept.put(stamp(7), 2, np.full(1, 9, np.uint8))
    taken = kept.take(stamp(7), {1, 2})
    assert taken is not None
    assert {rank: content.tolist() for rank, content in taken.items()} == {1: [7], 2: [9]}
    assert kept.take(stamp(7), {1, 2}) is None


@pytest.mark.parametrize("is_everywhere", [False, True])
def test_nothing_waits_for_runs_that_have_ended(is_everywhere: bool) -> None:
    kept = shelf(3, 4)
    if is_everywhere:
        kept.keep_from(4)
    else:
        kept.end(3)
    for _ in range(2):
        assert kept.take(stamp(3), {1}) is None
        kept.put(stamp(3), 1, np.zeros(1, np.uint8))
    assert kept.take(stamp(4), {1}) is not None
