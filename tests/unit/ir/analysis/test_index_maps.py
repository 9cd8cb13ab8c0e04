"""An operation's elements are those of its operand at the mapped indices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.codegen.compiled import interpreted
from tests.unit.ir.indices import SIZES, at, chains, listed
from tests.unit.passes.passing import stated
from xla_server.ir.analysis.affine import Affine, Variable, variable
from xla_server.ir.analysis.index_maps import MAPPED, operand_index

OPERATIONS = (
    "s32[2,3,5,4] broadcast(x0), dimensions={1,3}",
    "s32[2,1,6] reshape(x0)",
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
        mapped = operand_index(module.entry.root, [Affine(n) for n in index])
        assert not any(position.terms for position in mapped)
        assert result[index] == x[tuple(position.constant for position in mapped)]


def test_every_map_is_tested() -> None:
    assert {text.split()[1].partition("(")[0] for text in OPERATIONS} == MAPPED


@given(st.data(), SIZES)
def test_maps_compose(data: st.DataObject, sizes: list[int]) -> None:
    lines, _ = data.draw(chains(sizes, "a", "x0"))
    module = stated([f"f32[{listed(sizes)}]"], lines[-1].partition(" = ")[2], *lines[:-1])
    x = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)
    (result,) = interpreted(module, [x])
    loops = [Variable(size, "i") for size in result.shape]
    index, i = tuple(map(variable, loops)), module.entry.root
    while i.operands:
        index, i = operand_index(i, index), i.operands[0]
    for values in np.ndindex(result.shape):
        location = dict(zip(loops, values, strict=True))
        assert result[values] == x[tuple(at(position, location) for position in index)]
