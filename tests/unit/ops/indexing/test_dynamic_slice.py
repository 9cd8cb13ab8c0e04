import numpy as np
import pytest

from tests.corpus.single_op import result_of
from xla_contract.ops.indexing.dynamic_slice import DynamicSliceAttributes
from xla_contract.types.opcode import Opcode

NUMBERS = np.arange(30).reshape(5, 6)
BOX = DynamicSliceAttributes((2, 3))


@pytest.mark.parametrize(
    ("starts", "position"),
    [((1, 2), (1, 2)), ((-7, 5), (0, 3)), ((9, 0), (3, 0))],
)
def test_starts_are_moved_inside(starts: tuple[int, int], position: tuple[int, int]) -> None:
    scalars = [np.array(start, np.int8) for start in starts]
    expected = NUMBERS[position[0] : position[0] + 2, position[1] : position[1] + 3]
    read = result_of(Opcode.DYNAMIC_SLICE, NUMBERS, *scalars, attributes=BOX)
    np.testing.assert_array_equal(read, expected)
    vector = np.array(starts, np.int64)
    read = result_of(Opcode.DYNAMIC_SLICE, NUMBERS, vector, attributes=BOX)
    np.testing.assert_array_equal(read, expected)
    update = np.full((2, 3), -1)
    written = result_of(Opcode.DYNAMIC_UPDATE_SLICE, NUMBERS, update, *scalars)
    wanted = NUMBERS.copy()
    wanted[position[0] : position[0] + 2, position[1] : position[1] + 3] = -1
    np.testing.assert_array_equal(written, wanted)


def test_unsigned_starts_do_not_turn_negative() -> None:
    far = [np.array(2**64 - 1, np.uint64)] * 2
    read = result_of(Opcode.DYNAMIC_SLICE, NUMBERS, *far, attributes=BOX)
    np.testing.assert_array_equal(read, NUMBERS[3:, 3:])
