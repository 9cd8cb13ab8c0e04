"""Schedules that make the kernels of programs."""

import pytest

from tests.corpus.jax.cases import CASES
from tests.corpus.jax.programs import lower
from tests.unit.codegen.compiled import imported
from tests.unit.passes.passing import stated
from xla_server.backends.compiled.compilation import compile_module
from xla_server.codegen.loops import schedules
from xla_server.codegen.loops.builders.scheduled import ScheduledKernel
from xla_server.codegen.loops.schedules import SCHEDULES, ElementGraph, Schedule
from xla_server.codegen.lower.loop_nests import loop_kernel
from xla_server.codegen.lower.lowering import kernels_of

_ZERO = "zero = f32[] constant(0)"
_LOGARITHMS = (
    _ZERO,
    "s = f32[200] reduce(x0, zero), dimensions={1}, to_apply=add",
    "l = f32[200] log(s)",
    "b = f32[200,12] broadcast(l), dimensions={0}",
)
PROGRAMS: dict[str, tuple[list[str], str, tuple[str, ...]]] = {
    "windows": (
        ["f32[1,300]"],
        "f32[1,300] reduce-window(x0, zero), window={size=1x64 pad=0_0x31_32}, to_apply=add",
        (_ZERO,),
    ),
    "columns": (
        ["f32[40,300]"],
        "f32[300] reduce(x0, zero), dimensions={0}, to_apply=add",
        (_ZERO,),
    ),
    "pieces": (["f32[100,90]", "f32[]"], "f32[120,100] pad(x0, x1), padding=10_10x5_5", ()),
    "short rows": (["f32[200,12]"], "f32[200,12] subtract(x0, b)", _LOGARITHMS),
    "rows": (["f32[40,300]"], "f32[40,300] negate(x0)", ()),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_has_the_schedule_that_is_for_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = []

    def scheduled_by(graph: ElementGraph) -> tuple[Schedule, ScheduledKernel]:
        schedule, kernel = schedules.scheduled_by(graph)
        used.append(schedule.name)
        return schedule, kernel

    monkeypatch.setattr(loop_kernel, "scheduled_by", scheduled_by)
    parameters, root, before = PROGRAMS[name]
    compile_module(stated(parameters, root, *before))
    # The cost model of fusion asks for the kernel, too.
    assert set(used) == {name}


def test_every_schedule_has_a_program_and_says_what_it_is_for() -> None:
    assert [schedule.name for schedule in SCHEDULES] == list(PROGRAMS)
    assert all(schedule.fits and schedule.reason for schedule in SCHEDULES)


def test_a_program_has_the_same_kernels_whenever_it_is_compiled() -> None:
    """Loops of one work item are compared in their order, not in that of a set."""
    function, arguments = CASES["convolution"]()
    module = imported(lower(function, *arguments))
    compiled = [kernels_of(compile_module(module).code) for _ in range(20)]
    assert len({tuple(thunk.source for thunk in thunks) for thunks in compiled}) == 1
