"""What LLVM is asked to do."""

import gc
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from xla_server.codegen.compiler.kernel_compiler import Effort, object_of_module
from xla_server.codegen.compiler.llvm_text import ModuleText

LOOP = """define void @sum(ptr %place, i64 %count) {
entry:
  br label %body
body:
  %i = phi i64 [0, %entry], [%next, %body]
  %where = getelementptr i64, ptr %place, i64 %i
  store i64 %i, ptr %where
  %next = add nsw i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %body, label %after
after:
  ret void
}
"""


def test_no_registers_are_looked_for_that_make_addresses() -> None:
    llvm.set_time_passes(True)
    try:
        object_of_module(ModuleText(LOOP))
        done = llvm.report_and_reset_timings()
    finally:
        llvm.set_time_passes(False)
    assert "Instruction Selection" in done
    assert "Loop Strength Reduction" not in done


def _resident_kib() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4


@pytest.mark.parametrize("effort", [Effort.PLAIN, Effort.OPTIMISED])
def test_compiling_leaves_no_memory_behind(effort: Effort) -> None:
    """llvmlite does not free passes: 84 KiB of them were left each time."""
    for _ in range(10):
        object_of_module(ModuleText(LOOP), effort)
    before = _resident_kib()
    for _ in range(150):
        object_of_module(ModuleText(LOOP), effort)
    assert _resident_kib() - before < 150 * 20
