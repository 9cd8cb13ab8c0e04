"""Convolutions that are products of matrices."""

import dataclasses

from xla_contract.dimension_numbers import DotDimensionNumbers
from xla_contract.opcode import Opcode
from xla_contract.ops.dot import DotAttributes
from xla_server.ir.module import HloInstruction, HloModule
from xla_server.passes.build import transpose
from xla_server.passes.edit import Editor, rewrite


@dataclasses.dataclass(frozen=True)
class ConvolutionCanonicaliser:
    """Makes dots of convolutions without spatial dimensions, which nothing is convolved in."""

    name: str = "convolution-canonicaliser"

    def apply(self, module: HloModule) -> bool:
        """Rewrite everywhere; whether anything was."""
        editor = Editor(module)
        changed = False
        for computation in module.computations:
            changed |= rewrite(computation, lambda i: _product(i, editor), editor)
        return changed


def _product(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    if i.opcode is not Opcode.CONVOLUTION or i.attributes.window.dimensions:
        return None
    if i.attributes.feature_group_count != 1 or i.attributes.batch_group_count != 1:
        return None
    numbers = i.attributes.dimension_numbers
    contracted = DotDimensionNumbers(
        (numbers.input_feature_dimension,), (numbers.kernel_input_feature_dimension,), (), ()
    )
    dot = editor.add(Opcode.DOT, i.operands, DotAttributes(contracted, i.shape.element_type))
    return transpose(
        editor, dot, (numbers.output_batch_dimension, numbers.output_feature_dimension)
    )
