"""Types and operations that jaxlib's CPU backend cannot run: integers of 1 bit, floats of 6, mulhi.

The references are Python's whole numbers, and XLA's results in F32 rounded by a search for the
nearest number. Broadcasts, which only the builder has, are compared with numpy's.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.oracle import assert_equal_bits, evaluated
from tests.conformance.sweep.draws import drawing, operands, program
from tests.conformance.sweep.draws.depth import drawn
from tests.conformance.sweep.elementwise.test_elementwise import results
from tests.elementwise_operations import OPERATIONS
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.ops.elementwise.elementwise import BINARY, UNARY
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.opcode import Opcode

WHOLE = {opcode: row.bit for opcode, row in OPERATIONS.items() if row.bit is not None}
"""Operations on numbers of one bit, before the result is cut to one bit."""


@pytest.mark.parametrize("kind", operands.ONE_BIT, ids=lambda kind: kind.text)
def test_one_bit_integers_are_whole_numbers_cut_to_a_bit(kind: E) -> None:
    allowed = {code for code, types in {**UNARY, **BINARY}.items() if kind in types.members}
    assert allowed == set(WHOLE) - (set() if kind is E.S1 else {Opcode.ABS, Opcode.SIGN})
    numbers = [0, -1] if kind is E.S1 else [0, 1]
    lhs, rhs = (side.ravel().astype(kind.dtype) for side in np.meshgrid(numbers, numbers))
    for opcode in sorted(allowed):
        arrays = [lhs, rhs][: opcode.arity]
        (ours,) = evaluated(_applied(opcode, arrays), arrays)
        for x, y, found in zip(lhs, rhs, ours, strict=True):
            wanted = numbers[WHOLE[opcode](int(x), int(y)) & 1]
            assert int(found) == wanted, f"{opcode} of {x} and {y}"


@drawn(slice_of=20, full=200)
@given(
    kind=st.sampled_from([kind for kind in E if kind.is_array and kind.is_integer]),
    seed=drawing.seeds(),
)
def test_mulhi_is_the_upper_half_of_the_product(kind: E, seed: int) -> None:
    arrays = [drawing.array(kind, (50,), seed + number) for number in range(2)]
    (ours,) = evaluated(_applied(Opcode.MULHI, arrays), arrays)
    for x, y, found in zip(*arrays, ours, strict=True):
        assert int(found) == int(x) * int(y) >> kind.bit_width


@pytest.mark.parametrize("kind", operands.SIX_BITS, ids=lambda kind: kind.text)
@drawn(slice_of=2, full=len(UNARY) + len(BINARY))
@given(data=st.data())
def test_floats_of_six_bits_are_xlas_f32_rounded_to_the_nearest(kind: E, data: Any) -> None:
    codes = [code for code, types in {**UNARY, **BINARY}.items() if kind in types.members]
    opcode = data.draw(st.sampled_from(codes))
    every = np.arange(64, dtype=np.uint8).view(kind.dtype)
    arrays = [every] if opcode.arity == 1 else [side.ravel() for side in np.meshgrid(every, every)]
    (ours,) = evaluated(_applied(opcode, arrays), arrays)
    wide = [array.astype(np.float32) for array in arrays]
    ((_, theirs),) = results(opcode, [wide], operands.reference(opcode, E.F32))
    if theirs.dtype == bool:
        np.testing.assert_array_equal(ours, theirs)
        return
    wanted = _nearest(theirs.astype(np.float64), every.astype(np.float64))
    near_a_tie = _is_near_a_tie(theirs.astype(np.float64), every.astype(np.float64))
    found = ours.astype(np.float64)
    different = (found != wanted) | (np.signbit(found) != np.signbit(wanted))
    assert not (different & ~near_a_tie).any(), opcode


def _nearest(numbers: Any, allowed: Any) -> Any:
    """The nearest of the allowed numbers, ties to the even one; NaN is -0."""
    largest = allowed.max()
    distance = np.abs(np.clip(numbers, -largest, largest)[:, None] - allowed[None, :])
    closest = distance == distance.min(axis=1, keepdims=True)
    even = np.arange(len(allowed)) % 2 == 0
    signs = np.signbit(numbers)[:, None] == np.signbit(allowed)[None, :]
    rank = closest * 4 + (closest & signs) * 2 + (closest & even)
    return np.where(np.isnan(numbers), -0.0, allowed[rank.argmax(axis=1)])


def _is_near_a_tie(numbers: Any, allowed: Any) -> Any:
    """Return where an error of a few ulps of F32 may change the nearest number, for inexact
    numbers.
    """
    line = np.unique(allowed)
    halves = (line[1:] + line[:-1]) / 2
    apart = np.abs(np.nan_to_num(numbers)[:, None] - halves[None, :])
    return ((apart > 0) & (apart < 1e-6)).any(axis=1)


BINARIES = (ops.add, ops.mul, ops.sub, ops.max, ops.lt, ops.atan2)


@drawn(slice_of=5, full=150)
@given(
    shape=drawing.dimensions(max_rank=4, max_size=4),
    mask=st.lists(st.sampled_from(["kept", "one", "left out"]), min_size=4, max_size=4),
    swapped=st.booleans(),
    function=st.sampled_from(BINARIES),
    seed=drawing.seeds(),
)
def test_builder_broadcasts_degenerate_and_named_dimensions(
    shape: tuple[int, ...], mask: list[str], swapped: bool, function: Any, seed: int
) -> None:
    sizes = [
        (number, 1 if how == "one" else size)
        for number, (size, how) in enumerate(zip(shape, mask, strict=False))
        if how != "left out"
    ]
    named = [number for number, _ in sizes]
    large = drawing.array(E.F32, shape, seed, special=False)
    small = drawing.array(E.F32, [size for _, size in sizes], seed + 1, special=False)
    written = np.broadcast_to(
        small.reshape([dict(sizes).get(number, 1) for number in range(len(shape))]), shape
    )

    def broadcast(x: Op, y: Op) -> Op:
        return function(y, x, named) if swapped else function(x, y, named)

    ((ours, theirs),) = program.both(broadcast, [large, small])
    whole = [written, large] if swapped else [large, written]
    (explicit,) = evaluated(program.built(function, whole).proto, whole)
    assert_equal_bits(ours, explicit)
    if function is not ops.atan2:
        assert_equal_bits(ours, theirs)


def _applied(opcode: Opcode, arrays: list[Any]) -> Any:
    def function(*parameters: Op) -> Op:
        return parameters[0].builder.instruction(opcode, list(parameters))

    return program.built(function, arrays).proto
