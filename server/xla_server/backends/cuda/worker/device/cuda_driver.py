"""A device by NVIDIA's driver, used in the worker's process alone.

Errors after which the driver requires the process to end raise DeviceLostError. Errors are
asynchronous: the call that raises need not be the one at fault.

Semantics: the CUDA driver API, Stream Ordered Memory Allocator, Module Management, Execution
Control.
"""

import contextlib
import ctypes
import functools
from collections.abc import Iterator, Sequence
from typing import Any

from xla_host.environment_variables import WORK_QUEUES
from xla_server.backends.cuda.worker.device.capability import capability
from xla_server.backends.cuda.worker.device.captures import Captures
from xla_server.backends.cuda.worker.device.conditions import KERNELS, SYMBOLS, Conditions
from xla_server.backends.cuda.worker.device.driver import (
    CaseIndex,
    DeviceCopy,
    KernelLaunch,
    LoopCondition,
    NodeWork,
    PreparedCall,
    Work,
)
from xla_server.backends.cuda.worker.device.errors import CudaError, checked
from xla_server.backends.cuda.worker.device.kept_memory import KeptMemory
from xla_server.backends.cuda.worker.exchange import protocol
from xla_server.backends.cuda.worker.libraries import Libraries
from xla_server.codegen.gpu.plans.library_plans import LibraryPlan
from xla_server.target.gpu.properties import STATIC_SHARED_BYTES

try:
    _LIBRARY = ctypes.CDLL("libcuda.so.1")
    from cuda.bindings import driver as cuda
except (ImportError, OSError) as missing:
    raise protocol.NoDeviceError(
        f"a device needs NVIDIA's driver and cuda-bindings, got {missing}"
    ) from missing

_MAX_QUEUES = "32"
"""Most hardware queues of a context that the driver takes."""

_MAX_NAME = 256
_JIT_LOG_BYTES = 8192
"""Bytes of a device's name, and of the driver's log of a compilation; longer ones are cut."""

_ERROR_LOG, _ERROR_LOG_BYTES = 5, 6
"""CU_JIT_ERROR_LOG_BUFFER and CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES."""


