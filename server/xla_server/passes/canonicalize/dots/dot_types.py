"""Types, forms and orders of dimensions of dots, which lowering's capabilities depend on."""

from collections.abc import Sequence

from xla_contract.ops.contraction.dot import roles_of
from xla_server.ir.module import HloInstruction
from xla_server.target.capability import Capability


def has_packing_kernel(i: HloInstruction, capability: Capability) -> bool:
    """Return whether the kernel of a dot packs its operands, whatever their order."""
    types = {operand.shape.element_type for operand in i.operands}
    return capability.packs_operands(types, i.shape.element_type)


def is_matrix_product(i: HloInstruction) -> bool:
    """Return whether a dot is a product of matrices, with at most one leading batch dimension."""
    lhs, rhs = (operand.shape.rank for operand in i.operands)
    left, right = roles_of(i.attributes.dimension_numbers, lhs, rhs)
    leading = (0,) if left.batch else ()
    is_batch = left.batch == right.batch == leading
    return is_batch and len(left.contracting) == 1 and lhs == rhs == 2 + len(leading)


def is_stored_as_matrices(
    i: HloInstruction, batch: Sequence[int], free: Sequence[int], contracting: Sequence[int]
) -> bool:
    """Return whether an operand is stored as a batch of matrices, transposed or not."""
    orders = (*batch, *free, *contracting), (*batch, *contracting, *free)
    return any(is_in_order(i, order) for order in orders)


def is_in_order(i: HloInstruction, dimensions: Sequence[int]) -> bool:
    """Return whether these dimensions ascend, ignoring those of size 1."""
    long = [d for d in dimensions if i.shape.dimensions[d] != 1]
    return long == sorted(long)
