"""Compiling programs and running them on values: Compile, Execute, ExecuteGraphParallel."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence

from xla_contract.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    UnimplementedError,
    XlaError,
)
from xla_contract.types.shape import Shape
from xla_server.backends.compile_options import CompileOptions
from xla_server.backends.diagnostics.dump_directory import DumpFiles
from xla_server.backends.platform import Backend, Buffer, Device, Executable, Execution, Profile
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.channel_protocol import Channels
from xla_server.ir.module import HloModule
from xla_server.sessions.error_context import part_of_request, with_context
from xla_server.sessions.feeds.channel_table import CallChannels
from xla_server.sessions.feeds.device_table import REPLICA_COUNT, DeviceTable
from xla_server.sessions.limits.blocking import releasing_slot
from xla_server.sessions.limits.caller import Caller, Flow
from xla_server.sessions.limits.compile_budget import CompileBudget
from xla_server.sessions.limits.compile_share import CompileShare
from xla_server.sessions.limits.quotas import Quotas
from xla_server.sessions.limits.semaphores import FairSemaphore
from xla_server.sessions.limits.server_limits import Limits
from xla_server.sessions.programs.compile_request import CompileRequest, Program, prepare_program
from xla_server.sessions.programs.executable_table import (
    ExecutableCache,
    ExecutableTable,
    LoadedExecutable,
)
from xla_server.sessions.runs.memory_queue import MemoryQueue
from xla_server.sessions.runs.parallel_group import run_all_or_none
from xla_server.sessions.runs.requests import ExecutionResult, GraphProgram
from xla_server.sessions.runs.time_slicing import TimeSlicer
from xla_server.sessions.values.handles import require_handle
from xla_server.sessions.values.value_table import Reservation, ValueTable


@dataclasses.dataclass(frozen=True, slots=True)
class _Launch:
    """A program ready to run: compiled, its arguments found."""

    number: int
    compiled: LoadedExecutable
    arguments: Sequence[Buffer]
    device: Device


@dataclasses.dataclass(eq=False)
class ProgramRunner:
    """Runs programs on the values of one session. Thread-safe."""

    backend: Backend
    programs: ExecutableCache
    turns: TimeSlicer
    queue: MemoryQueue
    limits: Limits
    quotas: Quotas
    devices: DeviceTable
    data: ValueTable
    executables: ExecutableTable
    channels: Channels
    running: FairSemaphore
    compiling: CompileBudget
    shared_compiling: CompileShare
    caller: Caller
    flow: Flow

    def compile(
        self,
        request: CompileRequest,
        argument_shapes: Sequence[Shape],
        cancellation: Cancellation,
    ) -> int:
        """Compile a program for the default device and give its executable a handle.

        Without `argument_shapes` it takes what the module's host_program_shape says. Programs and
        options of equal content share one executable (the reference compiles and keeps each).

        Raises as `prepare_program` and `Backend.compile`, and
        InvalidArgumentError for several device handles in the options.
        """
        if request.device_count > 1:
            raise InvalidArgumentError(
                f"a program is compiled for at most one device handle, got {request.device_count}"
            )
        default = self.devices.resolve(None)
        prepared = prepare_program(request, argument_shapes or None, default)
        compiled = self._compiled(prepared, cancellation)
        return self.executables.keep(dataclasses.replace(compiled, name=request.source.name))

    def execute(
        self, handle: int | None, arguments: Sequence[int | None], cancellation: Cancellation
    ) -> ExecutionResult:
        """Run an executable on the default device and wait for its result.

        Raises as `compiled_under`, InvalidArgumentError when the arguments do not equal the
        compiled parameters in number, type and dimensions; and what running raises.
        """
        compiled = self.compiled_under(handle)
        buffers = self.checked_arguments(compiled, arguments)
        # Before a slot is taken: a call that waits for memory must hold none.
        reservation = self.reserve(compiled, cancellation)
        try:
            self.running.take()
            try:
                turn = self.turns.begin(cancellation, self.flow)
                try:
                    device = self.devices.default
                    execution = self.run(compiled, buffers, device, cancellation)
                finally:
                    self.turns.end(turn)
                return ExecutionResult(
                    reservation.keep(execution.output), profile_of(execution, compiled)
                )
            finally:
                # The memory is free before the end of the run is visible.
                reservation.release()
                self.running.release()
        finally:
            reservation.release()

    def execute_together(
        self, requests: Sequence[GraphProgram], cancellation: Cancellation
    ) -> list[ExecutionResult]:
        """Compile and run programs at the same time, each on its own device.

        When one fails the others are cancelled, no result is kept, and the error of the first
        to fail is raised. Raises InvalidArgumentError, FailedPreconditionError and InternalError
        as the contract says, UnimplementedError for a partitioned program.
        """
        devices = self._devices_of(requests)
        with contextlib.ExitStack() as stack:
            launches = [
                self._prepare(number, request, device, cancellation, stack)
                for number, (request, device) in enumerate(zip(requests, devices, strict=True))
            ]
            reservations = self._reserve_all(launches, cancellation, stack)
            channels = CallChannels(
                [launch.compiled.channel_ends for launch in launches],
                self.channels,
                max_items=self.quotas.queued_items,
                max_bytes=self.quotas.queued_bytes,
            )
            jobs = [self._job(launch, channels) for launch in launches]
            executions = run_all_or_none(jobs, cancellation)
            return self._keep_all(launches, executions, reservations)

    def _prepare(
        self,
        number: int,
        request: GraphProgram,
        device: Device,
        cancellation: Cancellation,
        stack: contextlib.ExitStack,
    ) -> _Launch:
        """Make one request ready; its executable is held until `stack` closes."""
        with part_of_request(f"request {number}"):
            wanted = request.program()
            arguments = self._arguments(request.arguments)
            shapes = [argument.shape for argument in arguments]
            program = prepare_program(wanted, shapes, device)
            # A thread that compiles is not there for programs that run.
            with releasing_slot():
                compiled = self._compiled(program, cancellation)
            stack.callback(self.programs.release, compiled)
            return _Launch(number, compiled, arguments, device)

    def _reserve_all(
        self,
        launches: Sequence[_Launch],
        cancellation: Cancellation,
        stack: contextlib.ExitStack,
    ) -> list[Reservation]:
        """Reserve memory for all at once, so that none waits while another one has some."""
        sizes = [launch.compiled.room.byte_size for launch in launches]
        largest = launches[sizes.index(max(sizes))]
        with part_of_request(f"request {largest.number}"):
            room = stack.enter_context(
                self.queue.reserve(self.data, sum(sizes), largest.compiled.room, cancellation)
            )
        return [stack.enter_context(room.split(size)) for size in sizes]

    def _job(self, launch: _Launch, channels: CallChannels) -> Callable[[Cancellation], Execution]:
        def run(cancellation: Cancellation) -> Execution:
            with (
                part_of_request(f"request {launch.number}"),
                self.running.taken(),
                self.turns.taken(cancellation, self.flow),
            ):
                execution = self.run(
                    launch.compiled,
                    launch.arguments,
                    launch.device,
                    cancellation,
                    channels=channels,
                )
            # A failure cancels the others, and its error is reported.
            channels.ended(launch.number)
            return execution

        return run

    def _keep_all(
        self,
        launches: Sequence[_Launch],
        executions: Sequence[Execution],
        reservations: Sequence[Reservation],
    ) -> list[ExecutionResult]:
        kept: list[ExecutionResult] = []
        try:
            for launch, execution, room in zip(launches, executions, reservations, strict=True):
                profile = profile_of(execution, launch.compiled)
                kept.append(ExecutionResult(room.keep(execution.output), profile))
        except XlaError:
            for executed in kept:
                self.data.remove(executed.output)
            raise
        return kept

    def _compiled(self, program: Program, cancellation: Cancellation) -> LoadedExecutable:
        if not self.programs.has(program.key):
            # Before others can wait for it: they are not to get an error of this session's own.
            self._require_compiling()

        compile_program = functools.partial(self._compile, program)
        return self.programs.acquire(program, compile_program, cancellation, self.caller)

    def _require_compiling(self) -> None:
        """Raise ResourceExhaustedError if the session may compile no more."""
        self.compiling.require()
        self.shared_compiling.require(self.caller)

    @contextlib.contextmanager
    def _spending(self) -> Iterator[None]:
        with self.compiling.spending(), self.shared_compiling.spending(self.caller):
            yield

    @contextlib.contextmanager
    def counted_as_compiling(self) -> Iterator[None]:
        """Count the time of the block as the session's compiling.

        Raises ResourceExhaustedError if the session may compile no more.
        """
        self._require_compiling()
        with self._spending():
            yield

    def compile_once(
        self, program: Program, options: CompileOptions, files: DumpFiles
    ) -> Executable:
        """Compile a program for this call alone, with the dump in `files`.

        Raises as `Backend.compile`, and ResourceExhaustedError if the session may compile no more.
        """
        with self.counted_as_compiling():
            module = program.import_module(self.limits.max_device_bytes)
            return self.backend.compile(
                module, program.entry, seed=program.seed, options=options, files=files
            )

    def _compile(self, program: Program) -> Executable:
        with self._spending():
            module = program.import_module(self.limits.max_device_bytes)
            return self.backend.compile(
                module, program.entry, seed=program.seed, options=program.options
            )

    def _compile_again(self, program: Program) -> Executable:
        """Compile a program in a thread for executions; lend the thread's slot meanwhile."""
        with releasing_slot():
            return self._compile(program)

    def run(
        self,
        compiled: LoadedExecutable,
        arguments: Sequence[Buffer],
        device: Device,
        cancellation: Cancellation,
        donated: Sequence[int] = (),
        label: int = 0,
        channels: Channels | None = None,
    ) -> Execution:
        """Run in a slot of `running` that the caller has taken; raises as `Executable.execute`.

        A program whose code is gone is compiled again, which takes no leave: time of it counts as
        the session's compiling, and may exceed what it has. `donated` are numbers of arguments
        without other users; `label` is the handle of the execution, where it was launched, for
        who asks what waits; `channels` are the session's unless others are given.
        """
        code, executable = self.programs.begin_use(
            compiled, functools.partial(self._compile_again, compiled.program), cancellation
        )
        try:
            return self.run_executable(
                executable, arguments, device, cancellation, donated, label, channels
            )
        finally:
            self.programs.end_use(code)

    def run_executable(
        self,
        executable: Executable,
        arguments: Sequence[Buffer],
        device: Device,
        cancellation: Cancellation,
        donated: Sequence[int] = (),
        label: int = 0,
        channels: Channels | None = None,
    ) -> Execution:
        """Run code that is at hand; otherwise as `run`."""
        return executable.execute(
            self._all_on(device, arguments) if arguments else (),
            device=device,
            feeds=self.devices.feeds(device).bound_to(executable.name, label),
            channels=self.channels if channels is None else channels,
            cancellation=cancellation,
            donated=donated,
        )

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
            self.running.taken(),
            self.turns.taken(cancellation, self.flow),
        ):
            self.run_executable(executable, arguments, self.devices.default, cancellation)

    def module_of(self, compiled: LoadedExecutable) -> HloModule:
        """Return the module of a program, as it was given."""
        return compiled.program.import_module(self.limits.max_device_bytes)

    def _all_on(self, device: Device, buffers: Sequence[Buffer]) -> list[Buffer]:
        """The values on `device`; those kept on another one are copied there."""
        to_device = self.backend.to_device
        return [
            buffer
            if buffer.device is device or buffer.device == device
            else to_device(buffer.to_literal(), device)
            for buffer in buffers
        ]

    def _devices_of(self, requests: Sequence[GraphProgram]) -> list[Device]:
        if not requests:
            raise InvalidArgumentError("there must be at least one request, got none")
        counts = [len(request.devices) for request in requests]
        if len(requests) > 1 and max(counts) > 1:
            raise InvalidArgumentError(
                "each of several requests must have one device handle, got "
                f"{max(counts)} in request {counts.index(max(counts))}"
            )
        if 0 in counts:
            raise FailedPreconditionError(
                "each request must have a device handle in execution_options, got none in "
                f"request {counts.index(0)}"
            )
        if sum(counts) * REPLICA_COUNT > len(self.devices):
            raise FailedPreconditionError(
                f"the server has {len(self.devices)} devices, got requests for {sum(counts)} "
                f"with {REPLICA_COUNT} replicas each"
            )
        if max(counts) > 1:
            raise UnimplementedError(
                "programs run as one partition on this server, got one request with "
                f"{max(counts)} device handles"
            )
        return [self.devices.resolve(request.devices[0]) for request in requests]

    def _arguments(self, handles: Sequence[int | None]) -> list[Buffer]:
        buffers = []
        for number, handle in enumerate(handles):
            try:
                buffers.append(self.data.get(require_handle(handle)))
            except XlaError as error:
                raise with_context(f"argument {number}", error) from error.__cause__
        return buffers

    def checked_arguments(
        self, compiled: LoadedExecutable, handles: Sequence[int | None]
    ) -> list[Buffer]:
        """The values of these handles, which must fit the parameters; raises as `execute`."""
        buffers = self._arguments(handles)
        _check_arguments(buffers, compiled.program_shape.parameters)
        return buffers

    def reserve(self, compiled: LoadedExecutable, cancellation: Cancellation) -> Reservation:
        """Reserve memory for an execution, without its arguments, which are kept already.

        Waits and raises as `MemoryQueue.reserve`.
        """
        room = compiled.room
        return self.queue.reserve(self.data, room.byte_size, room, cancellation)

    def compiled_under(self, handle: int | None) -> LoadedExecutable:
        """Return the executable of a handle.

        Raises InvalidArgumentError without a handle and for one that was freed, NotFoundError for
        one that was never given to this session.
        """
        if handle is None:
            raise InvalidArgumentError("the request must hold an executable's handle, got none")
        return self.executables.get(handle)


def profile_of(execution: Execution, compiled: LoadedExecutable) -> Profile:
    """The profile of an execution with what compiling cost, for the handle it was run by."""
    # The constructor costs a third of `_replace`.
    return Profile(compiled.cache_hit, compiled.compile_time_ms, *execution.profile[2:])


def _check_arguments(arguments: Sequence[Buffer], parameters: Sequence[Shape]) -> None:
    if len(arguments) != len(parameters):
        raise InvalidArgumentError(
            f"there must be one argument per parameter, got {len(arguments)} for "
            f"{len(parameters)} parameters"
        )
    for number, (argument, parameter) in enumerate(zip(arguments, parameters, strict=True)):
        if not same_but_for_layout(argument.shape, parameter):
            raise InvalidArgumentError(
                f"argument {number} must have the type and dimensions of its parameter, got "
                f"{argument.shape} for {parameter}"
            )


def same_but_for_layout(argument: Shape, parameter: Shape) -> bool:
    """Return whether a value of one shape can be the argument for a parameter of the other.

    Platforms keep values dense and row-major whatever layout a shape says, so an argument in
    another layout needs no copy: its elements are read where they are.
    """
    return argument == parameter or argument.without_layout() == parameter.without_layout()
