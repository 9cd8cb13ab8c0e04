from tests.corpus.single_op import inferred
from xla_contract.ops.reduction.batch_norm import BatchNormAttributes
from xla_contract.types.opcode import Opcode


def test_shapes() -> None:
    column = ["f32[4,2]", "f32[2]", "f32[2]"]
    attributes = BatchNormAttributes(0.125, 1)
    found = inferred(Opcode.BATCH_NORM_TRAINING, column, attributes)
    assert found == "(f32[4,2], f32[2], f32[2])"
