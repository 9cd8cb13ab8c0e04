"""Reduction of loop states to elements that change and are read."""

import dataclasses
from collections.abc import Iterable

from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.ir.analysis.side_effects import has_side_effect
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.passes.framework.editor import Editor, rearrange, rewrite, users
from xla_server.passes.loops.while_analysis import WhileLoop, callers, is_element, loop_of, resize


@dataclasses.dataclass(frozen=True)
class WhileState:
    """Removes constants, invariants and unused elements from a loop's state.

    Constants are copied to their readers. Readers of an invariant after the loop read its initial
    value. An element that only its own next value depends on is dropped.
    """

    name: str = "while-state"

    def apply(self, module: HloModule) -> bool:
        """Shrink the states of all loops; return whether any changed."""
        if not any(i.opcode is Opcode.WHILE for i in module.instructions()):
            return False
        editor = Editor(module)
        counts = callers(module)
        changed = False
        for computation in module.computations:
            changed |= _sink(computation, counts, editor)
            changed |= _shrink(computation, counts, editor)
        return changed


def _loops(computation: HloComputation, counts: dict[HloComputation, int]) -> Iterable[WhileLoop]:
    """Yield the loops of a computation whose body and condition have no other caller."""
    for i in list(computation.instructions):
        loop = loop_of(i)
        if loop is not None and counts[loop.body] == counts[loop.condition] == 1:
            yield loop


def _sink(computation: HloComputation, counts: dict[HloComputation, int], editor: Editor) -> bool:
    """Write constants of a loop's invariant state into its body and condition."""
    changed = False
    for loop in _loops(computation, counts):
        for index in loop.invariants():
            start = loop.initial(index)
            if start is not None and is_constant(start):
                changed |= _replace(loop.body, index, start, {loop.body.root}, editor)
                changed |= _replace(loop.condition, index, start, set(), editor)
    return changed


def is_constant(i: HloInstruction) -> bool:
    """Return whether an instruction is a constant array, or a broadcast scalar constant."""
    if i.opcode is Opcode.BROADCAST:
        (i,) = i.operands
        return i.opcode is Opcode.CONSTANT and i.shape.is_scalar
    return i.opcode is Opcode.CONSTANT and i.shape.is_array


def _replace(
    inside: HloComputation,
    index: int,
    start: HloInstruction,
    handing_on: set[HloInstruction],
    editor: Editor,
) -> bool:
    """Write a constant where an element is read, except by the instructions that pass it on."""
    (parameter,) = inside.parameters
    found = {
        i for i in inside.instructions if is_element(i, parameter) and i.attributes.index == index
    }
    readers = users(inside)
    reading = [r for i in found for r in readers[i] if r not in handing_on]
    if not reading and inside.root not in found:
        return False
    copy = editor.copy(start, [editor.copy(o, ()) for o in start.operands])
    for reader in reading:
        reader.operands = tuple(copy if o in found else o for o in reader.operands)
    if inside.root in found:
        inside.root = copy
    editor.drain()
    rearrange(inside)
    return True


def _shrink(computation: HloComputation, counts: dict[HloComputation, int], editor: Editor) -> bool:
    """Map loops to loops over those elements that something depends on."""
    readers = users(computation)
    loops = {loop.instruction: loop for loop in _loops(computation, counts)}
    if not loops:
        return False

    def rule(i: HloInstruction) -> HloInstruction | None:
        if i.opcode is Opcode.GET_TUPLE_ELEMENT and i.operands[0] in loops:
            loop, index = loops[i.operands[0]], i.attributes.index
            (start,) = i.operands[0].operands
            return editor.element(start, index) if index in loop.invariants() else None
        if i not in loops:
            return None
        loop = loops[i]
        is_unpacked = i is not computation.root and all(
            reader.opcode is Opcode.GET_TUPLE_ELEMENT for reader in readers[i]
        )
        read = {reader.attributes.index for reader in readers[i]} if is_unpacked else None
        return _shrunk(loop, read, editor)

    return rewrite(computation, rule, editor)


def _shrunk(loop: WhileLoop, read: set[int] | None, editor: Editor) -> HloInstruction | None:
    """A tuple of the loop's results: initial values, or results of a loop over fewer elements."""
    size = loop.size
    (start,) = loop.instruction.operands
    same = loop.invariants()
    needed = (set(range(size)) if read is None else read) - same
    kept = _dependencies(loop, needed)
    if not kept or len(kept) == size:
        return None
    new_indices = {old: new for new, old in enumerate(kept)}
    state = Shape.tuple_of([loop.instruction.shape.tuple_shapes[k].without_layout() for k in kept])
    root = editor.add(Opcode.TUPLE, [loop.body.root.operands[k] for k in kept])
    resize(loop.body, state, new_indices, root, editor)
    resize(loop.condition, state, new_indices, loop.condition.root, editor)
    editor.drain()
    first = editor.add(Opcode.TUPLE, [editor.element(start, k) for k in kept])
    new = editor.add(Opcode.WHILE, (first,), called=(loop.body, loop.condition))
    results = [
        editor.element(new, new_indices[k])
        if k in new_indices and k not in same
        else editor.element(start, k)
        for k in range(size)
    ]
    return editor.add(Opcode.TUPLE, results)


def _dependencies(loop: WhileLoop, needed: set[int]) -> list[int]:
    """The elements that the condition, effects or needed elements depend on, in order."""
    masks: dict[HloInstruction, int] = {}
    parameter = loop.body.parameters[0]
    readers = users(loop.condition)
    tested = {
        test.attributes.index for test in loop.tests if readers[test] or test is loop.condition.root
    }
    wanted = sum(1 << k for k in needed | tested)
    for part in loop.body.instructions:
        mask = 0
        if is_element(part, parameter):
            mask = 1 << part.attributes.index
        else:
            for before in (*part.operands, *part.control_predecessors):
                if before is not parameter:
                    mask |= masks[before]
        masks[part] = mask
        if has_side_effect(part):
            wanted |= mask
    found = -1
    while wanted != found:
        found = wanted
        for k, part in enumerate(loop.body.root.operands):
            if found >> k & 1:
                wanted |= masks[part]
    return [k for k in range(loop.size) if wanted >> k & 1]
