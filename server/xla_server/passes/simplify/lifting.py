"""Scalar computations applied to arrays, instruction by instruction."""

from collections.abc import Sequence

from xla_contract.ops.elementwise.map import MapAttributes
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ops.elementwise.elementwise_table import ELEMENTWISE
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.queries import literal_of

_SAME = frozenset({Opcode.BROADCAST, Opcode.COPY, Opcode.RESHAPE, Opcode.TRANSPOSE})
_LIFTABLE = ELEMENTWISE | _SAME | {Opcode.PARAMETER, Opcode.CONSTANT}
LONGEST = 64
"""Largest number of instructions of a computation that is inlined."""


def is_liftable(computation: HloComputation) -> bool:
    """Return whether a computation on scalars is elementwise and has one result."""
    return len(computation.instructions) <= LONGEST and all(
        i.shape.is_scalar and i.opcode in _LIFTABLE for i in computation.instructions
    )


def applied(
    computation: HloComputation,
    arguments: Sequence[HloInstruction],
    dimensions: Sequence[int],
    editor: Editor,
) -> HloInstruction:
    """The result for each element of converted arguments, by a `map` if it cannot be lifted."""
    typed = [
        editor.convert(argument, parameter.shape.element_type)
        for argument, parameter in zip(arguments, computation.parameters, strict=True)
    ]
    wide = [part if part.shape.rank else editor.broadcast(part, (), dimensions) for part in typed]
    if not is_liftable(computation):
        attributes = MapAttributes(tuple(range(len(dimensions))))
        return editor.add(Opcode.MAP, wide, attributes, (computation,))
    copies = dict(zip(computation.parameters, wide, strict=True))
    for i in computation.instructions:
        if i in copies:
            continue
        if i.opcode in _SAME:
            copies[i] = copies[i.operands[0]]
        elif literal_of(i) is not None:
            copies[i] = editor.broadcast(editor.copy(i, ()), (), dimensions)
        else:
            operands = [copies[operand] for operand in i.operands]
            copies[i] = editor.add(i.opcode, operands, i.attributes)
    return copies[computation.root]
