"""Lowering of convolution to tiles, with arrays and kernel brought into the order they want."""

import math
from collections.abc import Sequence

from xla_contract.shape import Shape
from xla_server.buffers.code import KernelThunk, Value
from xla_server.codegen.kernel_ir.kernel import Kernel, SourceKernel
from xla_server.codegen.lower.convolution_phases import (
    Phase,
    all_phases,
    joined,
    panels,
    scratch,
)
from xla_server.codegen.lower.direct_convolution_text import packing_source, phases_source
from xla_server.codegen.lower.epilogue import EpilogueFusion, used
from xla_server.codegen.lower.epilogue_text import with_epilogue_text
from xla_server.codegen.lower.exact_sums import exact_call
from xla_server.codegen.lower.lowering import Lowering
from xla_server.codegen.lower.patches import Axis, Matrix, gather_lines
from xla_server.codegen.lower.transpose import transposition, transposition_kernel
from xla_server.codegen.lower.winograd import Tiled, fits, kernel_source, tiled_source
from xla_server.codegen.routines.winograd_transforms import SIDE
from xla_server.ir.module import HloInstruction
from xla_server.passes.features_last import has_one_place
from xla_server.target.capability import (
    MAX_PANEL_BYTES,
    MIN_DEPTHWISE_FEATURES,
    MIN_POINT_TAPS,
    MIN_TAPS,
    MIN_TILED_ROW,
    TILED_CONVOLUTIONS,
    is_wide_enough,
)
from xla_server.target.machine import Machine

LEAST_READINGS = 4
"""How often each element of a depthwise convolution's input is read, from which laying it out with
its zeros takes little of the time."""


def direct_phases(machine: Machine, i: HloInstruction) -> list[Phase] | None:
    """The phases of a convolution of real floats that is worth doing by tiles, else None.

    One that is depthwise is so where little is moved: it takes hardly longer than that.
    """
    numbers, window = i.attributes.dimension_numbers, i.attributes.window.dimensions
    base, kernel = (operand.shape for operand in i.operands)
    element_type = i.shape.element_type
    if i.attributes.batch_group_count > 1 or element_type not in TILED_CONVOLUTIONS:
        return None
    groups = i.attributes.feature_group_count
    outputs = kernel.dimensions[numbers.kernel_output_feature_dimension] // groups
    inputs = kernel.dimensions[numbers.kernel_input_feature_dimension]
    is_deep = is_depthwise(i)
    if is_deep:
        groups, outputs = 1, groups
    results = [i.shape.dimensions[d] for d in numbers.output_spatial_dimensions]
    if not window or len(window) > 3 or results[-1] < MIN_TILED_ROW:
        return None
    if not (outputs >= MIN_DEPTHWISE_FEATURES if is_deep else is_wide_enough(outputs, groups)):
        return None
    sizes = [base.dimensions[d] for d in numbers.input_spatial_dimensions]
    lines = all_phases(window, sizes, results)
    if lines is None:
        return None
    batch = base.dimensions[numbers.input_batch_dimension]
    width = element_type.byte_width
    found = [
        Phase(machine, element_type.text, width, batch, groups, inputs, outputs, part, is_deep)
        for part in lines
    ]
    panel = max(columns for _, columns, _ in panels(found[0]))
    if found[0].depth * panel * width > MAX_PANEL_BYTES:
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
    least = MIN_POINT_TAPS if has_one_place(i) else MIN_TAPS
    if i.shape.element_count * found[0].depth < moved * least:
        return None
    return joined(found)


def _reads_often(i: HloInstruction, phases: Sequence[Phase]) -> bool:
    """Whether the input is read where it is, or so often that laying it out takes little."""
    window = i.attributes.window.dimensions
    elements = math.prod(d.size for d in window)
    apart = math.prod(d.stride * d.base_dilation for d in window)
    return all(phase.is_inside for phase in phases) or elements >= LEAST_READINGS * apart


def is_depthwise(i: HloInstruction) -> bool:
    """Whether a convolution makes each feature of its result of one of its input."""
    numbers, kernel = i.attributes.dimension_numbers, i.operands[1].shape.dimensions
    groups = i.attributes.feature_group_count
    outputs = kernel[numbers.kernel_output_feature_dimension]
    return bool(kernel[numbers.kernel_input_feature_dimension] == 1 < groups == outputs)


def is_last(order: Sequence[int]) -> bool:
    """Whether dimensions are batch, spatial in order, feature; `order` has the feature second."""
    return (order[0], *order[2:], order[1]) == tuple(range(len(order)))


