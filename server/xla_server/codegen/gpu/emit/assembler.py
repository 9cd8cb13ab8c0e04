"""Machine code of PTX, by ptxas, which needs neither a driver nor a GPU.

nvJitLink compiles kernels as parts of a larger program, without regard to how many blocks fit on a
multiprocessor: 210 registers instead of 32 for a convolution, whatever its options.

Semantics: the manual of the CUDA compiler driver, Ptxas Options.
"""

import dataclasses
import re
import subprocess
from collections.abc import Mapping

from xla_server.codegen.gpu.emit.device_module import DeviceModule, Resources

_RESOURCES = re.compile(
    r"Function properties for (\w+)\n"
    r".*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads\n"
    r".*?Used (\d+) registers"
)
"""Lines about a kernel in the output of ptxas."""

_UNKNOWN = "is not defined for option 'gpu-name'"

_TIMEOUT = 60.0
"""Timeout of ptxas in seconds: the 45 kernels of ResNet-18 take less than one."""

_SHOWN = 2000
"""Characters of ptxas's output that an error shows."""


class AssemblyError(Exception):
    """ptxas refused PTX; the message has its output."""


@dataclasses.dataclass(frozen=True, slots=True)
class Assembler:
    """ptxas of a version, a `program` on disk, for GPUs of an architecture, such as `sm_89`.

    Without one, `missing` has the reason, and the driver compiles PTX.
    """

    architecture: str = ""
    version: str = ""
    program: str = ""
    missing: str = ""

    def module(self, ptx: bytes) -> DeviceModule:
        """Return a module with its machine code, or without for an unknown architecture.

        Raises AssemblyError.
        """
        if self.missing:
            return DeviceModule(ptx, compiler=f"the driver, as {self.missing}")
        name = f"ptxas {self.version}"
        # Through pipes, as a server may have no directory to write to.
        command = [self.program, "-v", f"-arch={self.architecture}", "/dev/stdin"]
        command += ["-o", "/dev/stdout"]
        try:
            ended = subprocess.run(command, input=ptx, capture_output=True, timeout=_TIMEOUT)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise AssemblyError(f"{name} must make machine code of PTX, got {error}") from error
        said = ended.stderr.decode(errors="replace")
        if _UNKNOWN in said:
            unknown = f"the driver, as {name} does not know {self.architecture}"
            return DeviceModule(ptx, compiler=unknown)
        if ended.returncode or not ended.stdout:
            raise AssemblyError(
                f"{name} must have machine code for {self.architecture}, got "
                f"{ended.returncode}: {said[-_SHOWN:].strip()}"
            )
        return DeviceModule(
            ptx, ended.stdout, f"{name} for {self.architecture}", resources_of(said)
        )


def resources_of(said: str) -> Mapping[str, Resources]:
    """Return the resources of kernels by their symbols, as ptxas writes them."""
    found = {}
    for symbol, *numbers in _RESOURCES.findall(said):
        stack, stores, loads, registers = map(int, numbers)
        found[symbol] = Resources(registers, stack, max(stores, loads))
    return found
