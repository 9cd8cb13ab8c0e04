"""reduce over drawn dimensions, types and reducers, and scan, against XLA's CPU backend.

XLA applies the initial value as often as it likes (once for each piece of a long reduction, not at
all for a dimension of one element), so it must be the reducer's identity wherever that shows.
"""

from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.conformance.examples import scalar_function
from tests.conformance.oracle import assert_equal_bits
from tests.conformance.sweep.draws import drawing
from tests.conformance.sweep.draws.bounds_reductions import (
    assert_products,
    assert_sums,
    info,
    magnitudes,
)
from tests.conformance.sweep.draws.depth import drawn
from tests.conformance.sweep.draws.program import both
from xla_client import Computation, Op, ops
from xla_contract.types.element_type import ElementType as E

EXACT = {"min": ops.min, "max": ops.max}
BITWISE = {"and": ops.and_, "or": ops.or_, "xor": ops.xor}
ARITHMETIC = {"add": ops.add, "mul": ops.mul}
IDENTITY: dict[str, Any] = {"add": 0, "xor": 0, "or": 0, "mul": 1}
REAL = tuple(kind for kind in drawing.EVERY if not kind.is_complex)
SIZES = drawing.dimensions(max_rank=4, max_size=6) | drawing.dimensions(1, 2, 70)


def identity(name: str, kind: E) -> Any:
    """The value that changes nothing."""
    if name == "and":
        return np.array(True if kind is E.PRED else -1).astype(kind.dtype)
    if name in ("min", "max"):
        if kind is E.PRED:
            return np.array(name == "min")
        if kind.is_integer:
            low = -(2 ** (kind.bit_width - 1)) if kind.is_signed_integer else 0
            wanted = low + 2**kind.bit_width - 1 if name == "min" else low
            return np.array(wanted, np.int64 if low else np.uint64).astype(kind.dtype)
        worst = np.array(np.inf if name == "min" else -np.inf).astype(kind.dtype)
        # Types without infinities make NaN of them.
        limits = info(kind.dtype)
        return (
            np.array(limits.max if name == "min" else limits.min, kind.dtype)
            if np.isnan(worst)
            else worst
        )
    return np.array(IDENTITY[name]).astype(kind.dtype)


@st.composite
def axes(draw: Any, rank: int) -> tuple[int, ...]:
    """Some dimensions of an array of this rank, in any order."""
    return tuple(draw(st.permutations(range(rank)))[: draw(st.integers(0, rank))])


def reduced(name: str, kind: E, sizes: Any, along: Any, seed: int, *, special: bool) -> Any:
    """(operand, ours, XLA's) of one reduction from the identity."""
    function = {**EXACT, **BITWISE, **ARITHMETIC}[name]
    reducer = scalar_function(function, kind.text, kind.text)
    array = drawing.array(kind, sizes, seed, special=special)
    start = identity(name, kind)
    ((ours, theirs),) = both(lambda x, y: ops.reduce(x, y, reducer, along), [array, start])
    return array, ours, theirs


def without_subnormals(array: Any) -> Any:
    """The array with zeros for the numbers that the processor takes for them."""
    if E.from_dtype(array.dtype) not in (E.BF16, E.F32, E.F64):
        return array
    tiny = ml_dtypes.finfo(array.dtype).smallest_normal
    return np.where(np.abs(array) < tiny, array.dtype.type(0), array)


@drawn(8, 300)
@given(st.data())
def test_reduce_to_extremes_and_bits_is_exact(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([*EXACT, *BITWISE]))
    kinds = REAL if name in EXACT else (E.PRED, *drawing.INTEGERS)
    kind, sizes = data.draw(st.sampled_from(kinds)), data.draw(SIZES)
    along = data.draw(axes(len(sizes)))
    seed = data.draw(drawing.seeds())
    array, ours, theirs = reduced(name, kind, sizes, along, seed, special=True)
    # The least of these is a subnormal number where they are compared.
    assume(kind is not E.F8E8M0FNU or (array.view(np.uint8) > 0).all())
    if kind.is_floating:
        # Either of two zeros may be the larger one, and a subnormal number may stay where XLA
        # reduces nothing.
        ours, theirs = (
            without_subnormals(side) + np.zeros((), side.dtype) for side in (ours, theirs)
        )
    assert_equal_bits(ours, theirs)


