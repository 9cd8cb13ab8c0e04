"""Scatters of one element into each row."""

import numpy as np
import pytest

from tests.unit.passes.passing import assert_kept, opcodes, passed, stated
from xla_server.ir.module import HloModule
from xla_server.passes.expand.one_hot_scatter import OneHotScatter

NUMBERS = (
    "update_window_dims={}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, "
    "input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=2"
)


def module_of(
    *,
    kind: str = "f32",
    indices: str = "s32[4,1,1]",
    updates: str = "[4,1]",
    numbers: str = NUMBERS,
    operand: str = "w",
    combiner: str = "add",
    columns: int = 6,
) -> HloModule:
    shape = f"{kind}[4,{columns}]"
    return stated(
        [indices, f"{kind}{updates}", shape],
        f"{shape} scatter({operand}, x0, x1), {numbers}, to_apply={combiner}",
        f"c = {kind}[] constant(-2)",
        f"w = {shape} broadcast(c), dimensions={{}}",
    )


@pytest.mark.parametrize("combiner", ["add", "max", "second"])
@pytest.mark.parametrize("indices", ["s32[4,1,1]", "s8[4,1,1]", "u8[4,1,1]", "s64[4,1,1]"])
def test_a_row_is_compared_with_its_index(combiner: str, indices: str) -> None:
    module = module_of(indices=indices, combiner=combiner)
    after = passed(module, OneHotScatter())
    assert "scatter" not in opcodes(after)
    random = np.random.default_rng(0)
    for first in (-1, 0, 5, 6):
        given = np.array([first, 2, 100, 3]).reshape(4, 1, 1)
        places = given.astype(module.entry.parameters[0].shape.element_type.dtype)
        update = random.standard_normal((4, 1)).astype(np.float32)
        update[3] = -0.0
        assert_kept(module, after, [places, update, np.zeros((4, 6), np.float32)])


@pytest.mark.parametrize(
    "fields",
    [
        {"operand": "x2"},
        {"indices": "s8[4,1,1]", "columns": 200},
        {"indices": "s32[4,2,1]", "updates": "[4,2]"},
        {
            "indices": "s32[4,1,2]",
            "numbers": "update_window_dims={}, inserted_window_dims={0,1}, "
            "scatter_dims_to_operand_dims={0,1}, index_vector_dim=2",
        },
    ],
    ids=["an_array", "narrow_indices", "several_indices", "indices_of_rows"],
)
def test_other_scatters_are_left(fields: dict[str, object]) -> None:
    passed(module_of(**fields), OneHotScatter(), fires=False)  # type: ignore[arg-type]
