"""The driver of a device over bindings that use memory of the host."""

import ctypes
import gc
import importlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.unit.backends.cuda.worker.fake_bindings import (
    CONDITION,
    CONTEXT,
    EXECUTABLE,
    FUNCTION,
    GRAPH,
    MAPPED,
    MODULE,
    POOL,
    TOTAL_BYTES,
    CUresult,
    FakeBindings,
    FakeLibrary,
)
from xla_server.backends.cuda.worker.device.capability import capability
from xla_server.backends.cuda.worker.device.driver import CapturingDriver
from xla_server.backends.cuda.worker.device.errors import CudaError, checked
from xla_server.backends.cuda.worker.exchange.protocol import (
    DeviceDescription,
    DeviceLostError,
    NoDeviceError,
    OutOfDeviceMemoryError,
)

MODULE_NAME = "xla_server.backends.cuda.worker.device.cuda_driver"


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBindings]:
    fake = FakeBindings()
    package = types.ModuleType("cuda.bindings")
    package.driver = fake  # type: ignore[attr-defined]
    for name, module in {"cuda": types.ModuleType("cuda"), "cuda.bindings": package}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: FakeLibrary())
    monkeypatch.delitem(sys.modules, MODULE_NAME, raising=False)
    yield fake
    sys.modules.pop(MODULE_NAME, None)


@pytest.fixture
def opened(cuda: FakeBindings) -> Callable[[int], Any]:
    made: Callable[[int], Any] = importlib.import_module(MODULE_NAME).CudaDriver
    return made


@pytest.fixture
def driver(opened: Callable[[int], Any]) -> Any:
    return opened(1)


def test_a_device_is_described_and_keeps_its_pool(driver: Any, cuda: FakeBindings) -> None:
    free = TOTAL_BYTES // 2
    kind = ("sm_89", "sm_80")
    assert driver.description == DeviceDescription("Fake GPU", *kind, 132, TOTAL_BYTES, free)
    assert cuda.named("cuMemPoolSetAttribute") == [[POOL, 4, (1 << 64) - 1]]
    assert isinstance(driver, CapturingDriver)


def test_a_number_beyond_the_devices_is_refused(opened: Callable[[int], Any]) -> None:
    with pytest.raises(NoDeviceError, match="one of the driver's 2, got 2"):
        opened(2)


def test_a_device_that_does_not_open_is_refused(
    opened: Callable[[int], Any], cuda: FakeBindings
) -> None:
    cuda.fails["cuInit"] = CUresult.CUDA_ERROR_NO_DEVICE
    with pytest.raises(NoDeviceError, match="device 0 must open, got cuInit: CUDA_ERROR_NO_DEVICE"):
        opened(0)


def test_a_machine_without_a_driver_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: no such file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    monkeypatch.delitem(sys.modules, MODULE_NAME, raising=False)
    with pytest.raises(NoDeviceError, match=r"libcuda\.so\.1: no such file"):
        importlib.import_module(MODULE_NAME)


@pytest.mark.parametrize(
    ("major", "minor", "expected"),
    [(8, 0, "sm_80"), (8, 9, "sm_80"), (9, 0, "sm_90"), (10, 3, "sm_100"), (12, 1, "sm_120")],
)
def test_the_newest_capability_that_a_device_has(major: int, minor: int, expected: str) -> None:
    assert capability(major, minor) == expected


def test_an_old_device_is_refused() -> None:
    with pytest.raises(NoDeviceError, match="sm_80 or newer, got sm_75"):
        capability(7, 5)


def test_bytes_go_to_the_device_and_back(driver: Any, cuda: FakeBindings) -> None:
    stream = driver.new_stream()
    first, second = driver.allocate(5, stream), driver.allocate(5, stream)
    found = bytearray(5)
    driver.upload(first, memoryview(b"12345"), stream)
    driver.copy(second, first, 5, stream)
    driver.download(memoryview(found), second, stream)
    driver.synchronise(stream)
    driver.free(first, stream)
    assert found == b"12345"
    assert list(cuda.memory) == [second]
    assert cuda.named("cuStreamCreate") == [[1]]
    assert cuda.named("cuStreamSynchronize") == [[stream]]


