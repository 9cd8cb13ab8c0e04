"""Replacement of instructions that read or produce arrays without elements by known values."""

from collections.abc import Mapping

from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction, HloModule
from xla_server.ir.side_effects import has_side_effect
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.queries import is_empty
from xla_server.passes.framework.rewrite_pass import EditorRule, RewritePass

_KEPT = frozenset({Opcode.CONSTANT, Opcode.PARAMETER, Opcode.CUSTOM_CALL, Opcode.TUPLE})


class EmptyArrays(RewritePass):
    """Leaves nothing that would compute elements from arrays that have none."""

    name = "empty-arrays"
    opcodes = frozenset(Opcode) - _KEPT

    def apply(self, module: HloModule) -> bool:
        """Replace everywhere; whether anything was."""
        if not any(
            0 in leaf.dimensions for i in module.instructions() for leaf in i.shape.leaves()
        ):
            return False
        return super().apply(module)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        if has_side_effect(i):
            return None
        leaves = list(i.shape.leaves())
        if leaves and all(leaf.is_array and 0 in leaf.dimensions for leaf in leaves):
            return _all_empty(i, editor)
        rule = _RULES.get(i.opcode)
        return None if rule is None else rule(i, editor)


def _all_empty(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """Return constants for a result without elements; loops stay, as they may not end."""
    if i.opcode in (Opcode.WHILE, Opcode.CALL, Opcode.CONDITIONAL, Opcode.FUSION):
        return None
    if i.shape.is_array:
        return editor.empty(i.shape)
    if any(not part.is_array for part in i.shape.tuple_shapes):
        return None
    return editor.add(Opcode.TUPLE, [editor.empty(part) for part in i.shape.tuple_shapes])


def _reduction(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """The initial values everywhere."""
    half = len(i.operands) // 2
    if not is_empty(i.operands[0]):
        return None
    shapes = i.shape.tuple_shapes or (i.shape,)
    results = [
        editor.broadcast(editor.convert(initial, shape.element_type), (), shape.dimensions)
        for initial, shape in zip(i.operands[half:], shapes, strict=True)
    ]
    return editor.results_as(i, results)


def _product(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """A sum of nothing."""
    if not any(map(is_empty, i.operands[:2])):
        return None
    return editor.full(0, i.shape.element_type, i.shape.dimensions)


def _pad(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    if not is_empty(i.operands[0]):
        return None
    return editor.broadcast(i.operands[1], (), i.shape.dimensions)


def _scatter(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    targets = len(i.operands) // 2
    if not is_empty(i.operands[-1]):
        return None
    results = i.operands[:targets]
    return editor.results_as(i, results)


def _update(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    return i.operands[0] if is_empty(i.operands[1]) else None


def _select_and_scatter(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    if not is_empty(i.operands[1]):
        return None
    return editor.broadcast(i.operands[2], (), i.shape.dimensions)


_RULES: Mapping[Opcode, EditorRule] = {
    Opcode.CONVOLUTION: _product,
    Opcode.DOT: _product,
    Opcode.DYNAMIC_UPDATE_SLICE: _update,
    Opcode.PAD: _pad,
    Opcode.RAGGED_DOT: _product,
    Opcode.REDUCE: _reduction,
    Opcode.REDUCE_WINDOW: _reduction,
    Opcode.SCATTER: _scatter,
    Opcode.SELECT_AND_SCATTER: _select_and_scatter,
}
