import math

import numpy as np
import pytest

from tests.processors import TARGET
from tests.unit.codegen.compiled import assert_same
from xla_client import Op, ops
from xla_server.codegen.loops.work_items import inner_loops
from xla_server.ir.affine import Variable

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


@pytest.mark.parametrize("sizes", [(70, 6, 5, 3), (3, 70, 2, 5), (200, 2, 3), (9, 8, 4, 5)])
def test_transposes_in_elementwise_loops(sizes: tuple[int, ...]) -> None:
    def program(x: Op) -> Op:
        return ops.neg(ops.transpose(x, range(len(sizes))[::-1]))

    x = np.arange(math.prod(sizes), dtype=np.float32).reshape(sizes)
    assert_same(program, x)
