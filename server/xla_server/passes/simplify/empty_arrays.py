"""Replacement of instructions that read or produce arrays without elements by known values."""

from collections.abc import Mapping, Sequence
from functools import partial

from xla_contract.types.opcode import Opcode
from xla_server.ir.analysis.side_effects import has_side_effect
from xla_server.ir.module import SEQUENTIAL_CALLERS, HloInstruction, HloModule
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import EditorRule, RewritePass

_KEPT = frozenset({Opcode.CONSTANT, Opcode.PARAMETER, Opcode.CUSTOM_CALL, Opcode.TUPLE})
_MAY_NOT_END = SEQUENTIAL_CALLERS | {Opcode.FUSION}


class EmptyArrays(RewritePass):
    """Removes instructions that would compute elements from arrays without elements."""

    name = "empty-arrays"
    opcodes = frozenset(Opcode) - _KEPT

    def apply(self, module: HloModule) -> bool:
        """Replace everywhere; return whether anything was replaced."""
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
            return None if i.opcode in _MAY_NOT_END else editor.zeros(i.shape)
        numbers, rule = _RULES.get(i.opcode, ((), None))
        is_found = any(0 in i.operands[number].shape.dimensions for number in numbers)
        return rule(i, editor) if rule is not None and is_found else None


def _initial(i: HloInstruction, editor: Editor) -> HloInstruction:
    """The initial values, broadcast to the result."""
    results = [
        editor.broadcast(editor.convert(initial, shape.element_type), (), shape.dimensions)
        for initial, shape in zip(i.operands[len(i.operands) // 2 :], i.shape.parts, strict=True)
    ]
    return editor.results_as(i, results)


def _filled(number: int, i: HloInstruction, editor: Editor) -> HloInstruction:
    """One operand, a scalar, broadcast to the result."""
    return editor.broadcast(i.operands[number], (), i.shape.dimensions)


_RULES: Mapping[Opcode, tuple[Sequence[int], EditorRule]] = {
    # Empty sums are zero.
    **dict.fromkeys(
        (Opcode.CONVOLUTION, Opcode.DOT, Opcode.RAGGED_DOT),
        ((0, 1), lambda i, editor: editor.zeros(i.shape)),
    ),
    Opcode.DYNAMIC_UPDATE_SLICE: ((1,), lambda i, _: i.operands[0]),
    Opcode.PAD: ((0,), partial(_filled, 1)),
    Opcode.REDUCE: ((0,), _initial),
    Opcode.REDUCE_WINDOW: ((0,), _initial),
    Opcode.SCATTER: (
        (-1,),
        lambda i, editor: editor.results_as(i, i.operands[: len(i.operands) // 2]),
    ),
    Opcode.SELECT_AND_SCATTER: ((1,), partial(_filled, 2)),
}
"""Opcode -> operands, and the function that replaces the instruction if one of them is empty."""
