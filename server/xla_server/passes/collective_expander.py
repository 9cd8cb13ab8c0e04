"""Operations between replicas, and operations in halves, as what they mean on one replica."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from xla_contract.ops.collective import Participants
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_contract.types.replica_groups import group_mode
from xla_contract.types.shape import Shape
from xla_server.ir.module import HloInstruction
from xla_server.passes.edit import Editor
from xla_server.passes.rewrite_pass import EditorRule, RewritePass

ME = 0
"""The number of the only replica, of the only partition and of both flattened."""


def is_alone(participants: Participants, *, has_global_ids: bool = True) -> bool:
    """Whether the only replica's group is that replica alone."""
    if not participants.groups.groups:
        return True
    participants.mode(has_global_ids=has_global_ids)
    return participants.groups.group_of(ME) == (ME,)


def _joined(i: HloInstruction, editor: Editor) -> HloInstruction:
    """The operands as variadic operations give them: the only one, or all in a tuple."""
    return i.operands[0] if len(i.operands) == 1 else editor.add(Opcode.TUPLE, i.operands)


def _tuple(editor: Editor, *parts: HloInstruction) -> HloInstruction:
    return editor.add(Opcode.TUPLE, parts)


def _all_gather(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    return _joined(i, editor) if _is_one_part(i, i.attributes.gathered) else None


def _all_gather_start(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    if not _is_one_part(i, i.attributes.gathered):
        return None
    values = _joined(i, editor)
    return _tuple(editor, values, values)


def _reduce_scatter(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    return _joined(i, editor) if _is_one_part(i, i.attributes.scattered) else None


def _is_one_part(i: HloInstruction, sizes: tuple[int, ...]) -> bool:
    dimension = i.attributes.dimension
    return is_alone(i.attributes.participants) and all(
        operand.shape.dimensions[dimension] == size
        for operand, size in zip(i.operands, sizes, strict=True)
    )


def _all_reduce(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    return _joined(i, editor) if is_alone(i.attributes.participants) else None


def _all_to_all(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    if not is_alone(i.attributes.participants, has_global_ids=False):
        return None
    if i.attributes.split_dimension is not None:
        return i.operands[0]
    return _tuple(editor, *i.operands) if len(i.operands) == 1 else None


def _collective_broadcast(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    is_all = is_alone(i.attributes.participants, has_global_ids=False)
    return _joined(i, editor) if is_all else None


def _permuted(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    group_mode(i.attributes.channel_id, None)
    if not i.attributes.pairs:
        parts = [editor.zeros(operand.shape) for operand in i.operands]
        return parts[0] if len(parts) == 1 else _tuple(editor, *parts)
    return _joined(i, editor) if i.attributes.pairs == ((ME, ME),) else None


def _permute_start(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    result = _permuted(i, editor)
    if result is None:
        return None
    return _tuple(editor, _joined(i, editor), result, *_contexts(i.attributes.context, editor))


def _async_start(i: HloInstruction, editor: Editor) -> HloInstruction:
    result = editor.add(Opcode.CALL, i.operands, called=i.called)
    operands = _tuple(editor, *i.operands)
    return _tuple(editor, operands, result, *_contexts(i.attributes.context, editor))


def _contexts(shapes: tuple[Shape, ...], editor: Editor) -> list[HloInstruction]:
    return [editor.zeros(shape) for shape in shapes]


def _copy_start(i: HloInstruction, editor: Editor) -> HloInstruction:
    (operand,) = i.operands
    return _tuple(editor, operand, operand, editor.constant(0, ElementType.U32))


def _operand(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    # The first half stays where it asks for others; then so does the second.
    start = i.operands[0]
    return None if start.opcode in _EXPANSIONS else start


def _nth(index: int) -> Callable[[HloInstruction, Editor], HloInstruction | None]:
    def expand(i: HloInstruction, editor: Editor) -> HloInstruction | None:
        start = i.operands[0]
        return None if start.opcode in _EXPANSIONS else editor.element(start, index)

    return expand


def _zero(i: HloInstruction, editor: Editor) -> HloInstruction:
    return editor.constant(ME, ElementType.U32)


_EXPANSIONS: Mapping[Opcode, EditorRule] = MappingProxyType(
    {
        Opcode.ALL_GATHER: _all_gather,
        Opcode.ALL_GATHER_START: _all_gather_start,
        Opcode.ALL_GATHER_DONE: _nth(1),
        Opcode.ALL_REDUCE: _all_reduce,
        Opcode.ALL_REDUCE_START: _all_reduce,
        Opcode.ALL_REDUCE_DONE: _operand,
        Opcode.ALL_TO_ALL: _all_to_all,
        Opcode.ASYNC_START: _async_start,
        Opcode.ASYNC_UPDATE: _operand,
        Opcode.ASYNC_DONE: _nth(1),
        Opcode.COLLECTIVE_BROADCAST: _collective_broadcast,
        Opcode.COLLECTIVE_PERMUTE: _permuted,
        Opcode.COLLECTIVE_PERMUTE_START: _permute_start,
        Opcode.COLLECTIVE_PERMUTE_DONE: _nth(1),
        Opcode.COLLECTIVE_REDUCE: _all_reduce,
        Opcode.COPY_START: _copy_start,
        Opcode.COPY_DONE: _nth(0),
        Opcode.PARTITION_ID: _zero,
        Opcode.REDUCE_SCATTER: _reduce_scatter,
        Opcode.REPLICA_ID: _zero,
    }
)


class CollectiveExpander(RewritePass):
    """Replaces collectives by what one participant alone exchanges with itself.

    A collective among several participants stays, and fails when it runs, as it does elsewhere.
    """

    name = "collective-expander"
    opcodes = _EXPANSIONS.keys()

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        expand = _EXPANSIONS.get(i.opcode)
        return None if expand is None else expand(i, editor)
