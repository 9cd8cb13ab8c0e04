"""Programs for devices: thunks that workers execute, and steps that this process executes."""

import dataclasses
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from xla_contract.types.shape import Shape
from xla_server.backends.cuda.buffers import as_bytes, host_array
from xla_server.backends.cuda.encoding import encode
from xla_server.backends.cuda.host_steps import (
    HostStep,
    HostSteps,
    LoadedHostStep,
    PlacedThunk,
    device_kernels,
    placed_thunks,
)
from xla_server.backends.cuda.listing import on_device
from xla_server.backends.cuda.toolchain import DeviceModules
from xla_server.backends.cuda.worker.supervisor.launched_run import LaunchedRun
from xla_server.backends.cuda.worker.supervisor.process import (
    DeviceMemory,
    DeviceWorker,
    HostAccess,
    LoadedDeviceProgram,
)
from xla_server.backends.platform import Device
from xla_server.buffers.assignment import Assignment, Location, MemoryUse, assign, memory_use
from xla_server.buffers.code import Code, HostThunk, Label, Thunk
from xla_server.buffers.work import ProgramWork
from xla_server.codegen.gpu.emit.device_module import DeviceModule
from xla_server.runtime.host import RunContext

Array = Any


class Parts:
    """The part of a program that is independent of donation: modules of kernels, and host steps."""

    def __init__(self, code: Code, modules: DeviceModules, steps: HostSteps) -> None:
        """Compile kernels for devices and host; raises KernelError if one does not compile."""
        self.code = code
        self.thunks: Sequence[PlacedThunk] = placed_thunks(code)
        self.modules: Mapping[str, DeviceModule] = modules.get_all(device_kernels(self.thunks))
        self.steps = {
            thunk: steps.load(thunk) for thunk in self.thunks if isinstance(thunk, HostStep)
        }

    @property
    def byte_size(self) -> int:
        """Bytes of modules, and of code and constants of steps."""
        modules = sum(len(module.code) for module in set(self.modules.values()))
        return modules + sum(step.byte_size for step in self.steps.values())


