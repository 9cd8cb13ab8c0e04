"""Peak memory of the interpretation of a program, computed from its plan before it runs.

Values are counted from the instruction that makes them to the last one that reads them, as
`plan.py` frees them; views, constants and arguments take no bytes. An instruction takes a workspace
beside its result. Sizes are those of the shapes, which bound dynamic dimensions.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from xla_contract.types.opcode import Opcode
from xla_server.evaluator.plan import Plan, PlanCache, PlannedInstruction
from xla_server.execution.memory_check import NO_MEMORY_OF_THEIR_OWN
from xla_server.ir.checkpoints import checkpoint
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.ops.elementwise.elementwise_table import ROWS

_WORKSPACE: Mapping[Opcode, float] = {
    **{opcode: row.workspace for opcode, row in ROWS.items()},
    Opcode.CHOLESKY: 8,
    Opcode.COMPARE: 3,
    Opcode.CONCATENATE: 0,
    Opcode.CONVERT: 6,
    Opcode.COPY: 0,
    Opcode.DYNAMIC_SLICE: 0,
    Opcode.DYNAMIC_UPDATE_SLICE: 0,
    Opcode.GATHER: 0,
    Opcode.IOTA: 0,
    Opcode.PAD: 0,
    Opcode.REDUCE_PRECISION: 6,
    Opcode.REDUCE_WINDOW: 6,
    Opcode.RESHAPE: 0,
    Opcode.RNG: 7,
    Opcode.SCATTER: 9,
    Opcode.SELECT_AND_SCATTER: 7,
    Opcode.SORT: 32,
    Opcode.TRIANGULAR_SOLVE: 8,
}
"""Bytes that an evaluator allocates in addition to its result, for each byte of the largest array
it reads or makes: measured by tracemalloc for f32 arrays of 4 MiB, rounded up. Default: `_USUAL`.
"""

_USUAL = 1.0
"""Workspace bytes per byte of the largest array, for operations that were not measured."""

_Parts: TypeAlias = tuple[frozenset[int], ...]
"""The numbers of the arrays that a value has, for each element of a tuple."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Part:
    """A leaf of a computation's root: its own bytes, and the parameter elements it shares."""

    own_bytes: int
    parameters: frozenset[tuple[int, int]]


@dataclasses.dataclass(frozen=True, slots=True)
class _Summary:
    """Peak bytes of a call of a computation, and the leaves of its root."""

    peak: int
    root: tuple[_Part, ...]


def temporary_bytes(module: HloModule, plans: PlanCache) -> int:
    """Return the peak bytes of values and workspaces in an evaluation of the module.

    Arguments, constants and the result do not count.
    """
    summaries: dict[HloComputation, _Summary] = {}
    # Called computations come before their callers, so nothing here recurses.
    for computation in module.computations:
        summaries[computation] = _Walk(plans.of(computation), computation, summaries).summary()
    summary = summaries[module.entry]
    # A root that is a view keeps more than the result has, until that is copied out.
    own = min(sum(part.own_bytes for part in summary.root), module.entry.root.shape.byte_size)
    return summary.peak - own


