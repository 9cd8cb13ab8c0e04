"""The platform on workers whose device is memory of the host: all programs are the host's steps."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.processors import HOST
from tests.unit.backends.cuda.worker.workers import COMMAND, ROOT
from xla_server.backends.cuda.backend import Cuda
from xla_server.backends.cuda.buffers import CudaBuffer
from xla_server.backends.platform import Executable
from xla_server.codegen.gpu.emit.device_module import DeviceModule
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.lower.lowerings import LOWERINGS
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.text.parser import parse_module

WORKER = ("env", f"PYTHONPATH={ROOT}", *COMMAND)


class FakeToolchain:
    """The one module that the fake driver loads."""

    def compile(self, kernels: Mapping[str, GridKernel]) -> DeviceModule:
        return DeviceModule(b"module")

    def close(self) -> None:
        pass


def fake_platform(device_count: int = 1, **options: Any) -> Cuda:
    """Return a platform on fake devices, which its user closes."""
    return Cuda(
        device_count,
        worker_command=WORKER,
        toolchain=FakeToolchain(),
        machine=HOST,
        threads=1,
        lowerings=LOWERINGS,
        **options,
    )


def executed(
    platform: Cuda, text: str, arguments: list[CudaBuffer], device: int = 0, **options: Any
) -> CudaBuffer:
    """Return the result of a program from its text."""
    module = parse_module(text)
    executable = platform.compile(module, module.entry_program_shape)
    return execute(platform, executable, arguments, device, **options)


def execute(
    platform: Cuda,
    executable: Executable,
    arguments: list[CudaBuffer],
    device: int = 0,
    donated: Sequence[int] = (),
    **options: Any,
) -> CudaBuffer:
    """Return the result of a program."""
    place = platform.devices[device]
    given = ExecuteOptions(donated=donated, **options)
    output = executable.execute(arguments, device=place, options=given).output
    assert isinstance(output, CudaBuffer)
    return output
