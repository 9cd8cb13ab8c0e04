import pytest

from xla_server.codegen.loops.chunks import (
    ALIGNED_ITEMS,
    PARALLEL_WORK,
    PROLOGUE_SHARE,
    calls_of,
    chunk_of,
)


@pytest.mark.parametrize("work", [1, 7, 1000, PARALLEL_WORK, 1 << 40])
@pytest.mark.parametrize("prologue", [0, 3, 1000, 1 << 30])
def test_a_chunk_costs_several_times_its_prologue(work: int, prologue: int) -> None:
    chunk = chunk_of(1 << 40, work, prologue)
    # Rounding down to whole cache lines of work items loses less than half.
    assert chunk * work >= PROLOGUE_SHARE * prologue / 2
    assert chunk < ALIGNED_ITEMS or chunk % ALIGNED_ITEMS == 0


def test_a_dear_prologue_is_executed_by_one_call() -> None:
    assert calls_of(1 << 15, 10, 1 << 20) == 1
    assert calls_of(1 << 15, 10, 0) > 1
    assert calls_of(0, 10, 5) == 0


@pytest.mark.parametrize("work", [1, 24, 1000, PARALLEL_WORK])
def test_a_launch_of_fewer_than_two_chunks_is_one_call(work: int) -> None:
    chunk = chunk_of(1 << 40, work)
    at_least = PARALLEL_WORK // work
    assert chunk_of(2 * at_least - 1, work) == 2 * at_least - 1
    assert calls_of(2 * at_least, work, 0) == -(-2 * at_least // chunk)
    assert chunk_of(0, work) == 1
