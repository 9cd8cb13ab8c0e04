"""dynamic-reshape: a reshape to sizes known at run time.

Semantics: XLA's DynamicReshape: the elements in row-major order; those that the sizes leave over
become padding.
"""

import math

from xla_contract.errors import InvalidArgumentError
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, of_operands


@of_operands
def evaluate_dynamic_reshape(
    instruction: HloInstruction, operand: Array, *new_sizes: Array
) -> Array:
    """The elements under the new sizes.

    Raises InvalidArgumentError for a size outside its bound, and for more elements than there are.
    """
    shape = instruction.shape
    sizes = [
        int(size) if shape.is_dynamic(number) else shape.dimensions[number]
        for number, size in enumerate(new_sizes)
    ]
    count = math.prod(sizes)
    bounds = zip(sizes, shape.dimensions, strict=True)
    if not all(0 <= size <= bound for size, bound in bounds) or count > operand.size:
        raise InvalidArgumentError(
            "sizes must lie within their bounds and count no more elements than there are, got "
            f"[{','.join(map(str, sizes))}] for {shape.without_layout()} and {operand.size} "
            "elements"
        )
    return operand.reshape(-1)[:count].reshape(sizes)
