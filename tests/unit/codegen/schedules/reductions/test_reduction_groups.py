"""The order of a kernel's reductions, those that share a loop, and the nodes of its prologue."""

from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.codegen.schedules.builders.stored_nodes import all_nodes, prologue_of
from xla_server.codegen.schedules.reductions.reduction_groups import (
    needed_reductions,
    reduction_groups,
    reductions_of,
)
from xla_server.codegen.trace.graph import (
    Accumulator,
    Apply,
    Immediate,
    Load,
    Node,
    Reduction,
    ReductionResult,
    Store,
)
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.codegen.trace.reductions import free_order
from xla_server.ir.analysis.affine import Affine, Variable, variable

F32 = KERNEL_TYPE[ElementType.F32]
ROW = Variable(4, "i")


def sum_of(argument: int, size: int, start: Node | None = None) -> ReductionResult:
    """Return the sum of elements of an argument, which starts with a value."""
    loop = Variable(size, "k")
    element = Load(argument, F32, variable(loop), size)
    total = Accumulator("f32", (loop,))
    added = Apply("add_in_any_order", (total, element), "f32")
    initial = Immediate.of("f32", 1 << 31) if start is None else start
    free = free_order(Opcode.ADD, "f32")
    reduction = Reduction((loop,), (initial,), (total,), (added,), free, element)
    return ReductionResult(reduction, 0)


def stored(*values: Node) -> list[Store]:
    return [Store(9, F32, variable(ROW) + n, value) for n, value in enumerate(values)]


def test_a_reduction_follows_those_that_it_needs() -> None:
    first = sum_of(0, 64)
    second = sum_of(1, 64, first)
    assert reductions_of(stored(second)) == [first.reduction, second.reduction]
    assert needed_reductions(second.reduction) == {first.reduction}
    assert needed_reductions(first.reduction) == set()
    assert reduction_groups(stored(second)) == [(first.reduction,), (second.reduction,)]


def test_reductions_of_one_length_share_a_loop() -> None:
    one, other, longer = sum_of(0, 64), sum_of(1, 64), sum_of(2, 65)
    groups = reduction_groups(stored(one, other, longer))
    assert {frozenset(group) for group in groups} == {
        frozenset({one.reduction, other.reduction}),
        frozenset({longer.reduction}),
    }


def test_nodes_of_stores_are_found_once() -> None:
    read = Load(0, F32, variable(ROW), 9)
    square = Apply("mul", (read, read), "f32")
    assert sorted(map(id, all_nodes(stored(square, read)))) == sorted(map(id, (square, read)))


def test_the_prologue_has_what_varies_with_no_row() -> None:
    total = sum_of(0, 64)
    fixed, read = Load(1, F32, Affine(0), 1), Load(2, F32, variable(ROW), 9)
    nodes = prologue_of(stored(Apply("add", (Apply("mul", (fixed, total), "f32"), read), "f32")))
    assert {total, fixed} <= nodes
    assert read not in nodes
