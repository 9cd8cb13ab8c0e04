"""Replicated work: values that every partition holds whole, where a part would do."""

import dataclasses
from collections.abc import Collection, Mapping

from xla_contract.errors import ResourceExhaustedError
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import SEQUENTIAL_CALLERS, HloComputation, HloInstruction, HloModule
from xla_server.passes.framework.editor import users
from xla_server.passes.partitioning.markers import Marker

_MAX_SHOWN = 20
"""Largest number of notes; of the others only the number is shown."""

_NO_WORK = frozenset(
    {
        Opcode.CONSTANT,
        Opcode.GET_TUPLE_ELEMENT,
        Opcode.PARAMETER,
        Opcode.PARTITION_ID,
        Opcode.REPLICA_ID,
        Opcode.TUPLE,
        *SEQUENTIAL_CALLERS,
    }
)
"""Operations that hold no value of their own."""


@dataclasses.dataclass(frozen=True, slots=True)
class ReplicatedValue:
    """An instruction whose value every partition holds whole, with the reason."""

    instruction: HloInstruction
    how: str

    def __str__(self) -> str:
        i = self.instruction
        return f"{i.opcode} %{i.name}: {i.shape.without_layout()} is {self.how} on each partition"


@dataclasses.dataclass(frozen=True, slots=True)
class ReplicatedWork:
    """The work that every partition repeats."""

    values: tuple[ReplicatedValue, ...] = ()
    automatic: tuple[str, ...] = ()
    """Sentences about the automatic axes of regions, which the compiler partitions."""

    @property
    def byte_size(self) -> int:
        """Bytes of the values, on one partition."""
        return sum(value.instruction.shape.byte_size for value in self.values)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for a log: the first ones, and the number of the others."""
        notes = [*self.automatic, *map(str, self.values)]
        more = len(notes) - _MAX_SHOWN
        return (*notes[:_MAX_SHOWN], *([f"and {more} more"] if more > 0 else []))

    def check(self, max_bytes: int | None) -> None:
        """Raise ResourceExhaustedError, naming the instruction that passes `max_bytes`."""
        total = 0
        for value in self.values:
            total += value.instruction.shape.byte_size
            if max_bytes is not None and total > max_bytes:
                raise ResourceExhaustedError(
                    f"a partition may hold {max_bytes} bytes of values that are whole on each of "
                    f"them (--max-replicated-bytes), got {total} with {value}",
                    hint="Split the value by shard_map, or compute with it inside of a region.",
                )


def find_regions(
    module: HloModule, markers: Mapping[HloInstruction, Marker]
) -> tuple[set[HloInstruction], tuple[str, ...]]:
    """Calls that run a region, and sentences about axes that the compiler partitions."""
    calls: set[HloInstruction] = set()
    automatic: list[str] = []
    inside: set[HloComputation] = set()
    for computation in reversed(module.computations):
        readers = users(computation)
        for i in computation.instructions:
            if i.opcode is Opcode.CALL and _is_region(i, readers, markers):
                calls.add(i)
                inside.update(i.called[0].reachable())
        if computation in inside:
            continue
        automatic += [
            f"{i.opcode} %{i.name}: mesh axes {', '.join(markers[i].automatic)} are left to the "
            "compiler, along which partitions compute the same"
            for i in computation.instructions
            if i in markers and markers[i].is_entry and markers[i].automatic
        ]
    return calls, tuple(automatic)


def _is_region(
    call: HloInstruction,
    readers: Mapping[HloInstruction, list[HloInstruction]],
    markers: Mapping[HloInstruction, Marker],
) -> bool:
    begin = (_source(operand) for operand in call.operands)
    end = [
        reader
        for result in (call, *readers[call])
        for reader in readers[result]
        if result is call or result.opcode is Opcode.GET_TUPLE_ELEMENT
    ]
    return any(i in markers and markers[i].is_entry for i in begin) or any(
        i in markers and not markers[i].is_entry for i in end
    )


def _source(value: HloInstruction) -> HloInstruction:
    return value.operands[0] if value.opcode is Opcode.GET_TUPLE_ELEMENT else value


def replicated_values(
    module: HloModule,
    regions: Collection[HloInstruction],
    gathered: Mapping[HloInstruction, HloInstruction],
    parts: Mapping[HloInstruction, HloInstruction],
) -> tuple[ReplicatedValue, ...]:
    """The values of a partitioned module that are whole on every partition, in stored order.

    They were `gathered` from a part, or `parts` were taken from them, or they are computed from
    such values outside of `regions`, which are calls.
    """
    inside = {module.entry: False}
    whole: set[HloInstruction] = set()
    local = {*gathered.values(), *parts, *regions}
    for computation in reversed(module.computations):
        if computation not in inside:
            continue
        for i in computation.instructions:
            if i in gathered or (i.opcode is Opcode.PARAMETER and inside[computation]):
                whole.add(i)
            elif i in local or any(operand in local for operand in i.operands):
                local.add(i)
            elif any(operand in whole for operand in i.operands):
                whole.add(i)
            if i.opcode in SEQUENTIAL_CALLERS and i not in local:
                for called in i.called:
                    inside[called] = inside.get(called, False) or i in whole
    sources = whole.union(parts.values())
    return tuple(
        ReplicatedValue(i, "put together" if i in gathered else "computed")
        for i in module.instructions()
        if i in gathered or (i in sources and i.opcode not in _NO_WORK)
    )
