"""Where a platform for GPUs does an operation: read from the rows of the lowering table.

No device is needed: the table of a GPU says what is the host's, and rows what they call. Where
passes leave nothing of so small a program, its operation is lowered as it stands.
"""

import enum
from collections.abc import Iterator, Sequence

from tests.operations_page.probing import Stated
from xla_contract.errors import XlaError
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.code import Code, CopyThunk, HostThunk, KernelThunk
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.gpu.lower.table import CUDA_LOWERINGS
from xla_server.codegen.gpu.lower.thunks.through_host import ThroughHost
from xla_server.codegen.gpu.plans.library_plans import LibraryPlan
from xla_server.codegen.lower.lowering import lower
from xla_server.codegen.lower.lowerings import NOT_LOWERED
from xla_server.ir.importer import import_module
from xla_server.target.machine import Machine
from xla_server.target.target import Target

TARGET = Target.of(Machine.cuda("sm_90"))


class Way(enum.StrEnum):
    """The ways in which an operation is done, in the words of the page."""

    KERNEL = "kernel"
    LIBRARY = "library"
    HOST = "through the host"
    NOTHING = "no code"
    REFUSED = "not compiled"


_ORDER = (Way.HOST, Way.LIBRARY, Way.KERNEL)
"""The first of these that a program has rows of names it."""


def places_of(opcode: Opcode, programs: Sequence[Stated]) -> dict[Way, list[ElementType]]:
    """Return the kinds of an operation's programs by where they are done."""
    found: dict[Way, list[ElementType]] = {}
    for program in programs:
        found.setdefault(_place_of(opcode, program), []).append(program.kind)
    return found


def _place_of(opcode: Opcode, program: Stated) -> Way:
    if opcode in NOT_LOWERED:
        return Way.NOTHING
    if isinstance(CUDA_LOWERINGS.get(opcode), ThroughHost):
        return Way.HOST
    module = import_module(program.computation.proto)
    try:
        done = set(_places(compile_module(module, target=TARGET, lowerings=CUDA_LOWERINGS).code))
        if not done and program.kind.is_array and opcode in CUDA_LOWERINGS:
            done = set(_places(lower(module, CUDA_LOWERINGS, TARGET)))
    except XlaError:
        return Way.REFUSED
    return next((place for place in _ORDER if place in done), Way.NOTHING)


def _places(code: Code) -> Iterator[Way]:
    for thunk in code.thunks:
        match thunk:
            case KernelThunk(kernel=GridKernel()) | CopyThunk():
                yield Way.KERNEL
            case KernelThunk(kernel=LibraryPlan()):
                yield Way.LIBRARY
            case KernelThunk() | HostThunk():
                yield Way.HOST
