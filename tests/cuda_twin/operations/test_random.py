"""Random bits by kernels for a GPU: one launch for each array that has elements."""

import numpy as np
import pytest

from tests.cuda_twin.codes import launches
from tests.unit.codegen.compiled import built
from tests.unit.codegen.lower.test_random import PAIRS, SIZES, drawn
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.shape import Shape


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_every_array_is_one_launch(number: int) -> None:
    algorithm, given = PAIRS[number]
    shapes = [Shape.array(E.U32, sizes) for sizes in SIZES]

    def function(state: Op) -> Op:
        parts = [part for shape in shapes for part in drawn(algorithm, state, shape)]
        return ops.tuple(parts, state.builder)

    found = launches(built(function, [np.array(given, np.uint64)]))
    assert len(found) == sum(shape.element_count > 0 for shape in shapes)
