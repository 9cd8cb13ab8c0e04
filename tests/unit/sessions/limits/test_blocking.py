"""Slots that are lent while their threads wait, over a pool that counts."""

import threading
from collections.abc import Callable

import pytest

from tests.unit.sessions.engines import Pool
from xla_server.sessions.limits.blocking import releasing_slot, worker_context


def in_a_thread(do: Callable[[], None]) -> None:
    thread = threading.Thread(target=do)
    thread.start()
    thread.join()


@pytest.mark.parametrize("can_lend", [True, False])
def test_a_slot_is_lent_for_as_long_as_the_block(can_lend: bool) -> None:
    pool, seen = Pool(can_lend=can_lend), list[int]()

    def fail() -> None:
        with releasing_slot():
            seen.append(pool.lent)
            raise OSError

    def wait() -> None:
        worker_context(pool)
        with pytest.raises(OSError):  # noqa: PT011 - it is ours
            fail()

    in_a_thread(wait)
    assert (seen, pool.lent) == ([int(can_lend)], 0)


def test_a_thread_of_no_pool_has_nothing_to_lend() -> None:
    pool = Pool()
    in_a_thread(lambda: worker_context(pool))
    with releasing_slot():
        assert pool.most == 0
