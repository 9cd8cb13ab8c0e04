"""Splitting of the innermost dimension in two, if all indices divide it by the same number.

Repeated elements and tiles are read at quotients and remainders of their index, and the division
takes longer than the copy. One loop over quotients and one over remainders need no division.
"""

from collections.abc import Sequence

from xla_server.codegen.kernel_ir.analysis.counts import cost_of
from xla_server.codegen.schedules.builders.collapse import Make
from xla_server.codegen.schedules.builders.stored_nodes import all_nodes
from xla_server.codegen.trace.graph import Apply, Position, ReductionResult, Store
from xla_server.codegen.trace.merging import indices_of
from xla_server.codegen.trace.tracer import Index
from xla_server.ir.analysis.affine import Affine, Modulus, Quotient, Variable, variable
from xla_server.ops.elementwise.elementwise_op import CostClass


def split_dimension(dimensions: Sequence[int], make: Make) -> tuple[Sequence[int], Make]:
    """Return dimensions and stores with the innermost dimension split, or both unchanged."""
    if not dimensions:
        return dimensions, make
    loops = [Variable(size, "i") for size in dimensions]
    divisor = _divisor(make(tuple(map(variable, loops))), loops[-1])
    if divisor is None or dimensions[-1] % divisor or divisor == dimensions[-1]:
        return dimensions, make

    def stores(index: Index) -> Sequence[Store]:
        *outer, quotient, remainder = index
        return make((*outer, quotient * divisor + remainder))

    return (*dimensions[:-1], dimensions[-1] // divisor, divisor), stores


def _divisor(stores: Sequence[Store], loop: Variable) -> int | None:
    """Return the common divisor of all quotients and remainders of `loop`'s variable, if any.

    The result is None if an element uses the index undivided, since tests of it are cut along a
    single loop (`nests/pieces.py`), and if an element takes longer than the division of its index.
    """
    for node in all_nodes(stores):
        if isinstance(node, ReductionResult):
            return None
        if isinstance(node, Position) and node.index.coefficient(loop):
            return None
        if isinstance(node, Apply) and cost_of(node.function) >= CostClass.TRANSCENDENTAL:
            return None
    alone = Affine(0, ((loop, 1),))
    divisors = set()
    for index in indices_of(stores):
        for atom in index.atoms():
            if isinstance(atom, Quotient | Modulus) and loop in atom.operand.atoms():
                divisors.add(atom.divisor if atom.operand == alone else None)
    return divisors.pop() if len(divisors) == 1 else None
