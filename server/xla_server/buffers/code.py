"""The code of a program before buffer assignment: thunks over values, in one sequence.

While loops and conditionals are jumps between thunks, so that liveness is one analysis over one
sequence and the executor needs no stack.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, TypeAlias

from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.evaluator.cost_analysis import Cost
from xla_server.ir.analysis.participants import Placement
from xla_server.ir.module import HloInstruction
from xla_server.target.loop_tuning import Chunks


@dataclasses.dataclass(eq=False, slots=True)
class Value:
    """An array that thunks write and read. Buffer assignment may let values share memory."""

    shape: Shape
    name: str

    @property
    def byte_size(self) -> int:
        """Bytes of the dense row-major array."""
        return self.shape.element_count * self.shape.element_type.byte_width

    def __repr__(self) -> str:
        return f"%{self.name} {self.shape}"


CANCELLATION = Value(Shape.parse("s64[]"), "cancellation")
"""The cancellation flag as an argument of kernels; 0 to continue (`cancellation_flag`)."""


class KernelCode(Protocol):
    """The code of a kernel before it is compiled. Kernels of equal keys are compiled once."""

    @property
    def text(self) -> str:
        """The readable form: numba source."""

    @property
    def key(self) -> str:
        """The text, with everything else that determines the machine code."""


class KernelError(Exception):
    """A kernel cannot be compiled; the exception's cause has the reason."""

    def __init__(self, kernel: KernelCode) -> None:
        super().__init__(kernel.text)
        self.kernel = kernel


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class KernelThunk:
    """Call a kernel for all of its work items.

    A work item takes about `work` operations, and each call `prologue` operations before its first
    work item. `arguments` are the kernel's buffers in order. `in_place` are pairs of arguments
    (written, read) that may share memory because every element is read before it is written, and
    only to compute the element at its index. `updates` are written arguments of which the kernel
    writes only some elements, so the old ones are live.
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
    """Copy a value; a no-op if both share memory."""

    kind: ClassVar[str] = "copy"
    target: Value
    source: Value


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class HostThunk:
    """Call Python: feeds, channels, registered functions of custom calls.

    `call(run, arrays)` gets the HostRun and the arrays read, views that it must not keep, and
    returns an array for each value written. If `fills`, the call is `call(run, arrays, written)`
    instead and fills the arrays to write itself.
    """

    kind: ClassVar[str] = "host"
    name: str
    call: Any
    reads: tuple[Value, ...]
    writes: tuple[Value, ...]
    fills: bool = False

    def run(self, run: Any, reads: Sequence[Any], writes: Sequence[Any]) -> None:
        """Call the function on the arrays read, and store its results in the arrays written."""
        if self.fills:
            self.call(run, reads, writes)
            return
        for target, array in zip(writes, self.call(run, reads), strict=True):
            target[...] = array


@dataclasses.dataclass(eq=False, slots=True)
class Gathered(Value):
    """The operand of one member of a group, in memory that this member has written.

    Either number may be BY_POSITION: the position in the participant's placement. A member outside
    the group means the participant itself.
    """

    member: int
    operand: int


BY_POSITION = -1
"""Number of a member or an operand that is the participant's position at run time."""


REFERENCED_BYTES = 1 << 16
"""Bytes of all operands above which members that run in turns read each other's, uncopied."""

MAX_REFERENCES = 6
"""Number of operands whose addresses a slot of runtime/collective_records.py can hold."""

POSITION = Value(Shape.parse("s64[]"), "position")
"""The position of the participant in its placement, an argument of the kernels of a collective."""

GROUP_SIZE = Value(Shape.parse("s64[]"), "group_size")
"""The number of members of the participant's group as an argument of these kernels."""


_REDUCTIONS = frozenset({Opcode.ALL_REDUCE, Opcode.COLLECTIVE_REDUCE})
"""Collectives whose results are equal on all members and take longer to compute than to copy."""


