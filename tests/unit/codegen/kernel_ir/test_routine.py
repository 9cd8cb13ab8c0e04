"""Routines, whose calls give each parameter by its name."""

from typing import NamedTuple

import pytest

from xla_server.codegen.kernel_ir.builder import Body, task_range
from xla_server.codegen.kernel_ir.expressions import Const, Expression, Index, Value
from xla_server.codegen.kernel_ir.routine import (
    Count,
    Function,
    Offset,
    Parameter,
    Routine,
    Unit,
    Write,
    arguments_of,
    parameters,
    routine_of,
)
from xla_server.codegen.kernel_ir.statements import Call
from xla_server.codegen.kernel_ir.types import Type

AXIS = Value("i", Type.I64)
ZERO, TRUE = Const(Type.F32, (0,)), Const(Type.B1, (1,))


def test_a_call_of_a_routine_gives_each_parameter_by_its_name() -> None:
    body, routine = Body(), Routine("f", parameters(Unit.COUNT, "rows", "columns"))
    body.call(routine, {"columns": 4, "rows": AXIS})
    assert body.statements == [Call(routine, (AXIS, Index(4)))]
    assert routine.named("g").parameters == routine.parameters
    with pytest.raises(ValueError, match=r"nothing for \['rows'\] and operands for \['row'\]"):
        body.call(routine, {"columns": 4, "row": AXIS})


@pytest.mark.parametrize(
    ("unit", "operand", "complaint"),
    [
        (Unit.COUNT, ZERO, "x of f must be i64, got f32"),
        (Unit.COUNT, TRUE, "x of f must be i64, got b1"),
        (Unit.BITS, AXIS, "x of f must be u64, got i64"),
        (Unit.FLAG, TRUE, None),
        (Unit.FLAG, AXIS, None),
    ],
)
def test_operands_have_the_types_of_their_units(
    unit: Unit, operand: Expression, complaint: str | None
) -> None:
    routine = Routine("f", parameters(unit, "x"))
    if complaint is None:
        Body().call(routine, {"x": operand})
        return
    with pytest.raises(ValueError, match=complaint):
        Body().call(routine, {"x": operand})


class Line(NamedTuple):
    """A dimension, with the bytes from one element to the next."""

    size: Count
    step: Offset


class Space(NamedTuple):
    """Two dimensions, and what is called for each."""

    outer: Line
    inner: Line
    tile: Function


def _cleared(target: Write, space: Space, count: Count) -> None:
    pass


def test_fields_of_records_are_parameters() -> None:
    routine = routine_of("cleared", _cleared)
    assert routine.parameters == (
        Parameter("target", Unit.WRITE),
        Parameter("space.outer.size", Unit.COUNT),
        Parameter("space.outer.step", Unit.OFFSET),
        Parameter("space.inner.size", Unit.COUNT),
        Parameter("space.inner.step", Unit.OFFSET),
        Parameter("space.tile", Unit.FUNCTION),
        Parameter("count", Unit.COUNT),
    )
    space = Space(Line(2, 3), Line(4, 5), AXIS)
    operands = routine.operands({"count": 7, "space": space, "target": AXIS})
    assert operands == (AXIS, *map(Index, (2, 3, 4, 5)), AXIS, Index(7))
    words = iter(range(7))
    joined = arguments_of(_cleared, words, lambda fields, record: record(*fields))
    assert joined == [0, Space(Line(1, 2), Line(3, 4), 5), 6]


def test_a_call_gives_records_of_the_class_that_a_routine_has() -> None:
    routine = routine_of("cleared", _cleared)
    missing = r"nothing for \['space.inner.size', .*\] and operands for \['space.size', .*\]"
    with pytest.raises(ValueError, match=missing):
        routine.operands({"count": 7, "space": Line(2, 3), "target": AXIS})
    with pytest.raises(ValueError, match=r"operands for \['space'\]"):
        routine.operands({"count": 7, "space": 1, "target": AXIS})


def test_a_call_binds_the_results_of_its_routine() -> None:
    body, routine = Body(), Routine("f", (), (Type.I64,))
    body.call(routine, {}, (AXIS,))
    assert body.statements == [Call(routine, (), (AXIS,))]
    with pytest.raises(ValueError, match=r"results of f must be .*'i64'.*, got \[\]"):
        body.call(routine, {})


def test_a_routine_that_kernels_call_has_a_cost() -> None:
    routine = Routine("f", parameters(Unit.COUNT, "rows"), cost=lambda n: 3.0 * n["rows"])
    assert routine.work({"rows": 5}) == 15
    # Routines are equal whatever their calls cost.
    assert routine == Routine("f", parameters(Unit.COUNT, "rows"))
    with pytest.raises(ValueError, match="a routine that kernels call must have a cost, got g"):
        Routine("g", ()).work({})


def test_each_task_is_dealt_to_one_work_item() -> None:
    first, last = task_range(AXIS, 10, 4)
    assert (first, last) == (AXIS * 10 // 4, (AXIS + 1) * 10 // 4)
    ends = [number * 10 // 4 for number in range(5)]
    assert (ends[0], ends[-1], ends) == (0, 10, sorted(ends))
