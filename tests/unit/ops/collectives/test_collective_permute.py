import numpy as np

from tests.corpus.single_op import inferred, result_of
from xla_contract.ops.collectives.collective_permute import CollectivePermuteAttributes
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape

X = np.arange(4, dtype=np.float32)
U32 = Shape.parse("u32[]")


def test_shapes_stay() -> None:
    ring = CollectivePermuteAttributes(((0, 1), (1, 0)), 1, (U32, U32))
    assert inferred(Opcode.COLLECTIVE_PERMUTE, ["f32[4]{0}"], ring) == "f32[4]"
    assert inferred(Opcode.COLLECTIVE_PERMUTE, ["f32[4]", "s8[]"], ring) == "(f32[4], s8[])"
    started = inferred(Opcode.COLLECTIVE_PERMUTE_START, ["f32[4]"], ring)
    assert started == "(f32[4], f32[4], u32[], u32[])"
    assert inferred(Opcode.COLLECTIVE_PERMUTE_DONE, [started]) == "f32[4]"


def test_several_operands() -> None:
    nobody = CollectivePermuteAttributes(())
    pair = result_of(Opcode.COLLECTIVE_PERMUTE, X, np.int8(3), attributes=nobody)
    np.testing.assert_array_equal(pair[0], np.zeros(4))
    assert pair[1] == 0
