import numpy as np
import pytest

from tests.corpus.single_op import result_of
from xla_contract.errors import InvalidArgumentError
from xla_contract.ops.shaping.dynamic_reshape import DynamicReshapeAttributes
from xla_contract.types.opcode import Opcode

NUMBERS = np.arange(12, dtype=np.float32)
TABLE = DynamicReshapeAttributes((3, 4), (False, True))


def test_the_first_elements_take_the_new_sizes() -> None:
    result = result_of(Opcode.DYNAMIC_RESHAPE, NUMBERS, np.int32(3), np.int32(2), attributes=TABLE)
    np.testing.assert_array_equal(result, NUMBERS[:6].reshape(3, 2))


def test_the_size_of_a_static_dimension_is_its_bound() -> None:
    result = result_of(Opcode.DYNAMIC_RESHAPE, NUMBERS, np.int32(7), np.int32(4), attributes=TABLE)
    np.testing.assert_array_equal(result, NUMBERS.reshape(3, 4))


@pytest.mark.parametrize("size", [-1, 5])
def test_a_size_outside_its_bound_is_refused_at_run_time(size: int) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"got \[3,{size}\] for f32\[3,<=4\] and 12"):
        result_of(Opcode.DYNAMIC_RESHAPE, NUMBERS, np.int32(3), np.int32(size), attributes=TABLE)
