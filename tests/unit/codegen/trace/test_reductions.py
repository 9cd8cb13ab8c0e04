from collections.abc import Callable

import numpy as np
import pytest

from tests.conformance.examples import scalar_function
from tests.conformance.oracle import assert_equal_bits
from tests.processors import HOST
from tests.unit.codegen.compiled import assert_same, both, built, texts_of
from xla_client import Op, ops
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.backends.compiled.compilation import compile_module
from xla_server.codegen.instructions.intrinsics import REASSOCIATED
from xla_server.codegen.namespace import vocabulary
from xla_server.codegen.trace.reductions import free_order


@pytest.mark.parametrize("sizes", [(1, 2), (2, 1), (1, 1), (3, 1, 4)])
@pytest.mark.parametrize("along", [[0], [1], [0, 1]])
def test_indices_along_dimensions_of_one_element(sizes: tuple[int, ...], along: list[int]) -> None:
    def smaller(best: Op, position: Op, value: Op, at: Op) -> Op:
        first = ops.and_(ops.eq(best, value), ops.lt(position, at))
        stays = ops.or_(ops.lt(best, value), first)
        return ops.tuple([ops.select(stays, best, value), ops.select(stays, position, at)])

    keep = scalar_function(smaller, "f32", "s32", "f32", "s32")

    def program(x: Op, end: Op, last: Op) -> Op:
        positions = x.builder.iota(x.shape.with_element_type(last.shape.element_type), along[0])
        return ops.reduce([x, positions], [end, last], keep, along)

    x = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)
    assert_same(program, x, np.float32(np.inf), np.int32(99))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("count", [2, 4, 8, 9])
def test_reductions_along_a_stack(axis: int, count: int) -> None:
    def program(x: Op, y: Op, zero: Op) -> Op:
        parts = [ops.abs(x), y, ops.neg(x), x * y, ops.floor(y)]
        sizes = list(x.shape.dimensions)
        sizes.insert(axis, 1)
        rows = [ops.reshape(parts[n % len(parts)], sizes) for n in range(count)]
        largest = scalar_function(ops.max, "f32", "f32")
        return ops.reduce([ops.concat_in_dim(rows, axis)], [zero], largest, [axis])

    x, y = (np.random.default_rng(n).standard_normal((30, 70)).astype(np.float32) for n in (1, 2))
    assert_same(program, x, y, np.float32(0))


def test_a_short_reduction_over_operands_evaluates_each_element_once() -> None:
    def program(x: Op, zero: Op) -> Op:
        parts = [ops.reshape(f(x), (1, 30, 70)) for f in (ops.exp, ops.tanh, ops.neg, ops.sin)]
        adder = scalar_function(ops.add, "f32", "f32")
        return ops.reduce([ops.concat_in_dim(parts, 0)], [zero], adder, [0])

    module = built(program, [np.zeros((30, 70), np.float32), np.float32(0)])
    work = compile_module(module).work
    assert work.done.cost == work.once.cost


@pytest.mark.parametrize("kind", [ElementType.F8E5M2, ElementType.F8E4M3FN, ElementType.F8E8M0FNU])
@pytest.mark.parametrize("extreme", [ops.max, ops.min])
def test_extremes_of_narrow_floats_have_the_usual_nan(
    kind: ElementType, extreme: Callable[[Op, Op], Op]
) -> None:
    codes = np.random.default_rng(5).integers(0, 256, (40, 100)).astype(np.uint8)
    x = codes.view(kind.dtype)
    x[:20] = np.where(np.isnan(x[:20].astype(np.float32)), kind.dtype.type(1), x[:20])

    def program(x: Op, start: Op) -> Op:
        return ops.reduce([x], [start], scalar_function(extreme, kind.text, kind.text), [1])

    ((ours, expected),) = both(program, x, kind.dtype.type(1))
    assert_equal_bits(ours[:20], expected[:20])
    # The sign of NaN depends on the order.
    assert_equal_bits(ours[20:].view(np.uint8) & 0x7F, expected[20:].view(np.uint8) & 0x7F)


def test_extremes_of_narrow_floats_are_not_rounded_one_by_one() -> None:
    largest = scalar_function(ops.max, "f8e5m2", "f8e5m2")
    x, start = (np.zeros(size, ElementType.F8E5M2.dtype) for size in (1000, ()))
    module = built(lambda x, start: ops.reduce([x], [start], largest, [0]), [x, start])
    # Once, after the loop.
    assert [text.count("code_f8e5m2(") for text in texts_of(module)] == [1]


@pytest.mark.parametrize("kind", ["f32", "f64", "c64", "c128"])
@pytest.mark.parametrize("opcode", [Opcode.ADD, Opcode.MULTIPLY])
def test_functions_of_any_order_name_those_in_order(opcode: Opcode, kind: str) -> None:
    free = free_order(opcode, kind)
    assert (free is None) == (opcode is Opcode.MULTIPLY and kind[0] == "c")
    if free is not None:
        names = vocabulary(HOST).names
        assert free.function in REASSOCIATED
        assert free.ordered in names.keys() - REASSOCIATED.keys()
        assert free.neutral.type == kind
