"""The code of a program before memory is assigned: thunks over values, in one sequence.

While loops and conditionals are jumps between rows, so that liveness is one analysis over one
sequence and the executor needs no stack.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, TypeAlias

from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.evaluator.cost_analysis import Cost
from xla_server.ir.module import HloInstruction
from xla_server.ir.participants import Placement
from xla_server.target.loop_tuning import Chunks


@dataclasses.dataclass(eq=False, slots=True)
class Value:
    """An array that thunks write and read. Several values may come to share memory."""

    shape: Shape
    name: str

    @property
    def byte_size(self) -> int:
        """Bytes of the dense row-major array."""
        return self.shape.element_count * self.shape.element_type.byte_width

    def __repr__(self) -> str:
        return f"%{self.name} {self.shape}"


CANCELLATION = Value(Shape.parse("s64[]"), "cancellation")
"""The cancellation flag as an argument of kernels: not 0 once the execution is to stop."""


class KernelCode(Protocol):
    """The code of a kernel before it is compiled. Kernels of equal keys are compiled once."""

    @property
    def text(self) -> str:
        """The readable form: numba source."""

    @property
    def key(self) -> str:
        """The text, with all else that the machine code depends on."""


class KernelError(Exception):
    """A kernel cannot be compiled; the cause says why."""

    def __init__(self, kernel: KernelCode) -> None:
        super().__init__(kernel.text)
        self.kernel = kernel


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class KernelThunk:
    """Call a kernel over its whole range.

    A work item takes about `work` operations, and each call `prologue` operations before its first.
    `arguments` are its buffers in order. `in_place` are pairs of arguments (written, read) that
    may share memory because every element is read before it is written, and only for itself.
    `updates` are written arguments whose unwritten elements keep their values.
    """

    kind: ClassVar[str] = "kernel"
    name: str
    kernel: KernelCode
    work_items: int
    work: int
    arguments: tuple[Value, ...]
    reads: tuple[Value, ...]
    writes: tuple[Value, ...]
    in_place: tuple[tuple[Value, Value], ...] = ()
    updates: tuple[Value, ...] = ()
    prologue: int = 0

    @property
    def source(self) -> str:
        """The readable form of the kernel."""
        return self.kernel.text


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class CopyThunk:
    """Copy a value; no effect if both share memory."""

    kind: ClassVar[str] = "copy"
    target: Value
    source: Value


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class HostThunk:
    """Call Python: feeds, channels, functions of operators.

    `call(run, arrays)` gets the HostRun and the arrays read, views that it must not keep, and
    returns an array for each value written. If the thunk `fills`, `call` also gets the arrays
    written, and writes to them.
    """

    kind: ClassVar[str] = "host"
    name: str
    call: Any
    reads: tuple[Value, ...]
    writes: tuple[Value, ...]
    fills: bool = False

    def run(self, run: Any, reads: Sequence[Any], writes: Sequence[Any]) -> None:
        """Call it on the arrays read, and store its results in the arrays written."""
        if self.fills:
            self.call(run, reads, writes)
            return
        for target, array in zip(writes, self.call(run, reads), strict=True):
            target[...] = array


@dataclasses.dataclass(eq=False, slots=True)
class Gathered(Value):
    """An operand of one member of a group, in memory that the member has filled.

    Either number may be BY_POSITION: that of the participant's placement. A member number that the
    group does not have means the participant itself.
    """

    member: int
    operand: int


BY_POSITION = -1
"""The number of a member or an operand that differs by participant."""


REFERENCED_BYTES = 1 << 16
"""Operands of more bytes are not copied if a member can read them from the others' memory."""

MAX_REFERENCES = 6
"""Largest number of operands whose addresses a member can pass to the others."""

POSITION = Value(Shape.parse("s64[]"), "position")
"""The position of the participant in its placement as an argument of the kernels of a meeting."""

GROUP_SIZE = Value(Shape.parse("s64[]"), "group_size")
"""The number of members of the participant's group as such an argument."""


_REDUCTIONS = frozenset({Opcode.ALL_REDUCE, Opcode.COLLECTIVE_REDUCE})
"""Collectives whose results are equal and take longer to make than to copy."""


