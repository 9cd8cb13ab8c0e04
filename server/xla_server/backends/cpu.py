"""The `cpu` platform: programs compiled to kernels and run by the native executor."""

import dataclasses
import itertools
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from xla_contract.errors import (
    InvalidArgumentError,
    XlaError,
)
from xla_contract.literal import Literal
from xla_contract.opcode import Opcode
from xla_contract.shape import ProgramShape, Shape
from xla_server.backends.backend import Buffer, Device, Execution, Profile
from xla_server.backends.compilation import compile_module
from xla_server.backends.cpu_dynamic import DynamicExecutable
from xla_server.backends.dump import Dump
from xla_server.backends.dump_directory import DumpDirectory, DumpFiles
from xla_server.backends.host_buffer import HostBuffer
from xla_server.backends.incidents import Incidents
from xla_server.backends.options import DEFAULTS, CompileOptions
from xla_server.backends.preparation import preparation
from xla_server.backends.profile import measured_rows, write_profile
from xla_server.backends.signature import argument_buffer, has_state, laid_out, relaid_bytes
from xla_server.backends.sized_programs import SizedPrograms
from xla_server.backends.support import require_supported
from xla_server.buffers.assignment import memory_use, require_fit
from xla_server.buffers.code import Code, KernelCode, KernelThunk
from xla_server.codegen.compiler.kernel_cache import KernelCache
from xla_server.codegen.kernel import KernelError, Kernels
from xla_server.codegen.lower.fusion_faults import FUSED, FUSION_FAULTS
from xla_server.codegen.lower.lowering import Lower
from xla_server.codegen.lower.lowerings import LOWERINGS
from xla_server.custom_calls.builtin import BUILTIN
from xla_server.custom_calls.registry import Registry
from xla_server.evaluator.cancellation import Cancellation
from xla_server.evaluator.channels import Channels, OwnChannels, channel_ends
from xla_server.evaluator.dynamic_shapes import has_dynamic_shapes
from xla_server.evaluator.feeds import Feeds
from xla_server.evaluator.memory import LARGE, require_bytes
from xla_server.ir.fingerprint import fingerprint
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.ir.verifier import check_signature, verify
from xla_server.ops.rng_get_and_update_state import RandomStates
from xla_server.passes.edit import copy_module
from xla_server.passes.rng_expander import RngExpander
from xla_server.passes.selection import PassOptions
from xla_server.runtime.blocks import Block, BlockPool
from xla_server.runtime.executor import walker
from xla_server.runtime.host import HostRun
from xla_server.runtime.program import Program
from xla_server.runtime.row_times import RowTimes
from xla_server.runtime.threads import ThreadPool
from xla_server.target.machine import Machine


