"""Alias analysis of a computation: buffers, their readers, and updates without a copy.

It follows the lowering: a reshape or a tuple shares the buffers of its operands, and a
dynamic-update-slice overwrites the buffer of its operand if it has no later reader.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ir.traversal import leaves

_FIRST_OPERAND = frozenset(
    {Opcode.ADD_DEPENDENCY, Opcode.COPY, Opcode.DOMAIN, Opcode.OPT_BARRIER, Opcode.RESHAPE}
)
"""Opcodes whose result aliases the first operand."""

_ALIASES = _FIRST_OPERAND | {Opcode.AFTER_ALL, Opcode.GET_TUPLE_ELEMENT, Opcode.TUPLE}
"""Opcodes that neither read nor write a buffer."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class AliasedBuffer:
    """The memory of one array, which instructions that alias each other share."""

    definer: HloInstruction
    byte_size: int

    @property
    def is_given(self) -> bool:
        """True if the buffer holds a parameter or a constant."""
        return self.definer.opcode in (Opcode.PARAMETER, Opcode.CONSTANT)


Tree: TypeAlias = "AliasedBuffer | tuple[Tree, ...] | None"
"""The buffers of an instruction: one for an array, None for a token, a tuple for a tuple."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Overwrite:
    """A write over `old`, a copy if `old` has later readers; `new` is the result, if known."""

    writer: HloInstruction
    old: AliasedBuffer
    new: AliasedBuffer | None = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Storage:
    """The buffers of a computation.

    `inputs` are the buffers of the parameters and `outputs` those of the root, as flat lists.
    `defined` has the buffers that each instruction is the first to write, `readers` the
    instructions that read each buffer, once for each operand.
    """

    computation: HloComputation
    inputs: tuple[AliasedBuffer, ...]
    outputs: tuple[AliasedBuffer, ...]
    defined: Mapping[HloInstruction, tuple[AliasedBuffer, ...]]
    readers: Mapping[AliasedBuffer, list[HloInstruction]]
    overwrites: tuple[Overwrite, ...]


def storage_of(
    computation: HloComputation,
    known: Mapping[HloComputation, Storage],
    *,
    is_loop_body: bool = False,
) -> Storage:
    """Analyse a computation that runs instruction by instruction.

    `known` has the storage of its callees. The root of a loop body overwrites its parameter.
    """
    analysis = _Analysis(known)
    for i in computation.instructions:
        analysis.visit(i)
    inputs = tuple(b for part in computation.parameters for b in leaves(analysis.trees[part]))
    outputs = tuple(leaves(analysis.trees[computation.root]))
    if is_loop_body:
        analysis.overwrite_state(inputs, outputs)
    overwrites = tuple(analysis.overwrites.values())
    return Storage(computation, inputs, outputs, analysis.defined, analysis.readers, overwrites)


def dependences(
    computation: HloComputation, targets: Sequence[HloInstruction]
) -> dict[HloInstruction, int]:
    """Return the targets that each instruction is or depends on, as a set: bit n is targets[n]."""
    bits: dict[HloInstruction, int] = {}
    for n, target in enumerate(targets):
        bits[target] = bits.get(target, 0) | 1 << n
    found: dict[HloInstruction, int] = {}
    for i in computation.instructions:
        total = bits.get(i, 0)
        for part in (*i.operands, *i.control_predecessors):
            total |= found[part]
        found[i] = total
    return found


class _Analysis:
    """One walk over the instructions of a computation."""

    def __init__(self, known: Mapping[HloComputation, Storage]) -> None:
        self.trees: dict[HloInstruction, Tree] = {}
        self.defined: dict[HloInstruction, tuple[AliasedBuffer, ...]] = {}
        self.readers: dict[AliasedBuffer, list[HloInstruction]] = {}
        self.overwrites: dict[tuple[HloInstruction, AliasedBuffer], Overwrite] = {}
        self._known = known

    def visit(self, i: HloInstruction) -> None:
        """Analyse an instruction after its operands."""
        self.trees[i] = tree = self._tree(i)
        if i.opcode in _ALIASES:
            return
        self.defined[i] = tuple(part for part in leaves(tree) if part.definer is i)
        for operand in i.operands:
            for buffer in leaves(self.trees[operand]):
                self.readers.setdefault(buffer, []).append(i)

    def overwrite_state(
        self, inputs: Sequence[AliasedBuffer], outputs: Sequence[AliasedBuffer]
    ) -> None:
        """Add an overwrite for each element of a loop's next state that is in another buffer."""
        begun_as = {o.new: o.old for o in self.overwrites.values() if o.new is not None}
        for old, new in zip(inputs, outputs, strict=True):
            while new is not old and new in begun_as:
                new = begun_as[new]
            if not new.is_given:
                self._add(new.definer, old)

    def _add(
        self, writer: HloInstruction, old: AliasedBuffer, new: AliasedBuffer | None = None
    ) -> None:
        self.overwrites.setdefault((writer, old), Overwrite(writer, old, new))

    def _tree(self, i: HloInstruction) -> Tree:
        match i.opcode:
            case Opcode.TUPLE:
                return tuple(self.trees[operand] for operand in i.operands)
            case Opcode.GET_TUPLE_ELEMENT:
                tree = self.trees[i.operands[0]]
                assert isinstance(tree, tuple)
                index: int = i.attributes.index
                return tree[index]
            case Opcode.WHILE:
                return self._while(i)
            case Opcode.CONDITIONAL:
                for branch, operand in zip(i.called, i.operands[1:], strict=True):
                    self._overwrite_in(i, branch, [operand])
            case Opcode.CALL:
                return self._call(i)
        if i.opcode in _FIRST_OPERAND:
            return self.trees[i.operands[0]]
        arrays = (leaf for leaf in i.shape.leaves() if leaf.is_array)
        tree = _tree_of(i.shape, (AliasedBuffer(i, leaf.byte_size) for leaf in arrays))
        read = [self.trees[operand] for operand in i.operands]
        for number, new in zip(range(_updated_operands(i)), leaves(tree), strict=False):
            old = read[number]
            assert isinstance(old, AliasedBuffer)
            # An operand that is also read as another operand has to be copied.
            if read.count(old) == 1:
                self._add(i, old, new)
        return tree

    def _while(self, i: HloInstruction) -> Tree:
        body = self._known[i.called[0]]
        initial = list(leaves(self.trees[i.operands[0]]))
        # Loop invariants alias the initial state.
        state = [
            old if before is after else AliasedBuffer(i, old.byte_size)
            for old, before, after in zip(initial, body.inputs, body.outputs, strict=True)
        ]
        invariants = set(initial).intersection(state)
        for old, new in zip(initial, state, strict=True):
            if old not in invariants:
                self._add(i, old, new)
        return _tree_of(i.shape, iter(state))

    def _call(self, i: HloInstruction) -> Tree:
        outside = self._overwrite_in(i, i.called[0], i.operands)
        results = (
            outside.get(buffer) or AliasedBuffer(i, buffer.byte_size)
            for buffer in self._known[i.called[0]].outputs
        )
        return _tree_of(i.shape, results)

    def _overwrite_in(
        self, i: HloInstruction, called: HloComputation, operands: Sequence[HloInstruction]
    ) -> dict[AliasedBuffer, AliasedBuffer]:
        """Add overwrites of parameters, and return the buffers of operands by those of parameters.

        The result of a branch is copied, so a parameter that it returns is overwritten, too.
        """
        inside = self._known[called]
        given = (buffer for operand in operands for buffer in leaves(self.trees[operand]))
        outside = dict(zip(inside.inputs, given, strict=True))
        overwritten = [overwrite.old for overwrite in inside.overwrites]
        if i.opcode is Opcode.CONDITIONAL:
            overwritten += inside.outputs
        for buffer in overwritten:
            if buffer in outside:
                self._add(i, outside[buffer])
        return outside


def _updated_operands(i: HloInstruction) -> int:
    """Return how many leading operands are the initial values of the results."""
    if i.opcode is Opcode.SCATTER:
        return len(i.operands) // 2
    return int(i.opcode is Opcode.DYNAMIC_UPDATE_SLICE)


def _tree_of(shape: Shape, buffers: Iterator[AliasedBuffer]) -> Tree:
    """Return the buffers as the leaves of a shape."""
    if shape.is_tuple:
        return tuple(_tree_of(part, buffers) for part in shape.tuple_shapes)
    return next(buffers) if shape.is_array else None
