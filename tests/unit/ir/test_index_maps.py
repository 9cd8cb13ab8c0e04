"""An operation's elements are those of its operand at the mapped indices."""

import numpy as np
import pytest

from tests.unit.codegen.compiled import interpreted
from tests.unit.passes.passing import stated
from xla_server.ir.index_maps import MAPPED, operand_index


class Number(int):
    """An index that is known."""

    def moved(self, start: int, stride: int) -> "Number":
        return Number(start + self * stride)


OPERATIONS = (
    "s32[2,3,5,4] broadcast(x0), dimensions={1,3}",
    "s32[4,3] transpose(x0), dimensions={1,0}",
    "s32[3,4] reverse(x0), dimensions={1}",
    "s32[3,4] reverse(x0), dimensions={0,1}",
    "s32[2,2] slice(x0), slice={[0:3:2], [1:3]}",
)


@pytest.mark.parametrize("text", OPERATIONS)
def test_elements_are_those_at_the_mapped_indices(text: str) -> None:
    module = stated(["s32[3,4]"], text)
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    (result,) = interpreted(module, [x])
    for index in np.ndindex(result.shape):
        mapped = operand_index(module.entry.root, [Number(n) for n in index])
        assert result[index] == x[mapped]


def test_every_map_is_tested() -> None:
    assert {text.split()[1].partition("(")[0] for text in OPERATIONS} == MAPPED
