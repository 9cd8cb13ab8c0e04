import numpy as np
import pytest

from tests.conformance.examples import scalar_function
from tests.unit.codegen.compiled import assert_same, built
from xla_client import Op, ops
from xla_server.backends.compiled.compilation import compile_module


@pytest.mark.parametrize("sizes", [(1, 2), (2, 1), (1, 1), (3, 1, 4)])
@pytest.mark.parametrize("along", [[0], [1], [0, 1]])
def test_indices_along_dimensions_of_one_element(sizes: tuple[int, ...], along: list[int]) -> None:
    def smaller(best: Op, place: Op, value: Op, at: Op) -> Op:
        first = ops.and_(ops.eq(best, value), ops.lt(place, at))
        stays = ops.or_(ops.lt(best, value), first)
        return ops.tuple([ops.select(stays, best, value), ops.select(stays, place, at)])

    keep = scalar_function(smaller, "f32", "s32", "f32", "s32")

    def program(x: Op, end: Op, last: Op) -> Op:
        places = x.builder.iota(x.shape.with_element_type(last.shape.element_type), along[0])
        return ops.reduce([x, places], [end, last], keep, along)

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