@drawn(8, 300)
@given(st.data())
def test_reduce_by_arithmetic(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(list(ARITHMETIC)))
    # F8E8M0FNU has no zero to start from.
    kinds = [kind for kind in drawing.EVERY if name != "add" or kind is not E.F8E8M0FNU]
    kind = data.draw(st.sampled_from(kinds))
    sizes, seed = data.draw(SIZES), data.draw(drawing.seeds())
    along = data.draw(axes(len(sizes)))
    # Complex products of what is not finite follow no common rule.
    special = data.draw(st.booleans()) and not (kind.is_complex and name == "mul")
    array, ours, theirs = reduced(name, kind, sizes, along, seed, special=special)
    if kind.is_integer or kind is E.PRED:
        assert_equal_bits(ours, theirs)
    elif name == "add":
        scale = magnitudes(array).sum(along)
        assert_sums(ours, theirs, scale, array.size // max(1, ours.size) + 1)
    else:
        assert_products(ours, theirs, array, along)


@drawn(3, 80)
@given(st.data())
def test_the_initial_value_takes_part(data: st.DataObject) -> None:
    """Where XLA does not cut the reduction: from 2 to 32 elements."""
    name = data.draw(st.sampled_from(["add", "mul", "xor", "max"]))
    kind = data.draw(st.sampled_from(drawing.INTEGERS))
    function = {**EXACT, **BITWISE, **ARITHMETIC}[name]
    reducer = scalar_function(function, kind.text, kind.text)
    seed = data.draw(drawing.seeds())
    array = drawing.array(kind, data.draw(st.tuples(st.integers(2, 5), st.integers(2, 32))), seed)
    start = drawing.array(kind, (), seed + 1)
    ((ours, theirs),) = both(lambda x, y: ops.reduce(x, y, reducer, [1]), [array, start])
    assert_equal_bits(ours, theirs)


def grouplike(x: Op, y: Op) -> Op:
    """Associative and commutative, with identity 0, and nothing a table of reducers knows."""
    return x + y + x * y


@drawn(3, 80)
@given(st.data())
def test_reduce_by_a_computation_of_its_own(data: st.DataObject) -> None:
    kind, sizes = data.draw(st.sampled_from(drawing.INTEGERS)), data.draw(SIZES)
    array = drawing.array(kind, sizes, data.draw(drawing.seeds()))
    along = data.draw(axes(len(sizes)))
    reducer = scalar_function(grouplike, kind.text, kind.text)
    zero = np.zeros((), kind.dtype)
    ((ours, theirs),) = both(lambda x, y: ops.reduce(x, y, reducer, along), [array, zero])
    assert_equal_bits(ours, theirs)


def keep_first_best(kind: E, index: E, *, largest: bool) -> Computation:
    """Return the better value and its index; of equal values the smaller index; NaN is best."""

    def better(best: Op, place: Op, value: Op, at: Op) -> Op:
        ahead = ops.gt(best, value) if largest else ops.lt(best, value)
        if kind.is_floating:
            ahead = ops.or_(ahead, ops.ne(best, best))
            # The first of two NaNs stays, too.
            same = ops.or_(ops.eq(best, value), ops.and_(ops.ne(best, best), ops.ne(value, value)))
            ahead = ops.and_(ahead, ops.not_(same))
        else:
            same = ops.eq(best, value)
        first = ops.and_(same, ops.lt(place, at))
        stays = ops.or_(ahead, first)
        return ops.tuple([ops.select(stays, best, value), ops.select(stays, place, at)])

    return scalar_function(better, kind.text, index.text, kind.text, index.text)


@drawn(4, 120)
@given(st.data())
def test_indices_of_extremes(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from((*drawing.INTEGERS, *drawing.FLOATS, *drawing.NARROW[:7])))
    index = data.draw(st.sampled_from((E.S32, E.S64, E.U32)))
    largest, sizes = data.draw(st.booleans()), data.draw(drawing.dimensions(1, 3, 20, zero=False))
    along = data.draw(st.integers(0, len(sizes) - 1))
    array = drawing.array(kind, sizes, data.draw(drawing.seeds()))
    places = np.broadcast_to(
        np.expand_dims(np.arange(sizes[along]), [n for n in range(len(sizes)) if n != along]), sizes
    ).astype(index.dtype)
    start = identity("max" if largest else "min", kind)
    # The identity must lose against everything, its equals too.
    last = np.array(np.iinfo(index.dtype).max, index.dtype)
    keep = keep_first_best(kind, index, largest=largest)
    results = both(
        lambda x, i, a, b: ops.reduce([x, i], [a, b], keep, [along]), [array, places, start, last]
    )
    for ours, theirs in results:
        assert_equal_bits(ours, theirs)


@drawn(3, 80)
@given(st.data())
def test_reduce_of_several_arrays_of_different_types(data: st.DataObject) -> None:
    kinds = [data.draw(st.sampled_from(drawing.INTEGERS)) for _ in range(3)]
    sizes, seed = data.draw(SIZES), data.draw(drawing.seeds())
    arrays = [drawing.array(kind, sizes, seed + n) for n, kind in enumerate(kinds)]
    starts = [identity(name, kind) for name, kind in zip(("add", "max", "xor"), kinds, strict=True)]
    texts = [kind.text for kind in kinds]

    def reducer(a: Op, b: Op, c: Op, x: Op, y: Op, z: Op) -> Op:
        return ops.tuple([a + x, ops.max(b, y), ops.xor(c, z)])

    each = scalar_function(reducer, *texts, *texts)
    along = data.draw(axes(len(sizes)))
    results = both(lambda *given: ops.reduce(given[:3], given[3:], each, along), [*arrays, *starts])
    for ours, theirs in results:
        assert_equal_bits(ours, theirs)
