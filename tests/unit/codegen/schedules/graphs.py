"""Parts of scalar graphs that tests make loops of."""

from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
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
BF16 = KERNEL_TYPE[ElementType.BF16]


def load(offset: Affine, size: int = 1024, argument: int = 0) -> Load:
    """Return an element of an argument."""
    return Load(argument, F32, offset, size)


def function(name: str, *operands: Node) -> Apply:
    """Return a function of f32."""
    return Apply(name, operands, "f32")


def sum_of(element: Node, loop: Variable) -> ReductionResult:
    """Return the sum, in any order, of elements that a loop goes through."""
    total = Accumulator("f32", (loop,))
    added = function("add_in_any_order", total, element)
    free = free_order(Opcode.ADD, "f32")
    initial = (Immediate.of("f32", 1 << 31),)
    return ReductionResult(Reduction((loop,), initial, (total,), (added,), free, element), 0)


def store(offset: Affine, value: Node, argument: int = 1) -> Store:
    """Return a store to an argument."""
    return Store(argument, F32, offset, value)


def row(*loops: Variable) -> Affine:
    """Return the index of an element of a dense array at these loops."""
    index = Affine(0)
    for loop in loops:
        index = index * loop.size + variable(loop)
    return index
