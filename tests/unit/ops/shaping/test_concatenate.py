import numpy as np
import pytest

from tests.corpus.single_op import inferred, result_of
from xla_contract.errors import ShapeError
from xla_contract.ops.shaping.concatenate import ConcatenateAttributes
from xla_contract.types.opcode import Opcode


def test_sizes_add_up() -> None:
    numbers = np.arange(6).reshape(2, 3)
    attributes = ConcatenateAttributes(1)
    result = result_of(Opcode.CONCATENATE, numbers, numbers[:, :1], attributes=attributes)
    np.testing.assert_array_equal(result, np.hstack([numbers, numbers[:, :1]]))
    dynamic = inferred(Opcode.CONCATENATE, ["f32[2,3]", "f32[2,<=1]"], attributes)
    assert dynamic == "f32[2,<=4]"


@pytest.mark.parametrize(
    ("operands", "message"),
    [
        ([], "at least one operand is needed"),
        (["f32[2]"], r"must be in \[0, 1\), got 1 for f32\[2\]"),
        (["f32[2,3]", "f32[4,3]"], r"operand 0 f32\[2,3\] and operand 1 f32\[4,3\]"),
        (["f32[2,3]", "f32[2,3,1]"], r"operand 1 f32\[2,3,1\]"),
        (["f32[2,3]", "f32[2]"], r"operand 1 f32\[2\]"),
        (["f32[2,3]", "f16[2,3]"], r"operands 0 and 1 must have the same element type"),
    ],
)
def test_refusals(operands: list[str], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        inferred(Opcode.CONCATENATE, operands, ConcatenateAttributes(1))