@dataclasses.dataclass(eq=False, slots=True)
class Label:
    """A target of jumps."""

    kind: ClassVar[str] = "label"
    name: str


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class MeetThunk:
    """Meet the others of a group in native code, each participant with its placement.

    The `kernels`, the thunks up to `end`, then compute the results from `Gathered` operands.
    Without native meetings `host` computes them, and the run continues at `end`. Results may be
    written over operands that others do not refer to.
    """

    kind: ClassVar[str] = "meet"
    host: HostThunk
    instruction: HloInstruction
    placements: Sequence[Placement]
    kernels: tuple[KernelThunk, ...]
    end: Label
    is_carried: bool = False
    """True if a loop carries an operand, and may carry the result in its memory."""

    @property
    def offsets(self) -> tuple[int, ...]:
        """The offset of each operand in an area, and last the bytes of an area."""
        sizes = (-(-value.byte_size // 64) * 64 for value in self.host.reads)
        return tuple(itertools.accumulate(sizes, initial=0))

    @property
    def is_referenced(self) -> bool:
        """Return whether operands are read from the memory of members that take turns.

        They leave together then, at a `LeaveThunk`.
        """
        is_large = self.offsets[-1] > REFERENCED_BYTES
        return is_large and not self.is_carried and len(self.host.reads) <= MAX_REFERENCES

    @property
    def is_made_once(self) -> bool:
        """Return whether the first member makes results which the others that take turns copy."""
        return self.is_referenced and self.instruction.opcode in _REDUCTIONS


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class LeaveThunk:
    """Wait until all members have read the operands of a meeting, if they take turns.

    Results that are made once are copied here.
    """

    kind: ClassVar[str] = "leave"
    meeting: MeetThunk


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Jump:
    """Jump to a label."""

    kind: ClassVar[str] = "jump"
    label: Label


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """Jump to a label if the predicate is false; else continue with the next row."""

    kind: ClassVar[str] = "branch"
    predicate: Value
    otherwise: Label


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Switch:
    """Jump to the label with the index's number; to the last one for other numbers."""

    kind: ClassVar[str] = "switch"
    index: Value
    labels: tuple[Label, ...]


Row: TypeAlias = (
    KernelThunk | CopyThunk | HostThunk | MeetThunk | LeaveThunk | Label | Jump | Branch | Switch
)
"""One step, which listings and profiles call by its `kind`."""


@dataclasses.dataclass(slots=True)
class Code:
    """A program: rows, parameters, constants and results.

    `origins` are the instructions that rows were made for, if there is one. `costs` has the
    operations of an instruction's rows, recomputation included, if the lowering has counted them.
    `chunks` are the sizes of calls that launches are divided into. `joined` has the kernels of a
    row, if there are several; each has its origin. `numbers` are the opcodes of the last
    parameters, which are no arguments: they say which participant of a grid runs.
    """

    rows: list[Row]
    parameters: list[Value]
    constants: dict[Value, Any]
    results: list[Value]
    origins: dict[Row, HloInstruction] = dataclasses.field(default_factory=dict)
    costs: dict[HloInstruction, Cost] = dataclasses.field(default_factory=dict)
    chunks: Chunks = Chunks()  # noqa: RUF009
    joined: dict[Row, tuple[KernelThunk, ...]] = dataclasses.field(default_factory=dict)
    numbers: tuple[Opcode, ...] = ()

    def instructions(self, row: Row) -> list[HloInstruction]:
        """Return the instructions that a row was made for."""
        parts = self.joined.get(row, (row,))
        return [self.origins[part] for part in parts if part in self.origins]


def reads(row: Row) -> tuple[Value, ...]:
    """The values a row reads."""
    if isinstance(row, KernelThunk):
        return (*row.reads, *row.updates)
    if isinstance(row, HostThunk):
        return row.reads
    if isinstance(row, MeetThunk):
        return row.host.reads
    if isinstance(row, LeaveThunk):
        host = row.meeting.host
        return (*host.reads, *(host.writes if row.meeting.is_made_once else ()))
    if isinstance(row, CopyThunk):
        return (row.source,)
    if isinstance(row, Branch):
        return (row.predicate,)
    return (row.index,) if isinstance(row, Switch) else ()


def writes(row: Row) -> tuple[Value, ...]:
    """The values a row writes."""
    if isinstance(row, (KernelThunk, HostThunk)):
        return row.writes
    if isinstance(row, MeetThunk):
        return row.host.writes
    return (row.target,) if isinstance(row, CopyThunk) else ()
