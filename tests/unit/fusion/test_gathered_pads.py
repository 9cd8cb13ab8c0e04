"""Pads and concatenates read at computed indices: stored where reading would test each element."""

import pytest

from tests.processors import TARGET
from tests.unit.passes.passing import opcodes, rewritten, stated
from xla_contract.types.opcode import Opcode
from xla_server.fusion.loop_fusion import LoopFusion
from xla_server.ir.module import HloModule

FUSIONS = TARGET.tuning.fusions
ROWS, COLUMNS = 40, 60


def sliced_pad(columns: int, padding: str, read: tuple[int, int]) -> HloModule:
    """Return a program that reads a part of a padded matrix, `padding` as in HLO text."""
    (above, below), (left, right) = (
        (int(n) for n in edge.split("_")) for edge in padding.split("x")
    )
    padded = f"f32[{ROWS + above + below},{columns + left + right}]"
    sizes = f"f32[{read[0]},{read[1]}]"
    return stated(
        [f"f32[{ROWS},{columns}]", "s32[]", "s32[]"],
        f"{sizes} abs(s)",
        "zero = f32[] constant(0)",
        f"p = {padded} pad(x0, zero), padding={padding}",
        f"s = {sizes} dynamic-slice(p, x1, x2), dynamic_slice_sizes={{{read[0]},{read[1]}}}",
    )


GATHERED = stated(
    [f"f32[{ROWS * COLUMNS}]"] * 2 + [f"s32[{ROWS * COLUMNS}]"],
    f"f32[{ROWS * COLUMNS}] abs(g)",
    f"both = f32[{2 * ROWS * COLUMNS}] concatenate(x0, x1), dimensions={{0}}",
    f"g = f32[{ROWS * COLUMNS}] gather(both, x2), offset_dims={{}}, collapsed_slice_dims={{0}},"
    " start_index_map={0}, index_vector_dim=1, slice_sizes={1}",
)

STORED = {
    "slice of most of a pad": sliced_pad(COLUMNS, "0_0x1_1", (ROWS, COLUMNS)),
    "gather of most of a concatenate": GATHERED,
}

FUSED = {
    "slice of whole rows": sliced_pad(COLUMNS, "1_1x0_0", (ROWS, COLUMNS)),
    "slice of a few elements": sliced_pad(
        COLUMNS, "0_0x1_1", (ROWS // FUSIONS.max_stored_per_read - 1, COLUMNS)
    ),
    "slice of a small pad": sliced_pad(
        FUSIONS.max_tested_elements // ROWS - 2, "0_0x1_1", (ROWS, 20)
    ),
}


@pytest.mark.parametrize("name", STORED)
def test_stored_where_each_element_would_be_tested(name: str) -> None:
    after = rewritten(STORED[name], LoopFusion(TARGET))
    (reading,) = after.entry.root.called
    assert {Opcode.PAD, Opcode.CONCATENATE}.isdisjoint(i.opcode for i in reading.instructions)


@pytest.mark.parametrize("name", FUSED)
def test_fused_where_rows_or_few_elements_are_tested(name: str) -> None:
    assert opcodes(rewritten(FUSED[name], LoopFusion(TARGET))) == {"fusion": 1}
