"""Elements of results as scalar graphs, and graphs as nested expressions."""

from collections.abc import Sequence

from tests.unit.passes.passing import stated
from xla_server.codegen.instructions.constants import CONSTANTS
from xla_server.codegen.schedules.builders.scalar_builder import Named
from xla_server.codegen.trace.graph import (
    Accumulator,
    Apply,
    Immediate,
    Load,
    Node,
    Position,
    ReductionResult,
)
from xla_server.codegen.trace.rules import RULES
from xla_server.codegen.trace.tracer import Tracer
from xla_server.ir.analysis.affine import Affine, Computed, Modulus, Quotient, Variable, variable


def traced(parameters: Sequence[str], root: str, *before: str) -> Node:
    """Return an element of `root`, at the loop variables i0, i1 ...; see `passing.stated`."""
    module = stated(parameters, root, *before)
    tracer = Tracer(RULES, {p: n for n, p in enumerate(module.entry.parameters)})
    result = module.entry.root
    loops = [Variable(size, f"i{d}") for d, size in enumerate(result.shape.dimensions)]
    return tracer.value(result, tuple(map(variable, loops)))


def expression(node: Node) -> str:
    """Return a graph as an expression; parameter 0 is `x0`, a reduction `loops: combined`."""
    match node:
        case Immediate(constant=constant):
            return str(CONSTANTS[constant.type](*constant.parts))
        case Load(argument=number, offset=offset, guard=guard):
            tested = "" if guard is None else f" if {expression(guard)}"
            return f"x{number}[{_index(offset)}{tested}]"
        case Position(index=index):
            return _index(index)
        case Apply(function=function, operands=operands):
            return f"{function}({', '.join(map(expression, operands))})"
        case Accumulator():
            return "a"
        case Named(name=name):
            return name
        case ReductionResult(reduction=reduction, number=number):
            loops = " ".join(f"{loop.name}<{loop.size}" for loop in reduction.loops)
            return f"[{loops}: {expression(reduction.combined[number])}]"
    raise AssertionError(node)


def _index(index: Affine) -> str:
    parts = []
    for atom, factor in index.terms:
        match atom:
            case Variable(name=name):
                text = name
            case Computed(node=Node() as node):
                text = expression(node)
            case Quotient(operand=operand, divisor=divisor):
                text = f"({_index(operand)})/{divisor}"
            case Modulus(operand=operand, divisor=divisor):
                text = f"({_index(operand)})%{divisor}"
            case _:
                raise AssertionError(atom)
        parts.append(text if factor == 1 else f"{factor}*{text}")
    if index.constant or not parts:
        parts.append(str(index.constant))
    return "+".join(parts)
