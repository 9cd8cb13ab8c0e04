"""The server's own form of HLO: modules of computations of instructions.

Instructions are identified by object, not by name or id; names and ids are kept for messages
and for writing the module out again.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

from xla_contract.errors import ResourceExhaustedError
from xla_contract.stubs import hlo_pb2
from xla_contract.types.devices.device_grid import ALONE, DeviceGrid
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape

MAX_INSTRUCTIONS = 1 << 19
"""Largest number of instructions of a program, those of a called computation counted for each
caller once calls are inlined. To read one takes some 2 KiB of memory and a tenth of a
millisecond. A chain of 20,000 loops has 300,000."""


def require_length(instructions: int, how: str = "") -> None:
    """Raise ResourceExhaustedError beyond MAX_INSTRUCTIONS; `how` says how they are counted."""
    if instructions > MAX_INSTRUCTIONS:
        raise ResourceExhaustedError(
            f"a program must have at most {MAX_INSTRUCTIONS} instructions{how}, got {instructions}"
        )


@dataclasses.dataclass(slots=True, eq=False)
class HloInstruction:
    """One operation applied to operands.

    `attributes` is the attribute record of the opcode's definition (xla_contract.ops). `called`
    are the called computations in the order the opcode defines. `decoration` keeps the fields
    that do not change what is computed (metadata, sharding, frontend attributes, backend
    config), in wire form. `shape` has a layout only if the writer stated one.
    """

    name: str
    id: int
    opcode: Opcode
    shape: Shape
    operands: tuple["HloInstruction", ...] = ()
    attributes: Any = None
    called: tuple["HloComputation", ...] = ()
    control_predecessors: tuple["HloInstruction", ...] = ()
    decoration: hlo_pb2.HloInstructionProto | None = None

    def __repr__(self) -> str:
        inside = ", ".join(f"%{operand.name}" for operand in self.operands)
        return f"%{self.name} = {self.shape} {self.opcode}({inside})"


@dataclasses.dataclass(slots=True, eq=False)
class HloComputation:
    """Instructions in an order where operands come before users, and one of them the root.

    `execution_thread` is the name of the thread that an async-start means it for; "" is the main
    one.
    """

    name: str
    id: int
    instructions: list[HloInstruction]
    root: HloInstruction
    parameters: tuple[HloInstruction, ...]
    execution_thread: str = ""

    @property
    def program_shape(self) -> ProgramShape:
        """The signature, taken from the parameters and the root."""
        return ProgramShape(
            tuple(parameter.shape for parameter in self.parameters),
            self.root.shape,
            tuple(parameter.name for parameter in self.parameters),
        )

    @property
    def results(self) -> tuple[HloInstruction, ...]:
        """The returned instructions: operands of a tuple at the root, or the root."""
        return self.root.operands if self.root.opcode is Opcode.TUPLE else (self.root,)

    def reachable(self) -> list["HloComputation"]:
        """Return the computation and all that it calls, directly or not, each once."""
        found, known = [self], {self}
        for each in found:
            for instruction in each.instructions:
                for called in instruction.called:
                    if called not in known:
                        known.add(called)
                        found.append(called)
        return found

    def __repr__(self) -> str:
        return f"%{self.name} {self.program_shape}"


@dataclasses.dataclass(slots=True, eq=False)
class HloModule:
    """A program: computations, callees before callers, one of them the entry.

    `entry_program_shape` is the signature with the layouts callers see (host_program_shape).
    `decoration` keeps the module's remaining fields in wire form, computations left out. `grid` is
    what it runs on, which the compile request states.
    """

    name: str
    id: int
    computations: list[HloComputation]
    entry: HloComputation
    entry_program_shape: ProgramShape
    decoration: hlo_pb2.HloModuleProto | None = None
    grid: DeviceGrid = ALONE

    def instructions(self) -> Iterator[HloInstruction]:
        """Every instruction of every computation, in stored order."""
        for computation in self.computations:
            yield from computation.instructions

    def fused(self) -> set[HloComputation]:
        """Return the computations of fusions."""
        fusions = (i for i in self.instructions() if i.opcode is Opcode.FUSION)
        return {called for fusion in fusions for called in fusion.called}

    def sequential(self) -> list[HloComputation]:
        """Return the computations that run instruction by instruction, callees before callers."""
        found = {self.entry}
        for computation in reversed(self.computations):
            if computation in found:
                for instruction in computation.instructions:
                    if instruction.opcode in SEQUENTIAL_CALLERS:
                        found.update(instruction.called)
        return [computation for computation in self.computations if computation in found]


SEQUENTIAL_CALLERS = frozenset({Opcode.WHILE, Opcode.CONDITIONAL, Opcode.CALL})
"""Opcodes whose called computations run instruction by instruction, not element by element."""