class CudaProgram:
    """Implements xla_server.backends.loaded_program.LoadedProgram.

    It is loaded on each device before its first run there. For profiles it has a thunk for each
    step of the host, and one for all work of the device.
    """

    def __init__(
        self,
        parts: Parts,
        assignment: Assignment,
        workers: Sequence[DeviceWorker],
        work: ProgramWork | None,
    ) -> None:
        self.work = work
        self.encoded = encode(parts.code, parts.thunks, assignment, parts.modules)
        self.memory: MemoryUse = memory_use(parts.code, assignment)
        self.constants: Mapping[int, DeviceMemory] = {}
        # A constant that is a result is in each device's memory, so `run` returns it.
        self.results = tuple(
            Location("result", number) if location.kind == "constant" else location
            for number, location in enumerate(assignment.results)
        )
        self._constant_results = {
            number: self.encoded.constants.index(location.number)
            for number, location in enumerate(assignment.results)
            if location.kind == "constant"
        }
        self._parts, self._workers = parts, workers
        self._loaded: dict[int, LoadedDeviceProgram] = {}
        self._lock = threading.Lock()
        self.thunks, self.code = _profiled(parts, on_device(self.encoded.thunks))

    @property
    def byte_size(self) -> int:
        """Bytes of modules, of the host's code, and of constants."""
        constants = sum(value.byte_size for value in self._parts.code.constants)
        return self._parts.byte_size + constants

    @property
    def modules(self) -> Mapping[str, DeviceModule]:
        """The modules of kernels by their keys."""
        return self._parts.modules

    def with_donated(self, donated: frozenset[int]) -> "CudaProgram":
        """Return the program for runs that may write over these parameters."""
        parts = self._parts
        return CudaProgram(parts, assign(parts.code, donated), self._workers, self.work)

    def load(self, ordinal: int) -> LoadedDeviceProgram:
        """Return the program in the worker of a device; raises as DeviceWorker.load."""
        loaded = self._loaded.get(ordinal)
        if loaded is None:
            with self._lock:
                loaded = self._loaded.get(ordinal)
                if loaded is None:
                    loaded = self._workers[ordinal].load(self.encoded.program)
                    self._loaded[ordinal] = loaded
        return loaded

    @property
    def round_robin(self) -> None:
        """The value None: each participant needs a device of its own."""

    def run(
        self, addresses: Sequence[DeviceMemory], device: Device, context: RunContext
    ) -> tuple[Mapping[int, DeviceMemory], int]:
        """Return the memory of results that have their own, by number, and the nanoseconds.

        Raises as LoadedProgram.run, and UnavailableError if the device loses its values.
        """
        loaded = self.load(device.ordinal)
        run = _Run(self.encoded.steps, self._parts.steps, context)
        take = context.launched

        def launched(memory: list[DeviceMemory], by: LaunchedRun) -> None:
            assert take is not None, "it is passed on only then"
            for location in self.results:
                if location.kind == "parameter":
                    addresses[location.number].run = by
            take(self._numbered(loaded, memory))

        found, nanoseconds = loaded.run(
            *(addresses, context.options.cancellation, run.do), launched if take else None
        )
        run.end(len(self.thunks) - 1)
        return {} if found is None else self._numbered(loaded, found), nanoseconds

    def _numbered(
        self, loaded: LoadedDeviceProgram, memory: Sequence[DeviceMemory]
    ) -> dict[int, DeviceMemory]:
        """Return the memory of results that are no parameters, by number."""
        results = dict(zip(self.encoded.results, memory, strict=True))
        if self._constant_results:
            constants = loaded.constants()
            results |= {n: constants[index] for n, index in self._constant_results.items()}
        return results

    def run_on_arrays(
        self, arrays: Sequence[Array], shapes: Sequence[Shape], device: Device, context: RunContext
    ) -> tuple[list[Array], int]:
        """Run on arrays of the host; return the results, which have `shapes`, and nanoseconds."""
        worker = self._workers[device.ordinal]
        given = [worker.placed(as_bytes(array)) for array in arrays]
        blocks, nanoseconds = self.run(given, device, context)
        results: list[Array] = []
        for location, shape in zip(self.results, shapes, strict=True):
            owner = given if location.kind == "parameter" else blocks
            array = host_array(shape)
            worker.download(owner[location.number], as_bytes(array))
            results.append(array)
        return results, nanoseconds


@dataclasses.dataclass(slots=True)
class _Run:
    """The host's part of one execution, and the times of its steps."""

    _encoded: Sequence[tuple[HostStep, Mapping[Any, int]]]
    _loaded: Mapping[HostStep, LoadedHostStep]
    _context: RunContext
    _since: int = dataclasses.field(default_factory=time.monotonic_ns)

    def do(self, number: int, access: HostAccess) -> None:
        """Do the step of this number."""
        step, slots = self._encoded[number]
        begun = time.monotonic_ns()
        self._loaded[step].run(access, slots, self._context)
        if (times := self._context.times) is not None:
            times.add(len(self._encoded), self._since, begun)
            self._since = time.monotonic_ns()
            times.add(number, begun, self._since)

    def end(self, thunk: int) -> None:
        """Record the time of the device since the last step."""
        if self._context.times is not None:
            self._context.times.add(thunk, self._since, time.monotonic_ns())


def _profiled(parts: Parts, on_device: str) -> tuple[Sequence[Thunk], Code]:
    """Return thunks that represent the steps and the device in profiles, and code with origins."""
    thunks = {HostThunk(str(step), None, (), ()): step for step in parts.steps}
    origins = {thunk: step.instructions[0] for thunk, step in thunks.items() if step.instructions}
    code = dataclasses.replace(parts.code, origins=parts.code.origins | origins)
    return (*thunks, Label(on_device)), code
