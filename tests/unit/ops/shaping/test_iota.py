import numpy as np

from tests.corpus.single_op import result_of
from xla_contract.ops.shaping.iota import IotaAttributes
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape


def test_counts_along_the_dimension() -> None:
    attributes = IotaAttributes(Shape.parse("u4[2,20,1]"), 1)
    result = result_of(Opcode.IOTA, attributes=attributes)
    wrapped = np.arange(20) % 16
    np.testing.assert_array_equal(result.astype(int), np.tile(wrapped.reshape(1, 20, 1), (2, 1, 1)))
