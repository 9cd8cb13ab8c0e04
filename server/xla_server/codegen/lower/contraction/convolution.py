"""Lowering of convolution: by tiles where that fits, else to products of im2col matrices.

Those are copied block by block, into memory of each work item's own, and multiplied by BLAS. Any
dimension order is read and written where it is.
"""

from xla_server.codegen.lower.contraction.convolution_phases import Phase
from xla_server.codegen.lower.contraction.direct_convolution import (
    direct_phases,
    is_depthwise,
    is_last,
    lower_directly,
)
from xla_server.codegen.lower.contraction.exact_sums import can_sum_exactly
from xla_server.codegen.lower.contraction.im2col_plan import Im2colPlan
from xla_server.codegen.lower.contraction.im2col_products import lower_products
from xla_server.codegen.lower.loop_nests.epilogue import Product
from xla_server.codegen.lower.loop_nests.loops import lower_loop
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.trace.convolution import is_filter
from xla_server.ir.module import HloInstruction
from xla_server.target.capability import Capability
from xla_server.target.target import Target


def lower_convolution(
    lowering: Lowering, i: HloInstruction, fusion: HloInstruction | None = None
) -> Tree:
    """Add kernels of tiles, of products where BLAS knows the type, or a loop nest.

    Blocks go through the epilogue of an output fusion as soon as they are there.
    """
    phases, plan = _division(lowering.target, i)
    order = i.attributes.dimension_numbers.output_order
    if phases is not None and (fusion is None or is_last(order)):
        return lower_directly(lowering, i, phases, fusion)
    if plan is None:
        return lower_loop(lowering, fusion or i)
    return lower_products(Product.of(lowering, i, fusion), plan)


def _division(target: Target, i: HloInstruction) -> tuple[list[Phase] | None, Im2colPlan | None]:
    """Return the phases of one done by tiles, the plan of one by products, or neither: by loops."""
    if not _is_large(i, target) or _is_unrolled(i, target.capability):
        return None, None
    if not _is_product(i, target.tuning.convolutions.min_group_size):
        is_deep = is_depthwise(i) and can_sum_exactly(i)
        return direct_phases(target, i) if is_deep else None, None
    if not can_sum_exactly(i):
        return None, None
    plan = Im2colPlan.of(target, i)
    is_ready = plan.leading is not None and plan.repacked is None
    return None if is_ready else direct_phases(target, i), plan


def _is_unrolled(i: HloInstruction, capability: Capability) -> bool:
    """Return whether there is one feature, and a window that a loop over results unrolls.

    Such a loop has results in its vectors. Tiles have features in theirs, so here one of them.
    """
    is_short = i.operands[1].shape.element_count <= capability.MAX_UNROLLED_ITERATIONS
    return (_features(i) == 1 and is_short) or is_filter(i)


def _is_large(i: HloInstruction, target: Target) -> bool:
    """Return whether a convolution is of a type that BLAS supports, and large enough for a call."""
    types = {shape.element_type for shape in (i.shape, *(o.shape for o in i.operands))}
    if len(types) > 1 or not types <= target.capability.BLAS_TYPES:
        return False
    kernel = i.operands[1].shape
    if not (i.shape.element_count and i.operands[0].shape.element_count and kernel.element_count):
        return False
    depth = kernel.element_count // _features(i)
    # A sum of one product is no product of matrices, where -0, added to zero, became 0.
    least = target.tuning.convolutions.min_products
    return bool(depth > 1 and i.shape.element_count * depth > least)


def _is_product(i: HloInstruction, min_group_size: int) -> bool:
    """Return whether its groups are matrices: groups of few features are vectors."""
    groups = i.attributes.feature_group_count * i.attributes.batch_group_count
    depth = i.operands[1].shape.element_count // _features(i)
    return bool(groups == 1 or min(_features(i) // groups, depth) >= min_group_size)


def _features(i: HloInstruction) -> int:
    kernel = i.operands[1].shape.dimensions
    return int(kernel[i.attributes.dimension_numbers.kernel_output_feature_dimension])
