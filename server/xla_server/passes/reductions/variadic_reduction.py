"""Splitting of variadic reductions whose results are independent."""

from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ops.elementwise.elementwise_table import ROUNDED_SUMS
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.queries import FREE_ORDER
from xla_server.passes.framework.rewrite_pass import RewritePass


class VariadicReduction(RewritePass):
    """Makes a reduction for each result, if each is combined by an operation of free order.

    One of them must be a sum, which is then split so that errors stay small: exact operations are
    as good in one loop.
    """

    name = "variadic-reduction"
    opcodes = (Opcode.REDUCE, Opcode.REDUCE_WINDOW)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        if len(i.operands) == 2:
            return None
        operations = _operations(i.called[0])
        kinds = [shape.element_type for shape in i.shape.tuple_shapes]
        if operations is None or not any(
            operation in ROUNDED_SUMS and (kind.is_floating or kind.is_complex)
            for operation, kind in zip(operations, kinds, strict=True)
        ):
            return None
        parts = []
        for n, key in enumerate(zip(operations, kinds, strict=True)):
            operands = (i.operands[n], i.operands[len(kinds) + n])
            if any(operand.shape.element_type is not kinds[n] for operand in operands):
                return None
            parts.append(
                editor.add(i.opcode, operands, i.attributes, (editor.binary_computation(*key),))
            )
        return editor.add(Opcode.TUPLE, parts)


def _operations(reducer: HloComputation) -> list[Opcode] | None:
    """The operations by which each result depends on only its own two parameters, or None."""
    root, parameters = reducer.root, reducer.parameters
    count = len(parameters) // 2
    if root.opcode is not Opcode.TUPLE or len(root.operands) != count:
        return None
    for n, part in enumerate(root.operands):
        own = (parameters[n], parameters[count + n])
        types = {each.shape.element_type for each in (part, *own)}
        if part.opcode not in FREE_ORDER or set(part.operands) != set(own) or len(types) > 1:
            return None
    return [part.opcode for part in root.operands]
