"""Compiled elementwise operations beside the interpreter: every opcode, every element type."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.conformance.sweep.draws import operands
from tests.unit.codegen.compiled import both, built, interpreted, on_cpu
from tests.unit.codegen.trace import elementwise_rows as rows
from tests.unit.codegen.trace.elementwise_rows import EVERY, REAL_FLOATS, UNSIGNED, every_type
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.ops.elementwise.compare import ComparisonDirection, ComparisonType
from xla_contract.types.element_type import ElementType as E
from xla_server.backends.compiled.compilation import compile_module
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.ops.numerics.numeric import WITHOUT_NAN

every_float = pytest.mark.parametrize("kind", REAL_FLOATS, ids=lambda kind: kind.text)


def assert_all(names: Sequence[object], pairs: Sequence[tuple[Any, Any]]) -> None:
    for name, (ours, expected) in zip(names, pairs, strict=True):
        try:
            assert_equal_bits(ours, expected)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None


def test_every_element_type_of_arrays_has_a_kernel_type() -> None:
    assert set(KERNEL_TYPE) == set(EVERY)


@every_type
def test_every_operation(kind: E) -> None:
    rows.every_operation(kind).check(both)


@every_type
def test_compare_select_and_clamp(kind: E) -> None:
    rows.compare_select_and_clamp(kind).check(both)


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
    compared = {
        each: lambda x, y, each=each: ops.compare(x, y, each, comparison_type=order)
        for each in ComparisonDirection
    }
    rows.Rows(compared, [x.view(kind.dtype), y.view(kind.dtype)]).check(both)


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
    rows.converted_to_every_type(kind).check(both)


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
    rows.bitcast_to_every_type(kind).check(both)


def test_bitcast_convert_keeps_the_bits_of_nan() -> None:
    codes = np.array([0x7C01, 0xFD55, 0x7E01], np.uint16)

    def function(codes: Op) -> Op:
        half = ops.bitcast_convert_type(codes, E.F16)
        return ops.tuple([half, ops.bitcast_convert_type(half, E.U16)], codes.builder)

    (half, _), (back, _) = both(function, codes)
    assert half.view(np.uint16).tolist() == back.tolist() == codes.tolist()


@every_float
def test_reduce_precision(kind: E) -> None:
    rows.reduced_precision(kind).check(both)


@pytest.mark.parametrize(
    "kind", [k for k in REAL_FLOATS if k.bit_width in UNSIGNED], ids=lambda k: k.text
)
def test_stochastic_convert(kind: E) -> None:
    rows.stochastically_converted(kind).check(both)


def test_a_clamp_is_one_function_and_broadcasts_scalar_bounds() -> None:
    arguments = [
        np.float32(-1),
        np.array([[-3, np.nan, 1e-40], [0.5, -0.0, 9]], np.float32),
        np.array([[1, 1, 1], [-2, 1, 2]], np.float32),
    ]
    module = built(ops.clamp, arguments)
    (kernel,) = kernels_of(compile_module(module).code)
    assert kernel.source.count("clamp(") == 1
    assert "maximum" not in kernel.source
    for (result,) in (on_cpu(module, arguments), interpreted(module, arguments)):
        np.testing.assert_array_equal(result, np.float32([[-1, np.nan, 0], [-2, -0.0, 2]]))
        assert np.signbit(result[1, 1])
