"""Counts of evaluations by nodes."""

import dataclasses

from tests.processors import TARGET
from tests.unit.codegen.kernel_ir.kernels import sums_of_rows
from tests.unit.codegen.schedules.graphs import load, sum_of
from xla_server.codegen.schedules.builders.launches.scheduled import evaluations_of, scheduled
from xla_server.ir.analysis.affine import Affine, Variable, variable

LOOP = Variable(50, "k")


def test_counts_of_one_node_are_added() -> None:
    node, other = load(Affine(0)), load(Affine(1))
    found = evaluations_of({0: 3, 2: 4, 1: 5}, [node, other, node])
    assert found == {node: 7, other: 5}


def test_a_reduction_is_counted_by_its_elements() -> None:
    reduction = sum_of(load(variable(LOOP)), LOOP).reduction
    turned = dataclasses.replace(reduction, iterations=4)
    assert evaluations_of({0: 3, 1: 3}, [reduction, turned]) == {reduction: 3, turned: 12}


def test_a_kernel_has_the_counts_of_a_launch() -> None:
    element = load(variable(LOOP))
    reduction = sum_of(element, LOOP).reduction
    kernel = sums_of_rows()
    found = scheduled(kernel, [element, reduction], TARGET.tuning.loops.chunks)
    assert found.kernel is kernel
    assert found.evaluations == {element: 200, reduction: 200}
