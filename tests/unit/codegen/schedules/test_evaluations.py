"""The static count of evaluations against the kernels' text, executed with functions that count."""

import collections
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.processors import TARGET
from tests.unit.passes.passing import stated
from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.code import KernelThunk
from xla_server.codegen.schedules.builders.launches.chunks import chunk_of
from xla_server.ir.module import HloModule

_INTEGERS: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "minimum": min,
    "maximum": max,
    "whole_div": lambda a, b: a // b,
    "whole_mod": lambda a, b: a % b,
    "i64": int,
}


class _Counting(dict[str, Any]):
    """A namespace where every function of kernels counts its calls; those of indices compute."""

    def __init__(self) -> None:
        super().__init__({"range": range})
        self.calls: collections.Counter[str] = collections.Counter()

    def __missing__(self, name: str) -> Callable[..., int]:
        compute = _INTEGERS.get(name, lambda *_: 1)

        def counted(*arguments: Any) -> Any:
            self.calls[name] += 1
            return compute(*arguments)

        return counted


def exponentials(thunk: KernelThunk) -> int:
    """Execute a kernel in the chunks that a launch is cut into; how often it calls exp."""
    namespace = _Counting()
    exec(compile(thunk.source, thunk.name, "exec"), namespace)
    chunk = chunk_of(thunk.work_items, thunk.work, thunk.prologue, TARGET.tuning.loops.chunks)
    for start in range(0, thunk.work_items, chunk):
        namespace["kernel"](0, start, min(start + chunk, thunk.work_items))
    return sum(n for name, n in namespace.calls.items() if re.match(r"(called_)?exp", name))


PROGRAMS: dict[str, tuple[list[str], str, tuple[str, ...]]] = {
    "elementwise": (["f32[60,70]"], "f32[60,70] exponential(x0)", ()),
    "once for a launch": (
        ["f32[]", "f32[700,300]"],
        "f32[700,300] multiply(x1, b)",
        ("e = f32[] exponential(x0)", "b = f32[700,300] broadcast(e), dimensions={}"),
    ),
    "rows that are read twice": (
        ["f32[64,1000]"],
        "f32[64,1000] divide(e, b)",
        (
            "e = f32[64,1000] exponential(x0)",
            "zero = f32[] constant(0)",
            "s = f32[64] reduce(e, zero), dimensions={1}, to_apply=add",
            "b = f32[64,1000] broadcast(s), dimensions={0}",
        ),
    ),
    "a long sum": (
        ["f32[70001]"],
        "f32[] reduce(e, zero), dimensions={0}, to_apply=add",
        ("e = f32[70001] exponential(x0)", "zero = f32[] constant(0)"),
    ),
    "sums of columns in blocks": (
        ["f32[150,1100]"],
        "f32[1100] reduce(e, zero), dimensions={0}, to_apply=add",
        ("e = f32[150,1100] exponential(x0)", "zero = f32[] constant(0)"),
    ),
    "short rows": (
        ["f32[200,10]"],
        "f32[200,10] add(x0, b)",
        (
            "zero = f32[] constant(0)",
            "s = f32[200] reduce(x0, zero), dimensions={1}, to_apply=add",
            "e = f32[200] exponential(s)",
            "b = f32[200,10] broadcast(e), dimensions={0}",
        ),
    ),
    "edges": (
        ["f32[60,50]"],
        "f32[64,60] pad(e, zero), padding=1_3x5_5",
        ("e = f32[60,50] exponential(x0)", "zero = f32[] constant(0)"),
    ),
    "windows that overlap": (
        ["f32[40,2000]"],
        "f32[40,1998] reduce-window(e, zero), window={size=1x3}, to_apply=add",
        ("e = f32[40,2000] exponential(x0)", "zero = f32[] constant(0)"),
    ),
}


def program(name: str) -> HloModule:
    parameters, root, before = PROGRAMS[name]
    return stated(parameters, root, *before)


@pytest.mark.parametrize("name", PROGRAMS)
def test_evaluations_are_counted_as_they_are_executed(name: str) -> None:
    compilation = compile_module(program(name))
    thunks = [thunk for thunk in compilation.code.thunks if isinstance(thunk, KernelThunk)]
    executed = sum(map(exponentials, thunks))
    assert executed > 0
    assert compilation.work.done.cost.transcendentals == pytest.approx(executed)
