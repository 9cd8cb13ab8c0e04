"""Figures, dumps and faults of the cpu platform."""

import json
import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.corpus.hlo_text import VECTOR_LOOP
from xla_contract.errors import InternalError, InvalidArgumentError, ResourceExhaustedError
from xla_contract.types.literal import Literal
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.backends.compile_options import CompileOptions, DumpFormat, DumpOptions, Pattern
from xla_server.backends.compiled.cpu import Cpu
from xla_server.backends.diagnostics.dump_directory import DumpDirectory
from xla_server.backends.diagnostics.incidents import Incidents
from xla_server.backends.platform import Execution, Profile
from xla_server.buffers.code import KernelThunk
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.routine import Routine
from xla_server.codegen.kernel_ir.statements import Call
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.lower.lowerings import LOWERINGS
from xla_server.execution import memory_check
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.module import HloInstruction
from xla_server.ir.text.parser import parse_module
from xla_server.passes.framework.selection import PassOptions

SUM = """HloModule sums
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}
ENTRY e {
  x = f32[1000] parameter(0)
  t = f32[1000] constant(%s)
  m = f32[1000] multiply(x, t)
  z = f32[] constant(0)
  s = f32[1000] sort(m), dimensions={0}, to_apply=less
  ROOT r = f32[] reduce(s, z), dimensions={0}, to_apply=add
}
"""
SUM = SUM.replace(
    "ENTRY",
    """less {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT l = pred[] compare(p, q), direction=LT
}
ENTRY""",
) % ("{" + ", ".join(map(str, range(1000))) + "}")


def execute(platform: Cpu, text: str, arguments: Sequence[Any], options: Any = None) -> Execution:
    module = parse_module(text)
    chosen = options or CompileOptions()
    executable = platform.compile(module, module.entry_program_shape, options=chosen)
    device = platform.devices[0]
    return executable.execute(
        [platform.to_device(Literal.from_numpy(argument), device) for argument in arguments],
        device=device,
        options=ExecuteOptions(),
    )


def test_a_profile_has_real_figures() -> None:
    profile: Profile = execute(Cpu(threads=1), SUM, [np.ones(1000, np.float32)]).profile
    assert 0 < profile.compute_time_ns <= profile.compute_and_transfer_time_ns
    assert profile.compute_cycle_count > 0
    # The table of constants and at least two kernels of some hundred bytes each.
    assert profile.executable_size_in_bytes > 4000 + 500


def test_without_its_helpers_a_platform_still_executes() -> None:
    platform = Cpu(threads=3)
    # Those of other platforms, and of other tests, come and go.
    before = set(threading.enumerate())
    execute(platform, SUM, [np.ones(1000, np.float32)])
    helpers = [
        thread
        for thread in threading.enumerate()
        if thread not in before and thread.name.startswith("kernels-")
    ]
    assert len(helpers) == 2
    platform.close()
    assert not any(thread.is_alive() for thread in helpers)
    execute(platform, SUM, [np.ones(1000, np.float32)])


def test_peak_memory_is_known_before_anything_runs() -> None:
    platform = Cpu(threads=1)
    module = parse_module(SUM)
    use = platform.compile(module, module.entry_program_shape).memory
    assert (use.parameters, use.results, use.copies) == (4000, 4, 0)
    assert use.constants >= 4000
    assert use.arena >= 4000
    assert use.peak == use.parameters + use.constants + use.arena + use.results
    assert use.added == use.peak - use.parameters


def test_arguments_that_lie_otherwise_are_counted_twice() -> None:
    text = "HloModule m\nENTRY e { ROOT x = f32[3,5] parameter(0) }"
    module = parse_module(text)
    shape = module.entry_program_shape
    turned = type(shape)((Shape.parse("f32[3,5]{0,1}"),), shape.result, shape.parameter_names)
    platform = Cpu(threads=1)
    assert platform.compile(module, turned).memory.copies == 60
    assert platform.compile(module, shape).memory.copies == 0


def test_what_cannot_fit_is_refused_when_compiled_with_the_figures() -> None:
    module = parse_module(SUM)
    shape = module.entry_program_shape
    peak = Cpu(threads=1).compile(module, shape).memory.peak
    assert Cpu(threads=1, max_value_bytes=peak).compile(module, shape)
    with pytest.raises(ResourceExhaustedError) as caught:
        Cpu(threads=1, max_value_bytes=peak - 1).compile(module, shape)
    assert f"{peak - 1} bytes of memory, got {peak} bytes at once" in caught.value.message
    assert "4000 of arguments" in caught.value.message


def test_memory_that_is_not_there_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    size = memory_check.LARGE // 4
    text = f"HloModule m\nENTRY e {{ x = f32[] parameter(0) ROOT r = f32[{size}] broadcast(x) }}"
    text = text.replace("broadcast(x)", "broadcast(x), dimensions={}")
    execute(Cpu(threads=1), text, [np.float32(1)])
    monkeypatch.setattr(
        memory_check, "free_memory", lambda: memory_check.RESERVE + memory_check.LARGE - 1
    )
    with pytest.raises(ResourceExhaustedError, match=f"{memory_check.LARGE} of results"):
        execute(Cpu(threads=1), text, [np.float32(1)])


