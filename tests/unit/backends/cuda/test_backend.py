"""Programs of the platform, on workers whose device is memory of the host."""

import collections
import contextlib
import os
import re
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.corpus.hlo_text import VECTOR_LOOP
from tests.in_threads import in_threads
from tests.unit.backends.cuda.platforms import WORKER, execute, executed, fake_platform
from tests.unit.backends.cuda.worker.fake_driver import TOTAL_BYTES
from xla_contract.errors import (
    CancelledError,
    InvalidArgumentError,
    ResourceExhaustedError,
    UnavailableError,
)
from xla_contract.types.literal import Literal
from xla_server.backends.compile_options import CompileOptions, DumpOptions
from xla_server.backends.cuda import backend
from xla_server.backends.cuda.backend import Cuda
from xla_server.backends.cuda.buffers import CudaBuffer
from xla_server.backends.cuda.program import CudaProgram
from xla_server.backends.cuda.worker.supervisor.launched_run import LaunchedRun
from xla_server.backends.cuda.worker.supervisor.process import LoadedDeviceProgram
from xla_server.backends.diagnostics.dump_directory import DumpDirectory
from xla_server.backends.host_buffer import HostBuffer
from xla_server.codegen.gpu.emit.assembler import Assembler
from xla_server.execution.cancellation import Cancellation
from xla_server.ir.text.parser import parse_module

X = np.arange(4, dtype=np.float32)
SIZED = """HloModule sized
ENTRY e {
  x = f32[<=4] parameter(0)
  y = f32[4] constant({1, 2, 3, 4})
  n = s32[] get-dimension-size(x), dimensions={0}
  z = f32[<=4] set-dimension-size(y, n), dimensions={0}
  ROOT r = f32[<=4] add(x, z)
}
"""
STEP = """HloModule step
ENTRY e {
  x = f32[4] parameter(0)
  one = f32[] constant(1)
  ones = f32[4] broadcast(one), dimensions={}
  ROOT r = f32[4] add(x, ones)
}
"""
SORTED = """HloModule sorted
more {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT l = pred[] compare(a, b), direction=GT
}
ENTRY e {
  x = f32[4] parameter(0)
  c = f32[4] constant({1, 2, 3, 4})
  sort.3 = f32[4] sort(x), dimensions={0}, to_apply=more
  ROOT t = (f32[4], f32[4], f32[4]) tuple(sort.3, c, x)
}
"""
FED = """HloModule fed
ENTRY e {
  t = token[] after-all()
  i = (f32[4], token[]) infeed(t)
  ROOT x = f32[4] get-tuple-element(i), index=0
}
"""


@pytest.fixture(scope="module")
def platform() -> Iterator[Cuda]:
    made = fake_platform(2)
    yield made
    made.close()


def placed(platform: Cuda, array: Any, device: int = 0) -> CudaBuffer:
    return platform.to_device(Literal.from_numpy(array), platform.devices[device])


def test_loops_run_and_results_are_on_the_device(platform: Cuda) -> None:
    output = executed(platform, VECTOR_LOOP, [placed(platform, X)])
    assert output.memory is not None
    np.testing.assert_array_equal(output.to_literal().value, [-48, -40, -32, -24])


def test_programs_of_dynamic_shape_are_walked_with_programs_of_static_shape(
    platform: Cuda,
) -> None:
    argument = placed(platform, X[:3])
    sized = platform.buffers.from_value(
        argument.value, parse_module(SIZED).entry.parameters[0].shape, platform.devices[0]
    )
    output = executed(platform, SIZED, [sized])
    np.testing.assert_array_equal(output.value, X[:3] + np.float32([1, 2, 3]))


def test_results_may_be_constants_and_arguments_on_any_device(platform: Cuda) -> None:
    """An argument on another device is copied there."""
    argument = placed(platform, X)
    for device in (0, 1):
        output = executed(platform, SORTED, [argument], device)
        found = [part.to_literal().value for part in output.elements]
        np.testing.assert_array_equal(found, [X[::-1], [1, 2, 3, 4], X])
        assert {part.device for part in output.elements} == {platform.devices[device]}
        assert {part.address.worker.ordinal for part in output.elements} == {device}


@pytest.mark.parametrize("device", [0, 1])
def test_a_result_has_the_memory_of_a_donated_argument_of_its_device(
    platform: Cuda, device: int
) -> None:
    argument = placed(platform, X)
    address = argument.address.address
    output = executed(platform, STEP, [argument], device, donated=[0])
    assert device or output.address.address == address
    np.testing.assert_array_equal(output.to_literal().value, X + 1)
    with pytest.raises(InvalidArgumentError, match="donated"):
        argument.to_literal()


@pytest.mark.parametrize(("text", "donated"), [(STEP, []), (STEP, [0]), (SORTED, [])])
def test_launched_results_belong_to_their_run(
    platform: Cuda, monkeypatch: pytest.MonkeyPatch, text: str, donated: list[int]
) -> None:
    run, by = LoadedDeviceProgram.run, LaunchedRun(1, collections.deque())
    given: list[CudaBuffer] = []

    def launch(self: LoadedDeviceProgram, *rest: Any) -> tuple[None, int]:
        *others, launched = rest
        results, nanoseconds = run(self, *others)
        assert results is not None
        launched(results, by)
        return None, nanoseconds

    monkeypatch.setattr(LoadedDeviceProgram, "run", launch)
    argument = placed(platform, X)
    output = executed(platform, text, [argument], donated=donated, launched=given.append)
    assert given == [output]
    parts = output.elements or (output,)
    # The worker's end sets errors of new results, and here of those that are arguments.
    reported = [part.address.run for part in parts]
    assert reported == {1: [by if donated else None], 3: [None, None, by]}[len(parts)]
    by.end()
    expected = [X + 1] if text == STEP else [X[::-1], [1, 2, 3, 4], X]
    np.testing.assert_array_equal([part.to_literal().value for part in parts], expected)


