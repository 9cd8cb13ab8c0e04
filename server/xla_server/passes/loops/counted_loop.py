"""Loops of a known number of iterations, and the slices that iterations read and write."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from xla_contract.ops.elementwise.compare import ComparisonDirection
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.editor import Editor

Values: TypeAlias = Sequence[HloInstruction]
LoopBody: TypeAlias = Callable[[HloInstruction, Values, Values], Values]
"""Body of a loop: from iteration number, loop invariants and state to the next state."""


def counted_loop(
    editor: Editor,
    name: str,
    count: int,
    invariants: Values,
    initial: Values,
    body: LoopBody,
) -> list[HloInstruction]:
    """Return the state after `count` iterations from `initial`, numbered from 0 in s64.

    The body reads no outside values except the `invariants`. The loop's computations are added
    to the editor's `inner` ones, after those of loops inside.
    """
    if not count:
        return list(initial)
    zero = editor.constant(0, ElementType.S64)
    start = editor.add(Opcode.TUPLE, (zero, *invariants, *initial))
    outside = editor.drain()
    state = editor.parameter(0, start.shape)
    limit = editor.constant(count, ElementType.S64)
    goes_on = editor.compare(editor.element(state, 0), limit, ComparisonDirection.LT)
    condition = editor.computation(f"{name}.condition", editor.drain(), goes_on, [state])
    state = editor.parameter(0, start.shape)
    number, *parts = editor.elements(state)
    kept = parts[: len(invariants)]
    changed = body(number, kept, parts[len(invariants) :])
    after = editor.add(Opcode.ADD, (number, editor.constant(1, ElementType.S64)))
    root = editor.add(Opcode.TUPLE, (after, *kept, *changed))
    called = editor.computation(f"{name}.body", editor.drain(), root, [state])
    editor.put_back(outside)
    editor.inner += [called, condition]
    loop = editor.add(Opcode.WHILE, (start,), called=(called, condition))
    return editor.elements(loop)[1 + len(invariants) :]


def read_slice(
    editor: Editor, array: HloInstruction, index: HloInstruction, dimension: int = 0
) -> HloInstruction:
    """Return an array's slice at index `index` of a dimension, which is dropped."""
    starts, sizes = _box(editor, array, index, dimension)
    part = editor.dynamic_slice(array, starts, sizes)
    return editor.reshape(part, sizes[:dimension] + sizes[dimension + 1 :])


def write_slice(
    editor: Editor,
    array: HloInstruction,
    part: HloInstruction,
    index: HloInstruction,
    dimension: int = 0,
) -> HloInstruction:
    """Return the array with a slice replaced at one index of a dimension, which the slice lacks."""
    starts, sizes = _box(editor, array, index, dimension)
    update = editor.reshape(part, sizes)
    return editor.add(Opcode.DYNAMIC_UPDATE_SLICE, (array, update, *starts))


def _box(
    editor: Editor, array: HloInstruction, index: HloInstruction, dimension: int
) -> tuple[Values, list[int]]:
    zero, sizes = editor.constant(0, index.shape.element_type), list(array.shape.dimensions)
    sizes[dimension] = 1
    return [index if n == dimension else zero for n in range(len(sizes))], sizes
