"""Modules of kernels as drivers load them, each kernel compiled once."""

import hashlib
import threading
import weakref
from collections.abc import Iterable, Mapping
from typing import Protocol

from xla_server.buffers.code import KernelError
from xla_server.codegen.compiler.kernel_cache import KernelCache
from xla_server.codegen.gpu.emit.emitter import grid_module
from xla_server.codegen.gpu.emit.ptx import PtxCompiler
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.target.machine import Machine


class Toolchain(Protocol):
    """Compiles kernels for the devices of a platform. Any thread may ask."""

    def compile(self, kernels: Mapping[str, GridKernel]) -> bytes:
        """Return one module with these kernels by their symbols, as the devices' driver loads it.

        Raises what keeps one of them from being compiled.
        """

    def close(self) -> None:
        """End what compiles."""


class PtxToolchain:
    """LLVM of kernels, and PTX of that, kept in `cache` by content and kind of GPU."""

    def __init__(self, machine: Machine, cache: KernelCache | None = None) -> None:
        self._machine = machine
        self._compiler = PtxCompiler(machine, cache)

    def compile(self, kernels: Mapping[str, GridKernel]) -> bytes:
        """Return the PTX of kernels; raises PtxError and ValueError where they have none."""
        return self._compiler.ptx(str(grid_module(kernels, self._machine)))

    def close(self) -> None:
        """End the process that compiles."""
        self._compiler.close()


class DeviceModule:
    """A module that was compiled, as long as a program refers to it."""

    __slots__ = ("__weakref__", "code")

    def __init__(self, code: bytes) -> None:
        self.code = code


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
                made = DeviceModule(self._compiled(missing))
                known |= dict.fromkeys(missing, made)
                self._modules.update(dict.fromkeys(missing, made))
        return known

    def close(self) -> None:
        """End what compiles."""
        self._toolchain.close()

    def _compiled(self, kernels: Mapping[str, GridKernel]) -> bytes:
        try:
            return self._toolchain.compile({symbol_of(k): kernels[k] for k in kernels})
        except MemoryError:
            raise
        except Exception as error:  # Whatever the compiler raises, the kernel at fault is named.
            for key, kernel in kernels.items():
                try:
                    self._toolchain.compile({symbol_of(key): kernel})
                except Exception as fault:
                    raise KernelError(kernel) from fault
            # Each has code alone: the fault is of all together.
            raise KernelError(next(iter(kernels.values()))) from error


def symbol_of(key: str) -> str:
    """Return the symbol of a kernel in its module."""
    return f"kernel_{hashlib.sha256(key.encode()).hexdigest()[:32]}"
