"""The `cuda` platform: programs compiled to kernels for NVIDIA GPUs, and run by their workers."""

import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Unpack

from xla_contract.errors import UnavailableError
from xla_contract.types.literal import Literal
from xla_contract.types.opcode import Opcode
from xla_server.backends.compiled.backend import CompiledBackend, OtherTargetError, PlatformOptions
from xla_server.backends.compiled.compilation import Compilation
from xla_server.backends.compiled.precompilation import Preparation
from xla_server.backends.cuda.buffers import CudaBuffer, DevicePlacement
from xla_server.backends.cuda.host_steps import HostSteps
from xla_server.backends.cuda.listing import dump_files
from xla_server.backends.cuda.program import CudaProgram, Parts
from xla_server.backends.cuda.refusals import RefusedPlans
from xla_server.backends.cuda.toolchain import (
    DeviceModules,
    PtxToolchain,
    Toolchain,
    find_assembler,
)
from xla_server.backends.cuda.worker.exchange.messages import PlansRefusedError
from xla_server.backends.cuda.worker.libraries.cudnn_backend import is_installed
from xla_server.backends.cuda.worker.supervisor.process import DeviceWorker
from xla_server.backends.cuda.workers import WORKER, device_bytes, machine_of, start_workers
from xla_server.backends.loaded_program import LoadedProgram
from xla_server.backends.platform import Device
from xla_server.codegen.compiler.kernel_cache import KernelCache
from xla_server.codegen.gpu.emit.device_module import DeviceModule
from xla_server.codegen.gpu.lower.table import CUDA_LOWERINGS
from xla_server.codegen.kernel import Kernels
from xla_server.codegen.lower.lowering import Lower
from xla_server.runtime.threads import KernelThreads
from xla_server.target.gpu.properties import LIBRARY_CONVOLUTIONS
from xla_server.target.machine import Machine
from xla_server.target.target import Target

_LOG = logging.getLogger(__name__)


class Cuda(CompiledBackend):
    """A platform of GPUs, each with a worker process that runs programs on it.

    Programs are compiled for `machine`, by default the oldest of the GPUs, by `toolchain`, by
    default LLVM's. Compiled kernels are cached in `compilation_cache_dir`, if that is not empty.
    Steps of the host run on `threads` threads, by default as many as it has cores. An execution
    must fit into `memory_fraction` of a device's memory. With `library_convolutions` cuDNN computes
    the convolutions for which it has engines; by default if it is installed and
    `target/gpu/properties.py` enables it.
    """

    platform = "cuda"

    def __init__(
        self,
        device_count: int = 1,
        *,
        worker_command: Sequence[str] = WORKER,
        workers: Sequence[DeviceWorker] | None = None,
        toolchain: Toolchain | None = None,
        machine: Machine | None = None,
        memory_fraction: float = 1.0,
        threads: int | None = None,
        compilation_cache_dir: str = "",
        lowerings: Mapping[Opcode, Lower] = CUDA_LOWERINGS,
        library_convolutions: bool | None = None,
        **options: Unpack[PlatformOptions],
    ) -> None:
        """Use `workers` or start one for each of `device_count` devices by a command.

        Raises NoDeviceError, with the reason, if there is no device.
        """
        self._workers = workers or start_workers(device_count, worker_command)
        machine = machine or machine_of(self._workers)
        cache = KernelCache(Path(compilation_cache_dir)) if compilation_cache_dir else None
        if toolchain is None:
            assembler = find_assembler(each.description.architecture for each in self._workers)
            toolchain = PtxToolchain(machine, cache, assembler)
        self._modules = DeviceModules(toolchain)
        self._warned: set[str] = set()
        kernels = Kernels(cache, Machine.host())
        self._pool = KernelThreads(kernels, threads)
        self._steps = HostSteps(kernels, self._pool)
        self._placement = DevicePlacement(self._workers)
        self.buffers = self._placement.buffers
        capacity = min(device_bytes(worker, memory_fraction) for worker in self._workers)
        most = options.get("max_value_bytes")
        options["max_value_bytes"] = capacity if most is None else min(capacity, most)
        if library_convolutions is None:
            library_convolutions = LIBRARY_CONVOLUTIONS and is_installed()
        self._refusals = RefusedPlans(Target.of(machine), has_convolutions=library_convolutions)
        target = self._refusals.target
        super().__init__(len(self._workers), target, lowerings, Preparation([]), **options)

    def close(self) -> None:
        """End workers, threads and the compiler; the platform must not be used afterwards."""
        self._pool.close()
        self._modules.close()
        for worker in self._workers:
            worker.close()

    def load(self, compilation: Compilation) -> CudaProgram:
        """Return the program of a compilation, loaded on the first device.

        Raises as CompiledBackend.load, and errors of the worker. If the first device is lost, only
        runs on it fail, later. Programs with plans that the device's libraries refuse are compiled
        again without these.
        """
        parts = Parts(compilation.code, self._modules, self._steps)
        self._warn_of_slow_loads(parts.modules.values())
        program = CudaProgram(parts, compilation.assignment, self._workers, compilation.work)
        try:
            with contextlib.suppress(UnavailableError):
                program.load(0)
        except PlansRefusedError as error:
            self._refusals.add(error.reasons)
            raise OtherTargetError(self._refusals.target) from error
        return program

    def _warn_of_slow_loads(self, modules: Iterable[DeviceModule]) -> None:
        """Log once why modules are not machine code before the driver loads them."""
        names = {each.compiler for each in modules if each.compiler and not each.cubin}
        for name in names - self._warned:
            self._warned.add(name)
            _LOG.warning("machine code of kernels is made when a program is loaded, by %s", name)

    def to_device(self, literal: Literal, device: Device) -> CudaBuffer:
        """Copy a value to `device`; raises as DevicePlacement.placed."""
        return self._placement.placed(literal, device)

    def dump_files(self, program: LoadedProgram) -> Mapping[str, str | bytes]:
        """Return a listing of device and host steps, and the modules of kernels."""
        assert isinstance(program, CudaProgram)
        notes = self._refusals.lines()
        return dump_files(program.code, program.encoded.thunks, program.modules, notes)
