"""Lowering of convolution: by tiles where that fits, else to products of patches with the kernel.

For products, the result's dimensions around its features give the rows; what is summed over,
input features and window, gives the depth. Patches are laid out block by block, into memory of
each trip's own, and multiplied by BLAS. Any dimension order is read and written where it is.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xla_contract.opcode import Opcode
from xla_contract.shape import Shape
from xla_server.buffers.code import KernelThunk, Value
from xla_server.codegen.kernel_ir.kernel import SourceKernel
from xla_server.codegen.kernel_ir.numba_text import constant_text
from xla_server.codegen.lower.convolution_phases import Phase, do_overlap
from xla_server.codegen.lower.direct_convolution import (
    direct_phases,
    is_depthwise,
    is_last,
    lower_directly,
)
from xla_server.codegen.lower.epilogue import EpilogueFusion, used
from xla_server.codegen.lower.epilogue_text import (
    NO_EPILOGUE_TEXT,
    EpilogueText,
    with_epilogue_text,
)
from xla_server.codegen.lower.exact_sums import can_sum_exactly, exact_sums_of, is_exact
from xla_server.codegen.lower.loops import lower_loop
from xla_server.codegen.lower.lowering import Lower, Lowering, Tree
from xla_server.codegen.lower.patches import Axis, Line, Matrix, gather_lines, index_lines
from xla_server.codegen.trace.elementwise import literal
from xla_server.ir.module import HloInstruction
from xla_server.target.capability import BLAS_TYPES
from xla_server.target.machine import Machine
from xla_server.target.tuning import tuning_of

SMALL_WORK = 1 << 14
"""Multiplications up to which a loop nest is as good."""

BLOCK_ELEMENTS = 1 << 17
"""Elements of the patches laid out at once: as many as stay in a core's cache."""

BLOCK_ROWS = 512
"""Rows of patches laid out at once."""

SHORTEST_DEPTH = 64
"""What of the depth a block has at least."""

SMALL_GROUP = 4
"""Features of a group from which its part of the kernel is worth calling a matrix."""


def lower_convolution(lowering: Lowering, i: HloInstruction) -> Tree:
    """By tiles, by patches and products where BLAS knows the type, or by a loop nest."""
    phases, plan = _division(lowering.machine, i)
    if phases is not None:
        return lower_directly(lowering, i, phases)
    return lower_loop(lowering, i) if plan is None else _lower_patches(lowering, i, plan)


def lower_convolution_fusion(lowering: Lowering, fusion: HloInstruction, i: HloInstruction) -> Tree:
    """A convolution whose blocks go through the fusion's tail as soon as they are there."""
    phases, plan = _division(lowering.machine, i)
    if phases is not None and is_last(i.attributes.dimension_numbers.output_order):
        tail = EpilogueFusion.of(lowering, fusion, i, is_apart=do_overlap(phases))
        lower_directly(lowering, i, phases, tail)
    elif plan is not None:
        tail = EpilogueFusion.of(lowering, fusion, i)
        _lower_patches(lowering, i, plan, tail)
    else:
        return lower_loop(lowering, fusion)
    return tail.tree


def _division(machine: Machine, i: HloInstruction) -> tuple[list[Phase] | None, "_Plan | None"]:
    """The phases of a convolution by tiles, and its plan by patches; neither where loops do it."""
    if not _is_large(i):
        return None, None
    if not _is_product(i):
        is_deep = is_depthwise(i) and can_sum_exactly(i)
        return direct_phases(machine, i) if is_deep else None, None
    if not can_sum_exactly(i):
        return None, None
    plan = _Plan.of(machine, i)
    is_ready = plan.leading is not None and plan.repacked is None
    return None if is_ready else direct_phases(machine, i), plan


