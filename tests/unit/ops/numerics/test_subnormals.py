import threading

import numpy as np

from xla_server.ops.numerics.subnormals import subnormals_as_zeros

TINY = np.full(64, 1e-40, np.float32)


def test_arithmetic_takes_subnormal_numbers_for_zeros() -> None:
    with subnormals_as_zeros():
        assert not (TINY * np.float32(2)).any()
        assert not (np.full(64, 1e-30, np.float32) * np.float32(1e-10)).any()


def test_numbers_that_are_only_moved_stay() -> None:
    with subnormals_as_zeros():
        moved = TINY.reshape(8, 8).T.copy()
    assert (moved == np.float32(1e-40)).all()


def test_the_mode_ends_with_the_block_and_is_of_one_thread() -> None:
    inside, done = threading.Event(), threading.Event()
    seen = []

    def other() -> None:
        inside.wait()
        seen.append((TINY * np.float32(2)).any())
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with subnormals_as_zeros():
        inside.set()
        done.wait()
    thread.join()
    assert seen == [True]
    assert (TINY * np.float32(2)).any()
