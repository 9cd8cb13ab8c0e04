"""Which convolutions are computed in blocks of whole rows of features, which a tail can follow."""

import math
from collections.abc import Sequence

from xla_contract.element_type import ElementType
from xla_server.ir.module import HloInstruction

FEWEST_FEATURES = 8
SHORTEST_ROW = 3
"""Of a result's features and last spatial dimension, for which tiles of registers are used."""

DEEPEST = 1 << 13
"""Products of a sum, for which a panel of the kernel stays in the cache."""

FEWEST_PRODUCTS = 1 << 14
"""Of a convolution, from which it is more than a loop."""


def takes_tail(i: HloInstruction) -> bool:
    """Whether a convolution is done by tiles of registers, block by block of its result."""
    numbers, window = i.attributes.dimension_numbers, i.attributes.window.dimensions
    kernel = i.operands[1].shape
    if i.shape.element_type not in (ElementType.F32, ElementType.F64):
        return False
    if i.attributes.batch_group_count > 1 or i.attributes.feature_group_count > 1:
        return False
    outputs = kernel.dimensions[numbers.kernel_output_feature_dimension]
    depth = kernel.element_count // max(outputs, 1)
    return (
        len(window) in (2, 3)
        and _is_last(numbers.input_order)
        and _is_last(numbers.output_order)
        and all(d.base_dilation == 1 for d in window)
        # A window of one place is a product of matrices.
        and math.prod(d.size for d in window) > 1
        and outputs >= FEWEST_FEATURES
        and i.shape.dimensions[-2] >= SHORTEST_ROW
        and 0 < depth <= DEEPEST
        and i.shape.element_count * depth > FEWEST_PRODUCTS
    )


def _is_last(order: Sequence[int]) -> bool:
    """Whether dimensions are batch, spatial in order, feature; `order` has the feature second."""
    return (order[0], *order[2:], order[1]) == tuple(range(len(order)))
