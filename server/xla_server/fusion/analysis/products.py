"""A test of dots: whether their kernels go on with what is done to results."""

from xla_contract.ops.contraction.dot import product_sizes
from xla_server.ir.module import HloInstruction
from xla_server.target.capability import Capability


def continues_product(dot: HloInstruction, capability: Capability) -> bool:
    """Return whether the kernel of a dot goes on with what is done to its results."""
    lhs, rhs = (operand.shape for operand in dot.operands)
    sizes = product_sizes(lhs.dimensions, rhs.dimensions, dot.attributes.dimension_numbers)
    types = {lhs.element_type, rhs.element_type}
    return capability.continues_product(types, dot.shape.element_type, sizes)
