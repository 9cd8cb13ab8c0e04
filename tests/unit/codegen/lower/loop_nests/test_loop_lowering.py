"""Loops that single operations and fusions become."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.conformance.examples import ADD
from tests.processors import TARGET
from tests.unit.codegen.compiled import assert_same, both, built
from xla_client import ops
from xla_client.lib import loops
from xla_client.programs.builder import Op
from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.code import KernelThunk
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.lower.lowering import kernels_of, lower
from xla_server.codegen.lower.lowerings import LOWERINGS
from xla_server.ir.text.parser import parse_module


@pytest.mark.parametrize(
    ("second", "is_shared"),
    [
        ("f32[8,6] fusion(x2, x0), kind=kLoop, calls=same", True),
        ("f32[8,6] fusion(x2, x0), kind=kLoop, calls=other", False),
        ("f32[8,6] fusion(x2, x2), kind=kLoop, calls=same", False),
        ("f32[8,6] fusion(x2, one), kind=kLoop, calls=scalar", False),
        ("f32[8,6] fusion(x2, flat), kind=kLoop, calls=reshaped", False),
    ],
)
def test_loops_that_differ_in_names_and_memory_share_a_kernel(second: str, is_shared: bool) -> None:
    def added(name: str, constant: int, read: str = "f32[8,6]", *, before: str = "") -> str:
        return f"""{name} {{ {name}.a = f32[8,6] parameter(0) {name}.p = {read} parameter(1)
{before}
{name}.c = f32[] constant({constant}) {name}.w = f32[8,6] broadcast({name}.c), dimensions={{}}
{name}.m = f32[8,6] multiply({name}.a, {name}.w)
ROOT {name}.r = f32[8,6] subtract({name}.m, {name}.{"b" if before else "p"}) }}"""

    rescaled = "scalar.b = f32[8,6] broadcast(scalar.p), dimensions={}"
    reshaped = "reshaped.b = f32[8,6] reshape(reshaped.p)"
    module = parse_module(f"""HloModule m
{added("first", 3)}
{added("same", 3)}
{added("other", 4)}
{added("scalar", 3, "f32[]", before=rescaled)}
{added("reshaped", 3, "f32[48]", before=reshaped)}
ENTRY e {{ x0 = f32[8,6] parameter(0) x1 = f32[8,6] parameter(1) x2 = f32[8,6] parameter(2)
one = f32[] constant(1) flat = f32[48] reshape(x0)
p = f32[8,6] fusion(x0, x1), kind=kLoop, calls=first
q = {second}
ROOT t = (f32[8,6], f32[8,6]) tuple(p, q) }}""")
    kept, found = kernels_of(lower(module, LOWERINGS, TARGET))
    assert (found.kernel is kept.kernel) is is_shared
    if is_shared:
        assert (kept.name, found.name) == ("p", "q")
        given = [[value.name for value in thunk.arguments] for thunk in (kept, found)]
        assert given == [["x0", "x1", "p.0"], ["x2", "x0", "q.0"]]
        pairs = [{(new.name, old.name) for new, old in each.in_place} for each in (kept, found)]
        assert pairs == [{("p.0", "x0"), ("p.0", "x1")}, {("q.0", "x2"), ("q.0", "x0")}]
        assert [value.name for value in (*found.reads, *found.writes)] == ["x2", "x0", "q.0"]


def test_a_chain_of_elementwise_operations() -> None:
    x = np.arange(-6, 6, dtype=np.float32).reshape(3, 4)
    assert_same(lambda a: ops.max(a * 2.0 + 1.0, a), x)


def _grown(x: Op) -> Op:
    return x * 3.0 + 1.0


def _total(x: Op) -> Op:
    return ops.reduce(x, x.builder.constant(np.float32(0)), ADD, [0])


def _is_glue(kernel: KernelThunk) -> bool:
    return isinstance(kernel.kernel, Kernel) and kernel.kernel.effort is Effort.UNOPTIMISED


@pytest.mark.parametrize(
    ("function", "count", "is_glue"),
    [
        (_grown, 1, True),
        (_total, 64, True),
        (_grown, 2, False),
        (_total, 800, False),
    ],
)
def test_what_takes_no_time_is_not_optimised(
    function: Callable[[Op], Op], count: int, is_glue: bool
) -> None:
    """Kernels of several numbers are all optimised in one way, however few there are."""
    argument: Any = np.linspace(1, 2, count, dtype=np.float32)
    thunks = compile_module(built(function, [argument])).code.thunks
    (kernel,) = [thunk for thunk in thunks if isinstance(thunk, KernelThunk)]
    assert _is_glue(kernel) is is_glue
    ((ours, theirs),) = both(function, argument)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def _scaled(x: Op, scale: Op) -> Op:
    return x * ops.broadcast_in_dim(ops.exp(scale), x.shape.dimensions, [0])


@pytest.mark.parametrize(
    ("function", "shapes", "is_called"),
    [
        (lambda x: ops.exp(x), [()], True),
        (lambda x: ops.exp(x), [(40,)], False),
        (_scaled, [(8, 40), (8,)], False),
    ],
)
def test_functions_of_values_that_depend_on_no_loop_are_called(
    function: Callable[..., Op], shapes: list[tuple[int, ...]], is_called: bool
) -> None:
    """Values computed once are not worth a copy of the function's code."""
    arguments: list[Any] = [np.full(shape, 1.5, np.float32) for shape in shapes]
    thunks = compile_module(built(function, arguments)).code.thunks
    (kernel,) = [thunk for thunk in thunks if isinstance(thunk, KernelThunk)]
    assert ("called_" in kernel.source) is is_called
    assert _is_glue(kernel) is (shapes[0] == ())
    ((ours, theirs),) = both(function, *arguments)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_a_kernel_that_a_loop_repeats_is_optimised() -> None:
    def repeated(x: Op) -> Op:
        def step(_: Op, values: Sequence[Op]) -> list[Op]:
            return [ops.add(values[0], _total(values[0]), broadcast_dimensions=())]

        (end,) = loops.for_each_index(100, step, [x])
        return end

    for function, is_glue in ((_total, True), (repeated, False)):
        code = compile_module(built(function, [np.ones(60, np.float32)])).code
        sums = [kernel for kernel in kernels_of(code) if "add_in_any" in kernel.source]
        assert sums
        assert {_is_glue(kernel) for kernel in sums} == {is_glue}
