"""Executables of compiled platforms: arguments, donation, results and profiles of executions."""

import dataclasses
import itertools
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.shape import ProgramShape, Shape
from xla_server.backends.device_buffer import Buffers, DeviceBuffer, Memory
from xla_server.backends.diagnostics.dump import Dump
from xla_server.backends.diagnostics.profile import measured_thunks, write_profile
from xla_server.backends.loaded_program import LoadedProgram
from xla_server.backends.platform import Buffer, Device, Execution, Profile, RoundRobinRun
from xla_server.backends.signature import VerifiedProgram, argument_buffer, relaid_bytes
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.collectives_protocol import GridParticipants
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.execution.memory_check import LARGE
from xla_server.ir.module import HloModule
from xla_server.ops.evaluation import TOKEN
from xla_server.runtime.host import HostRun, RunContext
from xla_server.runtime.thunk_times import ThunkTimes

_DONATING = 4
"""Bound of an executable's programs for sets of donated arguments; callers use one or two."""


class CompiledExecutable(VerifiedProgram):
    """A compiled program. Implements xla_server.backends.platform.Executable.

    Its arguments and results are made by `buffers`. The times of each execution's thunks are
    written to `dump`, if there is one.
    """

    def __init__(
        self,
        program: LoadedProgram,
        buffers: Buffers[Any],
        program_shape: ProgramShape,
        module: HloModule,
        *,
        seed: int = 0,
        dump: Dump | None = None,
    ) -> None:
        super().__init__(module, program_shape, seed)
        self.memory = dataclasses.replace(program.memory, copies=relaid_bytes(program_shape))
        # The constants are on the device already.
        self._bytes = self.memory.added - self.memory.constants
        self.work = program.work
        self._byte_size = program.byte_size
        self.kept_bytes = self._byte_size + self.memory.constants
        self.dump = dump
        """The dump that the times of each later execution's thunks are written to, or None."""
        self._program = program
        self._buffers: Buffers[DeviceBuffer] = buffers
        self._kind: type[DeviceBuffer] = buffers.kind
        self._donating: dict[frozenset[int], LoadedProgram] = {}
        # Shapes that fitted before, compared by identity: arguments often are the same buffers.
        self._fitting: list[Shape | None] = [None] * len(program_shape.parameters)
        result = program_shape.result
        self._gives_array = result.is_array
        self._arrays = tuple(leaf for leaf in result.leaves() if leaf.is_array)
        self._is_flat = result.is_tuple and all(part.is_array for part in result.tuple_shapes)

    @property
    def round_robin(self) -> RoundRobinRun | None:
        """Runs all participants of a grid in one thread; None if the program does not allow it."""
        can_be = self.dump is None and self._program.round_robin is not None
        return self._execute_round_robin if can_be else None

    def execute(
        self, arguments: Sequence[Buffer], *, device: Device, options: ExecuteOptions
    ) -> Execution:
        """Run on `device` and wait for the result; raises as Executable.execute."""
        started = time.perf_counter_ns()
        leaves = self._leaves(arguments)
        program = self._program
        if self._bytes >= LARGE:
            self._buffers.require_memory(self._bytes, f"an execution ({self.memory})")
        if options.donated:
            leaves, program = self._with_donated(arguments, leaves, options.donated)
        moved = self._buffers.moved
        if moved is not None:
            leaves = [moved(leaf, device) for leaf in leaves]
        # While `memory` holds references, no other execution is the sole owner and overwrites it.
        memory = [leaf.memory for leaf in leaves]
        addresses = [leaf.address for leaf in leaves]
        computing = time.perf_counter_ns()
        times = None if self.dump is None else ThunkTimes(len(program.thunks))
        context = RunContext(options, self._host_run, times)
        launch = None
        if options.launched is not None:
            take, owners = options.launched, (memory, addresses)
            launch = context.launched = _Launch(self, program, leaves, owners, device, take)
        blocks, cycles = program.run(addresses, device, context)
        computed = time.perf_counter_ns()
        del memory
        output = None if launch is None else launch.output
        if output is None:
            output = self.output(program, leaves, blocks, device)
        profile = Profile.since(started, computing, computed, cycles, self._byte_size)
        if self.dump is not None and times is not None:
            write_profile(self.dump, measured_thunks(program.code, program.thunks, times))
        return Execution(output, profile)

    def _host_run(self, options: ExecuteOptions) -> HostRun:
        inside = options.inside(self._entry)
        return HostRun(options=inside, random_states=self._random_states, seed=self._seed)

    def _execute_round_robin(
        self,
        arguments: Sequence[Sequence[Buffer]],
        devices: Sequence[Device],
        cancellation: Cancellation,
        group: GridParticipants,
    ) -> list[Execution] | None:
        """Run all participants; see RoundRobinRun."""
        program, round_robin = self._program, self._program.round_robin
        records = [] if round_robin is None else group.all_records(round_robin.plan)
        if round_robin is None or not records:
            return None
        started = time.perf_counter_ns()
        if self._bytes >= LARGE:
            self._buffers.require_memory(
                self._bytes * len(records), f"an execution ({self.memory})"
            )
        leaves = [self._leaves(each) for each in arguments]
        memory = [leaf.memory for each in leaves for leaf in each]
        addresses = [[leaf.address for leaf in each] for each in leaves]
        computing = time.perf_counter_ns()
        made, stuck = round_robin.run_round_robin(addresses, cancellation, records, group.grid)
        if stuck:
            group.stop(stuck)
        computed = time.perf_counter_ns()
        del memory
        return [
            Execution(
                self.output(program, given, blocks, device),
                Profile.since(started, computing, computed, cycles, self._byte_size),
            )
            for (blocks, cycles), given, device in zip(made, leaves, devices, strict=True)
        ]

    def _leaves(self, arguments: Sequence[Buffer]) -> list[DeviceBuffer]:
        """Return the arrays of all arguments, which must fit the parameters."""
        fitting, kind = self._fitting, self._kind
        if len(arguments) != len(fitting):
            raise InvalidArgumentError(
                f"the program takes {len(fitting)} arguments, got {len(arguments)}"
            )
        leaves: list[DeviceBuffer] = []
        for number, argument in enumerate(arguments):
            shape = argument.shape
            if shape is fitting[number] and isinstance(argument, kind):
                leaves.append(argument)
                continue
            parameter = self.program_shape.parameters[number]
            buffer = argument_buffer(number, argument, parameter, kind)
            if shape.is_array:
                fitting[number] = shape
            _add_leaves(leaves, buffer)
        return leaves

    def _with_donated(
        self, arguments: Sequence[Buffer], leaves: list[DeviceBuffer], donated: Collection[int]
    ) -> tuple[list[DeviceBuffer], LoadedProgram]:
        """Take donated arrays from their buffers; return all arrays, and the program for them."""
        counts = [sum(leaf.is_array for leaf in part.shape.leaves()) for part in arguments]
        ends = list(itertools.accumulate(counts))
        numbers = [n for k in donated for n in range(ends[k] - counts[k], ends[k])]
        moved = {leaf: leaf.donated() for leaf in dict.fromkeys(leaves[n] for n in numbers)}
        leaves = [moved.get(leaf, leaf) for leaf in leaves]
        # An array that shares its memory, or that is passed twice, is taken but not overwritten.
        # This is tested last, when no other execution can begin to use it.
        sole = frozenset(
            n for n in numbers if leaves[n].is_sole_owner and leaves.count(leaves[n]) == 1
        )
        program = self._donating.get(sole, self._program)
        if sole and program is self._program and len(self._donating) < _DONATING:
            program = self._donating[sole] = self._program.with_donated(sole)
        return leaves, program

    def output(
        self,
        program: LoadedProgram,
        leaves: Sequence[DeviceBuffer],
        blocks: Mapping[int, Memory],
        device: Device,
    ) -> DeviceBuffer:
        """Return the result of a run of `program`, in `blocks` and in its arguments `leaves`."""
        shape = self.program_shape.result
        if self._gives_array:
            return self._array(program, 0, shape, leaves, blocks, device)
        of_block = self._buffers.of_block
        arrays = [
            # Nearly all results have memory of their own.
            of_block(blocks[number], part, device)
            if number in blocks
            else self._array(program, number, part, leaves, blocks, device)
            for number, part in enumerate(self._arrays)
        ]
        if self._is_flat:
            return self._buffers.of_elements(tuple(arrays), shape, device)
        return _assembled(self._buffers, shape, iter(arrays), device)

    def _array(
        self,
        program: LoadedProgram,
        number: int,
        shape: Shape,
        leaves: Sequence[DeviceBuffer],
        blocks: Mapping[int, Memory],
        device: Device,
    ) -> DeviceBuffer:
        location = program.results[number]
        if location.kind == "parameter":
            return leaves[location.number].as_shape(shape, device)
        owners = blocks if location.kind == "result" else program.constants
        return self._buffers.of_block(owners[location.number], shape, device)


