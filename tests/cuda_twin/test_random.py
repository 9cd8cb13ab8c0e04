"""Random bits by kernels for a GPU, bit for bit those of the interpreter."""

import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.conformance.sweep.depth import FULL
from tests.cuda_twin.codes import code_of, launches, run
from tests.unit.codegen.compiled import built, interpreted
from tests.unit.codegen.lower.test_random import PAIRS, SIZES, drawn
from xla_client import ops
from xla_contract.ops.rng_bit_generator import UNSIGNED_OF_WIDTH, RandomAlgorithm
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.codegen.gpu.lower.random import lower_rng_bit_generator
from xla_server.ir.module import HloModule


def drawing(algorithm: RandomAlgorithm, state: list[int], shapes: list[Shape]) -> HloModule:
    return built(
        lambda s: ops.tuple([part for shape in shapes for part in drawn(algorithm, s, shape)]),
        [np.array(state, np.uint64)],
    )


def assert_same(algorithm: RandomAlgorithm, state: list[int], shapes: list[Shape]) -> None:
    module, given = drawing(algorithm, state, shapes), [np.array(state, np.uint64)]
    code = code_of(module, Opcode.RNG_BIT_GENERATOR, lower_rng_bit_generator)
    assert len(launches(code)) == sum(shape.element_count > 0 for shape in shapes)
    for ours, expected in zip(run(code, given), interpreted(module, given), strict=True):
        assert_equal_bits(ours, expected)


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_every_shape(number: int) -> None:
    """In the slice a state has every second of the shapes."""
    shapes = SIZES if FULL else SIZES[number % 2 :: 2]
    assert_same(*PAIRS[number], [Shape.array(E.U32, sizes) for sizes in shapes])


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_every_element_type(number: int) -> None:
    kinds = [kind for kind in E if kind.is_array and (kind.is_integer or kind.is_floating)]
    shapes = [Shape.array(kind, (5, 9)) for kind in kinds if kind.bit_width in UNSIGNED_OF_WIDTH]
    assert_same(*PAIRS[number], shapes)