@dataclasses.dataclass(eq=False, slots=True)
class Label:
    """A target of jumps."""

    kind: ClassVar[str] = "label"
    name: str


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class CollectiveThunk:
    """Meet the other members of a group in native code; `placements` are by participant.

    The `kernels`, the thunks up to `end`, then compute the results from `Gathered` operands.
    Without native collectives `host` computes them, and the run continues at `end`. Results may
    overwrite the operands unless `is_referenced`.
    """

    kind: ClassVar[str] = "meet"
    host: HostThunk
    instruction: HloInstruction
    placements: Sequence[Placement]
    kernels: tuple[KernelThunk, ...]
    end: Label
    is_carried: bool = False
    """True if a loop carries an operand: the result may have to share its memory."""

    @property
    def offsets(self) -> tuple[int, ...]:
        """The offset of each operand in an area, and last the size of an area, in bytes."""
        sizes = (-(-value.byte_size // 64) * 64 for value in self.host.reads)
        return tuple(itertools.accumulate(sizes, initial=0))

    @property
    def is_referenced(self) -> bool:
        """Return whether members that run in turns read operands from each other's memory.

        They all wait at a `LeaveThunk` then, before any of them overwrites its operands.
        """
        is_large = self.offsets[-1] > REFERENCED_BYTES
        return is_large and not self.is_carried and len(self.host.reads) <= MAX_REFERENCES

    @property
    def is_made_once(self) -> bool:
        """Return whether the first member computes results which the others, in turns, copy."""
        return self.is_referenced and self.instruction.opcode in _REDUCTIONS


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class LeaveThunk:
    """Wait until all members have read the operands of a collective, if they run in turns.

    Members other than the first copy results that `is_made_once` here.
    """

    kind: ClassVar[str] = "leave"
    collective: CollectiveThunk


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Jump:
    """Jump to a label."""

    kind: ClassVar[str] = "jump"
    label: Label


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """Jump to a label if the predicate is false, else continue with the next thunk."""

    kind: ClassVar[str] = "branch"
    predicate: Value
    otherwise: Label


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Switch:
    """Jump to the label with the index's number; to the last one for other numbers."""

    kind: ClassVar[str] = "switch"
    index: Value
    labels: tuple[Label, ...]


Thunk: TypeAlias = (
    KernelThunk
    | CopyThunk
    | HostThunk
    | CollectiveThunk
    | LeaveThunk
    | Label
    | Jump
    | Branch
    | Switch
)
"""A thunk or a label; listings and profiles show its `kind`."""


@dataclasses.dataclass(slots=True)
class Code:
    """A program: its thunks, parameters, constants and results.

    `origins` maps a thunk to the instruction that it was made for, if there is one. `costs` has the
    operations of an instruction's thunks, recomputation included, if the lowering has counted them.
    `chunks` are the tuned sizes of the chunks that launches are divided into. `joined` maps a thunk
    of several kernels to the thunks that were joined; each of them has its origin. `numbers` are
    the opcodes (replica-id, partition-id) of the last parameters, which the executor passes.
    """

    thunks: list[Thunk]
    parameters: list[Value]
    constants: dict[Value, Any]
    results: list[Value]
    origins: dict[Thunk, HloInstruction] = dataclasses.field(default_factory=dict)
    costs: dict[HloInstruction, Cost] = dataclasses.field(default_factory=dict)
    chunks: Chunks = Chunks()  # noqa: RUF009
    joined: dict[Thunk, tuple[KernelThunk, ...]] = dataclasses.field(default_factory=dict)
    numbers: tuple[Opcode, ...] = ()

    def instructions(self, thunk: Thunk) -> list[HloInstruction]:
        """Return the instructions that a thunk was made for."""
        parts = self.joined.get(thunk, (thunk,))
        return [self.origins[part] for part in parts if part in self.origins]


def reads(thunk: Thunk) -> tuple[Value, ...]:
    """Return the values that a thunk reads."""
    if isinstance(thunk, KernelThunk):
        return (*thunk.reads, *thunk.updates)
    if isinstance(thunk, HostThunk):
        return thunk.reads
    if isinstance(thunk, CollectiveThunk):
        return thunk.host.reads
    if isinstance(thunk, LeaveThunk):
        host = thunk.collective.host
        return (*host.reads, *(host.writes if thunk.collective.is_made_once else ()))
    if isinstance(thunk, CopyThunk):
        return (thunk.source,)
    if isinstance(thunk, Branch):
        return (thunk.predicate,)
    return (thunk.index,) if isinstance(thunk, Switch) else ()


def writes(thunk: Thunk) -> tuple[Value, ...]:
    """Return the values that a thunk writes."""
    if isinstance(thunk, (KernelThunk, HostThunk)):
        return thunk.writes
    if isinstance(thunk, CollectiveThunk):
        return thunk.host.writes
    return (thunk.target,) if isinstance(thunk, CopyThunk) else ()


def targets(thunk: Thunk) -> tuple[Label, ...]:
    """Return the labels that a thunk may jump to."""
    match thunk:
        case Jump(label) | Branch(otherwise=label):
            return (label,)
        case CollectiveThunk():
            return (thunk.end,)
        case Switch():
            return tuple(dict.fromkeys(thunk.labels))
    return ()
