import itertools

import numpy as np
import pytest

from tests.corpus.single_op import inferred, result_of
from xla_contract.errors import ShapeError
from xla_contract.ops.shaping.pad import PadAttributes
from xla_contract.types.dimension_numbers import PaddingConfig, PaddingDimension
from xla_contract.types.opcode import Opcode


def one_dimension(low: int, high: int, interior: int) -> PadAttributes:
    return PadAttributes(PaddingConfig((PaddingDimension(low, high, interior),)))


def test_every_way_to_pad_a_vector() -> None:
    for size, low, high, interior in itertools.product(
        range(4), range(-4, 4), range(-4, 4), (0, 2)
    ):
        numbers = list(range(1, size + 1))
        spread = [part for number in numbers for part in (number, *[0] * interior)]
        spread = spread[: len(spread) - interior] if spread else []
        if len(spread) + low + high < 0:
            continue
        left = [0] * low + spread if low > 0 else spread
        # Cutting off more on one side than is there takes from the padding of the other side.
        wide = left + [0] * 8
        wanted = wide[max(0, -low) :][: len(spread) + low + high]
        result = result_of(
            Opcode.PAD,
            np.array(numbers, np.int32),
            np.int32(0),
            attributes=one_dimension(low, high, interior),
        )
        assert result.tolist() == wanted, (size, low, high, interior)


@pytest.mark.parametrize(
    ("operands", "padding", "message"),
    [
        (["f32[3]", "f32[]"], (0, 0, -1), r"not be negative, got 0_0_-1 in dimension 0 of f32\[3"),
        (["f32[3]", "f32[]"], (-2, -2, 0), r"cut off more than there is, got -2_-2 in dimension 0"),
        (["f32[3]", "f32[1]"], (0, 0, 0), r"padding value must be a scalar, got f32\[1\]"),
        (["f32[3]", "f16[]"], (0, 0, 0), r"got f32\[3\] and f16\[\]"),
        (["f32[3,3]", "f32[]"], (0, 0, 0), r"one entry per dimension, got 1 for f32\[3,3\]"),
    ],
)
def test_refusals(operands: list[str], padding: tuple[int, int, int], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        inferred(Opcode.PAD, operands, one_dimension(*padding))
