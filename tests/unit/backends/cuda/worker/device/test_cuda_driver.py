"""The driver of a device over bindings that use memory of the host."""

import ctypes
import gc
import importlib
import socket
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.unit.backends.cuda.worker.fake_bindings import (
    CONTEXT,
    EVENT,
    FUNCTION,
    MAPPED,
    MODULE,
    MODULE_NAME,
    POOL,
    TOTAL_BYTES,
    CUresult,
    FakeBindings,
)
from tests.unit.backends.cuda.worker.workers import launch, program
from xla_host.environment_variables import WORK_QUEUES
from xla_server.backends.cuda.worker.connection import Connection
from xla_server.backends.cuda.worker.device.capability import capability
from xla_server.backends.cuda.worker.device.driver import (
    DeviceCopy,
    Driver,
    KernelLaunch,
    PreparedCall,
)
from xla_server.backends.cuda.worker.device.errors import CudaError, checked
from xla_server.backends.cuda.worker.exchange.messages import (
    Allocate,
    Body,
    Download,
    Load,
    Reader,
    Request,
    Run,
    send,
)
from xla_server.backends.cuda.worker.exchange.protocol import (
    DeviceDescription,
    DeviceLostError,
    NoDeviceError,
    OutOfDeviceMemoryError,
)
from xla_server.backends.cuda.worker.exchange.shared_memory import SharedMemory, new_shared_memory
from xla_server.backends.cuda.worker.executor import OwnedDevice


def test_a_device_is_described_and_keeps_its_pool(driver: Any, cuda: FakeBindings) -> None:
    free = TOTAL_BYTES // 2
    kind = ("sm_89", "sm_80")
    assert driver.description == DeviceDescription("Fake GPU", *kind, 132, TOTAL_BYTES, free)
    # An allocation of one stream waits for no other stream.
    assert cuda.named("cuMemPoolSetAttribute") == [[POOL, 4, (1 << 64) - 1], [POOL, 3, 0]]
    assert isinstance(driver, Driver)


@pytest.mark.parametrize(("given", "found"), [(None, "32"), ("4", "4")])
def test_streams_have_the_most_queues_unless_the_environment_has_a_number(
    opened: Callable[[int], Any],
    cuda: FakeBindings,
    monkeypatch: pytest.MonkeyPatch,
    given: str | None,
    found: str,
) -> None:
    if given is not None:
        monkeypatch.setenv(WORK_QUEUES.name, given)
    opened(0)
    assert cuda.queues == found


def test_a_number_beyond_the_devices_is_refused(opened: Callable[[int], Any]) -> None:
    with pytest.raises(NoDeviceError, match="one of the driver's 2, got 2"):
        opened(2)


def test_a_device_that_does_not_open_is_refused(
    opened: Callable[[int], Any], cuda: FakeBindings
) -> None:
    cuda.fails["cuInit"] = CUresult.CUDA_ERROR_NO_DEVICE
    with pytest.raises(NoDeviceError, match="device 0 must open, got cuInit: CUDA_ERROR_NO_DEVICE"):
        opened(0)


def test_a_machine_without_a_driver_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
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
    driver.enqueue(DeviceCopy(second, first, 5), stream)
    driver.download(memoryview(found), second, stream)
    driver.synchronise(stream)
    assert found == b"12345"
    assert cuda.named("cuStreamCreate") == [[1]]
    assert cuda.named("cuStreamSynchronize") == [[stream]]


WORK: dict[str, Callable[[Any, int, int], None]] = {
    "nothing": lambda driver, address, stream: None,
    "upload": lambda driver, address, stream: driver.upload(address, memoryview(b"1"), stream),
    "download": lambda driver, address, stream: driver.download(
        memoryview(bytearray(1)), address, stream
    ),
    "copy": lambda driver, address, stream: driver.enqueue(
        DeviceCopy(address, address + 1, 1), stream
    ),
    "launch": lambda driver, address, stream: driver.enqueue(
        KernelLaunch(driver.load(b"ptx", ["k"])[0], 1, 1, 0, [address, address + 1]), stream
    ),
    "graph": lambda driver, address, stream: driver.launch_graph(_graph(driver), stream),
    "allocation": lambda driver, address, stream: driver.allocate(3, stream),
    "call": lambda driver, address, stream: driver.enqueue(
        PreparedCall(_Prepared(), [address]), stream
    ),
    "event of another stream": lambda driver, address, stream: driver.wait_for(
        driver.record(99), stream
    ),
}


