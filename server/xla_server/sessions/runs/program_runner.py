"""Compiling programs and running them on values, on one device: Compile and Execute."""

import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable, Iterator, Sequence

from xla_contract.errors import FailedPreconditionError, InvalidArgumentError
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.shape import Shape
from xla_server.backends.compile_options import CompileOptions
from xla_server.backends.platform import Buffer, Device, Executable, Execution, Profile
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.channel_protocol import Channels
from xla_server.execution.collectives_protocol import ALONE_RUN, Collectives
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.checkpoints import cancellable, checkpoint
from xla_server.ir.module import HloModule
from xla_server.sessions.error_context import part_of_request
from xla_server.sessions.feeds.device_table import DeviceTable
from xla_server.sessions.limits.blocking import releasing_slot
from xla_server.sessions.limits.compile_budget import CompileBudget
from xla_server.sessions.limits.semaphores import FairSemaphore
from xla_server.sessions.limits.shares.caller import Caller, Flow
from xla_server.sessions.programs.code_cache import CompiledProgram
from xla_server.sessions.programs.compile_request import (
    CompileRequest,
    WireProgram,
    prepare_program,
)
from xla_server.sessions.programs.device_assignment import DeviceAssignment, assigned_ordinals
from xla_server.sessions.programs.executable_table import ExecutableTable, LoadedExecutable
from xla_server.sessions.runs.requests import ExecutionResult
from xla_server.sessions.runs.run_resources import RunResources
from xla_server.sessions.values.handles import require_handle
from xla_server.sessions.values.value_table import Reservation, ValueTable

