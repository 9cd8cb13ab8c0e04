import pytest
from hypothesis import given
from hypothesis import strategies as st

from xla_contract.errors import NotFoundError, ResourceExhaustedError
from xla_server.sessions.transfers import free_list
from xla_server.sessions.transfers.free_list import PAGE, FreeList

PAGES = 40


@given(st.lists(st.integers(-5, 3 * PAGE), max_size=60))
def test_parts_never_overlap_and_all_of_them_come_back(steps):
    """Numbers below 1 free one of the parts; the others take as many bytes."""
    region = FreeList(PAGES * PAGE)
    for step in steps:
        parts = region.parts
        if step < 1:
            if parts:
                region.release(sorted(parts)[-step % len(parts)])
        else:
            try:
                offset, size = region.allocate(step)
            except ResourceExhaustedError:
                continue
            assert offset % PAGE == 0
            assert step <= size < step + PAGE
            assert region.size(offset) == size
        ordered = sorted(region.parts.items())
        ends = [0, *(offset + size for offset, size in ordered)]
        assert all(end <= offset for end, (offset, _) in zip(ends, ordered, strict=False))
        assert ends[-1] <= region.capacity
        assert region.free_bytes == region.capacity - sum(size for _, size in ordered)
    for offset in region.parts:
        region.release(offset)
    assert region.allocate(region.capacity) == (0, region.capacity)


def test_the_first_gap_that_is_large_enough_is_taken():
    region = FreeList(8 * PAGE)
    parts = [region.allocate(PAGE)[0] for _ in range(8)]
    for number in (1, 4, 5):
        region.release(parts[number])
    assert region.allocate(2 * PAGE) == (4 * PAGE, 2 * PAGE)
    assert region.allocate(1) == (PAGE, PAGE)


def test_what_does_not_fit_is_reported_with_limit_and_use():
    region = FreeList(4 * PAGE)
    middle = [region.allocate(PAGE)[0] for _ in range(4)][1::2]
    for offset in middle:
        region.release(offset)
    with pytest.raises(ResourceExhaustedError, match=r"16384 bytes, got .* 8192 free in 2 parts"):
        region.allocate(PAGE + 1)


def test_an_offset_inside_a_part_is_none():
    region = FreeList(4 * PAGE)
    offset, _ = region.allocate(2 * PAGE)
    for wrong in (offset + PAGE, offset + 1, -PAGE, 3 * PAGE, 2**62):
        with pytest.raises(NotFoundError, match=f"got {wrong}"):
            region.release(wrong)
        with pytest.raises(NotFoundError, match=f"got {wrong}"):
            region.size(wrong)
    region.release(offset)
    with pytest.raises(NotFoundError):
        region.release(offset)


def test_there_are_only_so_many_parts(monkeypatch):
    monkeypatch.setattr(free_list, "MAX_PARTS", 2)
    region = FreeList(8 * PAGE)
    region.allocate(1)
    region.allocate(1)
    with pytest.raises(ResourceExhaustedError, match="2 allocations"):
        region.allocate(1)
