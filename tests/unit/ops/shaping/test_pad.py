import itertools

import numpy as np

from tests.corpus.single_op import result_of
from xla_contract.ops.shaping.pad import PadAttributes
from xla_contract.types.dimension_numbers import PaddingConfig, PaddingDimension
from xla_contract.types.opcode import Opcode


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
        attributes = PadAttributes(PaddingConfig((PaddingDimension(low, high, interior),)))
        result = result_of(
            Opcode.PAD, np.array(numbers, np.int32), np.int32(0), attributes=attributes
        )
        assert result.tolist() == wanted, (size, low, high, interior)
