"""Profiles of programs of dynamic shape: their programs' thunks, and the steps between."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.conformance.examples import ADD, Example
from tests.unit.backends.compiled.test_dynamic_executable import executed, module_of
from tests.unit.evaluator.test_dynamic_shapes import LINE, zero
from xla_client import Op, ops
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.literal import Literal
from xla_server.backends.compile_options import CompileOptions, DumpOptions
from xla_server.backends.compiled.cpu import Cpu
from xla_server.backends.diagnostics import interpreter_times
from xla_server.backends.diagnostics.dump_directory import DumpDirectory
from xla_server.backends.diagnostics.interpreter_times import InterpreterTimes
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.passes.framework.selection import PassOptions


def in_two(c: Example) -> Op:
    """Build a computation whose value decides about sizes, so it becomes two programs."""
    line = c(LINE)
    size = ops.convert_element_type(ops.reduce_all(line, zero(c), ADD) / 7.0, E.S32)
    return ops.neg(ops.set_dimension_size(line * 2.0, size, 0))


def test_a_profile_has_the_thunks_of_all_programs_in_order(tmp_path: Path) -> None:
    platform = Cpu(threads=1, dumps=DumpDirectory(tmp_path))
    module, arguments = module_of(in_two)
    options = CompileOptions(PassOptions(), DumpOptions("d"), is_profiled=True)
    executable = platform.compile(module, module.entry_program_shape, options=options)
    plain = executed(platform.compile(module, module.entry_program_shape), arguments)
    for _ in range(2):
        np.testing.assert_array_equal(executed(executable, arguments), plain)
    (table,) = tmp_path.rglob("profile_0002.txt")
    head, _, names, *lines = table.read_text().splitlines()
    assert names.split() == ["ns", "share", "runs", "ns/run", "thunk", "what", "instruction"]
    assert int(head.split()[0]) == sum(int(line.split()[0]) for line in lines) > 0
    thunks = [line.split()[4] for line in lines]
    assert {thunk.partition(":")[0] for thunk in thunks} == {"walk", "program_001", "program_002"}
    (trace,) = tmp_path.rglob("profile_0002.json")
    events: list[dict[str, Any]] = json.loads(trace.read_text())["traceEvents"]
    starts = [event["ts"] for event in events]
    assert starts == sorted(starts)
    kernels = [event for event in events if event["cat"] == "kernel"]
    order = [event["args"]["thunk"].partition(":")[0] for event in kernels]
    assert set(order) == {"program_001", "program_002"}
    assert order == sorted(order)
    for run in (event for event in events if event["cat"] == "run"):
        inside = [e for e in kernels if run["ts"] <= e["ts"] < run["ts"] + run["dur"]]
        assert inside
        assert {e["args"]["thunk"].partition(":")[0] for e in inside} == {run["name"].split()[1]}


def test_an_execution_has_real_figures() -> None:
    platform = Cpu(threads=1)
    module, arguments = module_of(in_two)
    executable = platform.compile(module, module.entry_program_shape)
    device = platform.devices[0]
    placed = [
        platform.to_device(Literal.from_numpy(value, shape), device)
        for value, shape in zip(arguments, executable.program_shape.parameters, strict=True)
    ]
    profile = executable.execute(
        placed,
        device=device,
        options=ExecuteOptions(),
    ).profile
    assert 0 < profile.compute_time_ns <= profile.compute_and_transfer_time_ns
    assert profile.compute_cycle_count > 0
    # Two programs of a kernel or more each.
    assert profile.executable_size_in_bytes > 1000


def test_what_is_inside_of_a_step_counts_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0]
    monkeypatch.setattr(interpreter_times, "time", SimpleNamespace(monotonic_ns=lambda: clock[0]))
    times = InterpreterTimes()
    with times.step("outer", "", "step"):
        clock[0] += 5_000_000
        with times.step("inner", "", "step"):
            clock[0] += 30_000_000
        with times.step("inner", "", "step"):
            clock[0] += 30_000_000
    outer, inner = times.measured().timed
    assert (outer.what, inner.what) == ("outer", "inner")
    assert (outer.count, inner.count) == (1, 2)
    assert (outer.time, inner.time) == (5_000_000, 60_000_000)
    (first, *_) = sorted(times.measured().events, key=lambda event: event.start)
    assert first.timed is outer
    assert first.stop - first.start >= inner.time
