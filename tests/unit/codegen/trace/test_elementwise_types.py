"""Compiled elementwise operations beside the interpreter: every opcode, every element type."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.conformance.sweep import drawing, operands
from tests.conformance.sweep.bounds import BOUNDS, assert_within
from tests.conformance.sweep.depth import FULL
from tests.unit.codegen.compiled import both
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.ops.bitcast_convert import width
from xla_contract.ops.compare import ComparisonDirection, ComparisonType
from xla_contract.ops.elementwise import BINARY, UNARY
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.opcode import Opcode
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.ops.numeric import WITHOUT_NAN

EVERY = [kind for kind in E if kind.is_array]
REAL_FLOATS = [kind for kind in EVERY if kind.is_floating]
COUNT = 203  # no multiple of a vector's length
UNSIGNED = {8: E.U8, 16: E.U16, 32: E.U32, 64: E.U64, 4: E.U4}

SLICE = (
    E.PRED,
    E.S4,
    E.S32,
    E.S64,
    E.U8,
    E.U32,
    E.F16,
    E.BF16,
    E.F32,
    E.F64,
    E.F8E4M3FN,
    E.F8E5M2FNUZ,
    E.F4E2M1FN,
    E.C64,
)
"""One type of each way to store and compute; `make conformance` takes all."""

every_type = pytest.mark.parametrize("kind", EVERY if FULL else SLICE, ids=lambda kind: kind.text)
every_float = pytest.mark.parametrize("kind", REAL_FLOATS, ids=lambda kind: kind.text)


def results(rows: Sequence[Callable[..., Op]], arrays: Sequence[Any]) -> list[tuple[Any, Any]]:
    """(compiled, interpreted) of each row, all in one program over the same parameters."""

    def function(*parameters: Op) -> Op:
        return ops.tuple([row(*parameters) for row in rows], parameters[0].builder)

    return both(function, *arrays)


def assert_all(names: Sequence[object], pairs: Sequence[tuple[Any, Any]]) -> None:
    for name, (ours, expected) in zip(names, pairs, strict=True):
        try:
            assert_equal_bits(ours, expected)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None


def drawn(kind: E, seed: int, count: int = COUNT) -> Any:
    array = drawing.array(kind, (count,), seed)
    if kind.is_complex:
        return operands.complexes(kind, (count,), seed)
    return array


def test_every_element_type_of_arrays_has_a_kernel_type() -> None:
    assert set(KERNEL_TYPE) == set(EVERY)


@every_type
def test_every_operation(kind: E) -> None:
    opcodes = [o for o in (*UNARY, *BINARY) if kind in (UNARY.get(o) or BINARY[o]).members]
    groups = [operands.operands(opcode, kind, (COUNT,), 7) for opcode in opcodes]
    starts = np.cumsum([0, *(len(group) for group in groups)])

    def function(*parameters: Op) -> Op:
        builder = parameters[0].builder
        rows = [
            builder.instruction(opcode, parameters[start : start + opcode.arity])
            for opcode, start in zip(opcodes, starts, strict=False)
        ]
        return ops.tuple(rows, builder)

    pairs = both(function, *[array for group in groups for array in group])
    for opcode, (ours, expected) in zip(opcodes, pairs, strict=True):
        bound = BOUNDS[opcode].of(E.from_dtype(expected.dtype))
        if opcode is Opcode.ABS and kind.is_complex:
            bound = 2  # Ours is the nearest number; numpy's is off by up to 1.74.
        try:
            assert_within(ours, expected, bound)
        except AssertionError as error:
            raise AssertionError(f"{opcode} of {kind.text}: {error}") from None


@every_type
def test_compare_select_and_clamp(kind: E) -> None:
    directions = list(ComparisonDirection)
    if kind.is_complex:
        directions = [ComparisonDirection.EQ, ComparisonDirection.NE]

    def compare(direction: ComparisonDirection, total: bool) -> Callable[..., Op]:
        order = ComparisonType.TOTALORDER if total else None
        return lambda p, x, y, z: ops.compare(x, y, direction, comparison_type=order)

    rows = {f"compare {direction}": compare(direction, False) for direction in directions}
    if kind.is_floating:
        rows |= {f"total order {each}": compare(each, True) for each in directions}
    rows["select"] = lambda p, x, y, z: ops.select(p, x, y)
    rows["select by one"] = lambda p, x, y, z: ops.select(
        ops.reshape(ops.slice(p, [0], [1], [1]), []), x, y
    )
    if not kind.is_complex:
        rows["clamp"] = lambda p, x, y, z: ops.clamp(y, x, z)
    x, y, z = (drawn(kind, seed) for seed in (1, 2, 3))
    y[: COUNT // 4] = x[: COUNT // 4]
    if kind.is_floating:
        x, y, z = (operands.normal(array) for array in (x, y, z))
    arrays = [drawing.array(E.PRED, (COUNT,), 4), x, y, z]
    assert_all(list(rows), results(list(rows.values()), arrays))


NARROW = [kind for kind in REAL_FLOATS if kind.bit_width < 32]


@pytest.mark.parametrize(
    "kind", [kind for kind in NARROW if kind not in WITHOUT_NAN], ids=lambda kind: kind.text
)
def test_the_total_order_tells_nans_apart(kind: E) -> None:
    """The quiet bit differs, too: processors set it when they widen a half precision number."""
    codes = np.arange(1 << kind.bit_width, dtype=f"u{kind.byte_width}")
    nans = codes[np.isnan(codes.view(kind.dtype))]
    some = np.unique(np.concatenate([nans[:: -(-len(nans) // 20)], nans[:2], nans[-2:]]))
    x, y = np.repeat(some, len(some)), np.tile(some, len(some))
    order = ComparisonType.TOTALORDER
    assert_all(
        list(ComparisonDirection),
        results(
            [
                lambda x, y, each=each: ops.compare(x, y, each, comparison_type=order)
                for each in ComparisonDirection
            ],
            [x.view(kind.dtype), y.view(kind.dtype)],
        ),
    )


@pytest.mark.parametrize("kind", [E.F8E3M4, E.F8E4M3, E.F8E5M2], ids=lambda kind: kind.text)
def test_a_select_keeps_the_payloads_of_nans_and_arithmetic_does_not(kind: E) -> None:
    codes = np.arange(256, dtype=np.uint8)
    x, y = codes.view(kind.dtype), codes[::-1].copy().view(kind.dtype)
    order = ComparisonType.TOTALORDER

    def function(x: Op, y: Op, p: Op) -> Op:
        nan = x.builder.constant(codes[127:128].view(kind.dtype)[0])
        results = [
            ops.bitcast_convert_type(ops.select(p, x, y), E.U8),
            ops.bitcast_convert_type(ops.add(x, y), E.U8),
            ops.compare(x, nan, ComparisonDirection.LT, comparison_type=order),
        ]
        return ops.tuple(results, x.builder)

    for compiled, expected in both(function, x, y, codes % 3 == 0):
        np.testing.assert_array_equal(compiled, expected)


@every_type
def test_convert_to_every_type(kind: E) -> None:
    rows = [lambda x, to=to: ops.convert_element_type(x, to) for to in EVERY]
    array = drawn(kind, 5)
    assert_all([f"to {to.text}" for to in EVERY], results(rows, [array]))


@pytest.mark.parametrize("kind", [k for k in REAL_FLOATS if k.bit_width < 32], ids=lambda k: k.text)
def test_every_code_survives_a_kernel_and_every_midpoint_goes_to_even(kind: E) -> None:
    storage = np.dtype(f"u{kind.byte_width}")
    codes = np.arange(1 << kind.bit_width).astype(storage).view(kind.dtype)
    widened = np.asarray(codes.astype(np.float64))
    numbers = np.unique(widened[np.isfinite(widened)])
    ends = numbers[-1] * np.array([1 + 2.0**-9, 1.03125, 1.0625, 1.125, 1.25, 1.5, 2])
    near = np.concatenate([numbers, (numbers[1:] + numbers[:-1]) / 2, ends]).astype(np.float32)
    bits = np.concatenate([near, -near]).view(np.uint32)
    floats = np.concatenate([bits, bits + 1, bits - 1]).view(np.float32)

    def function(codes: Op, floats: Op) -> Op:
        wide = ops.convert_element_type(codes, E.F32)
        return ops.tuple([wide, ops.convert_element_type(floats, kind)], codes.builder)

    if kind is E.BF16:
        floats = operands.normal(floats)
    assert_all(["to f32", "from f32"], both(function, codes, floats))


@every_type
def test_bitcast_convert_to_every_type(kind: E) -> None:
    targets = [to for to in EVERY if to.is_complex == kind.is_complex]
    # One width is a multiple of the other.
    targets = [to for to in targets if not (width(to) % width(kind) and width(kind) % width(to))]
    ratios = [width(to) // width(kind) for to in targets]
    arrays = [drawing.array(kind, (9, ratio) if ratio > 1 else (9,), 6) for ratio in ratios]

    def function(*parameters: Op) -> Op:
        rows = zip(parameters, targets, strict=True)
        return ops.tuple([ops.bitcast_convert_type(*row) for row in rows], parameters[0].builder)

    assert_all([f"to {to.text}" for to in targets], both(function, *arrays))


def test_bitcast_convert_keeps_the_bits_of_nan() -> None:
    codes = np.array([0x7C01, 0xFD55, 0x7E01], np.uint16)

    def function(codes: Op) -> Op:
        half = ops.bitcast_convert_type(codes, E.F16)
        return ops.tuple([half, ops.bitcast_convert_type(half, E.U16)], codes.builder)

    (half, _), (back, _) = both(function, codes)
    assert half.view(np.uint16).tolist() == back.tolist() == codes.tolist()


@every_float
def test_reduce_precision(kind: E) -> None:
    formats = [(5, 10), (8, 7), (4, 3), (2, 1), (1, 0), (8, 23), (11, 52), (11, 0), (3, 60)]
    rows = [
        lambda x, e=exponent, m=mantissa: ops.reduce_precision(x, e, m)
        for exponent, mantissa in formats
    ]
    array = drawing.array(kind, (COUNT,), 8)
    if kind is E.F8E8M0FNU:
        array = operands.normal(array)
    assert_all(formats, results(rows, [array]))


@pytest.mark.parametrize(
    "kind", [k for k in REAL_FLOATS if k.bit_width in UNSIGNED], ids=lambda k: k.text
)
def test_stochastic_convert(kind: E) -> None:
    targets = [to for to in EVERY if to.is_signed_integer]
    rows = [lambda x, r, to=to: ops.stochastic_convert_type(x, r, to) for to in targets]
    random = drawing.array(UNSIGNED[kind.bit_width], (COUNT,), 9)
    assert_all(
        [to.text for to in targets], results(rows, [drawing.array(kind, (COUNT,), 8), random])
    )
