"""Convolutions that are matrix products, as dots."""

from collections.abc import Sequence

from xla_contract.ops.contraction.dot import DotAttributes
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
        groups, numbers = i.attributes.feature_group_count, i.attributes.dimension_numbers
        if not i.attributes.window.is_pointwise or (groups, i.attributes.batch_group_count) != (
            1,
            1,
        ):
            return None
        if not i.attributes.window.dimensions:
            batch, feature = numbers.output_batch_dimension, numbers.output_feature_dimension
            by_rows = _dot(
                editor,
                i,
                (i.operands[0], numbers.input_feature_dimension),
                (i.operands[1], numbers.kernel_input_feature_dimension),
            )
            return editor.transpose(by_rows, (batch, feature))
        base, kernel = i.operands
        # The kernel's features, in memory order.
        inputs, outputs, *_ = numbers.kernel_order
        kernel = editor.reshape(
            kernel, [kernel.shape.dimensions[d] for d in sorted((inputs, outputs))]
        )
        along = int(outputs < inputs)
        features = base.shape.dimensions[numbers.input_feature_dimension]
        places = base.shape.element_count // max(features, 1)
        in_order = (0, *range(2, i.shape.rank), 1)
        if _is(numbers.input_order, in_order) and _is(numbers.output_order, in_order):
            rows = editor.reshape(base, (places, features))
            dot = _dot(editor, i, (rows, 1), (kernel, along))
        elif base.shape.dimensions[
            numbers.input_batch_dimension
        ] == 1 and numbers.input_order == numbers.output_order == tuple(range(i.shape.rank)):
            columns = editor.reshape(base, (features, places))
            dot = _dot(editor, i, (kernel, along), (columns, 0))
        else:
            return None
        return editor.reshape(dot, i.shape.dimensions)


def _dot(
    editor: Editor,
    i: HloInstruction,
    left: tuple[HloInstruction, int],
    right: tuple[HloInstruction, int],
) -> HloInstruction:
    """The product that contracts one dimension of each operand."""
    contracted = DotDimensionNumbers((left[1],), (right[1],), (), ())
    attributes = DotAttributes(contracted, i.shape.element_type, i.attributes.precision)
    return editor.add(Opcode.DOT, (left[0], right[0]), attributes)


def _is(order: Sequence[int], wanted: Sequence[int]) -> bool:
    """Return whether `order` is the permutation to `wanted`: batch, feature, spatial dimensions."""
    return [order[d] for d in wanted] == list(range(len(order)))
