import gc
import threading

import pytest

from xla_client.session import handle_reclaimer
from xla_client.session.handle_reclaimer import Reclaimer


class _Owner:
    pass


@pytest.fixture
def freed():
    return []


@pytest.fixture
def reclaimer(freed):
    return Reclaimer(lambda handles: freed.append(sorted(handles)))


def test_dropped_handles_wait_until_there_are_many(reclaimer, freed):
    owners = [_Owner() for _ in range(handle_reclaimer.MAX_WAITING_HANDLES)]
    for handle, owner in enumerate(owners):
        reclaimer.hold(owner, handle, 1)
    del owner
    owners.pop(0)
    reclaimer.free_if_due()
    assert freed == []
    owners.clear()
    reclaimer.free_if_due()
    assert freed == [list(range(handle_reclaimer.MAX_WAITING_HANDLES))]
    reclaimer.free_everything()
    assert len(freed) == 1


def test_large_values_do_not_wait(reclaimer, freed):
    owner = _Owner()
    reclaimer.hold(owner, 7, handle_reclaimer.MAX_WAITING_BYTES)
    del owner
    reclaimer.free_if_due()
    assert freed == [[7]]


def test_closing_frees_what_is_in_use_as_often_as_it_is_held(reclaimer, freed):
    owners = [_Owner(), _Owner(), _Owner()]
    for owner, handle in zip(owners, (7, 7, 8), strict=True):
        reclaimer.hold(owner, handle, 1)
    reclaimer.free_everything()
    assert freed == [[7, 7, 8]]
    owners.clear()
    del owner
    reclaimer.free()
    assert len(freed) == 1


def test_forgotten_handles_are_not_freed_twice(reclaimer, freed):
    owner = _Owner()
    finalizer = reclaimer.hold(owner, 7, 1)
    assert finalizer.detach() is not None
    reclaimer.forget(7)
    del owner
    reclaimer.free_everything()
    assert freed == []


def test_collection_while_the_lock_is_held(reclaimer, freed):
    """A finalizer may run on the very thread that is inside the reclaimer."""
    owner = _Owner()
    reclaimer.hold(owner, 7, 1)
    owner.itself = owner
    del owner

    def collect_inside():
        with reclaimer._lock:
            gc.collect()

    thread = threading.Thread(target=collect_inside, daemon=True)
    thread.start()
    thread.join(100)
    assert not thread.is_alive()
    reclaimer.free()
    assert freed == [[7]]
