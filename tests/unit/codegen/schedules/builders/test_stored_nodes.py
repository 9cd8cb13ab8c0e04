"""The nodes of stores, and those of a prologue."""

from tests.unit.codegen.schedules.graphs import function, load, store, sum_of
from xla_server.codegen.schedules.builders.stored_nodes import all_nodes, prologue_of
from xla_server.ir.analysis.affine import Affine, Computed, Variable, variable

ROWS, K = Variable(8, "i"), Variable(64, "k")


def test_a_shared_node_is_one_node_and_those_of_indices_are_included() -> None:
    shared, number = load(variable(ROWS)), load(Affine(3), argument=2)
    value = function("mul", shared, shared)
    offset = variable(ROWS) + variable(Computed(number, 0, 9))
    nodes = all_nodes([store(offset, value), store(variable(ROWS), shared)])
    assert set(nodes) == {shared, number, value}
    assert len(nodes) == 3


def test_a_prologue_has_what_varies_with_no_loop_of_the_nest() -> None:
    element, scalar = load(variable(K)), load(Affine(0), argument=2)
    total = sum_of(element, K)
    scaled = function("mul", total, scalar)
    varying = function("mul", load(variable(ROWS)), scaled)
    prologue = prologue_of([store(variable(ROWS), varying)])
    assert {element, scalar, total, scaled} <= prologue
    assert varying not in prologue
    # The sum of a row is no row's alone.
    of_row = sum_of(load(variable(ROWS) * 64 + variable(K)), K)
    assert of_row not in prologue_of([store(variable(ROWS), of_row)])
