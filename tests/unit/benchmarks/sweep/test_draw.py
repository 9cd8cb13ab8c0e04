import math

from tests.benchmarks.sweep.draw import Draw


def test_sizes_are_within_their_bounds() -> None:
    draw = Draw(1, 1)
    sizes = [draw.size(3, 5000) for _ in range(2000)]
    assert min(sizes) >= 3
    assert max(sizes) <= 5000
    assert {3, 4096} <= set(sizes)


def test_shapes_have_no_more_elements_than_asked_for() -> None:
    draw = Draw(1, 2)
    for rank in range(1, 6):
        for _ in range(200):
            shape = draw.shape(rank, 2**8, 2**12)
            assert len(shape) == rank
            assert 1 <= math.prod(shape) <= 2**12


def test_what_the_result_does_not_depend_on_is_left_out() -> None:
    draw = Draw(1, 3)
    draw.parameter((1,))
    used = draw.parameter((2,))
    draw.let("p0 + 1")
    kept = draw.let(f"{used} * 2")
    program = draw.program("family", f"{kept} + 1")
    assert program.lines == ("v1 = p0 * 2",)
    assert program.result == "v1 + 1"
    assert [parameter.shape for parameter in program.parameters] == [(2,)]


def test_axes_are_different_ones_in_order() -> None:
    draw = Draw(1, 4)
    for _ in range(100):
        axes = draw.axes(4)
        assert axes
        assert list(axes) == sorted(set(axes))
        assert sorted(draw.permutation(4)) == [0, 1, 2, 3]
