"""Loop-invariant code motion: invariants of a loop are computed once before it."""

from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.ops.elementwise.elementwise_table import ELEMENTWISE
from xla_server.passes.framework.editor import Editor, users
from xla_server.passes.framework.rewrite_pass import TargetRewritePass
from xla_server.passes.loops.while_analysis import WhileLoop, callers, is_element, loop_of, resize

_FREE = frozenset({Opcode.BROADCAST, Opcode.IOTA, Opcode.RESHAPE, Opcode.REVERSE, Opcode.SLICE})
"""Opcodes that are moved along with a reader, but not stored by themselves."""

_EXPENSIVE = frozenset(
    {
        Opcode.CHOLESKY,
        Opcode.CONVOLUTION,
        Opcode.DOT,
        Opcode.FFT,
        Opcode.GATHER,
        Opcode.REDUCE,
        Opcode.REDUCE_WINDOW,
        Opcode.SORT,
        Opcode.TRIANGULAR_SOLVE,
    }
)

_MOVED = (
    ELEMENTWISE
    | _FREE
    | _EXPENSIVE
    | {
        Opcode.BITCAST_CONVERT,
        Opcode.CONCATENATE,
        Opcode.DYNAMIC_SLICE,
        Opcode.PAD,
        Opcode.TRANSPOSE,
    }
)


class WhileHoisting(TargetRewritePass):
    """Moves invariant computations before loops; the state passes their results in."""

    name = "while-hoisting"
    opcodes = (Opcode.WHILE,)

    def apply(self, module: HloModule) -> bool:
        """Hoist out of all loops; return whether anything was."""
        free, counts = self.target.tuning.control_flow.free_hoisted_bytes, callers(module)
        return self._rewrite(module, lambda _, e: lambda i: _hoisted(i, counts, e, free))


def _hoisted(
    i: HloInstruction, counts: dict[HloComputation, int], editor: Editor, free_bytes: int
) -> HloInstruction | None:
    loop = loop_of(i)
    if loop is None or not counts[loop.body] == counts[loop.condition] == 1:
        return None
    handed_in = _frontier(loop, _invariant(loop), free_bytes)
    if not handed_in:
        return None
    results = _outside(loop, handed_in, editor)
    state = Shape.tuple_of(
        [part.without_layout() for part in (*i.shape.tuple_shapes, *(h.shape for h in handed_in))]
    )
    new_indices = {k: k for k in range(loop.size)}
    root = editor.add(Opcode.TUPLE, [*loop.body.root.operands, *handed_in])
    resize(loop.body, state, new_indices, root, editor, handed_in)
    resize(loop.condition, state, new_indices, loop.condition.root, editor)
    # The rewrite inserts new instructions of the body before their readers there, not here.
    editor.drain()
    (start,) = i.operands
    initial = [*editor.elements(start), *(results[part] for part in handed_in)]
    new = editor.add(Opcode.WHILE, (editor.add(Opcode.TUPLE, initial),), called=i.called)
    return editor.add(Opcode.TUPLE, editor.elements(new)[: loop.size])


def _invariant(loop: WhileLoop) -> set[HloInstruction]:
    """Instructions of the body that depend only on invariant elements."""
    parameter = loop.body.parameters[0]
    same = loop.invariants()
    known: set[HloInstruction] = set()
    moved: set[HloInstruction] = set()
    for part in loop.body.instructions:
        if part.opcode is Opcode.CONSTANT:
            known.add(part)
        elif is_element(part, parameter):
            if part.attributes.index in same:
                known.add(part)
        elif (
            part.opcode in _MOVED
            and part.operands
            and not part.control_predecessors
            and all(operand in known for operand in part.operands)
        ):
            known.add(part)
            moved.add(part)
    return moved


def _frontier(loop: WhileLoop, moved: set[HloInstruction], free_bytes: int) -> list[HloInstruction]:
    """Return the invariants to store: those that the loop reads and that are worth their memory."""
    readers = users(loop.body)
    leaving = set(moved)
    found = []
    for part in reversed(loop.body.instructions):
        if part not in moved or all(reader in leaving for reader in readers[part]):
            continue
        if _is_worth_memory(part, free_bytes):
            found.append(part)
        else:
            leaving.discard(part)
    return found[::-1]


def _is_worth_memory(part: HloInstruction, free_bytes: int) -> bool:
    if part.opcode in _FREE or not part.shape.is_array:
        return False
    bytes_in = sum(operand.shape.byte_size for operand in part.operands)
    return part.opcode in _EXPENSIVE or part.shape.byte_size <= max(free_bytes, bytes_in)


def _outside(
    loop: WhileLoop, handed_in: list[HloInstruction], editor: Editor
) -> dict[HloInstruction, HloInstruction]:
    """Copies of instructions, and of their operands, that read the loop's initial state."""
    (start,) = loop.instruction.operands
    parameter = loop.body.parameters[0]
    needed = set(handed_in)
    for part in reversed(loop.body.instructions):
        if part in needed and part.opcode is not Opcode.GET_TUPLE_ELEMENT:
            needed.update(part.operands)
    copies: dict[HloInstruction, HloInstruction] = {}
    for part in loop.body.instructions:
        if part in needed and is_element(part, parameter):
            copies[part] = editor.element(start, part.attributes.index)
        elif part in needed:
            copies[part] = editor.copy(part, [copies[operand] for operand in part.operands])
    return copies
