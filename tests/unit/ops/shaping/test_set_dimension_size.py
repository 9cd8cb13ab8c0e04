from typing import Any

import numpy as np
import pytest

from tests.corpus.single_op import inferred, result_of
from xla_contract.errors import InvalidArgumentError
from xla_contract.ops.definitions import definition
from xla_contract.ops.shaping.set_dimension_size import SetDimensionSizeAttributes
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape

NUMBERS = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_only_so_many_elements_count() -> None:
    result = result_of(
        Opcode.SET_DIMENSION_SIZE, NUMBERS, np.int32(2), attributes=SetDimensionSizeAttributes(1)
    )
    np.testing.assert_array_equal(result, NUMBERS[:, :2])


def test_the_dimension_becomes_dynamic_or_static() -> None:
    def shape(operand: str, dimension: int, **how: bool) -> str:
        attributes = SetDimensionSizeAttributes(dimension, **how)
        return inferred(Opcode.SET_DIMENSION_SIZE, [operand, "s32[]"], attributes)

    assert shape("f32[3,4]{0,1}", 1) == "f32[3,<=4]"
    assert shape("f32[<=3,4]", 1) == "f32[<=3,<=4]"
    assert shape("f32[<=3,<=4]", 0, is_dynamic=False) == "f32[3,<=4]"


@pytest.mark.parametrize("size", [-1, 5])
def test_a_size_outside_the_bound_is_refused_at_run_time(size: int) -> None:
    with pytest.raises(
        InvalidArgumentError, match=rf"in \[0, 4\], got {size} for dimension 1 of f32\[3,<=4\]"
    ):
        result_of(
            Opcode.SET_DIMENSION_SIZE,
            NUMBERS,
            np.int32(size),
            attributes=SetDimensionSizeAttributes(1),
        )


@pytest.mark.parametrize("dimensions", [[], [0, 1]])
def test_one_dimension_is_read_from_the_wire(dimensions: list[int]) -> None:
    proto = hlo_pb2.HloInstructionProto(dimensions=dimensions)
    decode: Any = definition(Opcode.SET_DIMENSION_SIZE).decode
    with pytest.raises(InvalidArgumentError, match="the resized dimension alone"):
        decode(proto, Shape.parse("f32[<=3]"))
