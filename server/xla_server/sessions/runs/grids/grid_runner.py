"""Programs on several devices at the same time: Execute, ExecuteSharded, ExecuteGraphParallel.

All or nothing: memory and slots are taken for all participants before the first one begins, so none
waits for resources that another one holds. The first failure stops the others.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from xla_contract.errors import FailedPreconditionError, InvalidArgumentError
from xla_contract.types.devices.device_grid import ALONE, DeviceGrid
from xla_contract.types.devices.sharding import Sharding
from xla_server.backends.platform import Buffer, Device, Execution
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.collectives_protocol import Collectives, GridParticipants
from xla_server.ir.verification.transfer_cycles import check_transfer_cycles
from xla_server.sessions.error_context import part_of_request
from xla_server.sessions.feeds.channel_table import CallChannels
from xla_server.sessions.limits.blocking import releasing_slot
from xla_server.sessions.programs.compile_request import CompileRequest, prepare_program
from xla_server.sessions.programs.executable_table import LoadedExecutable
from xla_server.sessions.runs.grids.grid_execution import run_on_grid, run_round_robin
from xla_server.sessions.runs.grids.shards import cut, joined
from xla_server.sessions.runs.grids.shared_step import (
    AS_ONE,
    Joining,
    cutting_of,
    execution_bytes,
    joining_of,
)
from xla_server.sessions.runs.hosts import HostParticipant
from xla_server.sessions.runs.program_runner import (
    ProgramRunner,
    profile_of,
    require_count,
    require_fitting,
)
from xla_server.sessions.runs.requests import (
    ExecutionResult,
    GraphProgram,
    ShardedOutput,
    ShardedRequest,
    ShardedResult,
    ShardsArgument,
    WholeArgument,
)
from xla_server.sessions.values.handles import require_handle


@dataclasses.dataclass(frozen=True, slots=True)
class _Participant:
    """A program ready to run on a device. `name` says which one it is, in errors."""

    name: str
    compiled: LoadedExecutable
    arguments: Sequence[Buffer]
    device: Device
    label: int = 0
    """The handle of the execution, if it was launched."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Cut:
    """A value to be cut into shards."""

    value: Buffer
    sharding: Sharding