class CudaDriver:
    """The device with a number, and its memory pool. Raises NoDeviceError."""

    def __init__(self, ordinal: int) -> None:
        # The driver reads it when it makes the context. Streams that share a queue wait for each
        # other, and by default eight queues are for up to 112 streams.
        WORK_QUEUES.set_default(_MAX_QUEUES)
        with _opening(ordinal):
            checked("cuInit", cuda.cuInit(0))
            (count,) = checked("cuDeviceGetCount", cuda.cuDeviceGetCount())
            if not 0 <= ordinal < count:
                raise protocol.NoDeviceError(
                    f"a device must be one of the driver's {count}, got {ordinal}"
                )
            (device,) = checked("cuDeviceGet", cuda.cuDeviceGet(ordinal))
            retained = cuda.cuDevicePrimaryCtxRetain(device)
            (self._context,) = checked("cuDevicePrimaryCtxRetain", retained)
            self.make_current()
            found = cuda.cuDeviceGetDefaultMemPool(device)
            (self._pool,) = checked("cuDeviceGetDefaultMemPool", found)
            # A pool returns memory to the system at each synchronisation by default.
            self._set_pool("RELEASE_THRESHOLD", cuda.cuuint64_t((1 << 64) - 1))
            # Otherwise an allocation for a transfer would wait for another stream that freed the
            # memory.
            self._set_pool("REUSE_ALLOW_INTERNAL_DEPENDENCIES", 0)
            self.description = self._described(device)
        self._kept, self._sizes = KeptMemory(), dict[int, int]()
        """Free memory that is kept for reuse; sizes in bytes of allocated memory by address."""
        self._idle: set[int] = set()
        """Streams without work since they were last synchronised."""
        self._libraries = Libraries(self)
        self._captures = Captures(cuda)
        conditions = Conditions(cuda, self._captures, self._context, self._launch_setter)
        self.capture_loop, self.capture_case = conditions.loop, conditions.case

    def _described(self, device: Any) -> protocol.DeviceDescription:
        attribute = cuda.CUdevice_attribute

        def number(what: Any) -> int:
            return int(checked("cuDeviceGetAttribute", cuda.cuDeviceGetAttribute(what, device))[0])

        major = number(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
        minor = number(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
        (name,) = checked("cuDeviceGetName", cuda.cuDeviceGetName(_MAX_NAME, device))
        free, total = checked("cuMemGetInfo", cuda.cuMemGetInfo())
        return protocol.DeviceDescription(
            name.partition(b"\0")[0].decode(errors="replace"),
            *(f"sm_{major}{minor}", capability(major, minor)),
            number(attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
            *(int(total), int(free)),
        )

    def make_current(self) -> None:
        """Let the calling thread use the device."""
        checked("cuCtxSetCurrent", cuda.cuCtxSetCurrent(self._context))

    def new_stream(self) -> int:
        """Return a stream that does not wait for the legacy default stream either."""
        flags = int(cuda.CUstream_flags.CU_STREAM_NON_BLOCKING)
        stream = int(checked("cuStreamCreate", cuda.cuStreamCreate(flags))[0])
        self._idle.add(stream)
        return stream

    def synchronise(self, stream: int) -> None:
        """Wait until all work of the stream is done."""
        checked("cuStreamSynchronize", cuda.cuStreamSynchronize(stream))
        self._idle.add(stream)

    def record(self, stream: int) -> "_Event":
        """Return an event of the work that the stream has now."""
        flags = int(cuda.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        event = _Event(*checked("cuEventCreate", cuda.cuEventCreate(flags)))
        checked("cuEventRecord", cuda.cuEventRecord(event.handle, stream))
        return event

    def wait_for(self, event: "_Event", stream: int) -> None:
        """Let later work of the stream begin once the event's work is done."""
        self._idle.discard(stream)
        checked("cuStreamWaitEvent", cuda.cuStreamWaitEvent(stream, event.handle, 0))

    def allocate(self, byte_size: int, stream: int) -> int:
        """Return kept memory of this size, else memory of the pool for later work of the stream."""
        address = self._kept.pop(byte_size)
        if address is None:
            address = self._allocate(byte_size, stream)
        self._sizes[address] = byte_size
        return address

    def _allocate(self, byte_size: int, stream: int) -> int:
        result = cuda.cuMemAllocFromPoolAsync(byte_size, self._pool, stream)
        if result[0] == cuda.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            # After a trim the pool can reuse memory that was free in too small blocks, except
            # memory freed in a stream that the host has not synchronised.
            self._free_all(self._kept.clear(), stream)
            self.synchronise(stream)
            checked("cuMemPoolTrimTo", cuda.cuMemPoolTrimTo(self._pool, 0))
            # Now the allocation may wait for other streams: better than a failure.
            self._set_pool("REUSE_ALLOW_INTERNAL_DEPENDENCIES", 1)
            result = cuda.cuMemAllocFromPoolAsync(byte_size, self._pool, stream)
            self._set_pool("REUSE_ALLOW_INTERNAL_DEPENDENCIES", 0)
        if result[0] == cuda.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
            total = self.description.total_bytes
            raise protocol.OutOfDeviceMemoryError(byte_size, self.free_bytes(), total)
        self._idle.discard(stream)
        return int(checked("cuMemAllocFromPoolAsync", result)[0])

    def free(self, address: int, stream: int) -> None:
        """Keep memory for reuse if the stream is idle, else free it to the pool in stream order."""
        byte_size, evicted = self._sizes.pop(address), [address]
        if stream in self._idle:
            evicted = self._kept.keep(address, byte_size)
        self._free_all(evicted, stream)

    def _free_all(self, addresses: Sequence[int], stream: int) -> None:
        for address in addresses:
            checked("cuMemFreeAsync", cuda.cuMemFreeAsync(address, stream))

    def free_bytes(self) -> int:
        """Return the bytes that are free on the device, in the pool or kept."""
        free, _ = checked("cuMemGetInfo", cuda.cuMemGetInfo())
        attribute = cuda.CUmemPool_attribute
        kept = self._pool_bytes(attribute.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
        used = self._pool_bytes(attribute.CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
        return int(free) + kept - used + self._kept.byte_size

    def _set_pool(self, name: str, value: Any) -> None:
        attribute = getattr(cuda.CUmemPool_attribute, f"CU_MEMPOOL_ATTR_{name}")
        found = cuda.cuMemPoolSetAttribute(self._pool, attribute, value)
        checked("cuMemPoolSetAttribute", found)

    def _pool_bytes(self, what: Any) -> int:
        found = cuda.cuMemPoolGetAttribute(self._pool, what)
        return int(checked("cuMemPoolGetAttribute", found)[0])

    def pin(self, memory: memoryview) -> int:
        """Pin host pages, so that copies are asynchronous; return their device address."""
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        flags = int(cuda.CU_MEMHOSTREGISTER_PORTABLE) | int(cuda.CU_MEMHOSTREGISTER_DEVICEMAP)
        checked("cuMemHostRegister", cuda.cuMemHostRegister(address, memory.nbytes, flags))
        mapped = cuda.cuMemHostGetDevicePointer(address, 0)
        return int(checked("cuMemHostGetDevicePointer", mapped)[0])

    def upload(self, address: int, source: memoryview, stream: int) -> None:
        """Copy bytes of the host to the device."""
        self._idle.discard(stream)
        copied = cuda.cuMemcpyHtoDAsync(address, source, source.nbytes, stream)
        checked("cuMemcpyHtoDAsync", copied)

    def download(self, target: memoryview, address: int, stream: int) -> None:
        """Copy bytes of the device to the host."""
        self._idle.discard(stream)
        copied = cuda.cuMemcpyDtoHAsync(target, address, target.nbytes, stream)
        checked("cuMemcpyDtoHAsync", copied)

    def load(self, module: bytes, symbols: Sequence[str]) -> Sequence["CudaKernel"]:
        """Return the kernels of PTX or of a cubin.

        Raises CudaError, with the compiler's message.
        """
        image = ctypes.create_string_buffer(module)
        try:
            (handle,) = checked("cuModuleLoadData", cuda.cuModuleLoadData(image))
        except CudaError as error:
            raise CudaError(f"{error}: {self._jit_log(image)}") from None
        loaded = _Module(handle)
        return [CudaKernel(loaded, symbol) for symbol in symbols]

    def enqueue(self, work: Work, stream: int) -> None:
        """Enqueue work to a stream; addresses are copied."""
        self._idle.discard(stream)
        match work:
            case KernelLaunch(kernel, blocks, threads, shared_bytes, addresses):
                kernel.need_shared(shared_bytes)
                values, form = _Values(addresses), (blocks, 1, 1, threads, 1, 1, shared_bytes)
                launched = cuda.cuLaunchKernel(kernel.function, *form, stream, values.pointer, 0)
                checked("cuLaunchKernel", launched)
            case DeviceCopy(target, source, byte_size):
                copied = cuda.cuMemcpyDtoDAsync(target, source, byte_size, stream)
                checked("cuMemcpyDtoDAsync", copied)
            case PreparedCall(prepared, addresses):
                prepared.call(addresses, stream)

    def prepare(self, plan: LibraryPlan) -> Any:
        """Return the prepared form of a plan, made by its library."""
        return self._libraries.prepare(plan)

    def begin_capture(self, stream: int) -> None:
        """Begin to capture a graph. Other threads may make any call during it."""
        # Loaded before the capture, which would record its allocations. Failure only precludes
        # loops.
        with contextlib.suppress(CudaError):
            self._setters  # noqa: B018
        mode = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        checked("cuStreamBeginCapture", cuda.cuStreamBeginCapture(stream, mode))

    def end_capture(self, stream: int) -> "_Graph":
        """End the capture and return the graph, uploaded to the device."""
        (described,) = checked("cuStreamEndCapture", cuda.cuStreamEndCapture(stream))
        graph = _Graph(described)
        (graph.handle,) = checked("cuGraphInstantiate", cuda.cuGraphInstantiate(described, 0))
        checked("cuGraphUpload", cuda.cuGraphUpload(graph.handle, stream))
        return graph

    def capture(self, work: Work, stream: int) -> Any:
        """Enqueue work to a stream under capture, and return its node."""
        if isinstance(work, PreparedCall):
            # A library may launch several kernels.
            return self._captures.add_child(functools.partial(self.enqueue, work), stream)
        self.enqueue(work, stream)
        return self._captures.last_node(stream)

    def change_node(self, graph: "_Graph", node: Any, work: NodeWork, stream: int) -> None:
        """Replace the work of a node by work of the same type; the addresses are copied."""
        match work:
            case KernelLaunch():
                self._change_launch(graph.handle, node, work)
            case DeviceCopy(target, source, byte_size):
                described, memory = cuda.CUDA_MEMCPY3D(), cuda.CUmemorytype.CU_MEMORYTYPE_DEVICE
                described.dstMemoryType, described.dstDevice = memory, target
                described.srcMemoryType, described.srcDevice = memory, source
                described.WidthInBytes, described.Height, described.Depth = byte_size, 1, 1
                given = graph.handle, node, described, self._context
                changed = cuda.cuGraphExecMemcpyNodeSetParams(*given)
                checked("cuGraphExecMemcpyNodeSetParams", changed)
            case PreparedCall():
                body = functools.partial(self.enqueue, work)
                self._captures.change_child(graph.handle, node, body, stream)
            case LoopCondition() | CaseIndex():
                symbol = "set_loop" if isinstance(work, LoopCondition) else "set_case"
                launch = self._setter(symbol, (node.condition, *work))
                for setter in node.setters:
                    self._change_launch(graph.handle, setter, launch)

    def _change_launch(self, executable: Any, node: Any, launch: KernelLaunch) -> None:
        kernel, blocks, threads, shared_bytes, addresses = launch
        kernel.need_shared(shared_bytes)
        values, described = _Values(addresses), cuda.CUDA_KERNEL_NODE_PARAMS()
        described.func, described.sharedMemBytes = kernel.function, shared_bytes
        described.gridDimX, described.gridDimY, described.gridDimZ = blocks, 1, 1
        described.blockDimX, described.blockDimY, described.blockDimZ = threads, 1, 1
        described.kernelParams, described.extra = values.pointer, 0
        changed = cuda.cuGraphExecKernelNodeSetParams(executable, node, described)
        checked("cuGraphExecKernelNodeSetParams", changed)

    def launch_graph(self, graph: "_Graph", stream: int) -> None:
        """Launch a graph."""
        self._idle.discard(stream)
        checked("cuGraphLaunch", cuda.cuGraphLaunch(graph.handle, stream))

    @functools.cached_property
    def _setters(self) -> dict[str, "CudaKernel"]:
        return dict(zip(SYMBOLS, self.load(KERNELS, SYMBOLS), strict=True))

    def _setter(self, symbol: str, values: Sequence[int]) -> KernelLaunch:
        return KernelLaunch(self._setters[symbol], 1, 1, 0, values)

    def _launch_setter(self, symbol: str, values: Sequence[int], stream: int) -> None:
        self.enqueue(self._setter(symbol, values), stream)

    def _jit_log(self, image: Any) -> str:
        """Load a module again, and return the error log of the driver's compiler."""
        log = ctypes.create_string_buffer(_JIT_LOG_BYTES)
        options = (ctypes.c_int * 2)(_ERROR_LOG, _ERROR_LOG_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _JIT_LOG_BYTES)
        handle = ctypes.c_void_p()
        _LIBRARY.cuModuleLoadDataEx(ctypes.byref(handle), image, 2, options, values)
        return log.value.decode(errors="replace").strip() or "no reason given"


class _Event:
    """An event, which is destroyed with its last reference; streams that wait for it still do."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle

    def __del__(self) -> None:
        cuda.cuEventDestroy(self.handle)


class _Module:
    """A module, which is unloaded with its last kernel."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle

    def __del__(self) -> None:
        cuda.cuModuleUnload(self.handle)


class _Graph:
    """A graph with its description, whose nodes name those of the graph.

    It is destroyed with its last reference once it has been executed.
    """

    def __init__(self, described: Any) -> None:
        self._described = described
        self.handle: Any = None

    def __del__(self) -> None:
        if self.handle is not None:
            cuda.cuGraphExecDestroy(self.handle)
        cuda.cuGraphDestroy(self._described)


class _Values:
    """Arguments of a kernel in memory, valid as long as this object."""

    def __init__(self, values: Sequence[int]) -> None:
        count = len(values)
        self._values = (ctypes.c_uint64 * count)(*values)
        first = ctypes.addressof(self._values)
        self._pointers = (ctypes.c_uint64 * count)(*range(first, first + 8 * count, 8))
        self.pointer = ctypes.addressof(self._pointers)
        """The address of the addresses of all values."""


class CudaKernel:
    """A kernel of a module. Raises CudaError for a symbol that the module does not have."""

    __slots__ = ("_module", "_shared_bytes", "function")

    def __init__(self, module: _Module, symbol: str) -> None:
        self._module, self._shared_bytes = module, STATIC_SHARED_BYTES
        found = cuda.cuModuleGetFunction(module.handle, symbol.encode())
        (self.function,) = checked("cuModuleGetFunction", found)
        # Otherwise the first launch loads it, which may happen while a stream is captured.
        checked("cuFuncLoad", cuda.cuFuncLoad(self.function))

    def need_shared(self, byte_size: int) -> None:
        """Allow this much dynamic shared memory per block; 48 KiB are allowed by default."""
        if byte_size > self._shared_bytes:
            what = cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            checked("cuFuncSetAttribute", cuda.cuFuncSetAttribute(self.function, what, byte_size))
            self._shared_bytes = byte_size


@contextlib.contextmanager
def _opening(ordinal: int) -> Iterator[None]:
    """Raise NoDeviceError if the driver cannot open a device."""
    try:
        yield
    except CudaError as error:
        raise protocol.NoDeviceError(f"device {ordinal} must open, got {error}") from error