def lower_directly(
    lowering: Lowering,
    i: HloInstruction,
    phases: Sequence[Phase],
    tail: EpilogueFusion | None = None,
) -> Value:
    """Kernels for the phases, which share the result, and what brings arrays into order.

    A tail is of a result in order.
    """
    numbers = i.attributes.dimension_numbers
    if tail is None:
        base, kernel = (lowering.array(operand) for operand in i.operands)
    else:
        base, kernel = (tail.arguments[tail.argument(operand)] for operand in i.operands)
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
        source, work = (
            SourceKernel(packing_source(phases[0])),
            2 * phases[0].outputs * phases[0].groups,
        )
        lowering.add(
            KernelThunk(
                packed.name, source, phases[0].depth, work, (kernel, packed), (kernel,), (packed,)
            )
        )
        kernel = packed
    batch, feature, *spatial = numbers.output_order
    order = (batch, *spatial, feature)
    result = tail.product if tail else lowering.new(_permuted(i.shape, order), i.name)
    if by_points:
        points = _at_points(lowering, phases[0], kernel)
        _add_tiled(lowering, i, Tiled(phases[0]), (base, points, kernel), result, tail)
    else:
        _add_phases(lowering, i, phases, (base, kernel, original), result, tail)
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


def _exact_lines(i: HloInstruction, first: str, last: str) -> list[str]:
    """Return the call that sums rows `first` to `last` again, without the zeros of padding."""
    bounds = (first, last, "0", str(_matrix(i)[1]))
    return exact_call(i, _orders(i), bounds, skips_holes=True)


def _add_phases(
    lowering: Lowering,
    i: HloInstruction,
    phases: Sequence[Phase],
    operands: tuple[Value, Value, Value],
    result: Value,
    tail: EpilogueFusion | None,
) -> None:
    """The kernel of a convolution by tiles of registers.

    Its operands are the input, the weights in panels, and the weights.
    """
    values = [*operands[:2], result, operands[2]]
    if room := scratch(phases):
        shape = Shape.array(result.shape.element_type, (room,))
        values.append(lowering.new(shape, f"{result.name}.box"))
    places, text, arguments = with_epilogue_text(tail, values, *_matrix(i))
    tail_work = text.work * result.shape.element_count // phases[0].trips
    lowering.add(
        KernelThunk(
            result.name,
            SourceKernel(
                phases_source(phases, places, text, _exact_lines(i, "first_row", "last_row"))
            ),
            phases[0].trips,
            sum(phase.work for phase in phases) + tail_work,
            arguments,
            *used(arguments, [value for value in values[2:] if value is not operands[2]], tail),
        )
    )


def _at_points(lowering: Lowering, phase: Phase, kernel: Value) -> Value:
    """Weights transformed for tiles of results."""
    shape = Shape.array(kernel.shape.element_type, (SIDE * SIDE, phase.inputs * phase.outputs))
    result = lowering.new(shape, f"{kernel.name}.points")
    source, work = SourceKernel(kernel_source(phase)), 100 * phase.outputs
    lowering.add(
        KernelThunk(result.name, source, phase.inputs, work, (kernel, result), (kernel,), (result,))
    )
    return result


def _add_tiled(
    lowering: Lowering,
    i: HloInstruction,
    tiled: Tiled,
    operands: tuple[Value, ...],
    result: Value,
    tail: EpilogueFusion | None,
) -> None:
    """The kernel of a convolution by tiles: of the input, transformed weights, and weights."""
    shape = Shape.array(result.shape.element_type, (tiled.scratch,))
    room = lowering.new(shape, f"{result.name}.tiles")
    places, text, arguments = with_epilogue_text(tail, [*operands, result, room], *_matrix(i))
    exact = _exact_lines(i, "first_row", "last_row")
    lowering.add(
        KernelThunk(
            result.name,
            SourceKernel(tiled_source(tiled, places, text, exact)),
            tiled.trips,
            tiled.work + text.work * result.shape.element_count // tiled.trips,
            arguments,
            *used(arguments, (result, room), tail),
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
    kernel: Kernel | SourceKernel
    if plan is not None:
        kernel, trips, work = transposition_kernel(plan)
    else:
        text, trips, work = _run_source(shape, order)
        kernel = SourceKernel(text)
    lowering.add(KernelThunk(name, kernel, trips, work, (value, result), (value,), (result,)))
    return result


def _run_source(shape: Shape, order: Sequence[int]) -> tuple[str, int, int]:
    """The text of a kernel that copies runs, its trips and the work of one."""
    width, kind = shape.element_type.byte_width, shape.element_type.text
    axes = [Axis(f"d{d}", shape.dimensions[d], math.prod(shape.dimensions[d + 1 :])) for d in order]
    matrix = Matrix(tuple(axes[:-1]), tuple(axes[-1:]))
    lines = [
        "source = peek_i64(buffers, 0)",
        f"target = peek_i64(buffers, 1) + start * {matrix.columns * width}",
        "r0 = start",
        "r1 = stop",
        "c0 = 0",
        f"c1 = {matrix.columns}",
        *gather_lines(matrix, kind, "0"),
    ]
    text = "\n".join(["def kernel(buffers, start, stop):", *(f"    {line}" for line in lines)])
    return text + "\n", matrix.rows, 2 * matrix.columns