class _Walk:
    """The simulation of one computation's evaluation, step by step."""

    def __init__(
        self,
        plan: Plan,
        computation: HloComputation,
        summaries: Mapping[HloComputation, _Summary],
    ) -> None:
        self._plan = plan
        self._summaries = summaries
        self._sizes: dict[int, int] = {}
        self._users: dict[int, int] = {}
        self._values: dict[int, _Parts] = {}
        self._sources: dict[int, tuple[int, int]] = {}
        self._live = self._peak = 0
        for number, slot in enumerate(plan.parameters):
            shape = computation.parameters[number].shape
            parts = []
            for element in range(len(shape.parts)):
                array = self._new(0)
                self._sources[array] = (number, element)
                parts.append(frozenset({array}))
            self._hold(slot, tuple(parts))

    def summary(self) -> _Summary:
        """Walk all steps."""
        for step in self._plan.steps:
            checkpoint()
            operands = [self._values[slot] for slot in step.operands]
            self._hold(step.result, self._evaluated(step, operands))
            self._peak = max(self._peak, self._live)
            for slot in step.frees:
                self._drop(slot)
        return _Summary(self._peak, tuple(map(self._part, self._values[self._plan.root])))

    def _part(self, arrays: frozenset[int]) -> _Part:
        own = sum(self._sizes[array] for array in arrays)
        return _Part(own, frozenset(self._sources[a] for a in arrays if a in self._sources))

    def _evaluated(self, step: PlannedInstruction, operands: Sequence[_Parts]) -> _Parts:
        i = step.instruction
        opcode = i.opcode
        if opcode is Opcode.TUPLE:
            return tuple(_union(operand) for operand in operands)
        if opcode is Opcode.GET_TUPLE_ELEMENT:
            (operand,) = operands
            return (operand[i.attributes.index],) * len(i.shape.parts)
        if opcode is Opcode.CONSTANT:
            return (frozenset(),) * len(i.shape.parts)
        if opcode in (Opcode.CALL, Opcode.FUSION):
            return self._called(self._summaries[i.called[0]], operands)
        if opcode is Opcode.CONDITIONAL:
            return self._conditional(i, operands)
        if opcode is Opcode.WHILE:
            return self._while(i, operands[0])
        if opcode in NO_MEMORY_OF_THEIR_OWN:
            # A view of its first operand, or that itself.
            return operands[0]
        self._note(_workspace(i, self._summaries) + i.shape.byte_size)
        return tuple(frozenset({self._new(shape.byte_size)}) for shape in i.shape.parts)

    def _called(self, summary: _Summary, operands: Sequence[_Parts]) -> _Parts:
        self._note(summary.peak)
        return tuple(self._made(part, operands) for part in summary.root)

    def _made(self, part: _Part, operands: Sequence[_Parts]) -> frozenset[int]:
        shared = [operands[number][element] for number, element in part.parameters]
        own = [frozenset({self._new(part.own_bytes)})] if part.own_bytes else []
        return frozenset().union(*shared, *own)

    def _conditional(self, i: HloInstruction, operands: Sequence[_Parts]) -> _Parts:
        branches = [
            self._called(self._summaries[called], [operand])
            for called, operand in zip(i.called, operands[1:], strict=True)
        ]
        return tuple(frozenset().union(*parts) for parts in zip(*branches, strict=True))

    def _while(self, i: HloInstruction, state: _Parts) -> _Parts:
        body, condition = (self._summaries[called] for called in i.called)
        # The previous state is alive while the next one is computed.
        before = sum(part.own_bytes for part in body.root)
        self._note(before + max(condition.peak, body.peak))
        return tuple(
            own
            if part.own_bytes == 0 and part.parameters == {(0, element)}
            else own | self._made(part, [state])
            for element, (own, part) in enumerate(zip(state, body.root, strict=True))
        )

    def _note(self, added: int) -> None:
        self._peak = max(self._peak, self._live + added)

    def _new(self, byte_size: int) -> int:
        array = len(self._sizes)
        self._sizes[array] = byte_size
        return array

    def _hold(self, slot: int, parts: _Parts) -> None:
        self._values[slot] = parts
        for array in _union(parts):
            users = self._users[array] = self._users.get(array, 0) + 1
            if users == 1:
                self._live += self._sizes[array]

    def _drop(self, slot: int) -> None:
        for array in _union(self._values[slot]):
            self._users[array] -= 1
            if not self._users[array]:
                self._live -= self._sizes[array]


def _union(parts: _Parts) -> frozenset[int]:
    return parts[0] if len(parts) == 1 else frozenset().union(*parts)


def _workspace(i: HloInstruction, summaries: Mapping[HloComputation, _Summary]) -> int:
    """Return the bytes that the evaluator of an instruction allocates in addition to the result."""
    factor = _WORKSPACE.get(i.opcode, _USUAL)
    if not factor:
        return 0
    arrays = [operand.shape for operand in i.operands] + [i.shape]
    elements = (array for shape in arrays for array in shape.parts)
    largest = max(elements, key=lambda shape: shape.byte_size)
    if i.opcode is Opcode.CONVOLUTION:
        factor = 2 + math.prod(each.size for each in i.attributes.window.dimensions)
    workspace = math.ceil(factor * largest.byte_size)
    # Computations on scalars run on whole arrays of them.
    scalars = sum(summaries[called].peak for called in i.called)
    return workspace + scalars * (largest.element_count if largest.is_array else 0)