@dataclasses.dataclass(slots=True, eq=False)
class _Launch:
    """An execution whose result is given to `take` once it is launched, and is `output` then."""

    _executable: CompiledExecutable
    _program: LoadedProgram
    _leaves: list[DeviceBuffer]
    _owners: tuple[list[Any], ...]
    """References to the memory of arguments, by their numbers."""
    _device: Device
    _take: Callable[[DeviceBuffer], None]
    output: DeviceBuffer | None = None

    def __call__(self, blocks: Mapping[int, Memory]) -> None:
        """Give the result away; results in arguments keep their memory, as sole owners of it."""
        program, leaves = self._program, self._leaves
        self.output = self._executable.output(program, leaves, blocks, self._device)
        leaves.clear()
        for location in program.results:
            if location.kind == "parameter":
                for references in self._owners:
                    references[location.number] = None
        self._take(self.output)


def _assembled(
    buffers: Buffers[DeviceBuffer], shape: Shape, arrays: Iterator[DeviceBuffer], device: Device
) -> DeviceBuffer:
    if shape.is_tuple:
        parts = shape.tuple_shapes
        elements = tuple([_assembled(buffers, part, arrays, device) for part in parts])
        return buffers.of_elements(elements, shape, device)
    return next(arrays) if shape.is_array else buffers.from_value(TOKEN, shape, device)


def _add_leaves(leaves: list[DeviceBuffer], buffer: DeviceBuffer) -> None:
    if buffer.shape.is_array:
        leaves.append(buffer)
    for element in buffer.elements:
        _add_leaves(leaves, element)
