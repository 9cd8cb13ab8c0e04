"""The platform `example`: programs compiled like those of `cpu`, whose kernels Python executes.

It is what CONTRIBUTING.md says of a compiled platform: buffers and programs of its own.
"""

from typing import Unpack

from tests.example_platform.formulas import UnsupportedKernelError
from tests.example_platform.program import WalkedProgram
from xla_contract.errors import UnimplementedError
from xla_contract.types.literal import Literal
from xla_server.backends.compiled.backend import CompiledBackend, PlatformOptions
from xla_server.backends.compiled.compilation import Compilation
from xla_server.backends.compiled.precompilation import Preparation
from xla_server.backends.host_buffer import HOST_BUFFERS, HostBuffer
from xla_server.backends.platform import Device
from xla_server.codegen.lower.lowerings import LOWERINGS
from xla_server.runtime.blocks import BlockPool
from xla_server.target.machine import Machine
from xla_server.target.target import Target

MACHINE = Machine.avx2(cores=1)
"""The machine that kernels are scheduled for, whatever the host is."""


class Example(CompiledBackend):
    """A platform of `device_count` devices that execute the loop IR as it is."""

    platform = "example"
    buffers = HOST_BUFFERS

    def __init__(self, device_count: int = 1, **options: Unpack[PlatformOptions]) -> None:
        self._blocks = BlockPool()
        target = Target.of(MACHINE)
        super().__init__(device_count, target, LOWERINGS, Preparation([]), **options)

    def to_device(self, literal: Literal, device: Device) -> HostBuffer:
        """Return a buffer with a value, on `device`."""
        return HostBuffer.placed(literal, device, self._blocks)

    def load(self, compilation: Compilation) -> WalkedProgram:
        """Return the program of a compilation.

        Raises UnimplementedError for a kernel that is not of the loop IR.
        """
        code, assignment, work = compilation.code, compilation.assignment, compilation.work
        try:
            return WalkedProgram(code, assignment, self._blocks, work)
        except UnsupportedKernelError as error:
            raise UnimplementedError(f"platform {self.platform}: {error}") from error