_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(eq=False)
class ProgramRunner:
    """Runs programs on the values of one session. Thread-safe."""

    engine: RunResources
    devices: DeviceTable
    data: ValueTable
    executables: ExecutableTable
    channels: Channels
    running: FairSemaphore
    compiling: CompileBudget
    caller: Caller
    flow: Flow

    def compile(
        self,
        request: CompileRequest,
        argument_shapes: Sequence[Shape],
        cancellation: Cancellation,
    ) -> int:
        """Compile a program for the devices of its grid and give its executable a handle.

        Without `argument_shapes` it takes what the module's host_program_shape says. Programs and
        options of equal content share one executable (the reference compiles and keeps each).

        Raises as `assigned_ordinals`, `prepare_program` and `Backend.compile`, and
        InvalidArgumentError for several device handles in the options and for a program of one
        participant that is assigned to another device than the default one.
        """
        if request.device_count > 1:
            raise InvalidArgumentError(
                f"a program is compiled for at most one device handle, got {request.device_count}"
            )
        devices = self.assigned(request.grid, request.assignments)
        if len(devices) == 1 and devices[0] != self.devices.default:
            raise InvalidArgumentError(
                f"{request.assignments[0].owner} device_assignment must name the device the "
                f"program runs on, got {devices[0].ordinal} for device "
                f"{self.devices.default.ordinal}"
            )
        prepared = prepare_program(request, argument_shapes or None)
        compiled = self.compiled(prepared, cancellation)
        named = dataclasses.replace(compiled, name=request.source.name, devices=devices)
        return self.executables.keep(named)

    def execute(
        self, handle: int | None, arguments: Sequence[int | None], cancellation: Cancellation
    ) -> ExecutionResult:
        """Run an executable on the default device and wait for its result.

        Raises as `alone_under`, InvalidArgumentError when the arguments do not equal the
        compiled parameters in number, type and dimensions; and what running raises.
        """
        compiled = self.alone_under(handle)
        buffers = self.checked_arguments(compiled, arguments)
        # Before a slot is taken: a call that waits for memory must hold no slot.
        with self.reserve(compiled, cancellation) as reservation:
            self.running.acquire()
            try:
                time_slice = self.engine.time_slicer.begin(cancellation, self.flow)
                try:
                    device = self.devices.default
                    execution = self.run(compiled, buffers, device, cancellation)
                finally:
                    self.engine.time_slicer.end(time_slice)
                return ExecutionResult(
                    reservation.keep(execution.output), profile_of(execution, compiled)
                )
            finally:
                # The memory is free before the end of the run is visible.
                reservation.release()
                self.running.release()

    def compiled(self, program: WireProgram, cancellation: Cancellation) -> LoadedExecutable:
        """Return a program with its code, in use until it is given to `programs.release`.

        Raises as `ExecutableCache.acquire`, and ResourceExhaustedError if the session may compile
        no more.
        """
        if not self.engine.programs.has(program.key):
            # Before others can wait for the compilation: they must not get this session's error.
            self._require_compiling()

        compile_program = functools.partial(self._compile, program)
        return self.engine.programs.acquire(program, compile_program, cancellation, self.caller)

    def _require_compiling(self) -> None:
        """Raise ResourceExhaustedError if the session may compile no more."""
        self.compiling.require()
        self.engine.compiling.require(self.caller)

    @contextlib.contextmanager
    def _spending(self) -> Iterator[None]:
        with self.compiling.spending(), self.engine.compiling.spending(self.caller):
            yield

    @contextlib.contextmanager
    def counted_as_compiling(self, cancellation: Cancellation) -> Iterator[None]:
        """Count the time of the block as the session's compiling, which `cancellation` ends.

        Raises ResourceExhaustedError if the session may compile no more.
        """
        self._require_compiling()
        with self._spending(), cancellable(cancellation.check):
            yield

    def compile_once(self, program: WireProgram, options: CompileOptions) -> Executable:
        """Compile a program for this call alone, with other options.

        Raises as `WireProgram.partitioned` and `Backend.compile`, and ResourceExhaustedError if the
        session may compile no more.
        """
        self._require_compiling()
        return self._compile(dataclasses.replace(program, options=options)).executable

    def _compile(self, program: WireProgram) -> CompiledProgram:
        limits = self.engine.limits
        with self._spending():
            partitioned = program.partitioned(limits.max_device_bytes, limits.max_replicated_bytes)
            module = partitioned.module
            if partitioned.work.notes:
                notes = "; ".join(partitioned.work.notes)
                _LOG.warning(
                    "program %s on %s: work that is the same on every partition: %s",
                    module.name,
                    module.grid,
                    notes,
                )
            layouts = module.entry_program_shape
            checkpoint()
            executable = self.engine.backend.compile(module, layouts, options=program.options)
            return CompiledProgram(executable, partitioned.signature)

    def _compiling_again(self, compiled: LoadedExecutable) -> Callable[[], CompiledProgram]:
        """Return a function that compiles a program in an execution's thread and lends its slot."""

        def compile_again() -> CompiledProgram:
            with releasing_slot():
                return self._compile(compiled.program)

        return compile_again

    def run(
        self,
        compiled: LoadedExecutable,
        arguments: Sequence[Buffer],
        device: Device,
        cancellation: Cancellation,
        donated: Sequence[int] = (),
        label: int = 0,
        channels: Channels | None = None,
        collectives: Collectives = ALONE_RUN,
        launched: Callable[[Buffer], None] | None = None,
    ) -> Execution:
        """Run in a slot of `running` that the caller has taken; raises as `Executable.execute`.

        A program whose code was evicted is compiled again: the time counts as the session's
        compiling, but is never refused. `donated` has the numbers of arguments without other users;
        `label` is the handle of a launched execution, for descriptions of its waiting instructions.
        `channels` are the session's by default; `collectives` identify the participant of a grid.
        `launched` is as in ExecuteOptions.
        """
        # A context manager would cost a fifteenth of a small execution.
        programs, compile_again = self.engine.programs, self._compiling_again(compiled)
        code, executable = programs.begin_use(compiled, compile_again, cancellation)
        try:
            return executable.execute(
                self.all_on(device, arguments) if arguments else (),
                device=device,
                options=ExecuteOptions(
                    feeds=self.devices.feeds(device).bound_to(executable.name, label),
                    channels=self.channels if channels is None else channels,
                    cancellation=cancellation,
                    collectives=collectives,
                    donated=donated,
                    launched=launched,
                ),
            )
        finally:
            programs.end_use(code)

    @contextlib.contextmanager
    def used(self, compiled: LoadedExecutable, cancellation: Cancellation) -> Iterator[Executable]:
        """The executable of a program, whose code is not evicted during the block."""
        programs, compile_again = self.engine.programs, self._compiling_again(compiled)
        code, executable = programs.begin_use(compiled, compile_again, cancellation)
        try:
            yield executable
        finally:
            programs.end_use(code)

    def run_once(
        self,
        compiled: LoadedExecutable,
        executable: Executable,
        arguments: Sequence[Buffer],
        cancellation: Cancellation,
    ) -> None:
        """Run code of a program on the default device, in memory and a slot of its own."""
        with (
            self.reserve(compiled, cancellation),
            self.running.acquired(),
            self.engine.time_slicer.acquired(cancellation, self.flow),
        ):
            device = self.devices.default
            executable.execute(
                self.all_on(device, arguments),
                device=device,
                options=ExecuteOptions(
                    feeds=self.devices.feeds(device).bound_to(executable.name),
                    channels=self.channels,
                    cancellation=cancellation,
                ),
            )

    def module_of(self, compiled: LoadedExecutable) -> HloModule:
        """Return the module of a program, as the client sent it."""
        return compiled.program.import_module(self.engine.limits.max_device_bytes)

    def all_on(self, device: Device, buffers: Sequence[Buffer]) -> list[Buffer]:
        """The values on `device`; those kept on another one are copied there."""
        to_device = self.engine.backend.to_device
        return [
            buffer
            if buffer.device is device or buffer.device == device
            else to_device(buffer.to_literal(), device)
            for buffer in buffers
        ]

    def values_of(self, handles: Sequence[int | None], noun: str = "argument") -> list[Buffer]:
        """The values of handles; an error has `noun` and the number of the wrong one."""
        buffers = []
        for number, handle in enumerate(handles):
            with part_of_request(f"{noun} {number}"):
                buffers.append(self.data.get(require_handle(handle)))
        return buffers

    def checked_arguments(
        self, compiled: LoadedExecutable, handles: Sequence[int | None]
    ) -> list[Buffer]:
        """The values of these handles, which must fit the parameters; raises as `execute`."""
        buffers, parameters = self.values_of(handles), compiled.program_shape.parameters
        require_count(buffers, parameters)
        for number, (buffer, parameter) in enumerate(zip(buffers, parameters, strict=True)):
            require_fitting(buffer.shape, parameter, f"argument {number}")
        self.data.note_fetched(map(require_handle, handles))
        return buffers

    def reserve(self, compiled: LoadedExecutable, cancellation: Cancellation) -> Reservation:
        """Reserve memory for an execution, without its arguments, which are kept already.

        Waits and raises as `MemoryQueue.reserve`.
        """
        footprint = compiled.footprint
        return self.engine.queue.reserve(self.data, footprint.byte_size, footprint, cancellation)

    def assigned(
        self, grid: DeviceGrid, assignments: Sequence[DeviceAssignment]
    ) -> tuple[Device, ...]:
        """Return the device of each participant of a grid; raises as `assigned_ordinals`."""
        return self.devices.at(assigned_ordinals(grid, assignments, len(self.devices)))

    def compiled_under(self, handle: int | None) -> LoadedExecutable:
        """Return the executable of a handle.

        Raises InvalidArgumentError without a handle and for one that was freed, NotFoundError for
        one that was never given to this session.
        """
        if handle is None:
            raise InvalidArgumentError("the request must hold an executable's handle, got none")
        return self.executables.handles.get(handle)

    def alone_under(self, handle: int | None) -> LoadedExecutable:
        """Return the executable of a handle, to be run on one device.

        Raises as `compiled_under`, and FailedPreconditionError for one that runs on several.
        """
        compiled = self.compiled_under(handle)
        if len(compiled.devices) > 1:
            raise FailedPreconditionError(
                "an executable must be compiled for one device to be run alone, got "
                f"{compiled.name!r:.200} for {compiled.program.grid}",
                hint="Run it by Execute, or Run, Launch or ExecuteSharded of XlaExtensionService.",
            )
        return compiled