class _Prepared:
    def call(self, addresses: list[int], stream: int) -> None:
        pass


def _graph(driver: Any) -> Any:
    driver.begin_capture(99)
    return driver.end_capture(99)


@pytest.mark.parametrize("work", WORK)
def test_memory_is_kept_once_no_stream_uses_it(driver: Any, cuda: FakeBindings, work: str) -> None:
    stream, other = driver.new_stream(), driver.new_stream()
    address = driver.allocate(5, stream)
    driver.synchronise(stream)
    WORK[work](driver, address, stream)
    driver.free(address, stream)
    is_kept = work == "nothing"
    # The pool has memory in use in the order of its stream.
    assert cuda.named("cuMemFreeAsync") == ([] if is_kept else [[address, stream]])
    allocated = len(cuda.named("cuMemAllocFromPoolAsync"))
    driver.allocate(5, other)
    assert len(cuda.named("cuMemAllocFromPoolAsync")) == allocated + (not is_kept)
    driver.free(driver.allocate(6, stream), stream)
    with pytest.raises(KeyError):
        driver.free(77, stream)


def test_kept_memory_is_free_and_given_to_the_pool_where_it_has_no_memory(
    driver: Any, cuda: FakeBindings
) -> None:
    stream = driver.new_stream()
    pieces = [driver.allocate(size, stream) for size in (5, 6)]
    driver.synchronise(stream)
    free = driver.free_bytes()
    for each in pieces:
        driver.free(each, driver.new_stream())
    assert driver.free_bytes() == free + 5 + 6
    cuda.fails["cuMemAllocFromPoolAsync"] = CUresult.CUDA_ERROR_OUT_OF_MEMORY
    with pytest.raises(OutOfDeviceMemoryError):
        driver.allocate(7, stream)
    assert cuda.named("cuMemFreeAsync") == [[each, stream] for each in pieces]
    # A pool keeps what was freed in a stream that was not waited for since.
    names = [name for name, *_ in cuda.calls]
    names = names[names.index("cuMemFreeAsync") :]
    assert names[2:4] == ["cuStreamSynchronize", "cuMemPoolTrimTo"]


def test_a_run_and_transfers_have_streams_of_their_own_and_results_their_memory_again(
    driver: Any, cuda: FakeBindings
) -> None:
    shared = SharedMemory(new_shared_memory())
    shared.device_address = driver.pin(shared.view)
    device = OwnedDevice(driver, shared)
    pairs = [socket.socketpair() for _ in range(2)]
    for number, (_, theirs) in enumerate(pairs):
        Connection(device, theirs, number).start()
    running, sending = [(ours, Reader(ours)) for ours, _ in pairs]

    def answer(end: tuple[socket.socket, Reader], body: Body, *freed: int) -> Any:
        send(end[0], Request(body, freed))
        return end[1].receive(1 << 20)

    thunks = [launch("increment", 0, 2), launch("increment", 2, 1)]
    loaded = answer(running, Load(program(*thunks, results=[5], arena=[0], count=5), ()))
    argument = answer(sending, Allocate(5, b"12345"))
    (result,) = answer(running, Run(loaded, (argument,))).results
    assert answer(sending, Download(result, 5)) == b"12345"
    calls = cuda.calls[:]
    # The next run has the memory in another stream, without the driver.
    answer(sending, Download(argument, 5), result)
    assert answer(running, Run(loaded, (argument,))).results == (result,)
    later = {name for name, *_ in cuda.calls[len(calls) :]}
    assert not later & {"cuMemAllocFromPoolAsync", "cuMemFreeAsync"}
    launches = {call[-3] for call in calls if call[0] == "cuLaunchKernel"}
    copies = {call[-1] for call in calls if call[0].startswith("cuMemcpy")}
    assert len(launches) == len(copies) == 1
    assert not launches & copies
    assert calls[-1][0] == "cuStreamSynchronize"
    for ours, _ in pairs:
        ours.close()


def test_shared_memory_is_pinned_by_its_address(driver: Any, cuda: FakeBindings) -> None:
    data = np.zeros(16, np.uint8)
    assert driver.pin(memoryview(data)) == data.ctypes.data + MAPPED
    assert cuda.named("cuMemHostRegister") == [[data.ctypes.data, 16, 3]]


