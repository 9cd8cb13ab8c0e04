from hypothesis import given
from hypothesis import strategies as st

from xla_server.buffers.intervals import Intervals

NUMBERS = st.integers(-1, 30)
RANGES = st.lists(st.tuples(NUMBERS, st.integers(1, 6)).map(lambda at: (at[0], sum(at))))


def made(ranges: list[tuple[int, int]]) -> tuple[Intervals, set[int]]:
    intervals, numbers = Intervals(), set[int]()
    for begin, end in ranges:
        intervals.add(begin, end)
        numbers |= set(range(begin, end))
    return intervals, numbers


@given(RANGES)
def test_intervals_are_the_runs_of_the_numbers_added(ranges: list[tuple[int, int]]) -> None:
    intervals, numbers = made(ranges)
    begins = sorted(n for n in numbers if n - 1 not in numbers)
    ends = sorted(n + 1 for n in numbers if n + 1 not in numbers)
    assert list(intervals) == list(zip(begins, ends, strict=True))
    assert len(intervals) == len(begins)


@given(RANGES, NUMBERS, st.integers(1, 6))
def test_overlaps_are_numbers_in_common(
    ranges: list[tuple[int, int]], begin: int, size: int
) -> None:
    intervals, numbers = made(ranges)
    assert intervals.overlaps(begin, begin + size) == bool(numbers & {*range(begin, begin + size)})


@given(RANGES, NUMBERS, st.integers(1, 6))
def test_a_gap_is_the_first_that_is_large_enough(
    ranges: list[tuple[int, int]], begin: int, size: int
) -> None:
    intervals, numbers = made(ranges)
    found = intervals.first_gap(begin, size)
    gaps = (n for n in range(begin, 99) if not numbers & {*range(n, n + size)})
    assert found == next(gaps)
