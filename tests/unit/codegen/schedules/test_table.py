"""Schedules that make the kernels of programs."""

import dataclasses
from collections.abc import Mapping
from typing import TypeAlias

import pytest

from tests.corpus.jax.cases import CASES
from tests.corpus.jax.programs import lower
from tests.unit.codegen.compiled import imported
from tests.unit.passes.passing import stated
from xla_server.backends.compiled.compilation import compile_module
from xla_server.codegen.lower.loop_nests import loop_kernel
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.codegen.schedules import table as schedules
from xla_server.codegen.schedules.builders.launches.scheduled import ScheduledKernel
from xla_server.codegen.schedules.table import SCHEDULES, ElementGraph, Schedule

_ZERO = "zero = f32[] constant(0)"

Program: TypeAlias = tuple[list[str], str, tuple[str, ...]]
"""Shapes of parameters, the root, and the instructions before it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A program that a schedule fits, and one much like it that `other` is for."""

    fitting: Program
    near: Program
    other: str = "rows"


def _window(form: str, columns: int) -> Program:
    root = f"f32[1,{columns}] reduce-window(x0, zero), window={{{form}}}, to_apply=add"
    return ["f32[1,300]"], root, (_ZERO,)


def _sum_of_rows(columns: int) -> Program:
    root = f"f32[{columns}] reduce(x0, zero), dimensions={{0}}, to_apply=add"
    return [f"f32[40,{columns}]"], root, (_ZERO,)


def _pad(rows: int, columns: int) -> Program:
    root = f"f32[{rows + 2},{columns + 2}] pad(x0, x1), padding=1_1x1_1"
    return [f"f32[{rows},{columns}]", "f32[]"], root, ()


def _less_logarithms(columns: int) -> Program:
    rows = f"f32[200,{columns}]"
    before = (
        _ZERO,
        "s = f32[200] reduce(x0, zero), dimensions={1}, to_apply=add",
        "l = f32[200] log(s)",
        f"b = {rows} broadcast(l), dimensions={{0}}",
    )
    return [rows], f"{rows} subtract(x0, b)", before


CASES_OF: Mapping[str, Case] = {
    # A short window without padding needs no test.
    "windows": Case(_window("size=1x64 pad=0_0x31_32", 300), _window("size=1x3", 298)),
    # Three results are fewer than a vector.
    "columns": Case(_sum_of_rows(300), _sum_of_rows(3)),
    # Each of 49 elements is tested.
    "pieces": Case(_pad(100, 90), _pad(5, 5)),
    # Rows of 65 elements are long.
    "short rows": Case(_less_logarithms(64), _less_logarithms(65)),
    # Its fitting program has rows, too; only the dimension that is summed is another one.
    "rows": Case(
        (["f32[40,300]"], "f32[40] reduce(x0, zero), dimensions={1}, to_apply=add", (_ZERO,)),
        _sum_of_rows(300),
        other="columns",
    ),
}


def _used(program: Program, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the names of the schedules of a program's kernels."""
    used = set()

    def scheduled_by(graph: ElementGraph) -> tuple[Schedule, ScheduledKernel]:
        schedule, kernel = schedules.scheduled_by(graph)
        used.add(schedule.name)
        return schedule, kernel

    monkeypatch.setattr(loop_kernel, "scheduled_by", scheduled_by)
    parameters, root, before = program
    compile_module(stated(parameters, root, *before))
    # The cost model of fusion asks for the kernel, too.
    return used


@pytest.mark.parametrize("name", CASES_OF)
def test_a_program_has_the_schedule_that_is_for_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _used(CASES_OF[name].fitting, monkeypatch) == {name}


@pytest.mark.parametrize("name", CASES_OF)
def test_a_program_much_like_it_has_another_schedule(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _used(CASES_OF[name].near, monkeypatch) == {CASES_OF[name].other}


def test_every_schedule_has_programs_and_says_what_it_is_for() -> None:
    assert [schedule.name for schedule in SCHEDULES] == list(CASES_OF)
    assert all(each.other != name for name, each in CASES_OF.items())
    assert all(schedule.fits and schedule.reason for schedule in SCHEDULES)


def test_a_program_has_the_same_kernels_whenever_it_is_compiled() -> None:
    """Loops of one work item are compared in their order, not in that of a set."""
    function, arguments = CASES["convolution"]()
    module = imported(lower(function, *arguments))
    compiled = [kernels_of(compile_module(module).code) for _ in range(20)]
    assert len({tuple(thunk.source for thunk in thunks) for thunks in compiled}) == 1
