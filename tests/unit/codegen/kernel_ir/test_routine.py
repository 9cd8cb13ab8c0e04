"""Routines, whose calls give each parameter by its name."""

import pytest

from xla_server.codegen.kernel_ir.builder import Body, dealt
from xla_server.codegen.kernel_ir.expressions import Index, Value
from xla_server.codegen.kernel_ir.routine import Routine, Unit, parameters
from xla_server.codegen.kernel_ir.statements import Call
from xla_server.codegen.kernel_ir.types import Type

AXIS = Value("i", Type.I64)


def test_a_call_of_a_routine_gives_each_parameter_by_its_name() -> None:
    body, routine = Body(), Routine("f", parameters(Unit.COUNT, "rows", "columns"))
    body.call_routine(routine, {"columns": 4, "rows": AXIS})
    assert body.statements == [Call("f", (AXIS, Index(4)), parameters=routine.parameters)]
    assert routine.named("g").parameters == routine.parameters
    with pytest.raises(ValueError, match=r"nothing for \['rows'\] and operands for \['row'\]"):
        body.call_routine(routine, {"columns": 4, "row": AXIS})


def test_each_task_is_dealt_to_one_work_item() -> None:
    first, last = dealt(AXIS, 10, 4)
    assert (first, last) == (AXIS * 10 // 4, (AXIS + 1) * 10 // 4)
    ends = [number * 10 // 4 for number in range(5)]
    assert (ends[0], ends[-1], ends) == (0, 10, sorted(ends))
