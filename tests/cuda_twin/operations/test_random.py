"""Random bits by kernels for a GPU, bit for bit those of the interpreter."""

import numpy as np
import pytest

from tests.conformance.sweep.draws.depth import FULL
from tests.cuda_twin.codes import assert_same, launches
from tests.unit.codegen.compiled import built
from tests.unit.codegen.lower.test_random import PAIRS, SIZES, drawn
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.ops.random.rng_bit_generator import UNSIGNED_OF_WIDTH, RandomAlgorithm
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.shape import Shape


def assert_drawn(algorithm: RandomAlgorithm, state: list[int], shapes: list[Shape]) -> None:
    def function(state: Op) -> Op:
        parts = [part for shape in shapes for part in drawn(algorithm, state, shape)]
        return ops.tuple(parts, state.builder)

    given = np.array(state, np.uint64)
    found = launches(built(function, [given]))
    assert len(found) == sum(shape.element_count > 0 for shape in shapes)
    assert_same(function, given)


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_every_shape(number: int) -> None:
    """In the slice a state has every second of the shapes."""
    shapes = SIZES if FULL else SIZES[number % 2 :: 2]
    assert_drawn(*PAIRS[number], [Shape.array(E.U32, sizes) for sizes in shapes])


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_every_element_type(number: int) -> None:
    kinds = [kind for kind in E if kind.is_array and (kind.is_integer or kind.is_floating)]
    shapes = [Shape.array(kind, (5, 9)) for kind in kinds if kind.bit_width in UNSIGNED_OF_WIDTH]
    assert_drawn(*PAIRS[number], shapes)
