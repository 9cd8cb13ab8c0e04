"""Convolutions that are matrix products, as dots."""

from collections.abc import Sequence

from xla_contract.types.dimension_numbers import DotDimensionNumbers
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import RewritePass


class ConvolutionCanonicaliser(RewritePass):
    """Turns convolutions with a window of one position, or without window, into dots."""

    name = "convolution-canonicaliser"
    opcodes = (Opcode.CONVOLUTION,)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        a, (base, kernel) = i.attributes, i.operands
        if not a.window.is_pointwise or a.feature_group_count > 1 or a.batch_group_count > 1:
            return None
        numbers = a.dimension_numbers
        if not a.window.dimensions:
            features = numbers.input_feature_dimension, numbers.kernel_input_feature_dimension
            by_rows = editor.dot(i, base, kernel, _contracting(*features))
            batch, feature = numbers.output_batch_dimension, numbers.output_feature_dimension
            return editor.transpose(by_rows, (batch, feature))
        # The kernel's features, in memory order.
        inputs, outputs, *_ = numbers.kernel_order
        kernel = editor.reshape(
            kernel, [kernel.shape.dimensions[d] for d in sorted((inputs, outputs))]
        )
        along = int(outputs < inputs)
        features = base.shape.dimensions[numbers.input_feature_dimension]
        positions = base.shape.element_count // max(features, 1)
        is_one_item = base.shape.dimensions[numbers.input_batch_dimension] == 1
        first_order, in_order = tuple(range(i.shape.rank)), (0, *range(2, i.shape.rank), 1)
        if _is_order(numbers.input_order, in_order) and _is_order(numbers.output_order, in_order):
            rows = editor.reshape(base, (positions, features))
            dot = editor.dot(i, rows, kernel, _contracting(1, along))
        elif is_one_item and numbers.input_order == numbers.output_order == first_order:
            columns = editor.reshape(base, (features, positions))
            dot = editor.dot(i, kernel, columns, _contracting(along, 0))
        else:
            return None
        return editor.reshape(dot, i.shape.dimensions)


def _contracting(of_lhs: int, of_rhs: int) -> DotDimensionNumbers:
    """The dimension numbers of a product that contracts one dimension of each operand."""
    return DotDimensionNumbers((of_lhs,), (of_rhs,), (), ())


def _is_order(order: Sequence[int], wanted: Sequence[int]) -> bool:
    """Return whether `order` is the permutation to `wanted`: batch, feature, spatial dimensions."""
    return [order[d] for d in wanted] == list(range(len(order)))
