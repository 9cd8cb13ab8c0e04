"""Division of a convolution into products of im2col matrices with the filter.

Positions of the result, without its features, are the rows of products; input features and window
are the depth.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from xla_server.codegen.lower.movement.im2col import CopiedMatrix, MatrixAxis, SpatialDimension
from xla_server.ir.analysis.affine import dense_strides
from xla_server.ir.module import HloInstruction
from xla_server.target.target import Target


@dataclasses.dataclass(frozen=True, slots=True)
class Im2colPlan:
    """Plan of a convolution as matrix products.

    Rows are the outer dimension of `matrix` if `depth_inside`, else the inner one. `is_nhwc`:
    products are rows by features. `leading` is the leading dimension, in elements, if the matrix is
    stored in the input as it is; `kernel_order` is the order of the filter's dimensions.
    """

    matrix: CopiedMatrix
    depth_inside: bool
    is_nhwc: bool
    leading: int | None
    kernel_is_transposed: bool
    kernel_order: tuple[int, ...]
    groups: int
    columns: int
    batches: int
    rows: int
    depth: int
    block_rows: int
    block_depth: int
    group_step: int

    @classmethod
    def of(cls, target: Target, i: HloInstruction) -> "Im2colPlan":
        """The plan of a convolution."""
        numbers = i.attributes.dimension_numbers
        base, kernel = (operand.shape for operand in i.operands)
        groups = i.attributes.feature_group_count * i.attributes.batch_group_count
        columns = kernel.dimensions[numbers.kernel_output_feature_dimension] // groups
        over_result, over_kernel = _axes(i)
        feature = numbers.output_feature_dimension
        before = tuple(over_result[d] for d in range(feature))
        after = tuple(over_result[d] for d in range(feature + 1, i.shape.rank))
        is_nhwc = all(axis.size == 1 for axis in after)
        rows, fixed = ((*before, *after), ()) if is_nhwc else (after, before)
        depth_order, depth_inside = _depth_order(over_result, over_kernel)
        depth = tuple(over_kernel[d] for d in depth_order)
        matrix = (
            CopiedMatrix(rows, depth, fixed) if depth_inside else CopiedMatrix(depth, rows, fixed)
        )
        transposed, kernel_order = _kernel_order(i, depth_order)
        row_count = math.prod(axis.size for axis in rows)
        depth_count = math.prod(axis.size for axis in depth)
        leading = matrix.leading()
        strides = dense_strides(base.dimensions)
        if i.attributes.batch_group_count > 1:
            batch = i.shape.dimensions[numbers.output_batch_dimension]
            group_step = batch * strides[numbers.input_batch_dimension]
        else:
            inputs = kernel.dimensions[numbers.kernel_input_feature_dimension]
            group_step = inputs * strides[numbers.input_feature_dimension]
        batches = math.prod(axis.size for axis in fixed)
        block_rows = _block(target, row_count, batches * groups)
        block_depth = depth_count
        if leading is None:
            tuned = target.tuning.convolutions
            most = max(tuned.min_im2col_depth, tuned.im2col_elements // block_rows)
            # Blocks of even sizes also split fewer runs of the input.
            block_depth = -(-depth_count // -(-depth_count // most))
        return cls(
            matrix,
            depth_inside,
            is_nhwc,
            leading,
            transposed,
            kernel_order,
            groups,
            columns,
            batches,
            row_count,
            depth_count,
            block_rows,
            block_depth,
            group_step,
        )


def _block(target: Target, rows: int, others: int) -> int:
    """Rows of a block: few enough that there are several, of about the same size."""
    tuned = target.tuning.convolutions
    fewest = -(-tuned.min_im2col_blocks // others)
    wanted = max(-(-rows // tuned.im2col_rows), min(fewest, -(-rows // 64)))
    even = -(-rows // wanted)
    return min(rows, -(-even // 8) * 8)


def _axes(i: HloInstruction) -> tuple[dict[int, MatrixAxis], dict[int, MatrixAxis]]:
    """Return the input's axes of result and filter dimensions, without output features."""
    numbers = i.attributes.dimension_numbers
    base, kernel = (operand.shape.dimensions for operand in i.operands)
    strides = dense_strides(base)
    batch, inputs = numbers.output_batch_dimension, numbers.kernel_input_feature_dimension
    over_result = {
        batch: MatrixAxis("n", i.shape.dimensions[batch], strides[numbers.input_batch_dimension])
    }
    over_kernel = {
        inputs: MatrixAxis("f", kernel[inputs], strides[numbers.input_feature_dimension])
    }
    for number, d in enumerate(i.attributes.window.dimensions):
        source = numbers.input_spatial_dimensions[number]
        start, step = -d.padding_low, d.window_dilation
        if d.window_reversal:
            start, step = start + (d.size - 1) * step, -step
        line = SpatialDimension(f"p{number}", base[source], strides[source], start, d.base_dilation)
        to = numbers.output_spatial_dimensions[number]
        over_result[to] = MatrixAxis(f"y{number}", i.shape.dimensions[to], d.stride, line)
        over = numbers.kernel_spatial_dimensions[number]
        over_kernel[over] = MatrixAxis(f"w{number}", d.size, step, line)
    return over_result, over_kernel


def _depth_order(
    over_result: Mapping[int, MatrixAxis], over_kernel: Mapping[int, MatrixAxis]
) -> tuple[list[int], bool]:
    """Return the filter's contracted dimensions, and whether they are the matrix's inner ones.

    Adjacent input elements stay adjacent in the matrix.
    """
    order = sorted(over_kernel)

    def gain(axes: Mapping[int, MatrixAxis]) -> tuple[int, int]:
        contiguous = [(axis.size, d) for d, axis in axes.items() if abs(axis.stride) == 1]
        return max(contiguous, default=(0, -1))

    (depth_run, d), (row_run, _) = gain(over_kernel), gain(over_result)
    if depth_run <= 1 or depth_run < row_run:
        return order, False
    order.remove(d)
    return [*order, d], True


def _kernel_order(i: HloInstruction, depth_order: Sequence[int]) -> tuple[bool, tuple[int, ...]]:
    """Return whether the filter's matrix is features by depth, and its order of dimensions."""
    outputs = i.attributes.dimension_numbers.kernel_output_feature_dimension
    if dense_strides(i.operands[1].shape.dimensions)[outputs] == 1:
        return False, (*depth_order, outputs)
    return True, (outputs, *depth_order)
