"""Operations between replicas, and operations in halves, as what they mean on one replica."""

from collections.abc import Mapping
from types import MappingProxyType

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.ir.module import HloInstruction
from xla_server.ops.collective import Exchange
from xla_server.ops.exchanges import EXCHANGES
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import RewritePass

ME = 0
"""The number of the only replica, of the only partition and of both flattened."""


class _Alone:
    """The only replica, as groups name it."""

    replica_id: int = ME
    partition_id: int = ME


_SECOND_HALVES: Mapping[Opcode, int | None] = MappingProxyType(
    {
        Opcode.ALL_GATHER_DONE: 1,
        Opcode.ALL_REDUCE_DONE: None,
        Opcode.ASYNC_DONE: 1,
        Opcode.ASYNC_UPDATE: None,
        Opcode.COLLECTIVE_PERMUTE_DONE: 1,
        Opcode.COPY_DONE: 0,
    }
)
"""The element of the first half's result that the second half gives, None for all of it."""

_NUMBERS = frozenset({Opcode.PARTITION_ID, Opcode.REPLICA_ID})
_EXPANDED = {*EXCHANGES, *_SECOND_HALVES, *_NUMBERS, Opcode.ASYNC_START, Opcode.COPY_START}


class CollectiveExpander(RewritePass):
    """Replaces collectives by what one participant alone exchanges with itself.

    A collective among several participants stays, and fails when it runs, as it does elsewhere.
    """

    name = "collective-expander"
    opcodes = frozenset(_EXPANDED)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        if i.opcode in _SECOND_HALVES:
            return _second_half(i, editor)
        if i.opcode in _NUMBERS:
            return editor.constant(ME, ElementType.U32)
        if i.opcode is Opcode.ASYNC_START:
            result = editor.add(Opcode.CALL, i.operands, called=i.called)
            contexts = [editor.zeros(shape) for shape in i.attributes.context]
            operands = editor.add(Opcode.TUPLE, i.operands)
            return editor.add(Opcode.TUPLE, (operands, result, *contexts))
        if i.opcode is Opcode.COPY_START:
            return _written((0, 0, Shape.scalar(ElementType.U32)), i, editor)
        try:
            exchange = EXCHANGES[i.opcode](i, _Alone())
        except InvalidArgumentError:
            return None
        return _written(exchange, i, editor)


def _second_half(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    # The first half stays where it asks for others; then so does the second.
    start, index = i.operands[0], _SECOND_HALVES[i.opcode]
    if start.opcode in _EXPANDED:
        return None
    return start if index is None else editor.element(start, index)


def _written(exchange: Exchange, i: HloInstruction, editor: Editor) -> HloInstruction:
    if isinstance(exchange, int):
        return i.operands[exchange]
    if isinstance(exchange, tuple):
        return editor.add(Opcode.TUPLE, [_written(part, i, editor) for part in exchange])
    return editor.zeros(exchange)
