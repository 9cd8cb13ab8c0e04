"""Pads and concatenates under reductions: fused where their loops need no test of each element."""

import pytest

from tests.processors import TARGET
from tests.unit.passes.passing import opcodes, rewritten, stated
from xla_contract.types.opcode import Opcode
from xla_server.fusion.loop_fusion import LoopFusion
from xla_server.ir.module import HloModule
from xla_server.target.loop_tuning import MAX_UNROLLED_ITERATIONS

FUSIONS = TARGET.tuning.fusions

_ZERO = "zero = f32[] constant(0)"


def padded_sum(rows: int, columns: int, padding: str, to: tuple[int, int]) -> HloModule:
    return stated(
        [f"f32[{rows},{columns}]"],
        f"f32[{to[0]}] reduce(e, zero), dimensions={{1}}, to_apply=add",
        _ZERO,
        f"p = f32[{to[0]},{to[1]}] pad(x0, zero), padding={padding}",
        f"e = f32[{to[0]},{to[1]}] abs(p)",
    )


def joined_sum(rows: int, columns: int, dimension: int) -> HloModule:
    to = (rows, 2 * columns) if dimension else (2 * rows, columns)
    return stated(
        [f"f32[{rows},{columns}]"] * 2,
        f"f32[{to[0]}] reduce(both, zero), dimensions={{1}}, to_apply=add",
        _ZERO,
        f"both = f32[{to[0]},{to[1]}] concatenate(x0, x1), dimensions={{{dimension}}}",
    )


def padded_rows_sum(row: tuple[int, int], reduced: str, kept: str) -> HloModule:
    """Sums of a [40,*row] with a row above it, over dimensions of which `kept` are left."""
    a, b = row
    return stated(
        [f"f32[40,{a},{b}]"],
        f"f32[{kept}] reduce(e, zero), dimensions={{{reduced}}}, to_apply=add",
        _ZERO,
        f"p = f32[41,{a},{b}] pad(x0, zero), padding=1_0x0_0x0_0",
        f"e = f32[41,{a},{b}] abs(p)",
    )


LONG, SHORT = FUSIONS.min_vector_elements, FUSIONS.min_vector_elements - 1

STORED = {
    "pad along rows": padded_sum(40, 60, "0_0x1_0", (40, 61)),
    "pad between elements": padded_sum(40, 60, "0_0x0_0_1", (40, 119)),
    "pad above short rows": padded_sum(
        400, FUSIONS.min_vector_elements - 1, "1_0x0_0", (401, FUSIONS.min_vector_elements - 1)
    ),
    "concatenate along rows": joined_sum(40, 60, 1),
    "pad of rows, of which short parts are reduced": padded_rows_sum((60, SHORT), "2", "41,60"),
    "pad of rows, of which short parts are kept": padded_rows_sum((60, SHORT), "0,1", f"{SHORT}"),
}

STORED["pad along rows that are too long to be unrolled"] = padded_sum(
    400, MAX_UNROLLED_ITERATIONS, "0_0x1_0", (400, MAX_UNROLLED_ITERATIONS + 1)
)
STORED["pad of whole rows, reduced under other dimensions"] = stated(
    ["f32[40,60]"],
    "f32[60] reduce(r, zero), dimensions={1}, to_apply=add",
    _ZERO,
    "p = f32[42,60] pad(x0, zero), padding=1_1x0_0",
    "e = f32[42,60] abs(p)",
    "r = f32[60,42] reshape(e)",
)

FUSED = {
    "pad of whole rows": padded_sum(40, 60, "1_0x0_0", (41, 60)),
    "concatenate of whole rows": joined_sum(40, 60, 0),
    "pad of rows, of which long parts are reduced": padded_rows_sum((60, LONG), "2", "41,60"),
    "pad of rows, of which long parts are kept": padded_rows_sum((60, LONG), "0,1", f"{LONG}"),
    "pad of rows, reduced as a whole": padded_rows_sum((60, SHORT), "1,2", "41"),
    "pad of rows that are kept": padded_rows_sum((60, SHORT), "0", f"60,{SHORT}"),
    "pad along rows that are unrolled": padded_sum(
        400, MAX_UNROLLED_ITERATIONS - 1, "0_0x1_0", (400, MAX_UNROLLED_ITERATIONS)
    ),
    "concatenate along rows that are unrolled": joined_sum(400, MAX_UNROLLED_ITERATIONS // 2, 1),
    "small pad": padded_sum(8, FUSIONS.max_tested_elements // 8 - 1, "0_0x1_0", (8, 128)),
    "small concatenate": joined_sum(4, FUSIONS.max_tested_elements // 8, 1),
}


@pytest.mark.parametrize("name", STORED)
def test_stored_where_each_element_would_be_tested(name: str) -> None:
    module = STORED[name]
    after = rewritten(module, LoopFusion(TARGET))
    (reduced,) = (part for part in after.computations if part.root.opcode is Opcode.REDUCE)
    assert {Opcode.PAD, Opcode.CONCATENATE}.isdisjoint(i.opcode for i in reduced.instructions)


@pytest.mark.parametrize("name", FUSED)
def test_fused_where_rows_or_few_elements_are_tested(name: str) -> None:
    module = FUSED[name]
    assert opcodes(rewritten(module, LoopFusion(TARGET))) == {"fusion": 1}


def test_fused_into_a_loop_over_the_same_elements() -> None:
    module = stated(
        ["f32[40,60]"],
        "f32[40,61] abs(p)",
        _ZERO,
        "p = f32[40,61] pad(x0, zero), padding=0_0x1_0",
    )
    assert opcodes(rewritten(module, LoopFusion(TARGET))) == {"fusion": 1}
