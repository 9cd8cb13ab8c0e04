"""reduce-window and select-and-scatter over drawn windows, against XLA's CPU backend."""

import dataclasses
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.examples import scalar_function
from tests.conformance.oracle import assert_equal_bits, evaluated
from tests.conformance.sweep.draws import drawing
from tests.conformance.sweep.draws.bounds_reductions import (
    assert_sums,
    assert_within,
    info,
    magnitudes,
)
from tests.conformance.sweep.draws.depth import drawn
from tests.conformance.sweep.draws.program import both, built
from tests.conformance.sweep.reduction.test_reductions import (
    ARITHMETIC,
    BITWISE,
    EXACT,
    REAL,
    grouplike,
    identity,
)
from xla_client import Computation, Op, ops
from xla_contract.types.element_type import ElementType as E


@dataclasses.dataclass(frozen=True)
class Sliding:
    """A window over a base, one number per dimension."""

    base: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    base_dilations: tuple[int, ...]
    window_dilations: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]

    def reduce(self, operands: Any, starts: Any, reducer: Computation) -> Op:
        return ops.reduce_window_with_general_padding(
            operands,
            starts,
            reducer,
            self.sizes,
            self.strides,
            self.base_dilations,
            self.window_dilations,
            self.padding,
        )


@st.composite
def slidings(draw: Any, max_rank: int = 4, *, dilated: bool = True, least: int = -2) -> Sliding:
    """Windows whose padded, dilated base is not empty; some fit at no position.

    XLA's simplifier dies of windows of one element over a base that padding cuts.
    """
    rank = draw(st.integers(1, max_rank))
    ones = draw(st.booleans())
    least = 0 if ones else least
    columns = []
    for _ in range(rank):
        base, size = draw(st.integers(1, 7)), draw(st.integers(1 if ones else 2, 4))
        gaps = [draw(st.integers(1, 3)) if dilated else 1 for _ in range(2)]
        extent = (base - 1) * gaps[0] + 1
        low = draw(st.integers(max(least, 1 - extent), 4))
        high = draw(st.integers(max(least, 1 - extent - low), 4))
        columns.append((base, size, draw(st.integers(1, 3)), *gaps, (low, high)))
    return Sliding(*(tuple(column) for column in zip(*columns, strict=True)))


def summed(window: Sliding, array: Any) -> Any:
    """Per position of the window, the sum of what lies under it, in f64."""
    add = scalar_function(ops.add, "f64", "f64")
    given = [array, np.zeros(())]
    (result,) = evaluated(built(lambda x, y: window.reduce(x, y, add), given).proto, given)
    return result


def under(window: Sliding) -> int:
    """The elements of the window and the initial value."""
    return int(np.prod(window.sizes)) + 1


@drawn(6, 100)
@given(st.data())
def test_reduce_window_is_exact_where_the_order_cannot_show(data: st.DataObject) -> None:
    """The initial value takes part once, and padding not at all."""
    name = data.draw(st.sampled_from([*EXACT, *BITWISE, *ARITHMETIC]))
    integers = name not in EXACT
    kind = data.draw(st.sampled_from((E.PRED, *drawing.INTEGERS) if integers else REAL))
    window, seed = data.draw(slidings()), data.draw(drawing.seeds())
    array = drawing.array(kind, window.base, seed)
    start = identity(name, kind) if kind in drawing.NARROW else drawing.array(kind, (), seed + 1)
    reducer = scalar_function({**EXACT, **BITWISE, **ARITHMETIC}[name], kind.text, kind.text)
    ((ours, theirs),) = both(lambda x, y: window.reduce(x, y, reducer), [array, start])
    if kind.is_floating:
        # Either of two zeros may be the larger one.
        ours, theirs = (side + np.zeros((), side.dtype) for side in (ours, theirs))
    assert_equal_bits(ours, theirs)


@drawn(5, 100)
@given(st.data())
def test_reduce_window_by_addition(data: st.DataObject) -> None:
    kinds = (*drawing.FLOATS, *drawing.NARROW[:-1], *drawing.COMPLEX)
    kind, window = data.draw(st.sampled_from(kinds)), data.draw(slidings())
    seed = data.draw(drawing.seeds())
    array = drawing.array(kind, window.base, seed, special=data.draw(st.booleans()))
    start = drawing.array(kind, (), seed + 1, special=False)
    reducer = scalar_function(ops.add, kind.text, kind.text)
    ((ours, theirs),) = both(lambda x, y: window.reduce(x, y, reducer), [array, start])
    assert_sums(ours, theirs, summed(window, magnitudes(array)) + magnitudes(start), under(window))