def test_a_dump_holds_what_was_asked_for(tmp_path: Path) -> None:
    platform = Cpu(threads=1, dumps=DumpDirectory(tmp_path))
    dump = DumpOptions("d", frozenset(DumpFormat), Pattern("^loop-fusion$"))
    execute(platform, VECTOR_LOOP, [np.zeros(4, np.float32)], CompileOptions(dump=dump))
    (directory,) = (tmp_path / "d").iterdir()
    assert directory.name == "module_0001.loop"
    names = sorted(path.name for path in directory.iterdir())
    stages = ("00.input", "01.before_loop-fusion", "02.loop-fusion", "03.optimised")
    expected = [f"module_{stage}.{kind}" for stage in stages for kind in DumpFormat]
    kernels = [name for name in names if name.startswith("kernel_")]
    assert kernels
    assert names == sorted([*expected, *kernels, "buffers.txt"])
    for path in directory.glob("module_*.txt"):
        parse_module(path.read_text())


def test_a_profile_is_a_table_and_a_trace_of_each_execution(tmp_path: Path) -> None:
    platform = Cpu(threads=1, dumps=DumpDirectory(tmp_path))
    options = CompileOptions(PassOptions(level=0), DumpOptions("d"), is_profiled=True)
    # Too long for the loop to be one kernel.
    long = VECTOR_LOOP.replace("f32[4]", "f32[64]")
    execute(platform, long, [np.zeros(64, np.float32)], options)
    (table,) = tmp_path.rglob("profile_0001.txt")
    head, _, names, first, *_ = table.read_text().splitlines()
    assert head.split()[1:3] == ["ns", "in"]
    assert names.split() == ["ns", "share", "runs", "ns/run", "thunk", "what", "instruction"]
    assert first.split()[1].endswith("%")
    (trace,) = tmp_path.rglob("profile_0001.json")
    events = json.loads(trace.read_text())["traceEvents"]
    assert {event["ph"] for event in events} == {"X"}
    starts = [event["ts"] for event in events]
    assert starts == sorted(starts)
    assert any(event["name"].startswith("add %") for event in events)
    assert {"branch", "jump", "kernel"} <= {event["cat"] for event in events}
    kernels = [event for event in events if event["cat"] == "kernel"]
    assert len(kernels) > len({event["args"]["thunk"] for event in kernels}), (
        "the loop's, each trip"
    )


def test_a_profile_without_a_dump_has_no_directory() -> None:
    with pytest.raises(InvalidArgumentError, match="xla_hlo_profile must come with"):
        execute(Cpu(threads=1), VECTOR_LOOP, [], CompileOptions(is_profiled=True))


def test_passes_are_chosen_by_name() -> None:
    options = CompileOptions(PassOptions(frozenset({"scan-expander"})))
    with pytest.raises(InvalidArgumentError, match="scan-expander"):
        execute(Cpu(threads=1), VECTOR_LOOP, [], options)


def broken(lowering: Lowering, i: HloInstruction) -> Tree:
    """A lowering whose kernel names what there is not."""
    result = lowering.new(i.shape, i.name)
    kernel = Kernel((), (), (Call(Routine("no_such_instruction", ()), ()),))
    lowering.add(KernelThunk(i.name, kernel, 1, 1, (result,), (), (result,)))
    return result


def failing(lowering: Lowering, i: HloInstruction) -> Tree:
    """A lowering with a fault."""
    raise KeyError("/etc/secret")


FAULTS = {"sort %s: a kernel must compile": broken, "a program must compile": failing}


@pytest.mark.parametrize("message", FAULTS)
def test_what_the_compiler_fails_on_is_an_incident_with_a_reproducer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, message: str
) -> None:
    lower = FAULTS[message]
    platform = Cpu(
        threads=1, incidents=Incidents(tmp_path), lowerings={**LOWERINGS, Opcode.SORT: lower}
    )
    with caplog.at_level(logging.ERROR), pytest.raises(InternalError) as caught:
        execute(platform, SUM, [np.ones(1000, np.float32)])
    error = caught.value
    assert error.message.startswith(message)
    assert error.incident
    assert f"incident {error.incident}" in error.message
    assert str(tmp_path) not in error.message
    assert "secret" not in error.message
    directory = tmp_path / f"incident_{error.incident}"
    assert error.incident in caplog.text
    assert str(directory) in caplog.text
    assert parse_module((directory / "module.txt").read_text()).name == "sums"
    assert (directory / "module.pb").stat().st_size
    traceback = (directory / "traceback.txt").read_text()
    assert error.incident in traceback
    if lower is broken:
        assert (error.op, error.instruction) == ("sort", "s")
        assert "no_such_instruction" in (directory / "kernel.py").read_text()
        assert "NameError" in traceback or "no_such_instruction" in traceback
    else:
        assert "/etc/secret" in traceback


def test_what_all_programs_run_on_is_there_before_the_first(tmp_path: Path) -> None:
    Cpu(compilation_cache_dir=str(tmp_path))
    assert len(list(tmp_path.glob("*.kernel"))) == 1
