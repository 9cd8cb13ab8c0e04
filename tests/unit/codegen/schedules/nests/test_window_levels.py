"""Windows are combined from each element under them, once where that matters."""

import collections

import pytest

from xla_server.codegen.schedules.nests.window_levels import Level, Spacing, levels_of


def _combined(spacing: Spacing, levels: tuple[Level, ...]) -> list[collections.Counter[int]]:
    """Return how often each window of a block combines each element, by its number."""
    elements = [collections.Counter[int]()] * (spacing.stride * spacing.row)
    for number in range(spacing.span):
        step, phase = divmod(number, spacing.stride)
        elements[phase * spacing.row + step] = collections.Counter([number])
    sources = [elements]
    for level in levels:
        made = []
        for at in range(level.length):
            total = collections.Counter[int]()
            for tap in level.taps:
                total.update(sources[tap.source][at + tap.offset])
            made.append(total)
        sources.append(made)
    return sources[-1]


FORMS = [
    *((size, 1, 1) for size in (1, 2, 3, 5, 8, 13, 15, 16, 31, 64, 97, 200, 331, 700)),
    *((size, stride, 1) for size in (2, 3, 7, 16, 45) for stride in (2, 3, 7, 16)),
    *((size, 1, dilation) for size in (3, 12, 40) for dilation in (2, 5)),
    *((size, stride, 3) for size in (4, 20) for stride in (2, 3)),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("length", [1, 40])
def test_windows_combine_the_elements_under_them(form: tuple[int, int, int], length: int) -> None:
    size, stride, dilation = form
    spacing = Spacing(*form, length)
    wanted = [{at * stride + element * dilation for element in range(size)} for at in range(length)]
    once = _combined(spacing, levels_of(spacing, is_idempotent=False))
    assert [set(each) for each in once] == wanted
    assert all(count == 1 for each in once for count in each.values())
    overlapping = _combined(spacing, levels_of(spacing, is_idempotent=True))
    assert [set(each) for each in overlapping] == wanted


def _taps(size: int, *, is_idempotent: bool = False) -> int:
    levels = levels_of(Spacing(size, 1, 1, 1000), is_idempotent=is_idempotent)
    return sum(len(level.taps) for level in levels)


def test_long_windows_share_what_they_are_combined_from() -> None:
    assert _taps(4) == 4
    assert _taps(64) <= 16
    assert _taps(700) <= 40
    assert _taps(331, is_idempotent=True) <= _taps(331)


def test_windows_that_share_nothing_are_combined_directly() -> None:
    (level,) = levels_of(Spacing(20, 20, 1, 50), is_idempotent=True)
    assert len(level.taps) == 20
