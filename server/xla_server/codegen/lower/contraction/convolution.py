"""Lowering of convolution: direct, by register tiles, if that fits, else by products with im2col.

For tiles, input and filter are first copied to the order that tiles need. Im2col matrices are
copied block by block, to scratch memory of each work item, and multiplied by BLAS; input and result
may have any order of dimensions.
"""

import math
from collections.abc import Sequence

from xla_server.codegen.lower.contraction.convolution_phases import (
    Phase,
    all_phases,
    do_overlap,
    joined,
    panels,
)
from xla_server.codegen.lower.contraction.direct_convolution_kernels import add_phases
from xla_server.codegen.lower.contraction.exact_sums import can_sum_exactly, exact_sums_of
from xla_server.codegen.lower.contraction.im2col_plan import Im2colPlan
from xla_server.codegen.lower.contraction.im2col_products import lower_products
from xla_server.codegen.lower.contraction.winograd import Tiled, add_tiles, fits
from xla_server.codegen.lower.loop_nests.epilogue import Product
from xla_server.codegen.lower.loop_nests.loop_lowering import lower_loop
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.lower.movement.reordering import in_order, is_in_order, permuted
from xla_server.codegen.trace.contraction import is_filter
from xla_server.ir.module import HloInstruction
from xla_server.passes.canonicalize.convolutions.channels_last import has_unit_window
from xla_server.target.loop_tuning import MAX_UNROLLED_ITERATIONS
from xla_server.target.target import Target


def lower_convolution(
    lowering: Lowering, i: HloInstruction, fusion: HloInstruction | None = None
) -> Tree:
    """Add kernels by tiles or by BLAS, or a loop nest, with the epilogue of a fusion."""
    phases, plan = _division(lowering.target, i)
    order = i.attributes.dimension_numbers.output_order
    if phases is not None and (fusion is None or is_last(order)):
        return lower_directly(lowering, i, phases, fusion)
    if plan is None:
        return lower_loop(lowering, fusion or i)
    return lower_products(Product.of(lowering, i, fusion), plan)


def _division(target: Target, i: HloInstruction) -> tuple[list[Phase] | None, Im2colPlan | None]:
    """Return the phases if done by tiles, the plan if by products; neither for a loop nest."""
    if not _is_large(i, target) or _is_unrolled(i):
        return None, None
    if not _is_product(i, target.tuning.convolutions.min_group_size):
        is_deep = is_depthwise(i) and can_sum_exactly(i)
        return direct_phases(target, i) if is_deep else None, None
    if not can_sum_exactly(i):
        return None, None
    plan = Im2colPlan.of(target, i)
    is_ready = plan.leading is not None and is_in_order(i.operands[1].shape, plan.kernel_order)
    return None if is_ready else direct_phases(target, i), plan


def _is_unrolled(i: HloInstruction) -> bool:
    """Return whether there is one feature, and a window that a loop over results unrolls.

    Such a loop is vectorised over results. Tiles are vectorised over features, of which there is
    one.
    """
    is_short = i.operands[1].shape.element_count <= MAX_UNROLLED_ITERATIONS
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
    # A sum of one product keeps -0; a matrix product would add it to zero and give 0.
    least = target.tuning.convolutions.min_products
    return bool(depth > 1 and i.shape.element_count * depth > least)


