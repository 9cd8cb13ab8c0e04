"""The cost of a program that evaluates each instruction once: the reference for recomputation.

It differs from `cost_analysis.py`, which counts as XLA's HLO cost analysis does, in reductions
alone: a loop combines every element with an accumulator, so n elements are n combinations,
not n - 1.
"""

import math
from collections.abc import Sequence

from xla_contract.types.opcode import Opcode
from xla_server.evaluator.cost_analysis import ONE_FLOP, Cost, instruction_cost
from xla_server.ir.analysis.side_effects import instructions_inside
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.ir.traversal import callees_first
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
    elements = math.prod(map(float, i.shape.parts[0].dimensions))
    if i.opcode is Opcode.REDUCE_WINDOW:
        return elements * math.prod(float(d.size) for d in i.attributes.window.dimensions)
    if i.opcode in (Opcode.DOT, Opcode.CONVOLUTION):
        return instruction_cost(i, []).flops / 2
    return elements


def evaluation_cost(i: HloInstruction) -> Cost:
    """Return the cost of one evaluation of a counted opcode."""
    if i.opcode in TRANSCENDENTAL:
        return Cost(transcendentals=1)
    if i.opcode in ONE_FLOP:
        return Cost(flops=1)
    if i.opcode in _REDUCTIONS or i.opcode is Opcode.MAP:
        return _computation_costs(i.called)[i.called[0]]
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
    inside = (ROWS.get(part.opcode) for part in instructions_inside(i))
    access = CostClass.ACCESS if i.opcode is Opcode.REDUCE else 0
    return float(access + sum(row.cost for row in inside if row is not None))


def cost_once(module: HloModule) -> Cost:
    """Return the cost of a module that has no fusions; loops and branches count once."""
    return _computation_costs([module.entry])[module.entry]


def instruction_cost_once(i: HloInstruction) -> Cost:
    """Return the cost of an instruction, with all that it calls."""
    return _instruction_cost(i, _computation_costs(i.called))


def _computation_costs(roots: Sequence[HloComputation]) -> dict[HloComputation, Cost]:
    """Return the costs of computations and of all that they call."""
    known: dict[HloComputation, Cost] = {}
    for computation in callees_first(roots):
        parts = (_instruction_cost(i, known) for i in computation.instructions)
        known[computation] = sum(parts, start=Cost())
    return known


def _instruction_cost(i: HloInstruction, known: dict[HloComputation, Cost]) -> Cost:
    called = [known[callee] for callee in i.called]
    if i.opcode in _REDUCTIONS:
        return called[0] * evaluations_once(i)
    return instruction_cost(i, called)
