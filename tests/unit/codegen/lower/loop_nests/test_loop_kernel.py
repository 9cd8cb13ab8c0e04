"""Thunks of loop nests: their buffers, effort and counts."""

import pytest

from tests.processors import TARGET
from tests.unit.passes.passing import stated
from xla_server.buffers.code import KernelThunk
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.lower.lowering import kernels_of, lower
from xla_server.codegen.lower.lowerings import LOWERINGS


def _thunk(parameters: list[str], root: str, *before: str) -> KernelThunk:
    """Return the last kernel of a program without fusions."""
    return kernels_of(lower(stated(parameters, root, *before), LOWERINGS, TARGET))[-1]


@pytest.mark.parametrize(
    ("parameters", "root", "pairs"),
    [
        (["f32[90]", "f32[90]"], "f32[90] add(x0, x1)", ["x0", "x1"]),
        (["f32[90]"], "f32[90] reverse(x0), dimensions={0}", []),
        (["f32[90]"], "s32[90] bitcast-convert(x0)", ["x0"]),
        (["f32[90]"], "f64[90] convert(x0)", []),
        (["f32[9]"], "f32[9,10] broadcast(x0), dimensions={0}", []),
    ],
)
def test_a_result_may_be_written_over_what_is_read_for_itself_alone(
    parameters: list[str], root: str, pairs: list[str]
) -> None:
    thunk = _thunk(parameters, root)
    (written,) = thunk.writes
    assert {read.name for _, read in thunk.in_place} == set(pairs)
    assert {to for to, _ in thunk.in_place} <= {written}


@pytest.mark.parametrize(
    ("size", "effort"),
    [(64, Effort.UNOPTIMISED), (2000, Effort.OPTIMISED)],
)
def test_a_short_kernel_of_one_element_is_not_worth_optimising(size: int, effort: Effort) -> None:
    thunk = _thunk([f"f32[{size}]"], "f32[] reduce(x0, z), dimensions={0}, to_apply=add")
    assert isinstance(thunk.kernel, Kernel)
    assert thunk.kernel.effort is effort


def test_formulas_that_are_copied_into_a_kernel_are_optimised() -> None:
    """An instruction is no formula, and what kernels call is none in the kernel."""
    for opcode, effort in (
        ("negate", Effort.UNOPTIMISED),
        ("tan", Effort.UNOPTIMISED),
        ("sign", Effort.OPTIMISED),
    ):
        thunk = _thunk(["f32[]"], f"f32[] {opcode}(x0)")
        assert isinstance(thunk.kernel, Kernel)
        assert thunk.kernel.effort is effort