def profile_of(execution: Execution, compiled: LoadedExecutable) -> Profile:
    """The profile of an execution, with the compile time of the handle that it was run by."""
    # The constructor costs a third of `_replace`.
    return Profile(compiled.cache_hit, compiled.compile_time_ms, *execution.profile[2:])


def require_count(arguments: Sequence[object], parameters: Sequence[Shape]) -> None:
    """Raise InvalidArgumentError unless there is one argument per parameter."""
    if len(arguments) != len(parameters):
        raise InvalidArgumentError(
            f"there must be one argument per parameter, got {len(arguments)} for "
            f"{len(parameters)} parameters"
        )


def require_fitting(argument: Shape, parameter: Shape, name: str) -> None:
    """Raise InvalidArgumentError, with the name, unless a shape fits the parameter."""
    if not same_but_for_layout(argument, parameter):
        raise InvalidArgumentError(
            f"{name} must have the type and dimensions of its parameter, got {argument} for "
            f"{parameter}"
        )


def same_but_for_layout(argument: Shape, parameter: Shape) -> bool:
    """Return whether two shapes are equal apart from their layouts.

    Platforms keep values dense and row-major, so an argument that declares another layout than the
    parameter needs no copy.
    """
    return argument == parameter or argument.without_layout() == parameter.without_layout()