@drawn(4, 100)
@given(st.data())
def test_reduce_window_by_multiplication(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from((*drawing.FLOATS, *drawing.COMPLEX)))
    window, seed = data.draw(slidings(2)), data.draw(drawing.seeds())
    array = drawing.array(kind, window.base, seed, special=False)
    # Factors near 1: no product leaves the range of f16.
    array = (array / (np.abs(array) + 0.01)).astype(kind.dtype)
    one = np.ones((), kind.dtype)
    reducer = scalar_function(ops.mul, kind.text, kind.text)
    ((ours, theirs),) = both(lambda x, y: window.reduce(x, y, reducer), [array, one])
    size = np.maximum(magnitudes(ours), magnitudes(theirs))
    bound = 4 * under(window) * float(info(kind.dtype).eps) * size
    assert_within(ours, theirs, bound + under(window) * 2.0**-24)


@drawn(2, 60)
@given(st.data())
def test_reduce_window_by_a_computation_of_its_own(data: st.DataObject) -> None:
    kind, window = data.draw(st.sampled_from(drawing.INTEGERS)), data.draw(slidings())
    array = drawing.array(kind, window.base, data.draw(drawing.seeds()))
    reducer = scalar_function(grouplike, kind.text, kind.text)
    zero = np.zeros((), kind.dtype)
    ((ours, theirs),) = both(lambda x, y: window.reduce(x, y, reducer), [array, zero])
    assert_equal_bits(ours, theirs)


@drawn(2, 60)
@given(st.data())
def test_reduce_window_of_several_arrays(data: st.DataObject) -> None:
    kinds = [data.draw(st.sampled_from(drawing.INTEGERS)) for _ in range(2)]
    window, seed = data.draw(slidings(3)), data.draw(drawing.seeds())
    arrays = [drawing.array(kind, window.base, seed + n) for n, kind in enumerate(kinds)]
    starts = [identity(name, kind) for name, kind in zip(("add", "max"), kinds, strict=True)]
    texts = [kind.text for kind in kinds]
    reducer = scalar_function(
        lambda a, b, x, y: ops.tuple([a + x, ops.max(b, y)]), *texts, *texts, name="each"
    )
    results = both(lambda x, y, a, b: window.reduce([x, y], [a, b], reducer), [*arrays, *starts])
    for ours, theirs in results:
        assert_equal_bits(ours, theirs)


@drawn(3, 60)
@given(st.data())
def test_running_sums_in_both_directions(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from((*drawing.INTEGERS, *drawing.FLOATS)))
    sizes = data.draw(drawing.dimensions(1, 3, 50, zero=False))
    along = data.draw(st.integers(0, len(sizes) - 1))
    ones = [1] * len(sizes)
    extent = [size if n == along else 1 for n, size in enumerate(sizes)]
    before = [(size - 1, 0) for size in extent]
    if data.draw(st.booleans()):
        before = [(high, low) for low, high in before]
    window = Sliding(sizes, tuple(extent), *(tuple(ones),) * 3, tuple(before))
    array = drawing.array(kind, sizes, data.draw(drawing.seeds()), special=kind.is_integer)
    reducer = scalar_function(ops.add, kind.text, kind.text)
    zero = np.zeros((), kind.dtype)
    ((ours, theirs),) = both(lambda x, y: window.reduce(x, y, reducer), [array, zero])
    if kind.is_integer:
        assert_equal_bits(ours, theirs)
    else:
        assert_sums(ours, theirs, summed(window, magnitudes(array)), sizes[along])


@drawn(2, 60)
@given(st.data())
def test_select_and_scatter(data: st.DataObject) -> None:
    """Windows may overlap; the scattered values are whole numbers, so no order shows."""
    window = data.draw(slidings(2, dilated=False, least=0))
    kind = data.draw(st.sampled_from((*drawing.INTEGERS, *drawing.FLOATS)))
    seed = data.draw(drawing.seeds())
    operand = drawing.array(kind, window.base, seed)
    if kind.is_floating:
        operand = np.where(np.isnan(operand), np.ones((), operand.dtype), operand)
    places = summed(window, np.ones(window.base)).shape
    random = np.random.default_rng(seed)
    source = random.integers(0 if kind in drawing.UNSIGNED else -3, 4, places).astype(kind.dtype)
    start = random.integers(0, 3, ()).astype(kind.dtype)
    select = scalar_function(data.draw(st.sampled_from([ops.ge, ops.le])), kind.text, kind.text)
    scatter = scalar_function(ops.add, kind.text, kind.text)
    ((ours, theirs),) = both(
        lambda x, y, z: ops.select_and_scatter_with_general_padding(
            x, select, window.sizes, window.strides, window.padding, y, z, scatter
        ),
        [operand, source, start],
    )
    assert_equal_bits(ours, theirs)