class Cpu:
    """A platform of `device_count` devices that share this process's processor.

    Implements xla_server.backends.backend.Backend. `max_value_bytes` bounds every single value
    of a program and all that exist at once in an execution. Programs may call the
    targets in `custom_calls`. They are compiled for `machine`, by default the host. Kernels run on
    `threads` threads, by default as many as it has cores. Compiled ones are kept in
    `compilation_cache_dir`, if that is not empty; InvalidArgumentError where others could put code
    into it. Dumps that programs ask for go to `dumps`, what the compiler fails on to `incidents`.
    """

    platform = "cpu"

    def __init__(
        self,
        device_count: int = 1,
        *,
        max_value_bytes: int | None = None,
        custom_calls: Registry = BUILTIN,
        machine: Machine | None = None,
        threads: int | None = None,
        compilation_cache_dir: str = "",
        dumps: DumpDirectory | None = None,
        incidents: Incidents | None = None,
        lowerings: Mapping[Opcode, Lower] = LOWERINGS,
    ) -> None:
        if device_count < 1:
            raise InvalidArgumentError(f"a platform needs at least one device, got {device_count}")
        self.devices = tuple(Device(number, self.platform) for number in range(device_count))
        self._max_value_bytes = max_value_bytes
        self._custom_calls = custom_calls
        directory = Path(compilation_cache_dir)
        self._cache = KernelCache(directory) if compilation_cache_dir else None
        self._machine = machine or Machine.host()
        self._kernels = Kernels(self._cache, self._machine)
        # What every program runs on, before the first of them waits for it.
        walker(self._kernels)
        self._pool = ThreadPool(self._kernels, threads)
        self._preparation = preparation(self._kernels, self._pool)
        self._blocks = BlockPool()
        self._dumps = dumps or DumpDirectory()
        self._incidents = incidents or Incidents()
        self._lowerings = lowerings
        # As long as an executable has them.
        self._programs: weakref.WeakValueDictionary[tuple[bytes, PassOptions], Program] = (
            weakref.WeakValueDictionary()
        )

    def prepare(self, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Compile what programs share, as Backend.prepare says."""
        return self._preparation.run(is_over)

    def close(self) -> None:
        """Send the threads home that help executions; those that follow do without."""
        self._pool.close()

    def compile(
        self,
        module: HloModule,
        entry: ProgramShape,
        *,
        seed: int = 0,
        options: CompileOptions = DEFAULTS,
        files: DumpFiles | None = None,
    ) -> "CpuExecutable | DynamicExecutable":
        """Verify `module` and compile it with the layouts of `entry`.

        Raises as Backend.compile says, ResourceExhaustedError among it where an execution would
        not fit into the device's memory.
        """
        with self._preparation.interrupted():
            return self._executable(module, entry, seed, options, files)

    def _executable(
        self,
        module: HloModule,
        entry: ProgramShape,
        seed: int,
        options: CompileOptions,
        files: DumpFiles | None,
    ) -> "CpuExecutable | DynamicExecutable":
        verify(module, max_value_bytes=self._max_value_bytes)
        check_signature(entry, module.entry.program_shape)
        require_supported(module, self._custom_calls)
        program_shape = laid_out(module.entry.program_shape, entry)
        if has_dynamic_shapes(module):
            return self._dynamic(module, program_shape, seed, options, files)
        key = fingerprint(module, program_shape)
        dump = self._dump(module, options, files)
        copies = relaid_bytes(program_shape)
        # Equal up to names: one that leaves nothing behind of its own can be had from another.
        name = (key, options.passes)
        is_shared = dump is None and not options.is_profiled
        program = self._programs.get(name) if is_shared else None
        if program is None:
            program = self._program(module, options, dump, copies)
            if is_shared:
                self._programs[name] = program
        kept = dump if options.is_profiled else None
        return CpuExecutable(
            program,
            program_shape,
            module.entry,
            key,
            seed=seed,
            dump=kept,
            name=module.name,
            has_state=has_state(module),
        )

    def _dynamic(
        self,
        module: HloModule,
        program_shape: ProgramShape,
        seed: int,
        options: CompileOptions,
        files: DumpFiles | None,
    ) -> DynamicExecutable:
        dump = self._dump(module, options, files)
        if dump is not None:
            dump.begin(module)
        # What is between draws is written into static programs, as all other steps are.
        module = copy_module(module)
        RngExpander().apply(module)

        def program(written: HloModule, name: str) -> Program:
            part = None if dump is None else dump.part(name)
            with self._preparation.interrupted():
                return self._program(written, options, part)

        programs = SizedPrograms(module, program)
        return DynamicExecutable(
            module,
            program_shape,
            programs,
            custom_calls=self._custom_calls,
            seed=seed,
            dump=dump if options.is_profiled else None,
        )

    def _dump(
        self, module: HloModule, options: CompileOptions, files: DumpFiles | None
    ) -> Dump | None:
        files = files or self._dumps.open(options.dump, module.name)
        if options.is_profiled and files is None and not options.dump.name:
            raise InvalidArgumentError(
                "xla_hlo_profile must come with a directory in xla_dump_to, where profiles are "
                "written, got none"
            )
        return None if files is None else Dump(files, options.dump)

    def _program(
        self,
        module: HloModule,
        options: CompileOptions,
        dump: Dump | None,
        copies: int = 0,
    ) -> Program:
        """The program of a static module; what the compiler fails on becomes an incident.

        `copies` are bytes that an execution takes besides what the code says.
        """
        try:
            return self._compiled(module, options, dump, copies, fuses=True)
        except _FusionError as error:
            FUSION_FAULTS.record(error.kernel_error, error.fusion)
            return self._compiled(module, options, dump, copies, fuses=False)

    def _compiled(
        self,
        module: HloModule,
        options: CompileOptions,
        dump: Dump | None,
        copies: int,
        *,
        fuses: bool,
    ) -> Program:
        """The same, with or without fused kernels. Raises _FusionError if one does not compile."""
        code: Code | None = None
        try:
            compilation = compile_module(
                module,
                options.passes,
                machine=self._machine,
                lowerings=self._lowerings,
                custom_calls=self._custom_calls,
                observer=dump,
                fuses=fuses,
            )
            code = compilation.code
            use = memory_use(code, compilation.assignment)
            require_fit(dataclasses.replace(use, copies=copies), self._max_value_bytes)
            try:
                program = Program(
                    code, compilation.assignment, self._kernels, self._pool, self._blocks
                )
                program.work = compilation.work
                return program
            except KernelError as error:
                fusion = _origin(code, error.kernel)
                if fuses and fusion is not None and fusion.opcode in FUSED:
                    raise _FusionError(error, fusion) from error
                raise
        except (XlaError, MemoryError, _FusionError):
            raise
        except KernelError as error:
            raise self._incidents.report(
                error.__cause__ or error,
                module,
                options,
                instruction=None if code is None else _origin(code, error.kernel),
                kernel=error.kernel.text,
            ) from error
        except Exception as error:
            raise self._incidents.report(error, module, options) from error

    def to_device(self, literal: Literal, device: Device) -> HostBuffer:
        """Place a value on `device`."""
        return HostBuffer.placed(literal, device, self._blocks)


class _FusionError(Exception):
    """The kernel of a fusion does not compile."""

    def __init__(self, kernel_error: KernelError, fusion: HloInstruction) -> None:
        super().__init__()
        self.kernel_error = kernel_error
        self.fusion = fusion


def _origin(code: Code, kernel: KernelCode) -> HloInstruction | None:
    """The instruction of a kernel, the first of several."""
    for row in code.rows:
        if isinstance(row, KernelThunk) and row.kernel.key == kernel.key:
            return code.origins.get(row)
    return None


_DONATING = 4
"""Sets of donated arguments that an executable has programs for; callers have one or two."""


class CpuExecutable:
    """A compiled program. Implements xla_server.backends.backend.Executable.

    The times of each execution's rows are written to `dump`, if there is one.
    """

    def __init__(
        self,
        program: Program,
        program_shape: ProgramShape,
        entry: HloComputation,
        fingerprint: bytes,
        *,
        seed: int = 0,
        dump: Dump | None = None,
        name: str = "",
        has_state: bool = False,
    ) -> None:
        self.name = name
        self.has_state = has_state
        self.program_shape = program_shape
        self.fingerprint = fingerprint
        self.channel_ends = channel_ends(entry)
        self.memory = dataclasses.replace(program.memory, copies=relaid_bytes(program_shape))
        # The constants are there already.
        self._room = self.memory.added - self.memory.constants
        self.work = program.work
        self._byte_size = program.byte_size
        self.kept_bytes = self._byte_size + self.memory.constants
        self._dump = dump
        self._program = program
        self._entry = entry
        self._seed = seed
        self._random_states = RandomStates()
        self._donating: dict[frozenset[int], Program] = {}
        # Shapes of arrays that fitted before: arguments often are the same buffers, or results.
        self._fitting: list[Shape | None] = [None] * len(program_shape.parameters)
        result = program_shape.result
        self._gives_array = result.is_array
        self._arrays = tuple(leaf for leaf in result.leaves() if leaf.is_array)
        self._is_flat = result.is_tuple and all(part.is_array for part in result.tuple_shapes)

    def profile_into(self, dump: Dump) -> None:
        """From now on, write the times of each execution's rows to `dump`."""
        self._dump = dump

    def execute(
        self,
        arguments: Sequence[Buffer],
        *,
        device: Device,
        feeds: Feeds,
        channels: Channels,
        cancellation: Cancellation,
        donated: Collection[int] = (),
    ) -> Execution:
        """Run on `device` and wait for the result; raises as Executable.execute says."""
        started = time.perf_counter_ns()
        leaves = self._leaves(arguments)
        program = self._program
        if self._room >= LARGE:
            require_bytes(self._room, f"an execution ({self.memory})")
        if donated:
            leaves, program = self._with_donated(arguments, leaves, donated)

        def host() -> HostRun:
            return HostRun(
                feeds=feeds,
                channels=OwnChannels(self._entry, channels),
                cancellation=cancellation,
                random_states=self._random_states,
                seed=self._seed,
            )

        # As long as `memory` is held, no execution that is given some of it writes over it.
        memory, addresses = [], []
        for leaf in leaves:
            memory.append(leaf.memory)
            addresses.append(leaf.address)
        computing = time.perf_counter_ns()
        times = None if self._dump is None else RowTimes(len(program.rows))
        blocks, cycles = program.run(addresses, cancellation, host, times)
        computed = time.perf_counter_ns()
        del memory
        output = self._output(program, leaves, blocks, device)
        compute_time = computed - computing
        profile = Profile(
            compute_cycle_count=cycles or compute_time,
            compute_time_ns=compute_time,
            compute_and_transfer_time_ns=time.perf_counter_ns() - started,
            executable_size_in_bytes=self._byte_size,
        )
        if self._dump is not None and times is not None:
            write_profile(self._dump, measured_rows(program.code, program.rows, times))
        return Execution(output, profile)

    def _leaves(self, arguments: Sequence[Buffer]) -> list[HostBuffer]:
        """The arrays of all arguments, which must fit the parameters."""
        fitting = self._fitting
        if len(arguments) != len(fitting):
            raise InvalidArgumentError(
                f"the program takes {len(fitting)} arguments, got {len(arguments)}"
            )
        leaves: list[HostBuffer] = []
        for number, argument in enumerate(arguments):
            shape = argument.shape
            if shape is fitting[number] and isinstance(argument, HostBuffer):
                leaves.append(argument)
                continue
            buffer = argument_buffer(number, argument, self.program_shape.parameters[number])
            if shape.is_array:
                fitting[number] = shape
            _add_leaves(leaves, buffer)
        return leaves

    def _with_donated(
        self, arguments: Sequence[Buffer], leaves: list[HostBuffer], donated: Collection[int]
    ) -> tuple[list[HostBuffer], Program]:
        """The arrays in buffers of the execution's own, and the program that writes over them."""
        counts = [sum(leaf.is_array for leaf in part.shape.leaves()) for part in arguments]
        ends = list(itertools.accumulate(counts))
        numbers = [n for k in donated for n in range(ends[k] - counts[k], ends[k])]
        moved = {leaf: leaf.given_up() for leaf in dict.fromkeys(leaves[n] for n in numbers)}
        leaves = [moved.get(leaf, leaf) for leaf in leaves]
        # One that shares its memory, or stands here twice, is only given up. That is looked at
        # last: from now on no other execution can begin to use it.
        sole = frozenset(
            n for n in numbers if leaves[n].is_sole_owner and leaves.count(leaves[n]) == 1
        )
        program = self._donating.get(sole, self._program)
        if sole and program is self._program and len(self._donating) < _DONATING:
            program = self._donating[sole] = self._program.with_donated(sole)
        return leaves, program

    def _output(
        self,
        program: Program,
        leaves: Sequence[HostBuffer],
        blocks: dict[int, Block],
        device: Device,
    ) -> HostBuffer:
        shape = self.program_shape.result
        if self._gives_array:
            return self._array(program, 0, shape, leaves, blocks, device)
        of_block = HostBuffer.of_block
        arrays = [
            # Nearly all results have memory of their own.
            of_block(blocks[number], part, device)
            if number in blocks
            else self._array(program, number, part, leaves, blocks, device)
            for number, part in enumerate(self._arrays)
        ]
        if self._is_flat:
            return HostBuffer.of_elements(tuple(arrays), shape, device)
        return _assembled(shape, iter(arrays), device)

    def _array(
        self,
        program: Program,
        number: int,
        shape: Shape,
        leaves: Sequence[HostBuffer],
        blocks: dict[int, Block],
        device: Device,
    ) -> HostBuffer:
        place = program.results[number]
        if place.kind == "parameter":
            return leaves[place.number].as_shape(shape, device)
        owners = blocks if place.kind == "result" else program.constants
        return HostBuffer.of_block(owners[place.number], shape, device)


def _assembled(shape: Shape, arrays: Iterator[HostBuffer], device: Device) -> HostBuffer:
    if shape.is_tuple:
        elements = tuple([_assembled(part, arrays, device) for part in shape.tuple_shapes])
        return HostBuffer.of_elements(elements, shape, device)
    return next(arrays) if shape.is_array else HostBuffer(Literal.token(), device)


def _add_leaves(leaves: list[HostBuffer], buffer: HostBuffer) -> None:
    if buffer.shape.is_array:
        leaves.append(buffer)
    for element in buffer.elements:
        _add_leaves(leaves, element)
