"""Division of a convolution into products of im2col matrices with the kernel.

Arrays are in the order batch, spatial dimensions, features, and the kernel ends in its output
features. The result's dimensions before its features give the rows of products; what is summed
over, window and input features, gives the depth.
"""

import dataclasses

from xla_server.codegen.lower.movement.im2col import CopiedMatrix, MatrixAxis, SpatialDimension
from xla_server.ir.affine import dense_strides
from xla_server.ir.module import HloInstruction
from xla_server.target.target import Target


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """Plan of a convolution as matrix products.

    Each group has `columns` output features, and its input begins `group_step` elements behind that
    of the group before it.
    """

    matrix: CopiedMatrix
    groups: int
    columns: int
    block_rows: int
    block_depth: int
    group_step: int

    @property
    def rows(self) -> int:
        """Rows of all products of a group."""
        return self.matrix.rows

    @property
    def depth(self) -> int:
        """Products that are added up for a result."""
        return self.matrix.columns

    @classmethod
    def of(cls, target: Target, i: HloInstruction) -> "Plan":
        """The plan of a convolution."""
        numbers, attributes = i.attributes.dimension_numbers, i.attributes
        base, kernel = (operand.shape.dimensions for operand in i.operands)
        groups = attributes.feature_group_count * attributes.batch_group_count
        inputs = kernel[numbers.kernel_input_feature_dimension]
        batch, _, *results = (i.shape.dimensions[d] for d in numbers.output_order)
        images, features, *sizes = (base[d] for d in numbers.input_order)
        strides = dense_strides((images, *sizes, features))
        rows, depth = [MatrixAxis("n", batch, strides[0])], list[MatrixAxis]()
        for number, d in enumerate(attributes.window.dimensions):
            start, step = -d.padding_low, d.window_dilation
            if d.window_reversal:
                start, step = start + (d.size - 1) * step, -step
            line = SpatialDimension(
                f"p{number}", sizes[number], strides[1 + number], start, d.base_dilation
            )
            rows.append(MatrixAxis(f"y{number}", results[number], d.stride, line))
            depth.append(MatrixAxis(f"w{number}", d.size, step, line))
        matrix = CopiedMatrix(tuple(rows), (*depth, MatrixAxis("f", inputs, 1)))
        block_rows = _block(target, matrix.rows, groups)
        tuned = target.tuning.convolutions
        most = max(tuned.min_im2col_depth, tuned.im2col_elements // block_rows)
        # Blocks of even sizes also cut fewer runs of the input in two.
        block_depth = -(-matrix.columns // -(-matrix.columns // most))
        columns = kernel[numbers.kernel_output_feature_dimension] // groups
        group_step = batch * strides[0] if attributes.batch_group_count > 1 else inputs
        return cls(matrix, groups, columns, block_rows, block_depth, group_step)


def _block(target: Target, rows: int, others: int) -> int:
    """Rows of a block: few enough that there are several, of about the same size."""
    tuned = target.tuning.convolutions
    fewest = -(-tuned.min_im2col_blocks // others)
    wanted = max(-(-rows // tuned.im2col_rows), min(fewest, -(-rows // 64)))
    even = -(-rows // wanted)
    return min(rows, -(-even // 8) * 8)
