"""The loop variables that scalars depend on."""

from xla_contract.types.element_type import ElementType
from xla_server.codegen.trace.graph import (
    Accumulator,
    Apply,
    Immediate,
    Load,
    Node,
    Position,
    Reduction,
    ReductionResult,
    Store,
    nodes_of,
    reached,
    roots_of,
)
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.ir.analysis.affine import Computed, Variable, variable

F32 = KERNEL_TYPE[ElementType.F32]
ROW, COLUMN = Variable(4, "i"), Variable(6, "k")
ELEMENT = Load(0, F32, variable(ROW) * 6 + variable(COLUMN), 24)


def test_a_scalar_varies_with_what_it_reads() -> None:
    guarded = Load(0, F32, variable(ROW), 9, Apply("lt", (Position(variable(COLUMN)),), "b1"))
    assert Immediate.of("f32", 0).variables == set()
    assert ELEMENT.variables == guarded.variables == {ROW, COLUMN}
    assert Apply("neg", (ELEMENT,), "f32").variables == {ROW, COLUMN}


def test_an_index_that_is_computed_varies_with_its_computation() -> None:
    at = Load(1, KERNEL_TYPE[ElementType.S64], variable(ROW), 9)
    index = variable(Computed(at, 0, 9)) + variable(COLUMN).floordiv(2)
    assert nodes_of(index) == [at]
    assert Load(0, F32, index, 9).variables == {ROW, COLUMN}


def test_a_reduction_does_not_vary_with_its_own_loops() -> None:
    total = Accumulator("f32", (ROW, COLUMN))
    added = Apply("add", (total, ELEMENT), "f32")
    fold = Reduction((COLUMN,), (Immediate.of("f32", 0),), (total,), (added,))
    assert ReductionResult(fold, 0).variables == {ROW}
    assert added.variables == {ROW, COLUMN}


def test_a_chain_of_any_length_has_its_variables() -> None:
    """They are found without recursion."""
    node: Node = ELEMENT
    for _ in range(20_000):
        node = Apply("neg", (node,), "f32")
    assert node.variables == {ROW, COLUMN}


def test_a_walk_visits_every_node_once_and_stops_where_requested() -> None:
    square = Apply("mul", (ELEMENT, ELEMENT), "f32")
    twice = Apply("add", (square, square), "f32")
    assert list(reached([twice, square])) == [square, ELEMENT, twice]
    assert list(reached([twice], lambda node: () if node is square else node.inputs())) == [
        twice,
        square,
    ]


def test_stores_begin_with_their_values_and_what_their_positions_need() -> None:
    index = Computed(Position(variable(ROW)), 0, 3)
    store = Store(0, F32, variable(index), ELEMENT)
    assert roots_of([store]) == [ELEMENT, index.node]
