import numpy as np
import pytest

from tests.conformance.examples import scalar_function
from tests.unit.codegen.compiled import assert_same
from xla_client import Op, ops


@pytest.mark.parametrize("sizes", [(1, 2), (2, 1), (1, 1), (3, 1, 4)])
@pytest.mark.parametrize("along", [[0], [1], [0, 1]])
def test_places_along_dimensions_of_one_element(sizes: tuple[int, ...], along: list[int]) -> None:
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
