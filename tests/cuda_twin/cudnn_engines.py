"""Engines that cuDNN has for convolutions on a GPU that is not there.

The command `python -m tests.cuda_twin.cudnn_engines` needs `pip install '.[cuda,cudnn]'`, and `cc`
where there is no driver. The library checks the descriptors of every plan, and its heuristic
and engines take a GPU's properties as JSON since release 9.8. They compute nothing.

It prints the plans that have no engine, the engines' workspaces, and counts; 1 is the exit code
where a plan has none.
"""

import contextlib
import ctypes
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.command_line import command_line
from tests.cuda.checks.convolution_checks import LAYERS, SQUARE, convolution_plans
from xla_server.backends.cuda.worker.libraries import Libraries, LibraryError, cudnn
from xla_server.backends.cuda.worker.libraries.cudnn_backend import (
    AttributeName,
    CudnnLibrary,
    Descriptor,
    Type,
    library,
)
from xla_server.codegen.gpu.plans.convolution_plans import ConvolutionPlan
from xla_server.target.gpu.convolution import Direction

_DRIVER = "libcuda.so.1"

_FUNCTIONS = (
    *("cuGetErrorString", "cuModuleGetFunction", "cuModuleLoadData", "cuModuleUnload"),
    *("cuTensorMapEncodeIm2col", "cuTensorMapEncodeTiled"),
)
"""The functions of a driver without which the library's parts do not load."""

_PROPERTIES, _CHAR = 38, 24
_JSON, _OF_HEURISTIC, _OF_PLAN = 2702, 204, 407
"""Numbers of cudnn_graph.h: the descriptor of properties, a type, and attributes that have it."""

H100: Mapping[str, Any] = {
    "cudaDeviceId": 0,
    "deviceName": "NVIDIA H100 80GB HBM3",
    "deviceVer": 900,
    "driverVer": 13000,
    "isTccDriver": 0,
    "l2CacheSize": 50 << 20,
    "maxBlockSize": [1024, 1024, 64],
    "maxCtasPerSM": 32,
    "maxGridSize": [2147483647, 65535, 65535],
    "maxRegistersPerSM": 65536,
    "maxSharedMemoryPerBlock": 49152,
    "maxSharedMemoryPerBlockOptin": 232448,
    "maxThreadsPerBlock": 1024,
    "maxThreadsPerSM": 2048,
    "memClockRateKHz": 2619000,
    "memoryBusWidth": 5120,
    "multiProcessorCount": 132,
    "pciDeviceId": 0,
    "regsPerBlock": 65536,
    "reservedSharedMemoryPerBlock": 1024,
    "smClockRateKHz": 1980000,
    "smCountOrigin": 0,
    "supportCoopLaunch": 1,
    "totalGlobalMem": 80 << 30,
    "warpSize": 32,
}


class DescribedBackend(CudnnLibrary):
    """The library without a handle: a device is described to it."""

    def __init__(self) -> None:
        self._library = library()
        self.version, self.handle = int(self._library.cudnnGetVersion()), 0
        self._owned = contextlib.ExitStack()
        text = ctypes.create_string_buffer(json.dumps(H100).encode())
        made = super().descriptor(_PROPERTIES, self._owned)  # type: ignore[arg-type]
        given = made.address, _JSON, _CHAR, len(text), ctypes.addressof(text)
        self.call("cudnnBackendSetAttribute", *given)
        made.finalise()
        self.properties = made.address

    def descriptor(self, kind: Any, owner: contextlib.ExitStack) -> Descriptor:
        """Return a descriptor that takes the description where others take a handle."""
        return _Described(self, super().descriptor(kind, owner).address)


class _Described(Descriptor):
    def set(self, attribute: AttributeName, kind: Type, *values: float) -> None:
        assert isinstance(self._backend, DescribedBackend)
        properties = self._backend.properties
        if attribute is AttributeName.PLAN_HANDLE:
            super().set(_OF_PLAN, Type.DESCRIPTOR, properties)  # type: ignore[arg-type]
        elif attribute is not AttributeName.GRAPH_HANDLE:
            super().set(attribute, kind, *values)
        if attribute is AttributeName.HEURISTIC_MODE:
            super().set(_OF_HEURISTIC, Type.DESCRIPTOR, properties)  # type: ignore[arg-type]


def plans() -> Iterator[ConvolutionPlan]:
    """Yield small plans of every kind, and layers with their gradients in TF32."""
    yield from convolution_plans()
    for (batch, inputs, outputs, size), window, stride in LAYERS.values():
        positions = -(-size // stride)
        pad = max(0, (positions - 1) * stride + window - size)
        form = dataclasses.replace(
            SQUARE,
            **dict(zip(("batch", "inputs", "outputs"), (batch, inputs, outputs), strict=True)),
            **{name: (n, n) for name, n in (("image", size), ("window", window))},
            **{name: (n, n) for name, n in (("strides", stride), ("positions", positions))},
            **{name: (n, n) for name, n in (("low", pad // 2), ("high", pad - pad // 2))},
            rounds_operands=True,
        )
        for direction in Direction:
            for is_last in (True, False):
                yield ConvolutionPlan(
                    dataclasses.replace(form, direction=direction, is_channels_last=is_last)
                )


def main() -> int:
    """Print what the library says of every plan."""
    with contextlib.suppress(OSError):
        ctypes.CDLL(_DRIVER)
        return _asked()
    with tempfile.TemporaryDirectory() as directory:
        source = "".join(f"int {name}(void) {{ return 3; }}\n" for name in _FUNCTIONS)
        built = ["-shared", "-fPIC", f"-Wl,-soname,{_DRIVER}", "-x", "c", "-"]
        made = Path(directory) / _DRIVER
        subprocess.run(["cc", "-o", str(made), *built], input=source.encode(), check=True)
        found = find_spec("nvidia.cu13")
        libraries = [] if found is None else found.submodule_search_locations or []
        path = os.pathsep.join([directory, *(f"{place}/lib" for place in libraries)])
        command = [sys.executable, "-m", "tests.cuda_twin.cudnn_engines"]
        return subprocess.run(command, env=os.environ | {"LD_LIBRARY_PATH": path}).returncode


def _asked() -> int:
    cudnn.CudnnLibrary = DescribedBackend  # type: ignore[misc]
    libraries = Libraries(None)  # type: ignore[arg-type]
    refused, copies = 0, list[float]()
    for plan in plans():
        try:
            prepared = libraries.prepare(plan)
        except LibraryError as error:
            refused += 1
            print(error)
            continue
        byte_size = prepared._execution.integer(AttributeName.PLAN_WORKSPACE_SIZE)
        copies.append(byte_size / plan.convolution.bytes)
        print(f"workspace {byte_size:10} of {plan.workspace_bytes:10}: {plan.convolution}")
    print(f"{len(copies)} plans have an engine, {refused} have none")
    print(f"workspaces take up to {max(copies):.2f} of the arrays' bytes")
    return 1 if refused else 0


if __name__ == "__main__":
    command_line("tests.cuda_twin.cudnn_engines", __doc__).parse_args()
    sys.exit(main())
