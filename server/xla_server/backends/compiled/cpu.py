"""The `cpu` platform: programs compiled to kernels and run by the native executor."""

from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

from xla_contract.types.literal import Literal
from xla_contract.types.opcode import Opcode
from xla_server.backends.compiled.backend import CompiledBackend, PlatformOptions
from xla_server.backends.compiled.compilation import Compilation
from xla_server.backends.compiled.precompilation import preparation
from xla_server.backends.host_buffer import HOST_BUFFERS, HostBuffer
from xla_server.backends.platform import Device
from xla_server.codegen.compiler.kernel_cache import KernelCache
from xla_server.codegen.kernel import Kernels
from xla_server.codegen.lower.lowering import Lower
from xla_server.codegen.lower.lowerings import LOWERINGS
from xla_server.runtime.blocks import BlockPool
from xla_server.runtime.executor import walker
from xla_server.runtime.program import Program
from xla_server.runtime.threads import KernelThreads
from xla_server.target.machine import Machine
from xla_server.target.target import Target


class Cpu(CompiledBackend):
    """A platform of `device_count` devices that share this process's processor.

    Programs are compiled for `target`, by default the host. Kernels run on `threads` threads, by
    default as many as it has cores. Compiled kernels are cached in `compilation_cache_dir`, if that
    is not empty. Raises InvalidArgumentError if other users could write code to it.
    """

    platform = "cpu"
    buffers = HOST_BUFFERS

    def __init__(
        self,
        device_count: int = 1,
        *,
        target: Target | None = None,
        threads: int | None = None,
        compilation_cache_dir: str = "",
        lowerings: Mapping[Opcode, Lower] = LOWERINGS,
        **options: Unpack[PlatformOptions],
    ) -> None:
        target = target or Target.of(Machine.host())
        directory = Path(compilation_cache_dir)
        cache = KernelCache(directory) if compilation_cache_dir else None
        self._kernels = Kernels(cache, target.machine)
        # Every program needs it, so it is compiled ahead.
        walker(self._kernels)
        self._pool = KernelThreads(self._kernels, threads)
        self._blocks = BlockPool()
        steps = preparation(self._kernels, self._pool)
        super().__init__(device_count, target, lowerings, steps, **options)

    def close(self) -> None:
        """End the helper threads; later executions run without them."""
        self._pool.close()

    def load(self, compilation: Compilation) -> Program:
        """Return the program of a compilation; raises as CompiledBackend.load."""
        code, assignment, work = compilation.code, compilation.assignment, compilation.work
        return Program(code, assignment, self._kernels, self._pool, self._blocks, work)

    def to_device(self, literal: Literal, device: Device) -> HostBuffer:
        """Copy a value to `device`."""
        return HostBuffer.placed(literal, device, self._blocks)
