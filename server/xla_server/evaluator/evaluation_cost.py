"""The cost of a program that evaluates each instruction once: the reference for recomputation.

It differs from `cost_analysis.py`, which counts as XLA's HLO cost analysis does, in reductions
alone: a loop combines every element with an accumulator, so n elements are n combinations,
not n - 1.
"""

import math

from xla_contract.types.opcode import Opcode
from xla_server.evaluator.cost_analysis import ONE_FLOP, Cost, instruction_cost
from xla_server.ir.explicit_stack import Deep, result_of
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.ir.traversal import reached
from xla_server.ops.elementwise.elementwise_op import CostClass
from xla_server.ops.elementwise.elementwise_table import ROWS, TRANSCENDENTAL

_REDUCTIONS = frozenset({Opcode.REDUCE, Opcode.REDUCE_WINDOW})


COUNTED = TRANSCENDENTAL | ONE_FLOP | _REDUCTIONS | {Opcode.MAP, Opcode.DOT, Opcode.CONVOLUTION}
"""Opcodes whose evaluations loop nests count."""


def evaluations_once(i: HloInstruction) -> float:
    """Return how many evaluations compute each element of a counted opcode once.

    For reductions and products these are the elements that are combined.
    """
    if i.opcode is Opcode.REDUCE:
        return math.prod(map(float, i.operands[0].shape.dimensions))
    shape = i.shape.tuple_shapes[0] if i.shape.is_tuple else i.shape
    elements = math.prod(map(float, shape.dimensions))
    if i.opcode is Opcode.REDUCE_WINDOW:
        return elements * math.prod(float(d.size) for d in i.attributes.window.dimensions)
    if i.opcode is Opcode.DOT:
        contracted = i.attributes.dimension_numbers.lhs_contracting_dimensions
        return elements * math.prod(float(i.operands[0].shape.dimensions[d]) for d in contracted)
    if i.opcode is Opcode.CONVOLUTION:
        return instruction_cost(i, []).flops / 2
    return elements


def evaluation_cost(i: HloInstruction) -> Cost:
    """Return the cost of one evaluation of a counted opcode."""
    if i.opcode in TRANSCENDENTAL:
        return Cost(transcendentals=1)
    if i.opcode in ONE_FLOP:
        return Cost(flops=1)
    if i.opcode in _REDUCTIONS or i.opcode is Opcode.MAP:
        return result_of(_computation_cost(i.called[0], {}))
    return Cost(flops=2)


def evaluation_time(i: HloInstruction) -> float:
    """Return the time of one evaluation of a counted opcode, in units of one addition.

    The cost classes are those by which kernels are counted. A reduction takes its formula and a
    load.
    """
    row = ROWS.get(i.opcode)
    if row is not None:
        return float(row.cost)
    if not i.called:
        return evaluation_cost(i).flops
    formula = reached(i.called, lambda each: (c for part in each.instructions for c in part.called))
    inside = (ROWS.get(part.opcode) for each in formula for part in each.instructions)
    access = CostClass.ACCESS if i.opcode is Opcode.REDUCE else 0
    return float(access + sum(row.cost for row in inside if row is not None))


def cost_once(module: HloModule) -> Cost:
    """Return the cost of a module that has no fusions; loops and branches count once."""
    return result_of(_computation_cost(module.entry, {}))


def instruction_cost_once(i: HloInstruction) -> Cost:
    """Return the cost of an instruction, with all that it calls."""
    return result_of(_instruction_cost(i, {}))


def _computation_cost(computation: HloComputation, known: dict[HloComputation, Cost]) -> Deep[Cost]:
    found = known.get(computation)
    if found is None:
        found = Cost()
        for i in computation.instructions:
            part: Cost = yield _instruction_cost(i, known)
            found += part
        known[computation] = found
    return found


def _instruction_cost(i: HloInstruction, known: dict[HloComputation, Cost]) -> Deep[Cost]:
    called = []
    for callee in i.called:
        cost: Cost = yield _computation_cost(callee, known)
        called.append(cost)
    if i.opcode in _REDUCTIONS:
        return called[0] * evaluations_once(i)
    return instruction_cost(i, called)