def test_shared_memory_is_pinned_by_its_address(driver: Any, cuda: FakeBindings) -> None:
    data = np.zeros(16, np.uint8)
    assert driver.pin(memoryview(data)) == data.ctypes.data + MAPPED
    assert cuda.named("cuMemHostRegister") == [[data.ctypes.data, 16, 3]]


def test_a_full_device_is_trimmed_and_tried_again(driver: Any, cuda: FakeBindings) -> None:
    cuda.fails["cuMemAllocFromPoolAsync"] = CUresult.CUDA_ERROR_OUT_OF_MEMORY
    with pytest.raises(OutOfDeviceMemoryError) as refusal:
        driver.allocate(77, 1)
    assert refusal.value.args == (77, TOTAL_BYTES // 2 + 2000, TOTAL_BYTES)
    assert cuda.named("cuMemPoolTrimTo") == [[POOL, 0]]
    assert len(cuda.named("cuMemAllocFromPoolAsync")) == 2


def test_a_kernel_gets_addresses(driver: Any, cuda: FakeBindings) -> None:
    (kernel,) = driver.load(b"ptx", ["k"])
    first, second = driver.allocate(6, 1), driver.allocate(6, 1)
    driver.upload(first, memoryview(b"abcdef"), 1)
    driver.launch(kernel, 2, 3, 0, [first, second], 1)
    assert ctypes.string_at(second, 6) == b"abcdef"
    ((function, *launch, _, extra),) = cuda.named("cuLaunchKernel")
    assert (function, launch, extra) == (FUNCTION, [2, 1, 1, 3, 1, 1, 0, 1], 0)
    assert cuda.named("cuModuleGetFunction") == [[MODULE, b"k"]]
    assert cuda.named("cuFuncLoad") == [[FUNCTION]]


def test_much_shared_memory_is_asked_for_once(driver: Any, cuda: FakeBindings) -> None:
    (kernel,) = driver.load(b"ptx", ["k"])
    addresses = [driver.allocate(1, 1), driver.allocate(1, 1)]
    for shared in (48 << 10, 64 << 10, 64 << 10, 50 << 10):
        driver.launch(kernel, 1, 1, shared, addresses, 1)
    assert cuda.named("cuFuncSetAttribute") == [[FUNCTION, 8, 64 << 10]]


def test_a_module_is_unloaded_with_its_last_kernel(driver: Any, cuda: FakeBindings) -> None:
    first, second = driver.load(b"ptx", ["a", "b"])
    del first
    gc.collect()
    assert cuda.named("cuModuleUnload") == []
    del second
    gc.collect()
    assert cuda.named("cuModuleUnload") == [[MODULE]]


def test_a_module_that_does_not_load_is_told_with_the_compilers_words(
    driver: Any, cuda: FakeBindings
) -> None:
    cuda.fails["cuModuleLoadData"] = CUresult.CUDA_ERROR_INVALID_PTX
    with pytest.raises(CudaError, match="CUDA_ERROR_INVALID_PTX: ptxas: line 3"):
        driver.load(b"ptx", ["k"])


def test_a_graph_is_captured_launched_and_destroyed(driver: Any, cuda: FakeBindings) -> None:
    driver.begin_capture(7)
    graph = driver.end_capture(7)
    driver.launch_graph(graph, 7)
    assert cuda.named("cuStreamBeginCapture") == [[7, 2]]
    assert cuda.named("cuGraphInstantiate") == [[GRAPH, 0]]
    assert cuda.named("cuGraphDestroy") == [[GRAPH]]
    assert cuda.named("cuGraphLaunch") == [[EXECUTABLE, 7]]
    del graph
    gc.collect()
    assert cuda.named("cuGraphExecDestroy") == [[EXECUTABLE]]


def test_conditional_nodes_have_what_their_bodies_give_a_stream(
    driver: Any, cuda: FakeBindings
) -> None:
    (kernel,) = driver.load(b"ptx", ["k"])

    def body(stream: int) -> None:
        launched.append((cuda.captured[stream], stream))
        driver.launch(kernel, 1, 1, 0, [3], stream)

    def turn(stream: int) -> None:
        driver.capture_case(8, 4, [body, body], stream)

    launched: list[tuple[int, int]] = []
    driver.begin_capture(7)
    driver.capture_loop(5, 6, turn, 7)
    assert cuda.captured == {7: GRAPH}
    names = [name for name, *_ in cuda.calls]
    captured = names[names.index("cuStreamBeginCapture") :]
    assert not {"cuModuleLoadData", "cuFuncLoad"} & set(captured)
    # The bodies of a node are graphs of their own, within those of nodes around it.
    turns, cases = GRAPH * 16, [GRAPH * 256, GRAPH * 256 + 1]
    assert [graph for graph, _ in launched] == cases
    nodes = [(graph, each.conditional) for graph, *_, each in cuda.named("cuGraphAddNode")]
    assert [(graph, each.type, each.size) for graph, each in nodes] == [
        (GRAPH, "while", 1),
        (turns, "switch", 2),
    ]
    assert [each.handle for _, each in nodes] == [CONDITION + 1, CONDITION + 2]
    assert cuda.named("cuGraphConditionalHandleCreate") == [
        [GRAPH, CONTEXT, 0, 0],
        [turns, CONTEXT, 0, 0],
    ]
    # A kernel tells the loop before it and at the end of each turn, and one the cases.
    streams = [rest[7] for _, *rest in cuda.named("cuLaunchKernel")]
    (inner,) = {stream for stream in streams if stream not in {7, *dict(launched).values()}}
    assert streams == [7, inner, *(stream for _, stream in launched), inner]
    assert {stream for (stream,) in cuda.named("cuStreamDestroy")} == {
        inner,
        *dict(launched).values(),
    }
    assert [to for to, *_ in cuda.named("cuStreamUpdateCaptureDependencies")] == [7, inner]


def test_a_driver_that_does_not_load_their_kernels_has_graphs_without_loops(
    driver: Any, cuda: FakeBindings
) -> None:
    cuda.fails["cuModuleLoadData"] = CUresult.CUDA_ERROR_INVALID_PTX
    driver.begin_capture(7)
    with pytest.raises(CudaError, match="CUDA_ERROR_INVALID_PTX"):
        driver.capture_loop(5, 6, lambda stream: None, 7)
    driver.launch_graph(driver.end_capture(7), 7)


def test_a_body_that_fails_leaves_no_stream_captured(driver: Any, cuda: FakeBindings) -> None:
    def fails(stream: int) -> None:
        raise ValueError("no such row")

    driver.begin_capture(7)
    with pytest.raises(ValueError, match="no such row"):
        driver.capture_loop(5, 6, fails, 7)
    assert list(cuda.captured) == [7]
    assert len(cuda.named("cuStreamDestroy")) == 1
    cuda.fails["cuGraphConditionalHandleCreate"] = CUresult.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(CudaError, match="cuGraphConditionalHandleCreate"):
        driver.capture_case(5, 1, [fails], 7)


def test_the_context_is_current_in_each_thread_that_asks(driver: Any, cuda: FakeBindings) -> None:
    driver.make_current()
    assert cuda.named("cuCtxSetCurrent") == [[CONTEXT], [CONTEXT]]


def test_errors_that_leave_the_process_unusable_lose_the_device() -> None:
    assert checked("f", (CUresult.CUDA_SUCCESS, 1, 2)) == (1, 2)
    with pytest.raises(DeviceLostError, match="f: CUDA_ERROR_ILLEGAL_ADDRESS"):
        checked("f", (CUresult.CUDA_ERROR_ILLEGAL_ADDRESS,))
    with pytest.raises(CudaError, match="f: CUDA_ERROR_INVALID_VALUE"):
        checked("f", (CUresult.CUDA_ERROR_INVALID_VALUE,))