def test_arguments_of_other_platforms_are_refused(platform: Cuda) -> None:
    other = HostBuffer.of_literal(Literal.from_numpy(X), platform.devices[0])
    with pytest.raises(InvalidArgumentError, match="must be on the program's platform"):
        executed(platform, STEP, [other])  # type: ignore[list-item]


def test_what_does_not_fit_into_a_device_is_refused_before_it_is_compiled(
    platform: Cuda,
) -> None:
    size = TOTAL_BYTES // 16
    text = STEP.replace("f32[4]", f"f32[{size}]")
    quarter = fake_platform(memory_fraction=1 / 4)
    module = parse_module(text)
    assert platform.compile(module, module.entry_program_shape).memory.peak == TOTAL_BYTES // 2
    with pytest.raises(ResourceExhaustedError, match=f"device's {TOTAL_BYTES // 4} bytes"):
        quarter.compile(module, module.entry_program_shape)
    quarter.close()


def test_a_cancelled_run_says_so_and_the_platform_goes_on(platform: Cuda) -> None:
    cancellation = Cancellation()

    class Feeds:
        """Feeds that are empty until the run is cancelled."""

        def next_infeed(self, *_: Any, **__: Any) -> Any:
            cancellation.cancel()
            cancellation.check()

        def __getattr__(self, name: str) -> Any:
            return self.next_infeed

    with pytest.raises(CancelledError):
        executed(platform, FED, [], feeds=Feeds(), cancellation=cancellation)
    output = executed(platform, STEP, [placed(platform, X)])
    np.testing.assert_array_equal(output.to_literal().value, X + 1)


def test_runs_at_the_same_time_do_not_disturb_each_other(platform: Cuda) -> None:
    def run(number: int) -> None:
        for _ in range(5):
            output = executed(platform, STEP, [placed(platform, X + number)], number % 2)
            np.testing.assert_array_equal(output.to_literal().value, X + number + 1)

    in_threads(run, range(4))


def test_a_lost_worker_is_replaced_and_programs_run_again() -> None:
    platform = fake_platform(2)
    lost, kept = placed(platform, X), placed(platform, X, 1)
    module = parse_module(STEP)
    executable = platform.compile(module, module.entry_program_shape)
    os.kill(platform._workers[0].process().process_id, signal.SIGKILL)
    with pytest.raises(UnavailableError, match=r"worker of device 0 .* incident"):
        executed(platform, STEP, [lost])
    np.testing.assert_array_equal(kept.to_literal().value, X)
    output = executed(platform, STEP, [placed(platform, X)])
    np.testing.assert_array_equal(output.to_literal().value, X + 1)
    assert executable.memory.peak == 32
    platform.close()


def test_programs_compile_while_the_first_device_is_lost(
    platform: Cuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> None:
        raise UnavailableError("device 0 must be there, got none")

    monkeypatch.setattr(platform._workers[0], "load", lost)
    text = STEP.replace("f32[4]", "f32[5]")
    five = np.arange(5, dtype=np.float32)
    output = executed(platform, text, [placed(platform, five, 1)], 1)
    np.testing.assert_array_equal(output.to_literal().value, five + 1)
    with pytest.raises(UnavailableError, match="device 0 must be there"):
        executed(platform, text, [placed(platform, five)])


def test_a_dump_says_what_goes_through_the_host(tmp_path: Path) -> None:
    platform = fake_platform(1, dumps=DumpDirectory(tmp_path))
    module = parse_module(SORTED)
    options = CompileOptions(dump=DumpOptions("it"), is_profiled=True)
    executable = platform.compile(module, module.entry_program_shape, options=options)
    [places] = tmp_path.rglob("places.txt")
    lines = places.read_text().splitlines()
    counts = "in all: 0 launches, 0 operations, 0 bytes"
    assert lines[:3] == ["on the device: nothing", counts, "steps through the host: 1"]
    assert re.fullmatch(r"0 +through the host +%sort\.3 \(sort\), 1 kernel", lines[-1])
    output = execute(platform, executable, [placed(platform, X)])
    np.testing.assert_array_equal(output.elements[0].to_literal().value, X[::-1])
    [profile] = tmp_path.rglob("profile_0001.txt")
    text = profile.read_text()
    assert "through the host: %sort.3 (sort), 1 kernel" in text
    assert "on the device: nothing" in text
    platform.close()


def test_equal_programs_are_one(platform: Cuda) -> None:
    module = parse_module(STEP)
    found = [platform.compile(module, module.entry_program_shape) for _ in range(2)]
    first, second = (each._program for each in found)  # type: ignore[union-attr]
    assert isinstance(first, CudaProgram)
    assert first is second


def test_machine_code_is_that_of_the_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []

    def find_assembler(architectures: Iterable[str]) -> Assembler:
        found.extend(architectures)
        return Assembler(missing="it is not there")

    monkeypatch.setattr(backend, "find_assembler", find_assembler)
    with contextlib.closing(Cuda(2, worker_command=WORKER, threads=1)):
        assert found == ["sm_90", "sm_90"]
