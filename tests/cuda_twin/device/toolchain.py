"""Compilation of modules for the twin: the text that becomes PTX, as object code of the host."""

from collections.abc import Mapping

from tests.cuda_twin.device.host_module import written
from xla_server.codegen.gpu.emit.device_module import DeviceModule
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.target.machine import Machine


class HostToolchain:
    """Compiles modules of kernels for the host, each once in a session of tests."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def compile(self, kernels: Mapping[str, GridKernel]) -> DeviceModule:
        """Return a module of kernels by their symbols."""
        return DeviceModule(written(kernels, self._machine))

    def close(self) -> None:
        """Do nothing: it has no process."""