def _lower_patches(
    lowering: Lowering, i: HloInstruction, plan: "_Plan", tail: EpilogueFusion | None = None
) -> Tree:
    """Products of patches with the kernel."""
    if tail is None:
        base, kernel = (lowering.array(operand) for operand in i.operands)
        result = lowering.new(i.shape, i.name)
    else:
        base, kernel = (tail.arguments[tail.argument(operand)] for operand in i.operands)
        result = tail.product
    original = kernel
    if plan.repacked is not None:
        kernel = _packed_kernel(lowering, i, plan.repacked, kernel)
    blocks = -(-plan.rows // plan.block_rows)
    tasks = blocks * plan.groups * plan.batches
    trips = min(tasks, tuning_of(lowering.machine).convolutions.work_items)
    values = [base, kernel, result]
    if plan.leading is None:
        size = trips * plan.block_rows * plan.block_depth
        values.append(lowering.new(Shape.array(i.shape.element_type, (size,)), f"{i.name}.patches"))
    values.append(original)
    features = plan.columns * plan.groups
    rows, columns = plan.batches * features, plan.rows
    if plan.features_last:
        rows, columns = plan.rows, features
    places, text, arguments = with_epilogue_text(tail, values, rows, columns)
    block = plan.block_rows * plan.columns * -(-tasks // trips)
    lowering.add(
        KernelThunk(
            i.name,
            SourceKernel(_source(i, plan, (blocks, tasks, trips), places, text)),
            trips,
            block * (plan.depth + text.work),
            arguments,
            *used(arguments, values[2:-1], tail),
        )
    )
    return result


def _is_large(i: HloInstruction) -> bool:
    """Whether a convolution is of one type that BLAS knows, and more work than a call of that."""
    types = {shape.element_type for shape in (i.shape, *(o.shape for o in i.operands))}
    if len(types) > 1 or not types <= BLAS_TYPES:
        return False
    kernel = i.operands[1].shape
    if not (i.shape.element_count and i.operands[0].shape.element_count and kernel.element_count):
        return False
    depth = kernel.element_count // _features(i)
    # A sum of one product is no product of matrices, where -0, added to zero, became 0.
    return bool(depth > 1 and i.shape.element_count * depth > SMALL_WORK)


def _is_product(i: HloInstruction) -> bool:
    """Whether its groups are matrices: those of few features are vectors."""
    groups = i.attributes.feature_group_count * i.attributes.batch_group_count
    depth = i.operands[1].shape.element_count // _features(i)
    return bool(groups == 1 or min(_features(i) // groups, depth) >= SMALL_GROUP)


def _features(i: HloInstruction) -> int:
    kernel = i.operands[1].shape.dimensions
    return int(kernel[i.attributes.dimension_numbers.kernel_output_feature_dimension])


@dataclasses.dataclass(frozen=True, slots=True)
class _Plan:
    """How a convolution is cut into products.

    `patches` has the rows outside where `depth_inside`, else inside. `features_last` says that
    products are rows by features. `leading` is for patches that lie ready in the input, and
    `repacked` for a kernel that does not.
    """

    patches: Matrix
    depth_inside: bool
    features_last: bool
    leading: int | None
    kernel_is_transposed: bool
    repacked: Matrix | None
    groups: int
    columns: int
    batches: int
    rows: int
    depth: int
    block_rows: int
    block_depth: int
    group_step: int

    @classmethod
    def of(cls, machine: Machine, i: HloInstruction) -> "_Plan":
        """The plan of a convolution."""
        numbers = i.attributes.dimension_numbers
        base, kernel = (operand.shape for operand in i.operands)
        groups = i.attributes.feature_group_count * i.attributes.batch_group_count
        columns = kernel.dimensions[numbers.kernel_output_feature_dimension] // groups
        over_result, over_kernel = _axes(i)
        feature = numbers.output_feature_dimension
        before = tuple(over_result[d] for d in range(feature))
        after = tuple(over_result[d] for d in range(feature + 1, i.shape.rank))
        features_last = all(axis.size == 1 for axis in after)
        rows, fixed = ((*before, *after), ()) if features_last else (after, before)
        depth_order, depth_inside = _depth_order(i, over_result, over_kernel)
        depth = tuple(over_kernel[d] for d in depth_order)
        patches = Matrix(rows, depth, fixed) if depth_inside else Matrix(depth, rows, fixed)
        transposed, repacked = _kernel_layout(i, depth_order)
        row_count = math.prod(axis.size for axis in rows)
        depth_count = math.prod(axis.size for axis in depth)
        leading = patches.leading()
        strides = _strides(base.dimensions)
        if i.attributes.batch_group_count > 1:
            batch = i.shape.dimensions[numbers.output_batch_dimension]
            group_step = batch * strides[numbers.input_batch_dimension]
        else:
            inputs = kernel.dimensions[numbers.kernel_input_feature_dimension]
            group_step = inputs * strides[numbers.input_feature_dimension]
        batches = math.prod(axis.size for axis in fixed)
        block_rows = _block(machine, row_count, batches * groups)
        block_depth = depth_count
        if leading is None:
            most = max(SHORTEST_DEPTH, BLOCK_ELEMENTS // block_rows)
            # Of even sizes, which also cut fewer runs of the input in two.
            block_depth = -(-depth_count // -(-depth_count // most))
        return cls(
            patches,
            depth_inside,
            features_last,
            leading,
            transposed,
            repacked,
            groups,
            columns,
            batches,
            row_count,
            depth_count,
            block_rows,
            block_depth,
            group_step,
        )


def _block(machine: Machine, rows: int, others: int) -> int:
    """Rows of a block: few enough that there are several, of about the same size."""
    fewest = -(-tuning_of(machine).convolutions.min_im2col_blocks // others)
    wanted = max(-(-rows // BLOCK_ROWS), min(fewest, -(-rows // 64)))
    even = -(-rows // wanted)
    return min(rows, -(-even // 8) * 8)


def _strides(dimensions: Sequence[int]) -> list[int]:
    return [math.prod(dimensions[d + 1 :]) for d in range(len(dimensions))]


def _axes(i: HloInstruction) -> tuple[dict[int, Axis], dict[int, Axis]]:
    """How result dimensions and kernel dimensions, features of results aside, move in the input."""
    numbers = i.attributes.dimension_numbers
    base, kernel = (operand.shape.dimensions for operand in i.operands)
    strides = _strides(base)
    batch, inputs = numbers.output_batch_dimension, numbers.kernel_input_feature_dimension
    over_result = {
        batch: Axis("n", i.shape.dimensions[batch], strides[numbers.input_batch_dimension])
    }
    over_kernel = {inputs: Axis("f", kernel[inputs], strides[numbers.input_feature_dimension])}
    for number, d in enumerate(i.attributes.window.dimensions):
        source = numbers.input_spatial_dimensions[number]
        start, step = -d.padding_low, d.window_dilation
        if d.window_reversal:
            start, step = start + (d.size - 1) * step, -step
        line = Line(f"p{number}", base[source], strides[source], start, d.base_dilation)
        to = numbers.output_spatial_dimensions[number]
        over_result[to] = Axis(f"y{number}", i.shape.dimensions[to], d.stride, line)
        over = numbers.kernel_spatial_dimensions[number]
        over_kernel[over] = Axis(f"w{number}", d.size, step, line)
    return over_result, over_kernel


def _depth_order(
    i: HloInstruction, over_result: Mapping[int, Axis], over_kernel: Mapping[int, Axis]
) -> tuple[list[int], bool]:
    """The kernel's dimensions that are summed over, and whether they are the patches' rows.

    What is next to each other in the input is to be so in the patches.
    """
    order = sorted(over_kernel)

    def gain(axes: Mapping[int, Axis]) -> tuple[int, int]:
        contiguous = [(axis.size, d) for d, axis in axes.items() if abs(axis.stride) == 1]
        return max(contiguous, default=(0, -1))

    (depth_run, d), (row_run, _) = gain(over_kernel), gain(over_result)
    if depth_run <= 1 or depth_run < row_run:
        return order, False
    order.remove(d)
    return [*order, d], True


def _kernel_layout(i: HloInstruction, depth_order: Sequence[int]) -> tuple[bool, Matrix | None]:
    """Whether the kernel is features by depth, and how to lay it out where it is neither."""
    numbers = i.attributes.dimension_numbers
    dimensions = i.operands[1].shape.dimensions
    strides = _strides(dimensions)
    outputs = numbers.kernel_output_feature_dimension
    depth = tuple(Axis(f"d{d}", dimensions[d], strides[d]) for d in depth_order)
    features = (Axis("o", dimensions[outputs], strides[outputs]),)
    by_depth, by_features = Matrix(depth, features), Matrix(features, depth)
    if by_depth.leading() == by_depth.columns:
        return False, None
    if by_features.leading() == by_features.columns:
        return True, None
    if strides[outputs] == 1:
        return False, by_depth
    return True, by_features


def _packed_kernel(lowering: Lowering, i: HloInstruction, matrix: Matrix, kernel: Value) -> Value:
    """A kernel's weights laid out as a matrix."""
    packed = lowering.new(kernel.shape, f"{i.name}.kernel")
    kind = i.shape.element_type.text
    row = matrix.columns * i.shape.element_type.byte_width
    lines = [
        "source = peek_i64(buffers, 0)",
        f"target = peek_i64(buffers, 1) + start * {row}",
        "r0 = start",
        "r1 = stop",
        "c0 = 0",
        f"c1 = {matrix.columns}",
        *gather_lines(matrix, kind, "0"),
    ]
    source = SourceKernel(_kernel(i, lines))
    work = 4 * matrix.columns
    lowering.add(
        KernelThunk(
            f"{i.name}.kernel", source, matrix.rows, work, (kernel, packed), (kernel,), (packed,)
        )
    )
    return packed


def _kernel(i: HloInstruction, lines: Sequence[str], tail: EpilogueText = NO_EPILOGUE_TEXT) -> str:
    element_type = i.shape.element_type
    nothing = constant_text(literal(element_type.dtype.type(0), element_type).constant)
    body = "\n".join(f"    {line}" for line in lines)
    constants = f"nothing = {nothing}\n{tail.constants}"
    return f"{constants}def kernel(buffers, start, stop):\n{body}\n"


def _source(
    i: HloInstruction,
    plan: _Plan,
    counts: tuple[int, int, int],
    places: Sequence[int],
    tail: EpilogueText,
) -> str:
    """The kernel that does a trip's share of all blocks, one after the other.

    `counts` are those of blocks, tasks and trips; `places` the numbers of input, kernel, result
    and memory for patches among its arguments.
    """
    blocks, tasks, trips = counts
    width = i.shape.element_type.byte_width
    kind = i.shape.element_type.text
    features = plan.columns * plan.groups
    task = [
        f"row = whole_mod(task, {blocks}) * {plan.block_rows}",
        f"row_stop = minimum(row + {plan.block_rows}, {plan.rows})",
        f"rest = whole_div(task, {blocks})",
        f"group = whole_mod(rest, {plan.groups})",
        f"outer = whole_div(rest, {plan.groups})",
        *index_lines("outer", plan.patches.fixed),
        f"into = result + {_result_offset(plan, features)} * {width}",
        f"base = group * {plan.group_step}",
        f"for depth in range(0, {plan.depth}, {plan.block_depth}):",
        *(f"    {line}" for line in _block_lines(plan, kind, width, features)),
        *_exact_lines(i, plan),
        *(_tail_lines(plan, features, tail) if tail.loops else []),
    ]
    names = ["source", "weights", "result"]
    names += ["scratch"] if plan.leading is None else []
    names += ["original"]
    used_names = [name for name in names if name != "original" or not is_exact(i)]
    lines = [
        *(f"{name} = peek_i64(buffers, {places[names.index(name)]})" for name in used_names),
        *tail.first,
        "for trip in range(start, stop):",
    ]
    if plan.leading is None:
        lines.append(f"    target = scratch + trip * {plan.block_rows * plan.block_depth * width}")
    share = f"whole_div(trip * {tasks}, {trips}), whole_div((trip + 1) * {tasks}, {trips})"
    lines.append(f"    for task in range({share}):")
    return _kernel(i, [*lines, *(f"        {line}" for line in task)], tail)


def _exact_lines(i: HloInstruction, plan: _Plan) -> list[str]:
    """Return the call that sums a block's results again, without the zeros of padding."""
    orders = tuple(range(part.shape.rank) for part in (*i.operands, i))
    exact = exact_sums_of(i, (orders[0], orders[1], orders[2]))
    if exact is None:
        return []
    first = "" if plan.features_last else f"outer * {plan.rows} + "
    group = f"group * {plan.columns}"
    given: dict[str, int | str] = {
        **exact.sizes,
        **{"source": "source", "weights": "original", "result": "result"},
        **{"p0": f"{first}row", "p1": f"{first}row_stop"},
        **{"f0": group, "f1": f"{group} + {plan.columns}"},
    }
    return [f"{exact.routine.name}({', '.join(str(given[n]) for n in exact.routine.names)})"]


def _tail_lines(plan: _Plan, features: int, tail: EpilogueText) -> list[str]:
    """What is done to a block of the result, which is a matrix of features and places."""
    group = f"group * {plan.columns}"
    if plan.features_last:
        rows, columns = ("row", "row_stop"), (group, f"{group} + {plan.columns}")
    else:
        first = f"outer * {features} + {group}"
        rows, columns = (first, f"{first} + {plan.columns}"), ("row", "row_stop")
    return [
        f"first_row = {rows[0]}",
        f"last_row = {rows[1]}",
        f"first_column = {columns[0]}",
        f"last_column = {columns[1]}",
        *tail.loops,
    ]


def _result_offset(plan: _Plan, features: int) -> str:
    if plan.features_last:
        return f"(row * {features} + group * {plan.columns})"
    return f"(outer * {features * plan.rows} + group * {plan.columns * plan.rows} + row)"


def _block_lines(plan: _Plan, kind: str, width: int, features: int) -> list[str]:
    """The product of one block's patches with their part of the kernel, added to the result."""
    lines = [f"depth_stop = minimum(depth + {plan.block_depth}, {plan.depth})"]
    if plan.leading is None:
        outer, inner = ("row", "depth") if plan.depth_inside else ("depth", "row")
        lines += [f"r0 = {outer}", f"r1 = {outer}_stop", f"c0 = {inner}", f"c1 = {inner}_stop"]
        lines += gather_lines(plan.patches, kind, "base")
        patches, ahead = "target", "c1 - c0"
    else:
        offset = f"base + {_lying(plan)}"
        patches, ahead = f"source + ({offset}) * {width}", str(plan.leading)
    if plan.kernel_is_transposed:
        weights = f"weights + (group * {plan.columns * plan.depth} + depth) * {width}"
        weights_ahead = plan.depth
    else:
        weights = f"weights + (depth * {features} + group * {plan.columns}) * {width}"
        weights_ahead = features
    rows, depth = "row_stop - row", "depth_stop - depth"
    if plan.features_last:
        given = [patches, ahead, not plan.depth_inside, weights, weights_ahead]
        given += [plan.kernel_is_transposed, "into", features, rows, plan.columns, depth]
    else:
        given = [weights, weights_ahead, not plan.kernel_is_transposed, patches, ahead]
        given += [plan.depth_inside, "into", plan.rows, plan.columns, rows, depth]
    return [*lines, f"product_into_{kind}({', '.join(map(str, given))}, depth > 0)"]


def _lying(plan: _Plan) -> str:
    """Where the patches of a block are in the input."""
    lines = {axis.line for axis in plan.patches.axes if axis.line is not None}
    start = sum(line.start * line.stride for line in lines)
    fixed = [axis for axis in plan.patches.fixed if axis.size > 1]
    parts = [f"{axis.name} * {axis.stride}" for axis in fixed]
    leading = plan.leading
    parts.append(f"row * {leading}" if plan.depth_inside else "row")
    parts.append("depth" if plan.depth_inside else f"depth * {leading}")
    return " + ".join([*parts, str(start)])


CONVOLUTION_LOWERINGS: Mapping[Opcode, Lower] = MappingProxyType(
    {Opcode.CONVOLUTION: lower_convolution}
)
