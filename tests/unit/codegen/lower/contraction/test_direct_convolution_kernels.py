"""Kernels of convolutions by tiles: scratch memory, packed weights, what a call is told."""

import pytest

from tests.unit.codegen.lower.lowered import AVX2, kernels, sizes
from tests.unit.passes.passing import stated
from xla_server.codegen.kernel_ir.expressions import known
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Call
from xla_server.codegen.kernel_ir.walk import walk
from xla_server.codegen.lower.contraction.convolution import direct_phases
from xla_server.codegen.lower.contraction.convolution_phases import Phase, scratch
from xla_server.codegen.routines.contraction.direct_block import BLOCK

LAST = "b01f_01io->b01f"


def _given(outputs: int, columns: int = 32) -> tuple[list[str], str]:
    window = f"window={{size=5x5 pad=2_2x2_2}}, dim_labels={LAST}"
    operands = [f"f32[2,32,{columns},16]", f"f32[5,5,16,{outputs}]"]
    return operands, f"f32[2,32,{columns},{outputs}] convolution(x0, x1), {window}"


def _phases(*given: int) -> list[Phase]:
    phases = direct_phases(AVX2, stated(*_given(*given)).entry.root)
    assert phases is not None
    return phases


def test_long_rows_of_weights_are_packed_in_panels_first() -> None:
    longest = AVX2.tuning.convolutions.max_row_bytes
    (tiles,) = kernels(*_given(longest // 4))
    assert [value.name for value in tiles.reads] == ["x0", "x1"]
    packing, tiles = kernels(*_given(longest // 4 + 16))
    assert list(sizes(packing).values()) == [(5, 5, 16, longest // 4 + 16)]
    assert packing.work_items == 5 * 5 * 16
    # Sums at the edges are done again from the weights as they are.
    assert [value.name for value in tiles.reads] == ["x0", packing.writes[0].name, "x1"]


def test_a_padded_block_is_on_the_stack_where_it_fits() -> None:
    small, large = _phases(32), _phases(32, 4096)
    assert max(phase.box_elements for phase in small) > 0
    assert scratch(small) == 0
    (tiles,) = kernels(*_given(32))
    assert len(tiles.writes) == 1
    (tiles,) = kernels(*_given(32, 4096))
    assert list(sizes(tiles).values())[1:] == [(scratch(large),)]
    assert scratch(large) == large[0].work_items * max(phase.box_elements for phase in large)


@pytest.mark.parametrize("outputs", [16, 20])
def test_a_panel_narrower_than_the_others_is_reported(outputs: int) -> None:
    (tiles,) = kernels(*_given(outputs))
    assert isinstance(tiles.kernel, Kernel)
    (call,) = (
        statement
        for statement, _ in walk(tiles.kernel.body)
        if isinstance(statement, Call) and statement.routine is BLOCK
    )
    names = call.routine.names
    reported = dict(zip(names, map(known, call.operands), strict=True))
    full, rest = divmod(outputs, 16)
    assert (reported["features.panels"], reported["features.rest"]) == (full, rest)
