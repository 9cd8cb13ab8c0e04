import numpy as np
import pytest

from tests.corpus.single_op import inferred, result_of
from xla_contract.errors import ShapeError
from xla_contract.ops.elementwise.stochastic_convert import StochasticConvertAttributes
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode

TO_S8 = StochasticConvertAttributes(ElementType.S8)


def test_the_fraction_is_the_probability_of_rounding_away() -> None:
    random = np.random.default_rng(0).integers(0, 2**32, 4000, np.uint32)
    for number in (2.25, -2.25):
        operand = np.full(4000, number, np.float32)
        result = result_of(Opcode.STOCHASTIC_CONVERT, operand, random, attributes=TO_S8)
        assert set(np.abs(result).tolist()) == {2, 3}
        assert abs(result.mean() - number) < 0.03


def test_the_threshold_is_exact_and_bounds_hold() -> None:
    operand = np.array([0.5, 0.5, 126.5, 127.5, -128.5, np.nan, np.inf, 3], np.float32)
    random = np.array([2**31 - 1, 2**31, 0, 0, 0, 0, 0, 0], np.uint32)
    result = result_of(Opcode.STOCHASTIC_CONVERT, operand, random, attributes=TO_S8)
    assert result.tolist() == [1, 0, 127, 127, -128, 0, 127, 3]


@pytest.mark.parametrize(
    ("operands", "target", "message"),
    [
        (["f32[2]", "u16[2]"], ElementType.S8, r"as many bits .* got u16\[2\] and f32\[2\]"),
        (["f32[2]", "s32[2]"], ElementType.S8, r"must be unsigned, got s32\[2\]"),
        (["f32[2]", "u32[3]"], ElementType.S8, r"got f32\[2\] and u32\[3\]"),
        (["f32[2]", "u32[2]"], ElementType.U8, r"signed integer, got f32\[2\] to u8"),
    ],
)
def test_refusals(operands: list[str], target: ElementType, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        inferred(Opcode.STOCHASTIC_CONVERT, operands, StochasticConvertAttributes(target))