def _is_product(i: HloInstruction, min_group_size: int) -> bool:
    """Return whether groups have enough features for matrix products."""
    groups = i.attributes.feature_group_count * i.attributes.batch_group_count
    depth = i.operands[1].shape.element_count // _features(i)
    return bool(groups == 1 or min(_features(i) // groups, depth) >= min_group_size)


def _features(i: HloInstruction) -> int:
    kernel = i.operands[1].shape.dimensions
    return int(kernel[i.attributes.dimension_numbers.kernel_output_feature_dimension])


def direct_phases(target: Target, i: HloInstruction) -> list[Phase] | None:
    """The phases of a convolution of real floats that is faster by tiles; else None.

    A depthwise one takes about as long as a copy: no array is permuted, and padding must pay.
    """
    numbers, window = i.attributes.dimension_numbers, i.attributes.window.dimensions
    base, kernel = (operand.shape for operand in i.operands)
    element_type, capability = i.shape.element_type, target.capability
    if i.attributes.batch_group_count > 1 or element_type not in capability.TILED_CONVOLUTIONS:
        return None
    groups = i.attributes.feature_group_count
    outputs = kernel.dimensions[numbers.kernel_output_feature_dimension] // groups
    inputs = kernel.dimensions[numbers.kernel_input_feature_dimension]
    is_deep = is_depthwise(i)
    if is_deep:
        groups, outputs = 1, groups
    results = [i.shape.dimensions[d] for d in numbers.output_spatial_dimensions]
    if not window or len(window) > 3 or results[-1] < capability.MIN_TILED_ROW:
        return None
    least = capability.MIN_DEPTHWISE_FEATURES
    if not (outputs >= least if is_deep else capability.is_wide_enough(outputs, groups)):
        return None
    sizes = [base.dimensions[d] for d in numbers.input_spatial_dimensions]
    lines = all_phases(window, sizes, results)
    if lines is None:
        return None
    batch = base.dimensions[numbers.input_batch_dimension]
    width = element_type.byte_width
    found = [
        Phase(target, element_type.text, width, batch, groups, inputs, outputs, part, is_deep)
        for part in lines
    ]
    panel = max(columns for _, columns, _ in panels(found[0]))
    if found[0].depth * panel * width > capability.MAX_PANEL_BYTES:
        return None
    moved = sum(
        math.prod(dimensions)
        for order, dimensions in (
            (numbers.input_order, base.dimensions),
            (numbers.output_order, i.shape.dimensions),
        )
        if not is_last(order)
    )
    if is_deep and (moved or not _reads_often(i, found)):
        return None
    least = capability.MIN_POINT_TAPS if has_unit_window(i) else capability.MIN_TAPS
    if i.shape.element_count * found[0].depth < moved * least:
        return None
    return joined(found)


def _reads_often(i: HloInstruction, phases: Sequence[Phase]) -> bool:
    """Return whether the input needs no padded copy, or is read often enough to pay for one."""
    window = i.attributes.window.dimensions
    elements = math.prod(d.size for d in window)
    apart = math.prod(d.stride * d.base_dilation for d in window)
    least = phases[0].tuning.min_readings * apart
    return all(phase.is_inside for phase in phases) or elements >= least


def is_depthwise(i: HloInstruction) -> bool:
    """Return whether each output feature depends on one input feature."""
    numbers, kernel = i.attributes.dimension_numbers, i.operands[1].shape.dimensions
    groups = i.attributes.feature_group_count
    outputs = kernel[numbers.kernel_output_feature_dimension]
    return bool(kernel[numbers.kernel_input_feature_dimension] == 1 < groups == outputs)


def is_last(order: Sequence[int]) -> bool:
    """Return whether dimensions are in the order NHWC; `order` is that of NCHW."""
    return (order[0], *order[2:], order[1]) == tuple(range(len(order)))


def lower_directly(
    lowering: Lowering,
    i: HloInstruction,
    phases: Sequence[Phase],
    fusion: HloInstruction | None = None,
) -> Tree:
    """Add the kernels of the phases, which share the result, and copies that permute arrays.

    An epilogue requires a result in NHWC order.
    """
    input_order, kernel_order, output_order = orders = _orders(i)
    shape = permuted(i.shape, output_order)
    made = Product.of(lowering, i, fusion, shape, do_overlap(phases))
    base, kernel = (
        in_order(lowering, value, operand.shape, order, f"{i.name}.{name}")
        for value, operand, order, name in zip(
            made.operands, i.operands, (input_order, kernel_order), ("input", "kernel"), strict=True
        )
    )
    # Not the epilogue's shape, which may lack dimensions of size 1.
    features = i.shape.dimensions[i.attributes.dimension_numbers.output_feature_dimension]
    epilogue = made.epilogue(i.shape.element_count // features, features)
    exact = exact_sums_of(i, orders, skips_holes=True)
    if fits(phases) and not any(i.attributes.precision):
        add_tiles(made, Tiled(phases[0]), (base, kernel), epilogue, exact)
    else:
        add_phases(made, phases, (base, kernel), epilogue, exact)
    if fusion:
        return made.tree
    back = [output_order.index(d) for d in range(len(output_order))]
    return in_order(lowering, made.value, shape, back, i.name)


def _orders(i: HloInstruction) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """The dimensions of input, filter and result in the memory order of the kernels."""
    numbers = i.attributes.dimension_numbers
    batch, feature, *spatial = numbers.input_order
    to_batch, to_feature, *to_spatial = numbers.output_order
    kernel = (
        *numbers.kernel_spatial_dimensions,
        numbers.kernel_input_feature_dimension,
        numbers.kernel_output_feature_dimension,
    )
    return (batch, *spatial, feature), kernel, (to_batch, *to_spatial, to_feature)
