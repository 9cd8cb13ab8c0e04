# ruff: noqa: N802
"""Functions of cuda.bindings.driver on memory of the host, as far as CudaDriver calls them.

Each returns a tuple of a result and values, as the bindings do, and notes its call. Kernels copy
their first argument's bytes to the second.
"""

import ctypes
import enum
import os
import types
from typing import Any

from xla_host.environment_variables import WORK_QUEUES

MODULE_NAME = "xla_server.backends.cuda.worker.device.cuda_driver"
"""The module that is imported for each test, as it imports the bindings."""

TOTAL_BYTES = 1 << 20
CONTEXT, POOL, MODULE, FUNCTION, GRAPH, EXECUTABLE, CHILD = 0x77, 0x99, 0xA, 0xB, 0xC, 0xD, 0xE
EVENT = 0xF
RESERVED, USED = 5, 7
MAPPED, CONDITION = 1 << 40, 1 << 50


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_INVALID_PTX = 218
    CUDA_ERROR_NOT_FOUND = 500
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


class FakeBindings(types.ModuleType):
    """The module."""

    CUresult = CUresult
    CU_MEMHOSTREGISTER_PORTABLE = 1
    CU_MEMHOSTREGISTER_DEVICEMAP = 2
    CUdevice_attribute = types.SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR="major",
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR="minor",
        CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT="multiprocessors",
    )
    CUmemPool_attribute = types.SimpleNamespace(
        CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES=3,
        CU_MEMPOOL_ATTR_RELEASE_THRESHOLD=4,
        CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT=RESERVED,
        CU_MEMPOOL_ATTR_USED_MEM_CURRENT=USED,
    )
    CUevent_flags = types.SimpleNamespace(CU_EVENT_DISABLE_TIMING=2)
    CUstream_flags = types.SimpleNamespace(CU_STREAM_NON_BLOCKING=1)
    CUstreamCaptureMode = types.SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=2)
    CUfunction_attribute = types.SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)
    CUgraphConditionalNodeType = types.SimpleNamespace(
        CU_GRAPH_COND_TYPE_WHILE="while", CU_GRAPH_COND_TYPE_SWITCH="switch"
    )
    CUgraphNodeType = types.SimpleNamespace(
        CU_GRAPH_NODE_TYPE_GRAPH=4, CU_GRAPH_NODE_TYPE_CONDITIONAL=13
    )
    CUmemorytype = types.SimpleNamespace(CU_MEMORYTYPE_DEVICE=2)
    CUstreamUpdateCaptureDependencies_flags = types.SimpleNamespace(
        CU_STREAM_SET_CAPTURE_DEPENDENCIES=1
    )
    cuuint64_t = int

    def __init__(self) -> None:
        super().__init__("cuda.bindings.driver")
        self.calls: list[tuple[Any, ...]] = []
        self.memory: dict[int, Any] = {}
        self.captured: dict[int, int] = {}
        """The graphs of streams that are captured."""
        self.given: list[list[int]] = []
        """The values that nodes of graphs were given."""
        self.capability = (8, 9)
        self.fails: dict[str, CUresult] = {}
        """The errors that functions return from now on."""

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)

        def called(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append((name, *arguments))
            if name in self.fails:
                return (self.fails[name], None)
            return (CUresult.CUDA_SUCCESS, *getattr(self, f"_{name}", _nothing)(*arguments))

        return called

    def named(self, name: str) -> list[list[Any]]:
        """Return the arguments of the calls of a function."""
        return [arguments for called, *arguments in self.calls if called == name]

    def CUDA_KERNEL_NODE_PARAMS(self) -> Any:
        return types.SimpleNamespace()

    def CUDA_MEMCPY3D(self) -> Any:
        return types.SimpleNamespace()

    def CUgraphNodeParams(self) -> Any:
        parts = ("conditional", "graph")
        return types.SimpleNamespace(**{name: types.SimpleNamespace() for name in parts})

    def _cuDevicePrimaryCtxRetain(self, device: int) -> tuple[Any, ...]:
        self.queues = os.environ[WORK_QUEUES.name]
        return (CONTEXT,)

    def _cuMemHostGetDevicePointer(self, address: int, flags: int) -> tuple[Any, ...]:
        return (address + MAPPED,)

    def _cuStreamGetCaptureInfo(self, stream: int) -> tuple[Any, ...]:
        return (1, 1, self.captured[stream], ["before"], None, 1)

    def _cuStreamBeginCapture(self, stream: int, mode: int) -> tuple[Any, ...]:
        self.captured[stream] = GRAPH
        return ()

    def _cuStreamBeginCaptureToGraph(self, stream: int, graph: int, *_: Any) -> tuple[Any, ...]:
        self.captured[stream] = graph
        return ()

    def _cuGraphConditionalHandleCreate(self, graph: int, *_: Any) -> tuple[Any, ...]:
        return (CONDITION + len(self.named("cuGraphConditionalHandleCreate")),)

    def _cuGraphAddNode(self, graph: int, *rest: Any) -> tuple[Any, ...]:
        if rest[-1].type == self.CUgraphNodeType.CU_GRAPH_NODE_TYPE_GRAPH:
            return ("child",)
        described = rest[-1].conditional
        described.phGraph_out = [graph * 16 + number for number in range(described.size)]
        return ("node",)

    def _cuGraphCreate(self, flags: int) -> tuple[Any, ...]:
        return (CHILD,)

    def _cuDeviceGetCount(self) -> tuple[Any, ...]:
        return (2,)

    def _cuDeviceGet(self, ordinal: int) -> tuple[Any, ...]:
        return (ordinal,)

    def _cuDeviceGetDefaultMemPool(self, device: int) -> tuple[Any, ...]:
        return (POOL,)

    def _cuDeviceGetAttribute(self, what: str, device: int) -> tuple[Any, ...]:
        major, minor = self.capability
        return ({"major": major, "minor": minor, "multiprocessors": 132}[what],)

    def _cuDeviceGetName(self, length: int, device: int) -> tuple[Any, ...]:
        return (b"Fake GPU\0".ljust(length),)

    def _cuMemGetInfo(self) -> tuple[Any, ...]:
        return (TOTAL_BYTES // 2, TOTAL_BYTES)

    def _cuMemPoolGetAttribute(self, pool: int, what: int) -> tuple[Any, ...]:
        return ({RESERVED: 3000, USED: 1000}[what],)

    def _cuMemAllocFromPoolAsync(self, size: int, pool: int, stream: int) -> tuple[Any, ...]:
        buffer = ctypes.create_string_buffer(size)
        self.memory[ctypes.addressof(buffer)] = buffer
        return (ctypes.addressof(buffer),)

    def _cuMemFreeAsync(self, address: int, stream: int) -> tuple[Any, ...]:
        del self.memory[address]
        return ()

    def _cuEventCreate(self, flags: int) -> tuple[Any, ...]:
        return (EVENT,)

    def _cuStreamCreate(self, flags: int) -> tuple[Any, ...]:
        return (1000 + len(self.named("cuStreamCreate")),)

    def _cuMemcpyHtoDAsync(self, to: int, source: Any, size: int, stream: int) -> tuple[Any, ...]:
        ctypes.memmove(to, bytes(source), size)
        return ()

    def _cuMemcpyDtoHAsync(self, to: Any, source: int, size: int, stream: int) -> tuple[Any, ...]:
        to[:] = ctypes.string_at(source, size)
        return ()

    def _cuMemcpyDtoDAsync(self, to: int, source: int, size: int, stream: int) -> tuple[Any, ...]:
        ctypes.memmove(to, source, size)
        return ()

    def _cuModuleLoadData(self, image: Any) -> tuple[Any, ...]:
        return (MODULE,)

    def _cuModuleGetFunction(self, module: int, name: bytes) -> tuple[Any, ...]:
        return (FUNCTION,)

    def _cuLaunchKernel(self, function: int, *rest: Any) -> tuple[Any, ...]:
        *_, stream, parameters, _ = rest
        if stream in self.captured:
            return ()
        source, target = _values(parameters)
        ctypes.memmove(target, source, rest[0] * rest[3])
        return ()

    def _cuGraphExecKernelNodeSetParams(self, graph: int, node: Any, given: Any) -> tuple[Any, ...]:
        self.given.append(_values(given.kernelParams))
        return ()

    def _cuStreamEndCapture(self, stream: int) -> tuple[Any, ...]:
        return (self.captured.pop(stream),)

    def _cuGraphInstantiate(self, graph: int, flags: int) -> tuple[Any, ...]:
        return (EXECUTABLE,)


def _values(parameters: int) -> list[int]:
    places = (ctypes.c_uint64 * 2).from_address(parameters)
    return [ctypes.c_uint64.from_address(place).value for place in places]


def _nothing(*arguments: Any) -> tuple[Any, ...]:
    return ()


class FakeLibrary:
    """libcuda.so.1, of which the log of the driver's compiler is read."""

    def cuModuleLoadDataEx(
        self, handle: Any, image: Any, count: int, options: Any, values: Any
    ) -> int:
        assert list(options) == [5, 6]
        ctypes.memmove(values[0], b"ptxas: line 3", 14)
        return 218
