import pytest

from xla_server.codegen.schedules.builders.launches.chunks import calls_of, chunk_of
from xla_server.target.loop_tuning import Chunks

TUNED = Chunks()


@pytest.mark.parametrize("work", [1, 7, 1000, TUNED.parallel_work, 1 << 40])
@pytest.mark.parametrize("prologue", [0, 3, 1000, 1 << 30])
def test_a_chunk_costs_several_times_its_prologue(work: int, prologue: int) -> None:
    chunk = chunk_of(1 << 40, work, prologue, TUNED)
    # Rounding down to whole cache lines of work items loses less than half.
    assert chunk * work >= TUNED.prologue_share * prologue / 2
    assert chunk < TUNED.aligned_items or chunk % TUNED.aligned_items == 0


def test_a_dear_prologue_is_executed_by_one_call() -> None:
    assert calls_of(1 << 17, 10, 1 << 22, TUNED) == 1
    assert calls_of(1 << 17, 10, 0, TUNED) > 1
    assert calls_of(0, 10, 5, TUNED) == 0


@pytest.mark.parametrize("work", [1, 24, 1000, TUNED.parallel_work])
def test_a_launch_of_fewer_than_two_chunks_is_one_call(work: int) -> None:
    chunk = chunk_of(1 << 40, work, 0, TUNED)
    at_least = TUNED.parallel_work // work
    assert chunk_of(2 * at_least - 1, work, 0, TUNED) == 2 * at_least - 1
    assert calls_of(2 * at_least, work, 0, TUNED) == -(-2 * at_least // chunk)
    assert chunk_of(0, work, 0, TUNED) == 1
