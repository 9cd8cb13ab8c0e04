"""Splitting of a dimension in two, if all indices divide it by the same number.

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
    """Return dimensions and stores with one dimension split, or both unchanged.

    It is the innermost one that can be. Others are split where remainders are tested, as of rows
    of several operands in turn.
    """
    loops = [Variable(size, "i") for size in dimensions]
    stores = make(tuple(map(variable, loops))) if loops else ()
    for number in reversed(range(len(loops))):
        divisor = _divisor(stores, loops[number], is_innermost=number == len(loops) - 1)
        size = dimensions[number]
        if divisor is not None and size % divisor == 0 and divisor < size:
            break
    else:
        return dimensions, make

    def split(index: Index) -> Sequence[Store]:
        quotient, remainder = index[number : number + 2]
        return make((*index[:number], quotient * divisor + remainder, *index[number + 2 :]))

    before, after = dimensions[:number], dimensions[number + 1 :]
    return (*before, dimensions[number] // divisor, divisor, *after), split


def _divisor(stores: Sequence[Store], loop: Variable, *, is_innermost: bool) -> int | None:
    """Return the common divisor of all quotients and remainders of `loop`'s variable, if any.

    The result is None if an element uses the index undivided, since tests of it are cut along a
    single loop (`nests/pieces.py`), and if an element takes longer than the division of its index.
    """
    is_tested = is_innermost
    for node in all_nodes(stores):
        if isinstance(node, ReductionResult):
            return None
        if isinstance(node, Position):
            if node.index.coefficient(loop):
                return None
            is_tested |= loop in node.index.atoms()
        if isinstance(node, Apply) and cost_of(node.function) >= CostClass.TRANSCENDENTAL:
            return None
    if not is_tested:
        return None
    alone = Affine(0, ((loop, 1),))
    divisors = set()
    for index in indices_of(stores):
        for atom in index.atoms():
            if isinstance(atom, Quotient | Modulus) and loop in atom.operand.atoms():
                divisors.add(atom.divisor if atom.operand == alone else None)
    return divisors.pop() if len(divisors) == 1 else None
