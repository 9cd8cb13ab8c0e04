import ml_dtypes
import numpy as np
import pytest

from tests.corpus.single_op import result_of
from xla_contract.ops.elementwise.bitcast_convert import BitcastConvertAttributes
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode


@pytest.mark.parametrize(
    ("operand", "target", "expected"),
    [
        (np.array(1.0, np.float32), ElementType.U32, np.array(0x3F800000, np.uint32)),
        (
            np.array([0x01020304], np.uint32),
            ElementType.U8,
            np.array([[4, 3, 2, 1]], np.uint8),
        ),
        (np.array([[1, 2], [3, 4]], np.uint8), ElementType.U16, np.array([0x201, 0x403])),
        (np.array([0xA1], np.uint8), ElementType.S4, np.array([[1, -6]])),
        (np.array([1, -6], ml_dtypes.int4), ElementType.U8, np.array(0xA1)),
        (np.array([0x1B], np.uint8), ElementType.U2, np.array([[3, 2, 1, 0]])),
        (np.array([-1], ml_dtypes.int4), ElementType.U4, np.array([15])),
        (np.array([1, 0, 1, 1], bool), ElementType.U32, np.array(0x01010001)),
        (np.array([0x00EF0100], np.uint32), ElementType.PRED, np.array([[0, 1, 1, 0]])),
        (np.array([2, 0], np.uint8), ElementType.PRED, np.array([1, 0])),
        (np.array([[0, 2], [0, 0]], ml_dtypes.int4), ElementType.PRED, np.array([1, 0])),
    ],
)
def test_bits_stay(operand: np.ndarray, target: ElementType, expected: np.ndarray) -> None:
    attributes = BitcastConvertAttributes(target)
    result = result_of(Opcode.BITCAST_CONVERT, operand, attributes=attributes)
    np.testing.assert_array_equal(result.astype(np.int64), expected.astype(np.int64))
    assert result.shape == expected.shape
