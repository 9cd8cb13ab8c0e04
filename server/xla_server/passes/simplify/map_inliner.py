"""Scalar computations applied to arrays, instruction by instruction."""

from collections.abc import Sequence

from xla_contract.ops.elementwise.map import MapAttributes
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ops.elementwise.elementwise_table import ELEMENTWISE
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.queries import literal_of
from xla_server.passes.framework.rewrite_pass import RewritePass

_SAME = frozenset({Opcode.BROADCAST, Opcode.COPY, Opcode.RESHAPE, Opcode.TRANSPOSE})
_LIFTABLE = ELEMENTWISE | _SAME | {Opcode.PARAMETER, Opcode.CONSTANT}
LONGEST = 64
"""Largest number of instructions of a computation that is inlined."""


class MapInliner(RewritePass):
    """Replaces `map` by the operations of the computation it applies."""

    name = "map-inliner"
    opcodes = (Opcode.MAP,)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        if not i.shape.is_array or not is_liftable(i.called[0]):
            return None
        return applied(i.called[0], i.operands, i.shape.dimensions, editor)


def is_liftable(computation: HloComputation) -> bool:
    """Return whether a computation on scalars is elementwise and has one result."""
    return computation.root.shape.is_scalar and _are_liftable(computation.instructions)


def _are_liftable(instructions: Sequence[HloInstruction]) -> bool:
    return len(instructions) <= LONGEST and all(
        i.shape.is_scalar and i.opcode in _LIFTABLE for i in instructions
    )


def applied(
    computation: HloComputation,
    arguments: Sequence[HloInstruction],
    dimensions: Sequence[int],
    editor: Editor,
) -> HloInstruction:
    """The result for each element of converted arguments, by a `map` if it cannot be lifted."""
    wide = _wide(computation, arguments, dimensions, editor)
    if not is_liftable(computation):
        attributes = MapAttributes(tuple(range(len(dimensions))))
        return editor.add(Opcode.MAP, wide, attributes, (computation,))
    copies = _lifted(computation, computation.instructions, wide, dimensions, editor)
    return copies[computation.root]


def results_applied(
    computation: HloComputation,
    arguments: Sequence[HloInstruction],
    dimensions: Sequence[int],
    editor: Editor,
) -> list[HloInstruction] | None:
    """Return the elements of the computation's tuple for arguments, None if not liftable."""
    root = computation.root
    inside = [i for i in computation.instructions if i is not root]
    if root.opcode is not Opcode.TUPLE or not _are_liftable(inside):
        return None
    wide = _wide(computation, arguments, dimensions, editor)
    copies = _lifted(computation, inside, wide, dimensions, editor)
    return [copies[part] for part in root.operands]


def _wide(
    computation: HloComputation,
    arguments: Sequence[HloInstruction],
    dimensions: Sequence[int],
    editor: Editor,
) -> list[HloInstruction]:
    """Return arguments of the parameters' types, all of these dimensions."""
    typed = [
        editor.convert(argument, parameter.shape.element_type)
        for argument, parameter in zip(arguments, computation.parameters, strict=True)
    ]
    return [part if part.shape.rank else editor.broadcast(part, (), dimensions) for part in typed]


def _lifted(
    computation: HloComputation,
    instructions: Sequence[HloInstruction],
    wide: Sequence[HloInstruction],
    dimensions: Sequence[int],
    editor: Editor,
) -> dict[HloInstruction, HloInstruction]:
    """Return the array that has the values of each instruction."""
    copies = dict(zip(computation.parameters, wide, strict=True))
    for i in instructions:
        if i in copies:
            continue
        if i.opcode in _SAME:
            copies[i] = copies[i.operands[0]]
        elif literal_of(i) is not None:
            copies[i] = editor.broadcast(editor.copy(i, ()), (), dimensions)
        else:
            operands = [copies[operand] for operand in i.operands]
            copies[i] = editor.add(i.opcode, operands, i.attributes)
    return copies
