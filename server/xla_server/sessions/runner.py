"""Compiling programs and running them on values: Compile, Execute, ExecuteGraphParallel."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence

from xla_contract.errors import (
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    UnimplementedError,
    XlaError,
)
from xla_contract.stubs import hlo_pb2, xla_pb2
from xla_contract.types.shape import Shape
from xla_server.backends.backend import Buffer, Device, Executable, Execution, Profile
from xla_server.backends.dump_directory import DumpFiles
from xla_server.backends.options import CompileOptions
from xla_server.evaluator.cancellation import Cancellation
from xla_server.evaluator.channels import Channels
from xla_server.sessions.caller import LOCAL, LOCAL_FLOW, Caller, Flow
from xla_server.sessions.channels import CallChannels
from xla_server.sessions.data import DataTable, Reservation
from xla_server.sessions.devices import REPLICA_COUNT, Devices
from xla_server.sessions.engine import Engine
from xla_server.sessions.executables import Compiled, ExecutableTable
from xla_server.sessions.lending import lent_place
from xla_server.sessions.parallel import run_together
from xla_server.sessions.programs import Program, prepare_program, require_program
from xla_server.sessions.quotas import CompileBudget, Slots
from xla_server.sessions.records import Executed, GraphRequest, located, part_of_request, present


@dataclasses.dataclass(frozen=True, slots=True)
class _Launch:
    """A program ready to run: compiled, its arguments found."""

    number: int
    compiled: Compiled
    arguments: Sequence[Buffer]
    device: Device


class ProgramRunner:
    """Runs programs on the values of one session. Any thread may call any method."""

    def __init__(
        self,
        engine: Engine,
        devices: Devices,
        data: DataTable,
        executables: ExecutableTable,
        *,
        channels: Channels,
        running: Slots,
        compiling: CompileBudget,
        caller: Caller = LOCAL,
        flow: Flow = LOCAL_FLOW,
    ) -> None:
        self._backend = engine.backend
        self._programs = engine.programs
        self._turns = engine.turns
        self._queue = engine.queue
        self._limits = engine.limits
        self._quotas = engine.quotas
        self._devices = devices
        self._data = data
        self._executables = executables
        self._channels = channels
        self._running = running
        self._compiling = compiling
        self._shared_compiling = engine.compiling
        self._caller = caller
        self._flow = flow

    def compile(
        self,
        program: hlo_pb2.HloModuleProto | None,
        options: xla_pb2.ExecutionOptions,
        argument_shapes: Sequence[Shape],
        cancellation: Cancellation,
    ) -> int:
        """Compile a program for the default device and give its executable a handle.

        Without `argument_shapes` it takes what the module's host_program_shape says. Programs and
        options of equal content share one executable (the reference compiles and keeps each).

        Raises as `require_program`, `prepare_program` and `Backend.compile`, and
        InvalidArgumentError for several device handles in the options.
        """
        proto = require_program(program)
        if len(options.device_handles) > 1:
            raise InvalidArgumentError(
                "a program is compiled for at most one device handle, got "
                f"{len(options.device_handles)}"
            )
        default = self._devices.resolve(None)
        prepared = prepare_program(proto, options, argument_shapes or None, default)
        compiled = self._compiled(prepared, cancellation)
        return self._executables.keep(dataclasses.replace(compiled, name=proto.name))

    def execute(
        self, handle: int | None, arguments: Sequence[int | None], cancellation: Cancellation
    ) -> Executed:
        """Run an executable on the default device and wait for its result.

        Raises as `compiled_under`, InvalidArgumentError when the arguments do not equal the
        compiled parameters in number, type and dimensions; and what running raises.
        """
        compiled = self.compiled_under(handle)
        buffers = self.checked_arguments(compiled, arguments)
        # Before a slot is taken: who waits for memory holds none.
        reservation = self.reserve(compiled, cancellation)
        try:
            self._running.take()
            try:
                turn = self._turns.begin(cancellation, self._flow)
                try:
                    device = self._devices.default
                    execution = self.run(compiled, buffers, device, cancellation)
                finally:
                    self._turns.end(turn)
                return Executed(reservation.keep(execution.output), profile_of(execution, compiled))
            finally:
                # Who sees that it runs no more sees its memory free.
                reservation.release()
                self._running.give_back()
        finally:
            reservation.release()

    def execute_together(
        self, requests: Sequence[GraphRequest], cancellation: Cancellation
    ) -> list[Executed]:
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
                self._channels,
                max_items=self._quotas.queued_items,
                max_bytes=self._quotas.queued_bytes,
            )
            jobs = [self._job(launch, channels) for launch in launches]
            executions = run_together(jobs, cancellation)
            return self._keep_all(launches, executions, reservations)

    def _prepare(
        self,
        number: int,
        request: GraphRequest,
        device: Device,
        cancellation: Cancellation,
        stack: contextlib.ExitStack,
    ) -> _Launch:
        """Make one request ready; its executable is held until `stack` closes."""
        with part_of_request(f"request {number}"):
            proto = require_program(request.program, InternalError)
            arguments = self._arguments(request.arguments)
            shapes = [argument.shape for argument in arguments]
            program = prepare_program(proto, request.options, shapes, device)
            # A thread that compiles is not there for programs that run.
            with lent_place():
                compiled = self._compiled(program, cancellation)
            stack.callback(self._programs.release, compiled)
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
                self._queue.reserve(self._data, sum(sizes), largest.compiled.room, cancellation)
            )
        return [stack.enter_context(room.split(size)) for size in sizes]

    def _job(self, launch: _Launch, channels: CallChannels) -> Callable[[Cancellation], Execution]:
        def run(cancellation: Cancellation) -> Execution:
            with (
                part_of_request(f"request {launch.number}"),
                self._running.taken(),
                self._turns.taken(cancellation, self._flow),
            ):
                execution = self.run(
                    launch.compiled,
                    launch.arguments,
                    launch.device,
                    cancellation,
                    channels=channels,
                )
            # A failure cancels the others, and is to be the error that is told.
            channels.ended(launch.number)
            return execution

        return run

    def _keep_all(
        self,
        launches: Sequence[_Launch],
        executions: Sequence[Execution],
        reservations: Sequence[Reservation],
    ) -> list[Executed]:
        kept: list[Executed] = []
        try:
            for launch, execution, room in zip(launches, executions, reservations, strict=True):
                profile = profile_of(execution, launch.compiled)
                kept.append(Executed(room.keep(execution.output), profile))
        except XlaError:
            for executed in kept:
                self._data.remove(executed.output)
            raise
        return kept

    def _compiled(self, program: Program, cancellation: Cancellation) -> Compiled:
        if not self._programs.has(program.key):
            # Before others can wait for it: they are not to get an error of this session's own.
            self._require_compiling()

        compile_program = functools.partial(self._compile, program)
        return self._programs.acquire(program, compile_program, cancellation, self._caller)

    def _require_compiling(self) -> None:
        """Raise ResourceExhaustedError if the session may compile no more."""
        self._compiling.require()
        self._shared_compiling.require(self._caller)

    @contextlib.contextmanager
    def _spending(self) -> Iterator[None]:
        with self._compiling.spending(), self._shared_compiling.spending(self._caller):
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
            module = program.import_module(self._limits.max_device_bytes)
            return self._backend.compile(
                module, program.entry, seed=program.seed, options=options, files=files
            )

    def _compile(self, program: Program) -> Executable:
        with self._spending():
            module = program.import_module(self._limits.max_device_bytes)
            return self._backend.compile(
                module, program.entry, seed=program.seed, options=program.options
            )

    def _compile_again(self, program: Program) -> Executable:
        """Compile a program in a thread for executions; lend the thread's slot meanwhile."""
        with lent_place():
            return self._compile(program)

    def run(
        self,
        compiled: Compiled,
        arguments: Sequence[Buffer],
        device: Device,
        cancellation: Cancellation,
        donated: Sequence[int] = (),
        label: int = 0,
        channels: Channels | None = None,
    ) -> Execution:
        """Run in a place of `running` that the caller has taken; raises as `Executable.execute`.

        A program whose code is gone is compiled again, which takes no leave: time of it counts as
        the session's compiling, and may exceed what it has. `donated` are numbers of arguments
        that nobody else uses; `label` is the handle of the execution, where it was launched, for
        who asks what waits; `channels` are the session's unless others are given.
        """
        code, executable = self._programs.begin_use(
            compiled, functools.partial(self._compile_again, compiled.program), cancellation
        )
        try:
            return self.run_executable(
                executable, arguments, device, cancellation, donated, label, channels
            )
        finally:
            self._programs.end_use(code)

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
            feeds=self._devices.feeds(device).used_by(executable.name, label),
            channels=self._channels if channels is None else channels,
            cancellation=cancellation,
            donated=donated,
        )

    def _all_on(self, device: Device, buffers: Sequence[Buffer]) -> list[Buffer]:
        """The values on `device`; those kept on another one are copied there."""
        to_device = self._backend.to_device
        return [
            buffer
            if buffer.device is device or buffer.device == device
            else to_device(buffer.to_literal(), device)
            for buffer in buffers
        ]

    def _devices_of(self, requests: Sequence[GraphRequest]) -> list[Device]:
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
        if sum(counts) * REPLICA_COUNT > len(self._devices):
            raise FailedPreconditionError(
                f"the server has {len(self._devices)} devices, got requests for {sum(counts)} "
                f"with {REPLICA_COUNT} replicas each"
            )
        if max(counts) > 1:
            raise UnimplementedError(
                "programs run as one partition on this server, got one request with "
                f"{max(counts)} device handles"
            )
        return [self._devices.resolve(request.devices[0]) for request in requests]

    def _arguments(self, handles: Sequence[int | None]) -> list[Buffer]:
        buffers = []
        for number, handle in enumerate(handles):
            try:
                buffers.append(self._data.get(present(handle)))
            except XlaError as error:
                raise located(f"argument {number}", error) from error.__cause__
        return buffers

    def checked_arguments(self, compiled: Compiled, handles: Sequence[int | None]) -> list[Buffer]:
        """The values of these handles, which must fit the parameters; raises as `execute`."""
        buffers = self._arguments(handles)
        _check_arguments(buffers, compiled.program_shape.parameters)
        return buffers

    def reserve(self, compiled: Compiled, cancellation: Cancellation) -> Reservation:
        """Reserve memory for an execution, without its arguments, which are kept already.

        Waits and raises as `MemoryQueue.reserve`.
        """
        room = compiled.room
        return self._queue.reserve(self._data, room.byte_size, room, cancellation)

    def compiled_under(self, handle: int | None) -> Compiled:
        """Return the executable of a handle.

        Raises InvalidArgumentError without a handle and for one that was freed, NotFoundError for
        one that was never given to this session.
        """
        if handle is None:
            raise InvalidArgumentError("the request must hold an executable's handle, got none")
        return self._executables.get(handle)


def profile_of(execution: Execution, compiled: Compiled) -> Profile:
    """The profile of an execution with what compiling cost, for the handle it was run by."""
    # As `_replace`, at a third of its cost.
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
