"""Compilation for GPUs without a device or a driver."""

import contextlib
from collections.abc import Mapping, Sequence

from xla_contract.errors import InternalError, InvalidArgumentError
from xla_server.backends.compiled.compilation import Compilation, Observer, compile_module
from xla_server.backends.cuda.encoding import encode
from xla_server.backends.cuda.host_steps import device_kernels, placed_thunks
from xla_server.backends.cuda.launch_counts import LaunchCounts
from xla_server.backends.cuda.listing import compilers, dump_files, on_device, through_host
from xla_server.backends.cuda.toolchain import DeviceModules, PtxToolchain
from xla_server.buffers.code import KernelError
from xla_server.codegen.gpu.lower.table import CUDA_LOWERINGS
from xla_server.ir.module import HloModule
from xla_server.target.gpu.properties import GPUS
from xla_server.target.machine import Machine
from xla_server.target.target import Target


def compile_for(
    capability: str, module: HloModule, observer: Observer | None
) -> tuple[Compilation, Mapping[str, str | bytes], Sequence[str]]:
    """Compile for a compute capability; return the result, dump files and summary lines.

    Raises InvalidArgumentError for a capability that is not known, InternalError for a kernel that
    has no code, else as `compile_module`.
    """
    if capability not in GPUS:
        raise InvalidArgumentError(
            f"a compute capability must be one of {', '.join(GPUS)}, got {capability}"
        )
    machine = Machine.cuda(capability)
    compilation = compile_module(
        module, target=Target.of(machine), lowerings=CUDA_LOWERINGS, observer=observer
    )
    code = compilation.code
    thunks = placed_thunks(code)
    with contextlib.closing(DeviceModules(PtxToolchain(machine))) as modules:
        try:
            found = modules.get_all(device_kernels(thunks))
        except KernelError as error:
            raise InternalError(f"kernels must have code, got {error.__cause__}") from error
        encoded = encode(code, thunks, compilation.assignment, found)
    files = dump_files(code, encoded.thunks, found)
    counts = f"in all: {LaunchCounts.all(encoded.thunks)}"
    made = [on_device(encoded.thunks), *compilers(found.values()), counts]
    return compilation, files, [*made, *through_host(encoded.thunks)]