def test_a_full_device_is_trimmed_and_tried_again(driver: Any, cuda: FakeBindings) -> None:
    cuda.fails["cuMemAllocFromPoolAsync"] = CUresult.CUDA_ERROR_OUT_OF_MEMORY
    with pytest.raises(OutOfDeviceMemoryError) as refusal:
        driver.allocate(77, 1)
    assert refusal.value.args == (77, TOTAL_BYTES // 2 + 2000, TOTAL_BYTES)
    # Rather than refuse, it waits for streams that have freed memory.
    assert [
        call
        for call in cuda.calls[-9:]
        if call[0].startswith(("cuMemAlloc", "cuMemPoolS", "cuMemPoolT"))
    ] == [
        ("cuMemAllocFromPoolAsync", 77, POOL, 1),
        ("cuMemPoolTrimTo", POOL, 0),
        ("cuMemPoolSetAttribute", POOL, 3, 1),
        ("cuMemAllocFromPoolAsync", 77, POOL, 1),
        ("cuMemPoolSetAttribute", POOL, 3, 0),
    ]


def test_a_kernel_gets_addresses(driver: Any, cuda: FakeBindings) -> None:
    (kernel,) = driver.load(b"ptx", ["k"])
    first, second = driver.allocate(6, 1), driver.allocate(6, 1)
    driver.upload(first, memoryview(b"abcdef"), 1)
    driver.enqueue(KernelLaunch(kernel, 2, 3, 0, [first, second]), 1)
    assert ctypes.string_at(second, 6) == b"abcdef"
    ((function, *launch, _, extra),) = cuda.named("cuLaunchKernel")
    assert (function, launch, extra) == (FUNCTION, [2, 1, 1, 3, 1, 1, 0, 1], 0)
    assert cuda.named("cuModuleGetFunction") == [[MODULE, b"k"]]
    assert cuda.named("cuFuncLoad") == [[FUNCTION]]


def test_much_shared_memory_is_asked_for_once(driver: Any, cuda: FakeBindings) -> None:
    (kernel,) = driver.load(b"ptx", ["k"])
    addresses = [driver.allocate(1, 1), driver.allocate(1, 1)]
    for shared in (48 << 10, 64 << 10, 64 << 10, 50 << 10):
        driver.enqueue(KernelLaunch(kernel, 1, 1, shared, addresses), 1)
    assert cuda.named("cuFuncSetAttribute") == [[FUNCTION, 8, 64 << 10]]


def test_a_stream_waits_for_an_event_of_another(driver: Any, cuda: FakeBindings) -> None:
    event = driver.record(98)
    driver.wait_for(event, 99)
    del event
    gc.collect()
    assert cuda.calls[-4:] == [
        ("cuEventCreate", cuda.CUevent_flags.CU_EVENT_DISABLE_TIMING),
        ("cuEventRecord", EVENT, 98),
        ("cuStreamWaitEvent", 99, EVENT, 0),
        ("cuEventDestroy", EVENT),
    ]


def test_a_module_is_unloaded_with_its_last_kernel(driver: Any, cuda: FakeBindings) -> None:
    first, second = driver.load(b"ptx", ["a", "b"])
    del first
    gc.collect()
    assert cuda.named("cuModuleUnload") == []
    del second
    gc.collect()
    assert cuda.named("cuModuleUnload") == [[MODULE]]


def test_a_module_that_does_not_load_is_reported_with_the_compilers_words(
    driver: Any, cuda: FakeBindings
) -> None:
    cuda.fails["cuModuleLoadData"] = CUresult.CUDA_ERROR_INVALID_PTX
    with pytest.raises(CudaError, match="CUDA_ERROR_INVALID_PTX: ptxas: line 3"):
        driver.load(b"ptx", ["k"])


def test_the_context_is_current_in_each_thread_that_asks(driver: Any, cuda: FakeBindings) -> None:
    driver.make_current()
    assert cuda.named("cuCtxSetCurrent") == [[CONTEXT], [CONTEXT]]


def test_errors_that_leave_the_process_unusable_lose_the_device() -> None:
    assert checked("f", (CUresult.CUDA_SUCCESS, 1, 2)) == (1, 2)
    with pytest.raises(DeviceLostError, match="f: CUDA_ERROR_ILLEGAL_ADDRESS"):
        checked("f", (CUresult.CUDA_ERROR_ILLEGAL_ADDRESS,))
    with pytest.raises(CudaError, match="f: CUDA_ERROR_INVALID_VALUE"):
        checked("f", (CUresult.CUDA_ERROR_INVALID_VALUE,))
