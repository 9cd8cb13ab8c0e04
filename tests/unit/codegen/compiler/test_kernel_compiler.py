"""Options of the LLVM pipeline."""

import subprocess
import sys

import jax
import llvmlite.binding as llvm
import numpy as np
import pytest

from tests.corpus.jax.programs import lower
from tests.processors import HOST, MACHINES, assembles
from tests.unit.codegen.assembled import optimised
from tests.unit.codegen.compiled import imported
from xla_server.backends.compiled.compilation import compile_module
from xla_server.codegen.compiler.kernel_compiler import object_of_module
from xla_server.codegen.compiler.llvm_text import ModuleText
from xla_server.codegen.kernel import module_of
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.target.target import Target

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
        object_of_module(ModuleText(LOOP), HOST)
        done = llvm.report_and_reset_timings()
    finally:
        llvm.set_time_passes(False)
    assert "Instruction Selection" in done
    assert "Loop Strength Reduction" not in done


@assembles
def test_copies_of_a_long_loop_load_an_element_once() -> None:
    machine = MACHINES["avx512"]
    module = imported(lower(jax.nn.softmax, np.ones((1000, 5), np.float32)))
    (thunk,) = kernels_of(compile_module(module, target=Target.of(machine)).code)
    text = str(module_of(thunk.kernel, "kernel", machine))
    # Those of the loop over the rows that fill no vector.
    assert optimised(text, machine).count(" = load float,") == 5


def branches_between_loads(count: int) -> str:
    """Write a function that loads an element in both arms of a branch, and again `count` later."""
    steps = "".join(
        f"""
step{n}:
  %test{n} = icmp eq i64 %number, {n * n}
  br i1 %test{n}, label %inside{n}, label %step{n + 1}
inside{n}:
  store volatile i64 {n}, ptr %to
  br label %step{n + 1}"""
        for n in range(count)
    )
    arms = "".join(
        f"""
arm{n}:
  store volatile i64 {n}, ptr %to
  %loaded{n} = load i64, ptr %place
  %product{n} = mul i64 %loaded{n}, {n + 3}
  store volatile i64 %product{n}, ptr %to
  br label %step0"""
        for n in range(2)
    )
    return f"""define i64 @f(ptr noalias %place, ptr noalias %to, i1 %first, i64 %number) {{
  br i1 %first, label %arm0, label %arm1{arms}{steps}
step{count}:
  %again = load i64, ptr %place
  ret i64 %again
}}
"""


@pytest.mark.parametrize(("branches", "loads"), [(3, 2), (20, 3)])
def test_earlier_loads_are_looked_for_in_few_blocks(branches: int, loads: int) -> None:
    text = optimised(branches_between_loads(branches), MACHINES["avx512"])
    assert text.count(" = load i64") == loads


_GROWTH = """
import gc, sys
from xla_host import allocator
from xla_server.codegen.compiler.kernel_compiler import object_of_module
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.compiler.llvm_text import ModuleText
from xla_server.target.machine import Machine

def used_bytes():
    gc.collect()
    return allocator.used_bytes()

text, effort, machine = ModuleText(sys.argv[1]), Effort[sys.argv[2]], Machine.host()
for _ in range(10):
    object_of_module(text, machine, effort)
before = used_bytes()
for _ in range(100):
    object_of_module(text, machine, effort)
print(used_bytes() - before)
"""


@pytest.mark.parametrize("effort", [Effort.PLAIN, Effort.OPTIMISED])
def test_compiling_leaves_callbacks_of_passes_alone_behind(effort: Effort) -> None:
    """llvmlite does not free passes: 84 KiB of them were left each time, and 1.5 KiB still are.

    In a process of its own, as threads of other tests take memory and give it back.
    """
    command = [sys.executable, "-c", _GROWTH, LOOP, effort.name]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    assert int(done.stdout) < 100 * 2048


def test_a_refused_module_is_freed_before_its_context() -> None:
    """The error's frames refer to both, and a context frees the modules that it has left."""
    wrong = LOOP.replace("%i = phi i64 [0, %entry], [%next, %body]", "%i = add i64 %next, 1")
    with pytest.raises(RuntimeError, match="dominate") as caught:
        object_of_module(ModuleText(wrong), HOST)
    modules = [each.locals["module"] for each in caught.traceback if "module" in each.locals]
    assert [module.closed for module in modules] == [True]
