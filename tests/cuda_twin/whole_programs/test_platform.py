"""Whole programs on the platform `cuda`, whose devices are the twin, beside the interpreter.

`make test` takes a slice, and `make test-cuda-simulated` all that is checked on a GPU.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pytest

from tests.conformance import oracle, test_on_cpu
from tests.conformance.sweep.draws.depth import FULL
from tests.cuda.checks.fault_checks import ENDLESS, ENDLESS_KERNEL, LONG_KERNEL, FaultChecks
from tests.cuda.checks.outcomes import Status, outcomes
from tests.cuda.checks.platform_checks import GROUPS, Sides
from tests.cuda.programs import of_corpus
from tests.cuda_twin.device.platform import shared_platform, twin_platform
from tests.cuda_twin.device.toolchain import HostToolchain
from tests.operations_page.probes import PROBES
from tests.operations_page.probing import Runner, accepted
from tests.operations_page.test_page import SAMPLE
from tests.unit.codegen.compiled import built, on_platform
from tests.unit.sessions.runs.test_background_executions import fetched, launch, output, waited
from tests.unit.sessions.sample_runs import DOUBLE, ONES, argument_of, compiled, value
from xla_contract.types.opcode import Opcode
from xla_server.backends.cuda.backend import Cuda
from xla_server.backends.cuda.buffers import CudaBuffer
from xla_server.backends.platform import Buffer
from xla_server.codegen.gpu.emit.device_module import DeviceModule
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.rpc.threads.thread_pool import ThreadPool
from xla_server.sessions.limits.server_limits import Limits
from xla_server.sessions.session import Session
from xla_server.sessions.shared_resources import SharedResources
from xla_server.sessions.values.futures import ValueFuture

CHOSEN = tuple(GROUPS) if FULL else ("golden", "hlo")


@pytest.mark.parametrize("group", CHOSEN)
def test_programs_give_the_interpreters_results(group: str) -> None:
    found = list(outcomes(GROUPS[group](Sides(shared_platform()))))
    assert found
    assert [each for each in found if each.status is not Status.OK] == []


@pytest.mark.parametrize("check", test_on_cpu.CHECKS, ids=lambda check: check.__name__)
def test_gives_xlas_numbers(check: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "PLATFORM", "cuda-twin")
    check()


@pytest.mark.parametrize("opcode", PROBES if FULL else SAMPLE, ids=str)
def test_every_operation_runs_on_every_type(opcode: Opcode) -> None:
    runner = Runner(shared_platform())
    probe = PROBES[opcode]
    assert runner.refused(accepted(opcode, probe.program, probe.before).programs) == []


@pytest.fixture(scope="module")
def late() -> Iterator[Cuda]:
    """A device that does its work late."""
    with contextlib.closing(twin_platform(device="DelayedTwin")) as platform:
        yield platform


def test_nothing_is_read_before_it_is_there(late: Cuda) -> None:
    """A device that does its work late gives the results of one that does it at once."""
    for name, make in of_corpus("golden"):
        module, arguments = make()
        found = on_platform(late, module, arguments)
        expected = on_platform(shared_platform(), module, arguments)
        for one, other in zip(found, expected, strict=True):
            assert one.tobytes() == other.tobytes(), name


@pytest.mark.parametrize("donate", [False, True])
def test_launched_executions_are_enqueued_behind_each_other(
    late: Cuda, monkeypatch: pytest.MonkeyPatch, donate: bool
) -> None:
    service = Session(SharedResources(late, Limits(1 << 20), ThreadPool(8, "execution")))
    launched, launch_value = list[int](), service.data.launch

    def noted(handle: int, pending: ValueFuture, buffer: Buffer) -> None:
        assert isinstance(buffer, CudaBuffer)
        launched.append(buffer.address.address)
        launch_value(handle, pending, buffer)

    monkeypatch.setattr(service.data, "launch", noted)
    double, count = compiled(service, DOUBLE), 60
    execution = launch(service, double, value(ONES))
    for _ in range(count - 1):
        argument = argument_of(output(execution), donate=donate)
        execution = launch(service, double, argument)
    waited(service, execution)
    np.testing.assert_array_equal(fetched(service, output(execution)), 2.0**count * ONES)
    assert len(launched) > count // 2
    # In the memory of the argument, where it is donated.
    assert (len(set(launched)) < len(launched) // 2) == donate
    service.close()
    assert service.engine.close(10)
    assert service.engine.memory.used_bytes == 0


@pytest.mark.parametrize("text", [ENDLESS_KERNEL, LONG_KERNEL])
def test_a_kernel_is_stopped_while_it_runs(text: str) -> None:
    FaultChecks(Sides(shared_platform())).stopped(text, np.int32(1))


def test_a_loop_of_launches_is_stopped_while_it_runs() -> None:
    FaultChecks(Sides(shared_platform())).stopped(ENDLESS, np.ones(4096, np.float32))


def test_kernels_that_the_driver_compiles_are_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compile_ = HostToolchain.compile

    def reported(self: HostToolchain, kernels: Mapping[str, GridKernel]) -> DeviceModule:
        return dataclasses.replace(compile_(self, kernels), compiler="the driver, as it is so")

    monkeypatch.setattr(HostToolchain, "compile", reported)
    with contextlib.closing(twin_platform()) as platform:
        for size in (4, 5):
            on_platform(platform, built(lambda x: -x, [np.ones(size)]), [np.ones(size)])
    assert [record.message for record in caplog.records] == [
        "machine code of kernels is made when a program is loaded, by the driver, as it is so"
    ]
