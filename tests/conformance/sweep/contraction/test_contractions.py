"""dot, ragged-dot and convolution over drawn dimension numbers, against XLA's CPU backend."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.oracle import assert_equal_bits, by_jax, evaluated
from tests.conformance.sweep.draws import drawing
from tests.conformance.sweep.draws.bounds_reductions import assert_sums, magnitudes
from tests.conformance.sweep.draws.depth import drawn
from tests.conformance.sweep.draws.program import both, built
from xla_client import ConvolutionDimensionNumbers, DotDimensionNumbers, Op, ops
from xla_contract.types.element_type import ElementType as E

WIDER = {
    E.S8: (E.S16, E.S32, E.S64),
    E.U8: (E.U32, E.S32),
    E.S16: (E.S32,),
    E.S32: (E.S64,),
    E.F16: (E.F32, E.F64),
    E.BF16: (E.F32,),
    E.F32: (E.F64,),
    E.F8E5M2: (E.F16, E.F32),
    E.F8E4M3FN: (E.BF16, E.F32),
    E.C64: (E.C128,),
}


def assert_contracted(
    contract: Callable[..., Op], arrays: Sequence[Any], preferred: E | None, depth: int
) -> None:
    """Exact for integers; sums of `depth` products within their bound for floats."""
    kind = E.from_dtype(arrays[0].dtype)
    ((ours, theirs),) = both(
        lambda *operands: contract(*operands, preferred_element_type=preferred), arrays
    )
    if kind.is_integer or kind is E.PRED:
        assert_equal_bits(ours, theirs)
        return
    sizes = [magnitudes(array) for array in arrays]
    (scale,) = evaluated(built(contract, sizes).proto, sizes)
    assert_sums(ours, theirs, scale, depth * (4 if kind.is_complex else 1), arrays[0].dtype)


@st.composite
def kinds_and_preferred(draw: Any) -> tuple[E, E | None]:
    """An element type and, for some, a wider one to give the result in."""
    kind = draw(st.sampled_from(drawing.EVERY))
    return kind, draw(st.sampled_from((None, *WIDER.get(kind, ()))))


def operands_of(data: st.DataObject, kind: E, *sizes: Sequence[int]) -> list[Any]:
    """Arrays of these sizes; special values only where their sums follow a rule."""
    seed = data.draw(drawing.seeds())
    # Complex products of what is not finite depend on how they are expanded.
    special = not kind.is_complex and data.draw(st.booleans())
    return [
        drawing.array(kind, size, seed + number, special=special)
        for number, size in enumerate(sizes)
    ]


@drawn(10, 200)
@given(st.data())
def test_dot_general(data: st.DataObject) -> None:
    size = st.integers(0, 4)
    batch, contracted, left, right = (
        data.draw(st.lists(size, max_size=most)) for most in (2, 2, 2, 2)
    )
    orders = [data.draw(st.permutations(range(len(batch + contracted + f)))) for f in (left, right)]
    sizes, places = [], []
    for order, free in zip(orders, (left, right), strict=True):
        plain = batch + contracted + free
        sizes.append([plain[number] for number in order])
        places.append([order.index(number) for number in range(len(batch + contracted))])
    count = len(batch)
    numbers = DotDimensionNumbers(
        tuple(places[0][count:]),
        tuple(places[1][count:]),
        tuple(places[0][:count]),
        tuple(places[1][:count]),
    )
    kind, preferred = data.draw(kinds_and_preferred())

    def contract(lhs: Op, rhs: Op, preferred_element_type: E | None = None) -> Op:
        return ops.dot_general(lhs, rhs, numbers, None, preferred_element_type)

    depth = int(np.prod(contracted, dtype=np.int64))
    assert_contracted(contract, operands_of(data, kind, *sizes), preferred, depth)


@drawn(3, 40)
@given(st.data())
def test_dot_of_long_lines(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from((*drawing.INTEGERS, *drawing.FLOATS, *drawing.COMPLEX)))
    rows, depth, columns = (data.draw(st.integers(1, most)) for most in (20, 400, 20))
    arrays = operands_of(data, kind, (rows, depth), (depth, columns))
    numbers = DotDimensionNumbers((1,), (0,))

    def contract(lhs: Op, rhs: Op, preferred_element_type: E | None = None) -> Op:
        return ops.dot_general(lhs, rhs, numbers, None, preferred_element_type)

    assert_contracted(contract, arrays, None, depth)


def convolved(data: st.DataObject, kind: E, base: Sequence[int], kernel: Sequence[int]) -> Any:
    """An input and a kernel of ordinary values.

    XLA multiplies what is not finite by the zeros of padding for some types and leaves it out for
    others, and splits groups by multiplying with zeros.
    """
    seed = data.draw(drawing.seeds())
    arrays = [
        drawing.array(kind, size, seed + number, special=kind.is_integer)
        for number, size in enumerate((base, kernel))
    ]
    if kind.is_integer or kind is E.PRED:
        return arrays
    # Narrow types make NaN of what they do not hold.
    finite = [magnitudes(array) > 0 for array in arrays]
    one = np.ones((), kind.dtype)
    return [np.where(keep, array, one) for keep, array in zip(finite, arrays, strict=True)]


@st.composite
def convolutions(draw: Any) -> tuple[list[int], list[int], dict[str, Any]]:
    """(input sizes, kernel sizes, arguments of conv_general_dilated)

    The kernel is nowhere larger than the input: XLA's simplifier would exchange the two, and dies
    of it where the window is dilated and reversed.
    """
    spatial = draw(st.integers(0, 3))
    by_feature, by_batch = draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (3, 1), (1, 2), (1, 3)]))
    per_group = draw(st.integers(1, 3))
    per_output = draw(st.integers(1, 2))
    batch, features = draw(st.integers(per_output, 2)) * by_batch, per_group * by_feature
    outputs = per_output * by_feature * by_batch
    columns = []
    for _ in range(spatial):
        base = draw(st.integers(1, 6))
        size = draw(st.integers(1, min(base, 3)))
        gaps = draw(st.integers(1, 3)), draw(st.integers(1, 2))
        extent = (base - 1) * gaps[0] + 1
        low = draw(st.integers(max(-2, 1 - extent), 3))
        high = draw(st.integers(max(-2, 1 - extent - low), 3))
        stride, flipped = draw(st.integers(1, 3)), draw(st.booleans())
        columns.append((base, size, stride, (low, high), *gaps, flipped))
    bases, sizes, strides, padding, inner, outer, reversal = (
        [list(column) for column in zip(*columns, strict=True)] if columns else [[]] * 7
    )
    orders = [draw(st.permutations(range(spatial + 2))) for _ in range(3)]
    numbers = ConvolutionDimensionNumbers(
        *(part for x, y, *rest in orders for part in (x, y, tuple(rest)))
    )
    given_sizes = []
    for order, plain in (
        (orders[0], [batch, features, *bases]),
        (orders[1], [per_group, outputs, *sizes]),
    ):
        given_sizes.append([plain[order.index(number)] for number in range(spatial + 2)])
    arguments = {
        "window_strides": strides,
        "padding": padding,
        "lhs_dilation": inner,
        "rhs_dilation": outer,
        "dimension_numbers": numbers,
        "feature_group_count": by_feature,
        "batch_group_count": by_batch,
        "window_reversal": reversal,
    }
    return given_sizes[0], given_sizes[1], arguments


@drawn(8, 120)
@given(st.data())
def test_convolution(data: st.DataObject) -> None:
    base, kernel, arguments = data.draw(convolutions())
    kind, preferred = data.draw(kinds_and_preferred())

    def contract(lhs: Op, rhs: Op, preferred_element_type: E | None = None) -> Op:
        return ops.conv_general_dilated(
            lhs, rhs, preferred_element_type=preferred_element_type, **arguments
        )

    arrays = convolved(data, kind, base, kernel)
    assert_contracted(contract, arrays, preferred, arrays[1].size)


@drawn(3, 40)
@given(st.data())
def test_convolution_with_padding_by_name(data: st.DataObject) -> None:
    padding = data.draw(st.sampled_from(["same", "valid"]))
    spatial = data.draw(st.integers(1, 3))
    base, kernel, strides = (
        [data.draw(st.integers(low, high)) for _ in range(spatial)]
        for low, high in ((3, 6), (1, 3), (1, 3))
    )
    kind = data.draw(st.sampled_from((E.S32, *drawing.FLOATS)))
    arrays = convolved(data, kind, [4, 3, *base], [4, 3, *kernel])

    def contract(lhs: Op, rhs: Op, preferred_element_type: E | None = None) -> Op:
        return ops.conv(lhs, rhs, strides, padding, preferred_element_type=preferred_element_type)

    assert_contracted(contract, arrays, None, arrays[1].size)


@drawn(3, 40)
@given(st.data())
def test_ragged_dot_is_what_jax_expands_it_to(data: st.DataObject) -> None:
    """XLA's CPU backend has no ragged-dot; JAX writes it with other operations there."""
    rows, depth, columns, groups = (data.draw(st.integers(1, most)) for most in (8, 5, 4, 4))
    cuts = sorted(data.draw(st.lists(st.integers(0, rows), min_size=groups, max_size=groups)))
    sizes = np.diff([0, *cuts]).astype(np.int32)
    mode = data.draw(st.sampled_from(["free", "contracting"]))
    kind = data.draw(st.sampled_from((E.F32, E.F64, E.BF16)))
    seed = data.draw(drawing.seeds())
    right = (groups, depth, columns) if mode == "free" else (rows, columns)
    lhs, rhs = (
        drawing.array(kind, size, seed + number, special=False)
        for number, size in enumerate([(rows, depth), right])
    )
    numbers = DotDimensionNumbers((1,), (1,)) if mode == "free" else DotDimensionNumbers((0,), (0,))
    group = 0 if mode == "free" else None
    ours, scale = (
        evaluated(
            built(lambda x, y, z: ops.ragged_dot(x, y, z, numbers, 0, group), given).proto, given
        )[0]
        for given in ([lhs, rhs, sizes], [magnitudes(lhs), magnitudes(rhs), sizes])
    )
    plain = ((numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions), ((), ()))
    jax_numbers = jax.lax.RaggedDotDimensionNumbers(plain, [0], [] if group is None else [group])
    (theirs,) = by_jax(lambda *x: jax.lax.ragged_dot_general(*x, jax_numbers), [lhs, rhs, sizes])
    assert_sums(ours, theirs, scale, max(depth, rows))
