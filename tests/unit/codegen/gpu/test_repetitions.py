"""Values that registers have when a kernel states them again."""

from collections.abc import Callable

import pytest

from tests.unit.codegen.kernel_ir.kernels import READ, WRITE, kernel_of
from xla_server.codegen.gpu.repetitions import repetitions
from xla_server.codegen.kernel_ir.analysis.counts import evaluations, work_of
from xla_server.codegen.kernel_ir.builder import Body, Branch, Loop
from xla_server.codegen.kernel_ir.expressions import Apply, Buffer, Load, Value, condition
from xla_server.codegen.kernel_ir.statements import Let
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.kernel_ir.walk import walk

Stated = Callable[[Body], None]


def exp_of(
    body: Body, size: int = 4, buffer: Buffer = READ, *, unrolled: bool = True, below: int = 0
) -> None:
    """State exp(buffer[i]) for each i of a loop, if i is below a number."""
    with Loop(body, "i", size, unrolled=unrolled) as loop:
        inside: Body = Branch(loop, condition("lt", loop.axis, below)) if below else loop
        element = Value("v", Type.F32)
        inside.add(Let(element, Load(buffer, Type.F32, loop.axis)))
        inside.add(Let(Value("e", Type.F32), Apply("exp_f32", (element,), Type.F32), origin=0))
        if isinstance(inside, Branch):
            inside.close()


@pytest.mark.parametrize(
    ("second", "again"),
    [
        (exp_of, 2),
        (lambda body: exp_of(body, 5), 0),
        (lambda body: exp_of(body, buffer=Buffer(2, READ.usage)), 0),
        (lambda body: exp_of(body, below=3), 0),
    ],
)
def test_a_value_is_kept_where_loops_tests_and_operands_are_the_same(
    second: Stated, again: int
) -> None:
    body = Body()
    exp_of(body)
    second(body)
    found = repetitions(body.statements)
    assert len(found) == again
    assert found <= {
        id(s) for s, path in walk(body.statements) if path[:1] == (body.statements[1],)
    }


@pytest.mark.parametrize(
    "stated",
    [
        lambda body: exp_of(body, 100, unrolled=False),
        lambda body: exp_of(body, buffer=WRITE),
    ],
)
def test_nothing_is_kept_by_other_loops_and_of_memory_that_changes(stated: Stated) -> None:
    body = Body()
    stated(body)
    stated(body)
    assert repetitions(body.statements) == frozenset()


def test_the_same_test_keeps_a_value() -> None:
    body = Body()
    exp_of(body, below=3)
    exp_of(body, below=3)
    assert len(repetitions(body.statements)) == 2


def test_counts_leave_out_what_is_kept() -> None:
    body = Body()
    exp_of(body)
    once = work_of(body.statements)
    exp_of(body)
    statements = body.statements
    kept = repetitions(statements)
    assert evaluations(kernel_of(*statements).body, 1) == {0: 8}
    assert evaluations(kernel_of(*statements).body, 1, kept) == {0: 4}
    assert work_of(statements, kept) == once


def test_a_value_with_very_many_paths_to_its_operands_has_a_form() -> None:
    body, value = Body(), Value("v", Type.F32)
    for _ in range(2):
        last = value
        for _ in range(100):
            last = body.let("w", Apply("add", (last, last), Type.F32))
    assert len(repetitions(body.statements)) == 100
