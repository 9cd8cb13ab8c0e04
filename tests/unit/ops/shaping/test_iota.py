import numpy as np
import pytest

from tests.corpus.single_op import inferred, result_of
from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.ops.shaping.iota import DEFINITION, IotaAttributes
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape


def test_counts_along_the_dimension() -> None:
    attributes = IotaAttributes(Shape.parse("u4[2,20,1]"), 1)
    result = result_of(Opcode.IOTA, attributes=attributes)
    wrapped = np.arange(20) % 16
    np.testing.assert_array_equal(result.astype(int), np.tile(wrapped.reshape(1, 20, 1), (2, 1, 1)))


def test_refusals() -> None:
    with pytest.raises(ShapeError, match=r"in \[0, 1\), got 1 for f32\[3\]"):
        inferred(Opcode.IOTA, [], IotaAttributes(Shape.parse("f32[3]"), 1))
    with pytest.raises(ShapeError, match=r"in \[0, 0\), got 0 for f32\[\]"):
        inferred(Opcode.IOTA, [], IotaAttributes(Shape.parse("f32[]"), 0))
    with pytest.raises(ShapeError, match=r"got pred\[3\]"):
        inferred(Opcode.IOTA, [], IotaAttributes(Shape.parse("pred[3]"), 0))
    with pytest.raises(InvalidArgumentError, match=r"got \{\}"):
        DEFINITION.decode(hlo_pb2.HloInstructionProto(), Shape.parse("f32[3]"))
