"""Counts of a kernel: evaluations, and the work of a call and of a work item."""

import pytest

from tests.unit.codegen.kernel_ir.kernels import (
    ITEM,
    READ,
    ROW,
    SHARED,
    WRITE,
    ZERO,
    kernel_of,
    parallel,
    sums_of_rows,
)
from xla_server.codegen.functions.called_functions import CALLED
from xla_server.codegen.functions.table import FUNCTIONS
from xla_server.codegen.instructions.intrinsics import ARITHMETIC
from xla_server.codegen.kernel_ir.analysis.counts import (
    KernelWork,
    Work,
    cost_of,
    evaluations,
    work_of,
)
from xla_server.codegen.kernel_ir.builder import Body, Branch, Items, Loop, Repeat, task_range
from xla_server.codegen.kernel_ir.expressions import (
    START,
    STOP,
    Apply,
    Const,
    Expression,
    Index,
    Load,
    Value,
    condition,
    integer_op,
    plus,
)
from xla_server.codegen.kernel_ir.routine import Routine, Unit, out_of_line, parameters
from xla_server.codegen.kernel_ir.statements import For, If, Let, ParallelFor, While
from xla_server.codegen.kernel_ir.types import Type
from xla_server.ops.elementwise.elementwise_op import CostClass
from xla_server.ops.elementwise.elementwise_table import ROWS

AXIS = Value("i", Type.I64)
TRUE = Const(Type.B1, (1,))
PRODUCT = Routine(
    "product", parameters(Unit.COUNT, "m", "n"), cost=lambda n: float(n["m"] * n["n"])
)


def test_evaluations_are_counted_by_the_loops_around() -> None:
    assert evaluations(sums_of_rows().body, 2) == {0: 200, 1: 200}
    value = Let(AXIS, Index(1), origin=3)
    assert evaluations(kernel_of(value, parallel(value)).body, 3) == {3: 3 + 4}
    loop = While(TRUE, (value,), expected=7)
    assert evaluations(kernel_of(loop).body, 2) == {3: 14}
    blocks = ParallelFor(ITEM, 100, (value,), step=8)
    # Each of four calls has 25 items, in four steps.
    assert evaluations(kernel_of(blocks).body, 4) == {3: 16}
    # The body of a range is executed once by each call.
    loop = For(AXIS, START, STOP, (value,), 25)
    assert evaluations(kernel_of(ParallelFor(None, 100, (loop,), is_range=True)).body, 4) == {
        3: 100
    }


def _work(body: Body) -> KernelWork:
    return work_of(body.statements)


def _of_item(body: Body) -> Work:
    found = _work(body)
    assert found.prologue == Work()
    return found.item


def _store(body: Body, index: Expression, value: Expression = ZERO) -> None:
    body.store(WRITE, "f32", index, value)


def test_a_statement_costs_its_operations_and_accesses_in_each_iteration() -> None:
    found = sums_of_rows().work
    # A product, a sum and a load for each of 50 elements, and the store of the sum.
    assert found == KernelWork(Work(), Work(2 * 50, 50 + 1))
    assert found.times == (100 + CostClass.ACCESS * 51, 0)


def test_work_outside_of_the_parallel_loop_is_the_call_s() -> None:
    body = Body()
    body.let("v", Apply("exp_f32", (Load(READ, Type.F32, Index(0)),), Type.F32))
    with Items(body, 9) as items:
        _store(items, items.axis)
    assert _work(body) == KernelWork(Work(CostClass.TRANSCENDENTAL, 1), Work(0, 1))
    # A kernel without parallel loops is one work item.
    assert work_of(body.statements[:1]) == KernelWork(Work(), Work(CostClass.TRANSCENDENTAL, 1))


def test_a_work_item_is_the_mean_of_all_parallel_loops() -> None:
    body = Body()
    for items, stores in ((10, 1), (30, 5)):
        with Items(body, items) as part, Loop(part, "i", stores) as loop:
            _store(loop, loop.axis)
    assert _of_item(body) == Work(0, (10 * 1 + 30 * 5) / 40)


def test_indices_bounds_and_arrays_of_the_kernel_cost_nothing() -> None:
    body = Body()
    with Items(body, 4) as items:
        number = items.let("n", integer_op("whole_div", items.axis, 3))
        element = Load(ROW, Type.F32, integer_op("mul", number, 5))
        items.store(ROW, "f32", plus(number, 1), element)
        items.store(SHARED, "f32", items.axis, Load(SHARED, Type.F32, number))
    assert _of_item(body) == Work()
    # Integers that a node computes are data.
    value = Let(AXIS, integer_op("add", Load(READ, Type.I64, Index(0)), 1), origin=0)
    assert work_of([parallel(value)]).item == Work(1, 1)