_Source: TypeAlias = "Sequence[Buffer] | _Cut"
"""An argument: the value of each participant, or the value to be cut into shards."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class GridRunner:
    """Runs programs on the devices of grids, for one session. Any thread may call any method."""

    runner: ProgramRunner

    def execute(
        self, handle: int | None, arguments: Sequence[int | None], cancellation: Cancellation
    ) -> ExecutionResult:
        """Run an executable, on all devices of its grid, and keep one result: Execute.

        All participants get the same arguments, or shards of them if the program says so; the
        result is that of participant 0, or joined as the program says. So does XLA's service with
        its replicas. Raises as `ProgramRunner.execute` and `execute_sharded`.
        """
        if len(self.runner.compiled_under(handle).devices) <= 1:
            return self.runner.execute(handle, arguments, cancellation)
        sources = [WholeArgument(require_handle(argument), None) for argument in arguments]
        result = self.execute_sharded(ShardedRequest(handle, None, sources, AS_ONE), cancellation)
        return ExecutionResult(result.outputs[0][0], result.profile)

    def run_as_one(
        self,
        compiled: LoadedExecutable,
        arguments: Sequence[Buffer],
        cancellation: Cancellation,
        label: int,
    ) -> Execution:
        """Run an executable on all devices of its grid, for the result that `execute` keeps.

        For a step of a run, in the run's slot, with the memory that `shared_step` returns. `label`
        is as in `ProgramRunner.run`. Raises what running raises.
        """
        grid = compiled.program.grid
        sources = [_source_of(compiled, number, value) for number, value in enumerate(arguments)]
        participants = self._participants(compiled, compiled.devices, sources, label)
        executions = self._run(participants, grid, cancellation)
        (output,) = self._results(executions, AS_ONE, joining_of(AS_ONE, compiled))
        return Execution(output, _longest(executions).profile)

    def execute_sharded(self, request: ShardedRequest, cancellation: Cancellation) -> ShardedResult:
        """Run an executable on all devices of its grid and keep its results.

        Raises as the contract says of ExecuteSharded.
        """
        runner = self.runner
        compiled = runner.compiled_under(request.executable)
        grid, devices = compiled.program.grid, compiled.devices
        if request.assignment is not None:
            devices = runner.assigned(grid, [request.assignment])
        sources = self._sources(request, compiled)
        joining = joining_of(request.output, compiled)
        cuts = [(each.sharding, each.value.shape) for each in sources if isinstance(each, _Cut)]
        size = execution_bytes(compiled, cuts, joining)
        with runner.engine.queue.reserve(runner.data, size, compiled.footprint, cancellation):
            participants = self._participants(compiled, devices, sources)
            with self._slots(participants):
                executions = self._run(participants, grid, cancellation)
            results = self._results(executions, request.output, joining)
            kept = [
                result.elements if request.output.flatten and result.shape.is_tuple else (result,)
                for result in results
            ]
            handles = iter(runner.data.keep_all([each for parts in kept for each in parts]))
        outputs = [[next(handles) for _ in parts] for parts in kept]
        shape = compiled.program_shape.result if joining is None else joining[1]
        return ShardedResult(outputs, profile_of(_longest(executions), compiled), shape)

    def execute_graphs(
        self, requests: Sequence[GraphProgram], cancellation: Cancellation
    ) -> list[ExecutionResult]:
        """Compile and run programs at the same time, as the contract says of ExecuteGraphParallel.

        Each of several requests is a partition, on its own device. A single one with several
        devices has as many participants, which all get its arguments, and as many results. When one
        fails the others are cancelled, no result is kept, and the error of the first to fail is
        raised. Raises as `check_transfer_cycles` before any begins, and InvalidArgumentError,
        FailedPreconditionError and InternalError as the contract says.
        """
        runner, devices = self.runner, self._devices_of(requests)
        with contextlib.ExitStack() as stack:
            prepared = []
            for number, request in enumerate(requests):
                with part_of_request(f"request {number}"):
                    own = devices if len(requests) == 1 else devices[number : number + 1]
                    prepared.append(self._prepare(request, own, devices, cancellation, stack))
            grid = prepared[0][0].program.grid
            channels = None
            if len(requests) == 1 < len(devices):
                compiled, arguments = prepared[0]
                participants = [
                    _Participant(_participant_name(grid, number), compiled, arguments, device)
                    for number, device in enumerate(devices)
                ]
            else:
                participants = [
                    _Participant(f"request {number}", *each, device)
                    for number, (each, device) in enumerate(zip(prepared, devices, strict=True))
                ]
                channels = CallChannels(
                    [each.compiled.channel_ends for each in participants],
                    runner.channels,
                    max_items=runner.engine.quotas.queued_items,
                    max_bytes=runner.engine.quotas.queued_bytes,
                )
                if channels.has_shared:
                    modules = [runner.module_of(each.compiled) for each in participants]
                    check_transfer_cycles(modules, grid)
            # For all at once, so that no participant waits while another holds slots.
            footprints = [each.compiled.footprint for each in participants]
            largest = max(footprints, key=lambda each: each.byte_size)
            size = sum(each.byte_size for each in footprints)
            with part_of_request(participants[footprints.index(largest)].name):
                reservation = runner.engine.queue.reserve(runner.data, size, largest, cancellation)
            stack.enter_context(reservation)
            with self._slots(participants):
                executions = self._run(participants, grid, cancellation, channels)
            handles = runner.data.keep_all([execution.output for execution in executions])
        return [
            ExecutionResult(handle, profile_of(execution, each.compiled))
            for handle, execution, each in zip(handles, executions, participants, strict=True)
        ]

    def _run(
        self,
        participants: Sequence[_Participant],
        grid: DeviceGrid,
        cancellation: Cancellation,
        channels: CallChannels | None = None,
    ) -> list[Execution]:
        """Run all participants, in memory and slots that the caller has taken."""
        runner = self.runner
        hosts = runner.engine.hosts
        are_here = hosts is None or all(hosts.has(each.device) for each in participants)
        if are_here and channels is None:
            made = self._round_robin(participants, grid, cancellation)
            if made is not None:
                return made
        jobs = [self._job(*each, channels) for each in enumerate(participants)]
        seconds = runner.engine.limits.collective_timeout_seconds
        is_one_program = len({each.compiled.program.key for each in participants}) == 1
        if hosts is None or are_here:
            return run_on_grid(
                jobs, grid, cancellation, timeout_seconds=seconds, is_one_program=is_one_program
            )
        hosted = [
            self._host_participant(number, each, jobs[number], channels)
            for number, each in enumerate(participants)
        ]
        return hosts.run(
            hosted, grid, cancellation, timeout_seconds=seconds, is_one_program=is_one_program
        )

    def _round_robin(
        self, participants: Sequence[_Participant], grid: DeviceGrid, cancellation: Cancellation
    ) -> list[Execution] | None:
        """Run all participants in this thread, if their program allows it."""
        runner, compiled = self.runner, participants[0].compiled
        if grid.size == 1:
            return None
        with runner.used(compiled, cancellation) as executable:
            if executable.round_robin is None:
                return None
            arguments = [runner.all_on(each.device, each.arguments) for each in participants]
            devices = [each.device for each in participants]

            def run(group: GridParticipants, own: Cancellation) -> list[Execution] | None:
                with runner.engine.time_slicer.acquired(own, runner.flow):
                    return round_robin(arguments, devices, own, group)

            round_robin = executable.round_robin
            return run_round_robin(run, grid, cancellation)

    @contextlib.contextmanager
    def _slots(self, participants: Sequence[_Participant]) -> Iterator[None]:
        """Hold a slot for each participant for the block; raises before any begins."""
        with contextlib.ExitStack() as slots:
            for each in participants:
                with part_of_request(each.name):
                    slots.enter_context(self.runner.running.acquired())
            yield

    def _participants(
        self,
        compiled: LoadedExecutable,
        devices: Sequence[Device],
        sources: Sequence[_Source],
        label: int = 0,
    ) -> list[_Participant]:
        return [
            _Participant(
                _participant_name(compiled.program.grid, number),
                compiled,
                [self._argument(source, number, device) for source in sources],
                device,
                label,
            )
            for number, device in enumerate(devices)
        ]

    def _results(
        self,
        executions: Sequence[Execution],
        output: ShardedOutput,
        joining: Joining,
    ) -> list[Buffer]:
        """The results of all participants, or the one that `joining` assembles."""
        results = [execution.output for execution in executions]
        if joining is None:
            return results[:1] if output.join else results
        value = joined(*joining, [result.to_literal() for result in results])
        return [self.runner.engine.backend.to_device(value, results[0].device)]

    def _host_participant(
        self,
        number: int,
        participant: _Participant,
        job: Callable[[Collectives, Cancellation], Execution],
        channels: CallChannels | None,
    ) -> HostParticipant:
        """A participant in the form for processes on other hosts."""
        runner, compiled = self.runner, participant.compiled
        return HostParticipant(
            participant.name,
            participant.device,
            job,
            compiled.program,
            compiled.kept_bytes,
            participant.arguments,
            runner.devices.feeds(participant.device).bound_to(compiled.name, participant.label),
            runner.channels if channels is None else channels,
            (lambda: None) if channels is None else functools.partial(channels.ended, number),
        )

    def _job(
        self, number: int, participant: _Participant, channels: CallChannels | None
    ) -> Callable[[Collectives, Cancellation], Execution]:
        runner = self.runner

        def run(collectives: Collectives, cancellation: Cancellation) -> Execution:
            with (
                part_of_request(participant.name),
                runner.engine.time_slicer.acquired(cancellation, runner.flow),
            ):
                execution = runner.run(
                    participant.compiled,
                    participant.arguments,
                    participant.device,
                    cancellation,
                    label=participant.label,
                    channels=channels,
                    collectives=collectives,
                )
            # A failure cancels the others, and must be the error that is reported.
            if channels is not None:
                channels.ended(number)
            return execution

        return run

    def _sources(self, request: ShardedRequest, compiled: LoadedExecutable) -> list[_Source]:
        require_count(request.arguments, compiled.program_shape.parameters)
        sources: list[_Source] = []
        for number, argument in enumerate(request.arguments):
            with part_of_request(f"argument {number}"):
                sources.append(self._source(argument, compiled, number))
        return sources

    def _source(
        self,
        argument: WholeArgument | ShardsArgument | None,
        compiled: LoadedExecutable,
        number: int,
    ) -> _Source:
        """The values that an argument names, which must fit the parameter of this number."""
        if argument is None:
            raise InvalidArgumentError("an argument must say its source, got none")
        if isinstance(argument, WholeArgument):
            value = self.runner.data.get(argument.handle)
            return _source_of(compiled, number, value, argument.sharding)
        grid = compiled.program.grid
        if len(argument.handles) != grid.size:
            raise InvalidArgumentError(
                f"there must be a shard for each of {grid.size} participants, got "
                f"{len(argument.handles)}"
            )
        shards = self.runner.values_of(argument.handles, "shard")
        for participant, shard in enumerate(shards):
            parameter = compiled.program_shape.parameters[number]
            require_fitting(shard.shape, parameter, f"shard {participant}")
        return shards

    def _argument(self, source: _Source, participant: int, device: Device) -> Buffer:
        if isinstance(source, _Cut):
            shard = cut(source.value.to_literal(), source.sharding, participant)
            return self.runner.engine.backend.to_device(shard, device)
        return source[participant]

    def _prepare(
        self,
        request: GraphProgram,
        own: Sequence[Device],
        devices: Sequence[Device],
        cancellation: Cancellation,
        stack: contextlib.ExitStack,
    ) -> tuple[LoadedExecutable, list[Buffer]]:
        """Make a request ready for its `own` of all devices; `stack` frees its executable."""
        wanted = request.program()
        grid = _grid_of(wanted, own, devices)
        arguments = self.runner.values_of(request.arguments)
        program = prepare_program(wanted, [argument.shape for argument in arguments], grid)
        # While a thread compiles, it runs no programs: its slot is lent.
        with releasing_slot():
            compiled = self.runner.compiled(program, cancellation)
        stack.callback(self.runner.engine.programs.release, compiled)
        return compiled, arguments

    def _devices_of(self, requests: Sequence[GraphProgram]) -> list[Device]:
        """The devices of all participants, in order."""
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
        devices = self.runner.devices
        if sum(counts) > len(devices):
            raise FailedPreconditionError(
                f"the server has {len(devices)} devices, got requests for {sum(counts)}"
            )
        return [devices.resolve(handle) for request in requests for handle in request.devices]


def _source_of(
    compiled: LoadedExecutable, number: int, value: Buffer, sharding: Sharding | None = None
) -> _Source:
    cutting = cutting_of(compiled, number, value.shape, sharding)
    return [value] * compiled.program.grid.size if cutting is None else _Cut(value, cutting)


def _longest(executions: Sequence[Execution]) -> Execution:
    return max(executions, key=lambda each: each.profile.compute_time_ns)


def _participant_name(grid: DeviceGrid, number: int) -> str:
    replica, partition = grid.position(number)
    return f"replica {replica}, partition {partition}"


def _grid_of(
    wanted: CompileRequest, own: Sequence[Device], devices: Sequence[Device]
) -> DeviceGrid:
    """The grid of a program on its `own` of the devices of all participants.

    Raises InvalidArgumentError if its options say another one, or other devices.
    """
    grid, stated = DeviceGrid(1, len(devices)), wanted.grid
    if len(own) == len(devices) == stated.size:
        grid = stated
    elif stated not in (ALONE, grid):
        raise InvalidArgumentError(
            f"a program of {stated} must have {stated.size} device handles in one request, got "
            f"{len(devices)} in all"
        )
    for assignment in wanted.assignments:
        runs_on = devices if assignment.grid == grid else own
        ordinals = tuple(device.ordinal for device in runs_on)
        if assignment.ordinals != ordinals:
            raise InvalidArgumentError(
                f"{assignment.owner} device_assignment must name the devices that the program runs "
                f"on, got {list(assignment.ordinals)} for {list(ordinals)}"
            )
    return grid
