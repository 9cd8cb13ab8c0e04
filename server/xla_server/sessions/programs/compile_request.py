"""Requests to compile programs: the layouts of their signatures, and the key of their code."""

import dataclasses
import hashlib
from collections.abc import Callable, Sequence

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.devices.device_grid import ALONE, DeviceGrid
from xla_contract.types.shape import ProgramShape, Shape
from xla_server.backends.compile_options import CompileOptions, DumpOptions
from xla_server.ir.importer import import_serialized_module
from xla_server.ir.module import HloModule
from xla_server.ir.verification.verifier import check_parameter_count, verify
from xla_server.passes.partitioning.partition import Partitioned, needs_partitioning, partition
from xla_server.sessions.programs.device_assignment import DeviceAssignment


@dataclasses.dataclass(frozen=True, slots=True)
class ProgramSource:
    """A program as a client sent it."""

    name: str
    signature: ProgramShape
    load: Callable[[int], HloModule]
    """Imports the program, with a limit of its constants' bytes; raises as `import_module`."""
    serialize: Callable[[], bytes]
    """Returns its serialized module."""


@dataclasses.dataclass(frozen=True, slots=True)
class CompileRequest:
    """A program with the options to compile it with."""

    source: ProgramSource
    result: Shape | None
    """The shape of the result with the layout requested for it."""
    options: CompileOptions
    serialized_options: bytes
    """All options that the code depends on."""
    grid: DeviceGrid
    """The replicas and partitions that it is compiled for."""
    assignments: tuple[DeviceAssignment, ...]
    """The device assignments that the request states."""
    device_count: int
    """The number of device handles in the options."""


@dataclasses.dataclass(frozen=True, slots=True)
class WireProgram:
    """A program in wire form, its compile options, and a key of both."""

    data: bytes
    """The serialized module."""
    entry: ProgramShape
    options: CompileOptions
    key: bytes
    grid: DeviceGrid = ALONE
    load: Callable[[int], HloModule] | None = None
    """Imports the module without parsing `data`."""

    @property
    def byte_size(self) -> int:
        """Bytes of the module."""
        return len(self.data)

    def import_module(self, max_literal_bytes: int) -> HloModule:
        """Return the module, checked; raises as `ir.importer.import_module` does."""
        if self.load is not None:
            module = self.load(max_literal_bytes)
        else:
            module = import_serialized_module(self.data, max_literal_bytes=max_literal_bytes)
        module.grid = self.grid
        return module

    def partitioned(self, max_literal_bytes: int, max_replicated_bytes: int) -> Partitioned:
        """Return the module that each partition runs, with the requested layouts.

        Raises as `import_module`, `verify` and `partition`.
        """
        module = self.import_module(max_literal_bytes)
        if needs_partitioning(module):
            verify(module)
        check_parameter_count(self.entry, module.entry.program_shape)
        module.entry_program_shape = self.entry
        return partition(module, max_replicated_bytes=max_replicated_bytes)

    def kept(self) -> "WireProgram":
        """Return the program in the form that is stored for later compilations.

        Only the first compilation writes a dump, unless executions write their profiles into it.
        """
        options = self.options
        if not options.is_profiled:
            options = dataclasses.replace(options, dump=DumpOptions())
        return dataclasses.replace(self, load=None, options=options)


def prepare_program(
    request: CompileRequest, arguments: Sequence[Shape] | None, grid: DeviceGrid | None = None
) -> WireProgram:
    """Return the program with the layouts of `arguments` and of the requested result.

    Without `arguments` the parameters are those that the program declares; without `grid` it is
    compiled for that of the request.

    Raises InvalidArgumentError when there is not one compatible argument per parameter, and when
    the result shape is not compatible.
    """
    grid = request.grid if grid is None else grid
    source = request.source
    declared = source.signature
    entry = ProgramShape(
        _parameters(declared, arguments),
        _result(declared, request.result),
        declared.parameter_names,
    )
    data = source.serialize()
    key = _key(data, request.serialized_options, repr(entry).encode(), repr(grid).encode())
    return WireProgram(data, entry, request.options, key, grid, source.load)


def _parameters(declared: ProgramShape, arguments: Sequence[Shape] | None) -> tuple[Shape, ...]:
    if arguments is None:
        arguments = declared.parameters
    if len(arguments) != len(declared.parameters):
        raise InvalidArgumentError(
            f"there must be one argument per parameter, got {len(arguments)} for "
            f"{len(declared.parameters)} parameters of {declared}"
        )
    for number, (argument, parameter) in enumerate(
        zip(arguments, declared.parameters, strict=True)
    ):
        if not argument.compatible(parameter):
            raise InvalidArgumentError(
                f"argument {number} must have the shape of its parameter, got {argument} for "
                f"{parameter}"
            )
    return tuple(argument.with_default_layout() for argument in arguments)


def _result(declared: ProgramShape, wanted: Shape | None) -> Shape:
    if wanted is None:
        return declared.result.without_layout().with_default_layout()
    if not wanted.compatible(declared.result):
        raise InvalidArgumentError(
            "shape_with_output_layout must be compatible with the program's result, got "
            f"{wanted} for {declared.result}"
        )
    return wanted.with_default_layout()


def _key(*parts: bytes) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()
