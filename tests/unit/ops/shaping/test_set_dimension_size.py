import numpy as np
import pytest

from tests.corpus.single_op import result_of
from xla_contract.errors import InvalidArgumentError
from xla_contract.ops.shaping.set_dimension_size import SetDimensionSizeAttributes
from xla_contract.types.opcode import Opcode

NUMBERS = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_only_so_many_elements_count() -> None:
    result = result_of(
        Opcode.SET_DIMENSION_SIZE, NUMBERS, np.int32(2), attributes=SetDimensionSizeAttributes(1)
    )
    np.testing.assert_array_equal(result, NUMBERS[:, :2])


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
