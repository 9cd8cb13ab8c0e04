"""Modules of kernels as drivers load them, each kernel compiled once."""

import hashlib
import importlib.metadata
import threading
import weakref
from collections.abc import Iterable, Mapping
from typing import Protocol

from xla_server.backends.cuda.probe import EXTRA
from xla_server.buffers.code import KernelError
from xla_server.codegen.compiler.kernel_cache import KernelCache
from xla_server.codegen.gpu.emit.assembler import Assembler
from xla_server.codegen.gpu.emit.device_module import DeviceModule
from xla_server.codegen.gpu.emit.emitter import grid_module
from xla_server.codegen.gpu.emit.ptx import PtxCompiler
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.target.machine import Machine

_PACKAGE, _PROGRAM = "nvidia-cuda-nvcc", "ptxas"


class Toolchain(Protocol):
    """Compiles kernels for the devices of a platform. Thread-safe."""

    def compile(self, kernels: Mapping[str, GridKernel]) -> DeviceModule:
        """Return one module with these kernels by their symbols.

        Raises the error of a kernel that cannot be compiled.
        """

    def close(self) -> None:
        """End the compiler's processes."""


def find_assembler(architectures: Iterable[str]) -> Assembler:
    """Return ptxas for machine code that GPUs of all these architectures, such as `sm_89`, execute.

    GPUs of one major version execute the code of the oldest. Several major versions have no machine
    code in common, so there is no ptxas for them and drivers compile PTX.
    """
    found = sorted(set(architectures), key=lambda name: int(name.removeprefix("sm_")))
    if len({name[:-1] for name in found}) > 1:
        return Assembler(missing=f"GPUs of {' and '.join(found)} have no machine code in common")
    try:
        package = importlib.metadata.distribution(_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return Assembler(missing=f"{_PACKAGE} is not installed: {EXTRA}")
    program = next((file for file in package.files or () if file.name == _PROGRAM), None)
    if program is None:
        return Assembler(missing=f"{_PACKAGE} {package.version} lists no {_PROGRAM}")
    return Assembler(found[0], package.version, str(program.locate()))


class PtxToolchain:
    """Compiles kernels by LLVM to PTX and machine code, cached in `cache` by content and GPU.

    Without `assembler`, machine code is that of `machine`.
    """

    def __init__(
        self,
        machine: Machine,
        cache: KernelCache | None = None,
        assembler: Assembler | None = None,
    ) -> None:
        self._machine = machine
        assembler = assembler or find_assembler([machine.name])
        self._compiler = PtxCompiler(machine, cache, assembler)

    def compile(self, kernels: Mapping[str, GridKernel]) -> DeviceModule:
        """Return the code of kernels; raises as PtxCompiler.module, and ValueError."""
        return self._compiler.module(str(grid_module(kernels, self._machine)))

    def close(self) -> None:
        """End the process that compiles."""
        self._compiler.close()


class DeviceModules:
    """Modules by the keys of their kernels. Thread-safe."""

    def __init__(self, toolchain: Toolchain) -> None:
        self._toolchain = toolchain
        self._modules: weakref.WeakValueDictionary[str, DeviceModule] = (
            weakref.WeakValueDictionary()
        )
        self._lock = threading.Lock()

    def get_all(self, kernels: Iterable[GridKernel]) -> dict[str, DeviceModule]:
        """Return the modules of kernels by their keys, those that are missing compiled as one.

        Raises KernelError, with the first kernel that cannot be compiled alone.
        """
        wanted = {kernel.key: kernel for kernel in kernels}
        with self._lock:
            found = {key: self._modules.get(key) for key in wanted}
            missing = {key: wanted[key] for key, module in found.items() if module is None}
            known = {key: module for key, module in found.items() if module is not None}
            if missing:
                made = self._compiled(missing)
                known |= dict.fromkeys(missing, made)
                self._modules.update(dict.fromkeys(missing, made))
        return known

    def close(self) -> None:
        """End the compiler's processes."""
        self._toolchain.close()

    def _compiled(self, kernels: Mapping[str, GridKernel]) -> DeviceModule:
        try:
            return self._toolchain.compile({symbol_of(k): kernels[k] for k in kernels})
        except MemoryError:
            raise
        except Exception as error:  # The kernel at fault is named for any error of the compiler.
            for key, kernel in kernels.items():
                try:
                    self._toolchain.compile({symbol_of(key): kernel})
                except Exception as fault:
                    raise KernelError(kernel) from fault
            # Each kernel compiles alone: only the joint module fails.
            raise KernelError(next(iter(kernels.values()))) from error


def symbol_of(key: str) -> str:
    """Return the symbol of a kernel in its module."""
    return f"kernel_{hashlib.sha256(key.encode()).hexdigest()[:32]}"
