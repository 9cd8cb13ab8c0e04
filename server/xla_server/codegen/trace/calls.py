"""Rules for instructions that call computations element by element: map, call and fusion."""

from xla_contract.types.opcode import Opcode
from xla_server.codegen.trace.graph import Node
from xla_server.codegen.trace.tracer import Index, Tracer
from xla_server.ir.explicit_stack import Deep
from xla_server.ir.module import HloInstruction


def trace_map(t: Tracer, i: HloInstruction, index: Index, number: int) -> Deep[Node]:
    """The called computation of one element of each operand."""
    elements: list[Node] = yield t.operands(i, len(i.operands), index)
    results: tuple[Node, ...] = yield t.called(i.called[0], elements)
    return results[number]


def trace_fusion(t: Tracer, i: HloInstruction, index: Index, number: int) -> Deep[Node]:
    """The element of the called computation's root, whose parameters are the operands."""
    (called,) = i.called
    t.enter(called, i.operands)
    root = called.root
    if root.opcode is Opcode.TUPLE:
        root = root.operands[number]
        number = 0
    return t.element(root, index, number)


def trace_parameter(t: Tracer, i: HloInstruction, index: Index, number: int) -> Deep[Node]:
    """The element of the operand that a fusion binds the parameter to."""
    return t.element(t.binding(i), index, number)
