import numpy as np
import pytest

from tests.corpus.single_op import inferred, result_of
from xla_contract.errors import ShapeError
from xla_contract.types.opcode import Opcode


def test_shapes() -> None:
    assert inferred(Opcode.COPY_START, ["f32[2]{0}"]) == "(f32[2], f32[2], u32[])"
    assert inferred(Opcode.COPY_DONE, ["(f32[2], f32[2], u32[])"]) == "f32[2]"


@pytest.mark.parametrize(
    ("operand", "message"),
    [
        ("f32[2]", r"tuple of at least 2, got f32\[2\]"),
        ("(f32[2], f32[3], u32[])", r"one shape, got f32\[2\] and f32\[3\]"),
    ],
)
def test_broken_rules(operand: str, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        inferred(Opcode.COPY_DONE, [operand])


def test_the_value_comes_through() -> None:
    x = np.arange(3, dtype=np.int8)
    started = result_of(Opcode.COPY_START, x)
    assert len(started) == 3
    np.testing.assert_array_equal(result_of(Opcode.COPY_DONE, started), x)