@pytest.mark.parametrize(("items", "tasks"), [(4, 4), (4, 10), (36, 64)])
def test_dealt_tasks_are_counted_by_their_mean(items: int, tasks: int) -> None:
    body = Body()
    with Items(body, items) as part:
        first, last = task_range(part.axis, tasks, items)
        with Loop(part, "task", last, first, iterations=tasks / items) as loop:
            _store(loop, loop.axis)
    assert _of_item(body).accesses == pytest.approx(tasks / items)


def test_a_loop_up_to_the_loop_around_it_has_half_its_iterations_in_the_mean() -> None:
    body = Body()
    with (
        Items(body, 1) as items,
        Loop(items, "r", 101) as r,
        Loop(r, "c", r.axis, iterations=50) as c,
    ):
        _store(c, c.axis)
    assert _of_item(body) == Work(0, 101 * 50)


def test_bounds_that_are_known_count_more_than_what_a_loop_expects() -> None:
    body = Body()
    with Items(body, 3) as items:
        low = items.let("low", items.axis * 40)
        high = items.let("high", integer_op("minimum", low + 40, 100))
        with Loop(items, "i", high, low, iterations=100) as loop:
            _store(loop, loop.axis)
    assert _of_item(body) == Work(0, 40)


def test_the_work_of_a_range_is_that_of_one_work_item() -> None:
    body = Body()
    with Items(body, 100, None) as items, Loop(items, "t", STOP, START, iterations=100) as loop:
        _store(loop, loop.axis)
    assert _of_item(body) == Work(0, 1)


def test_a_block_of_work_items_is_shared_by_them() -> None:
    first = Value("first", Type.I64)
    body = Body()
    last = body.let("last", integer_op("minimum", plus(first, 8), STOP))
    with Loop(body, "t", last, first, iterations=8) as loop:
        _store(loop, loop.axis)
        _store(loop, loop.axis)
    part = ParallelFor(first, 100, tuple(body.statements), step=8)
    assert work_of([part]).item == Work(0, 2)


def test_conditions_are_executed_in_their_share_and_loops_as_often_as_expected() -> None:
    body = Body()
    with Items(body, 5) as items:
        with Branch(items, condition("lt", items.axis, 2), 1 / 4) as branch:
            _store(branch, Index(0))
            for _ in range(2):
                _store(branch.orelse, Index(1))
        with Branch(items, TRUE) as unknown:
            _store(unknown, Index(0))
            _store(unknown.orelse, Index(0))
        with Repeat(items, TRUE, 7) as loop:
            _store(loop, Index(0))
    assert _of_item(body) == Work(1, 1 / 4 + 2 * 3 / 4 + 2 + 7)


def test_evaluations_under_a_condition_are_counted_in_its_share() -> None:
    first, other = (Let(Value(name, Type.F32), ZERO, n) for n, name in enumerate("vw"))
    branch = If(condition("lt", ITEM, 1), (first,), (other,), 1 / 4)
    assert evaluations([parallel(branch, items=20)], 1) == {0: 5.0, 1: 15.0}


def test_a_call_costs_what_its_routine_says_of_the_operands() -> None:
    body = Body()
    with Items(body, 2) as items, Loop(items, "k", 10, step=4) as loop:
        depth = integer_op("minimum", plus(loop.axis, 4), 10) - loop.axis
        loop.call(PRODUCT, {"m": 6, "n": depth})
    # The mean iteration is a whole one.
    assert _of_item(body) == Work(0, 3 * 6 * 4)


@pytest.mark.parametrize(
    ("function", "cost"),
    [
        ("add", CostClass.ARITHMETIC),
        ("add_in_any_order", CostClass.ARITHMETIC),
        ("bits_u32", CostClass.ARITHMETIC),
        ("div", CostClass.DIVISION),
        ("sqrt_c128", CostClass.ROOT),
        # Kernels have an instruction of all real types, and no function of this name.
        ("sqrt_f64", CostClass.ARITHMETIC),
        ("exp_f32", CostClass.TRANSCENDENTAL),
        ("called_exp_f32", CostClass.TRANSCENDENTAL),
        ("exp_of_another_kind", CostClass.ARITHMETIC),
    ],
)
def test_functions_cost_what_their_row_says(function: str, cost: CostClass) -> None:
    assert cost_of(function) == cost


def test_every_function_of_a_row_costs_what_the_row_says() -> None:
    names = FUNCTIONS.keys() | CALLED.keys()
    for row in ROWS.values():
        found = names & {f"{row.kernel}_{kind}" for kind in Type}
        found |= names & {*map(out_of_line, found)}
        if row.kernel in ARITHMETIC:
            # Kernels have one instruction of all real types, which calls functions of some.
            found -= {name for name in found if name.endswith(("_f32", "_f64"))}
            found.add(row.kernel)
        assert {cost_of(name) for name in found} <= {row.cost}
