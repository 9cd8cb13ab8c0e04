import math
from typing import Any

import numpy as np
import pytest

from tests.processors import TARGET
from tests.unit.codegen.compiled import assert_same
from tests.unit.codegen.schedules.graphs import load, row, store, sum_of
from xla_client import Op, ops
from xla_server.codegen.schedules.builders.collapse import collapsed
from xla_server.codegen.schedules.builders.launches.work_items import inner_loops, parts_of_items
from xla_server.codegen.trace.graph import Position, Store
from xla_server.codegen.trace.kernel_types import KernelType
from xla_server.codegen.trace.tracer import Index
from xla_server.ir.analysis.affine import ZERO, Variable

TUNED = TARGET.tuning.loops


def loops(*sizes: int) -> tuple[Variable, ...]:
    return tuple(Variable(size, "i") for size in sizes)


@pytest.mark.parametrize(
    ("sizes", "count"),
    [
        ((), 0),
        ((1000,), 0),
        ((1000, 3), 1),
        ((100, 20, 3), 2),
        ((100, 5, 4, 3), 3),
        ((100, 20, TUNED.item_elements), 1),
        ((TUNED.min_items - 1, 20, 3), 1),
    ],
)
def test_short_loops_are_inside_of_a_work_item(sizes: tuple[int, ...], count: int) -> None:
    nest = loops(*sizes)
    assert inner_loops(nest, (), TUNED) == nest[len(nest) - count :]


def test_an_item_of_reductions_has_one_loop_or_several_neighbours() -> None:
    nest = loops(100, 20, 3)
    sums = [store(row(*nest[:2]) * 2 + n, sum_of(load(ZERO), nest[2])) for n in range(2)]
    assert inner_loops(nest[:2], sums[:1], TUNED) == nest[1:2]
    assert inner_loops(nest[:2], sums, TUNED) == ()
    assert inner_loops(nest[:1], sums[:1], TUNED) == ()


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ((TUNED.min_items // 2, 400, 3), 2),
        ((3, 400, 3), 1),
        ((3, 4400, 3), 22),
        ((2, 5, 400, 3), 8),
        # The divisors of 401 are 1 and 401.
        ((TUNED.min_items // 2, 401, 3), 1),
        ((TUNED.min_items, 400, 3), 1),
        ((2, 400, TUNED.item_elements), 1),
        ((4000, 3), 1),
    ],
)
def test_a_loop_is_divided_where_there_are_few_items(sizes: tuple[int, ...], parts: int) -> None:
    assert parts_of_items(loops(*sizes), (), TUNED) == parts


def test_a_divided_loop_is_two_loops_over_the_same_elements() -> None:
    def make(index: Index) -> list[Store]:
        # The second and third dimensions are neighbours in memory as well.
        a, b, c, d = index
        return [Store(0, KernelType("i64", "i64"), a * 36 + b * 2 + c + d * 12, Position(ZERO))]

    nest, (store,) = collapsed((2, 6, 2, 3), make, lambda *_: 4)
    assert [loop.size for loop in nest] == [2, 4, 3, 3]
    strides: dict[Any, int] = dict(store.offset.terms)
    assert [strides[loop] for loop in nest] == [36, 3, 1, 12]


@pytest.mark.parametrize(
    "sizes",
    [(70, 6, 5, 3), (3, 70, 2, 5), (200, 2, 3), (9, 8, 4, 5), (3, 120, 20), (3, 11, 30, 20)],
)
def test_transposes_in_elementwise_loops(sizes: tuple[int, ...]) -> None:
    def program(x: Op) -> Op:
        return ops.neg(ops.transpose(x, range(len(sizes))[::-1]))

    x = np.arange(math.prod(sizes), dtype=np.float32).reshape(sizes)
    assert_same(program, x)
