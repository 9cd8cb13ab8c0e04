"""Lowering of convolution to tiles, with arrays and kernel brought into the order they want."""

import math
from collections.abc import Sequence

from xla_contract.types.shape import Shape
from xla_server.buffers.code import KernelThunk, Value
from xla_server.codegen.lower.convolution_phases import (
    Phase,
    all_phases,
    joined,
    panels,
    scratch,
)
from xla_server.codegen.lower.direct_convolution_kernels import packing_kernel, phases_kernel
from xla_server.codegen.lower.epilogue import EpilogueFusion, used, with_epilogue
from xla_server.codegen.lower.exact_sums import ExactSums, exact_sums_of
from xla_server.codegen.lower.im2col import Axis, Matrix, matrix_kernel
from xla_server.codegen.lower.lowering import Lowering
from xla_server.codegen.lower.transpose import transposition, transposition_kernel
from xla_server.codegen.lower.winograd import Tiled, fits, tiled_kernel, weights_kernel
from xla_server.codegen.routines.winograd_transforms import SIDE
from xla_server.ir.module import HloInstruction
from xla_server.passes.features_last import has_one_place
from xla_server.target.target import Target


def direct_phases(target: Target, i: HloInstruction) -> list[Phase] | None:
    """The phases of a convolution of real floats that is worth doing by tiles, else None.

    One that is depthwise is so where little is moved: it takes hardly longer than that.
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
    least = capability.MIN_POINT_TAPS if has_one_place(i) else capability.MIN_TAPS
    if i.shape.element_count * found[0].depth < moved * least:
        return None
    return joined(found)


def _reads_often(i: HloInstruction, phases: Sequence[Phase]) -> bool:
    """Return whether the input is read where it is, or often enough to pay for a padded copy."""
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
    fusion: EpilogueFusion | None = None,
) -> Value:
    """Kernels for the phases, which share the result, and what brings arrays into order.

    An epilogue is of a result in order.
    """
    numbers = i.attributes.dimension_numbers
    if fusion is None:
        base, kernel = (lowering.array(operand) for operand in i.operands)
    else:
        base, kernel = (fusion.arguments[fusion.argument(operand)] for operand in i.operands)
    batch, feature, *spatial = numbers.input_order
    order = (batch, *spatial, feature)
    base = _in_order(lowering, base, i.operands[0].shape, order, f"{i.name}.input")
    outputs, inputs = (
        numbers.kernel_output_feature_dimension,
        numbers.kernel_input_feature_dimension,
    )
    order = (*numbers.kernel_spatial_dimensions, inputs, outputs)
    kernel = _in_order(lowering, kernel, i.operands[1].shape, order, f"{i.name}.kernel")
    original = kernel
    by_points = fits(phases) and not any(i.attributes.precision)
    if phases[0].is_packed and not by_points:
        packed = lowering.new(kernel.shape, f"{i.name}.panels")
        packing = packing_kernel(phases[0])
        work = 2 * phases[0].outputs * phases[0].groups
        uses = (kernel, packed), (kernel,), (packed,)
        lowering.add(KernelThunk(packed.name, packing, packing.items, work, *uses))
        kernel = packed
    batch, feature, *spatial = numbers.output_order
    order = (batch, *spatial, feature)
    result = fusion.product if fusion else lowering.new(_permuted(i.shape, order), i.name)
    if by_points:
        points = _at_points(lowering, phases[0], kernel)
        _add_tiled(lowering, i, Tiled(phases[0]), (base, points, kernel), result, fusion)
    else:
        _add_phases(lowering, i, phases, (base, kernel, original), result, fusion)
    back = [order.index(d) for d in range(len(order))]
    return _in_order(lowering, result, result.shape, back, i.name)


def _orders(i: HloInstruction) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """The dimensions of input, kernel and result as the kernels have them in memory."""
    numbers = i.attributes.dimension_numbers
    batch, feature, *spatial = numbers.input_order
    to_batch, to_feature, *to_spatial = numbers.output_order
    kernel = (
        *numbers.kernel_spatial_dimensions,
        numbers.kernel_input_feature_dimension,
        numbers.kernel_output_feature_dimension,
    )
    return (batch, *spatial, feature), kernel, (to_batch, *to_spatial, to_feature)


def _matrix(i: HloInstruction) -> tuple[int, int]:
    """Return the positions and features of a convolution's result, its rows and columns in memory.

    The shape of an epilogue's result does not tell: it may lack dimensions of one element.
    """
    features = i.shape.dimensions[i.attributes.dimension_numbers.output_feature_dimension]
    return i.shape.element_count // features, features


def _exact_sums(i: HloInstruction) -> ExactSums | None:
    """Return the call that sums results again, without the zeros of padding."""
    return exact_sums_of(i, _orders(i), skips_holes=True)


def _add_phases(
    lowering: Lowering,
    i: HloInstruction,
    phases: Sequence[Phase],
    operands: tuple[Value, Value, Value],
    result: Value,
    fusion: EpilogueFusion | None,
) -> None:
    """The kernel of a convolution by tiles of registers.

    Its operands are the input, the weights in panels, and the weights.
    """
    values = [*operands[:2], result, operands[2]]
    if room := scratch(phases):
        shape = Shape.array(result.shape.element_type, (room,))
        values.append(lowering.new(shape, f"{result.name}.box"))
    positions, epilogue, arguments = with_epilogue(fusion, values, *_matrix(i))
    kernel = phases_kernel(phases, positions, epilogue, _exact_sums(i))
    own = epilogue.work * result.shape.element_count // kernel.items
    lowering.add(
        KernelThunk(
            result.name,
            kernel,
            kernel.items,
            sum(phase.work for phase in phases) + own,
            arguments,
            *used(arguments, [value for value in values[2:] if value is not operands[2]], fusion),
        )
    )


def _at_points(lowering: Lowering, phase: Phase, kernel: Value) -> Value:
    """Weights transformed for tiles of results."""
    shape = Shape.array(kernel.shape.element_type, (SIDE * SIDE, phase.inputs * phase.outputs))
    result = lowering.new(shape, f"{kernel.name}.points")
    transform, work = weights_kernel(phase), 100 * phase.outputs
    uses = (kernel, result), (kernel,), (result,)
    lowering.add(KernelThunk(result.name, transform, transform.items, work, *uses))
    return result


def _add_tiled(
    lowering: Lowering,
    i: HloInstruction,
    tiled: Tiled,
    operands: tuple[Value, ...],
    result: Value,
    fusion: EpilogueFusion | None,
) -> None:
    """The kernel of a convolution by tiles: of the input, transformed weights, and weights."""
    shape = Shape.array(result.shape.element_type, (tiled.scratch,))
    room = lowering.new(shape, f"{result.name}.tiles")
    positions, epilogue, arguments = with_epilogue(fusion, [*operands, result, room], *_matrix(i))
    kernel = tiled_kernel(tiled, positions, epilogue, _exact_sums(i))
    lowering.add(
        KernelThunk(
            result.name,
            kernel,
            kernel.items,
            tiled.work + epilogue.work * result.shape.element_count // kernel.items,
            arguments,
            *used(arguments, (result, room), fusion),
        )
    )


def _permuted(shape: Shape, order: Sequence[int]) -> Shape:
    return Shape.array(shape.element_type, [shape.dimensions[d] for d in order])


def _in_order(
    lowering: Lowering, value: Value, shape: Shape, order: Sequence[int], name: str
) -> Value:
    """A value of a shape with its dimensions in this order: itself, or a copy."""
    if list(order) == sorted(order):
        return value
    result = lowering.new(_permuted(shape, order), name)
    plan = transposition(shape.dimensions, order, shape.element_type.byte_width)
    if plan is not None:
        kernel, _, work = transposition_kernel(plan, lowering.target.tuning.transposes)
    else:
        matrix = _rows(shape, order)
        kernel, work = matrix_kernel(matrix, shape.element_type), 2 * matrix.columns
    uses = (value, result), (value,), (result,)
    lowering.add(KernelThunk(name, kernel, kernel.items, work, *uses))
    return result


def _rows(shape: Shape, order: Sequence[int]) -> Matrix:
    """Return the runs along the last of the dimensions in this order."""
    axes = [Axis(f"d{d}", shape.dimensions[d], math.prod(shape.dimensions[d + 1 :])) for d in order]
    return Matrix(tuple(axes[:-1]), tuple(axes[-1:]))
