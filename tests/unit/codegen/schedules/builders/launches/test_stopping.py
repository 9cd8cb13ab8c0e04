"""Kernels of long work items stop when their execution is to."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.corpus.jax.programs import lower
from tests.unit.codegen.compiled import imported
from xla_contract.errors import CancelledError
from xla_contract.types.literal import Literal
from xla_server.backends.compiled.cpu import Cpu
from xla_server.backends.compiled.executable import CompiledExecutable
from xla_server.buffers.code import CANCELLATION, KernelThunk
from xla_server.codegen.kernel import Kernels
from xla_server.codegen.kernel_ir.builder import Body
from xla_server.codegen.kernel_ir.expressions import Buffer, Index, Usage
from xla_server.codegen.kernel_ir.numba_text import NumbaText
from xla_server.codegen.schedules.builders.launches.stopping import SPAN, span_of, watched_loop
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.cancellation_flag import STOP
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.runtime.native import callable_at

CPU = Cpu(threads=2)


def compiled(function: Callable[..., Any], shapes: Sequence[Any]) -> CompiledExecutable:
    module = imported(lower(function, *shapes))
    executable = CPU.compile(module, module.entry_program_shape)
    assert isinstance(executable, CompiledExecutable)
    return executable


def shaped(*sizes: int, dtype: Any = np.float32) -> Any:
    return jax.ShapeDtypeStruct(sizes, dtype)


def _folded(x: Any) -> Any:
    return lax.reduce(x, np.float32(0), lambda a, b: jnp.tanh(a) + b, (0,))


def _pooled(x: Any) -> Any:
    return lax.reduce_window(x, -np.inf, lax.max, (1, 3, 3, 16), (1, 2, 2, 1), "SAME") ** 2


def _boxes_added(x: Any, i: Any, u: Any) -> Any:
    numbers = lax.ScatterDimensionNumbers((1, 2), (0,), (0, 1, 2))
    return lax.scatter_add(x, i, u, numbers)


LONG: dict[str, tuple[Callable[..., Any], Sequence[Any]]] = {
    "sort": (jnp.sort, [shaped(1 << 17)]),
    "sort of rows": (lambda x: jnp.sort(x, axis=1), [shaped(1 << 13, 256)]),
    "sort by a comparator": (
        lambda x, y: lax.sort((x, y), num_keys=2),
        [shaped(1 << 17), shaped(1 << 17)],
    ),
    "first of many": (lambda x: lax.top_k(x, 9), [shaped(1 << 17)]),
    "running sums": (jnp.cumsum, [shaped(1 << 21)]),
    "running sums of columns": (lambda x: jnp.cumsum(x, axis=0), [shaped(1 << 15, 65)]),
    "scatter": (
        lambda x, i, u: x.at[i].add(u),
        [shaped(100), shaped(1 << 20, dtype=np.int32), shaped(1 << 20)],
    ),
    "scatter of parts of rows": (
        lambda x, i, u: x.at[i].add(u),
        [shaped(9, 128), shaped(1 << 14, dtype=np.int32), shaped(1 << 14, 128)],
    ),
    "scatter into ranges": (
        lambda x, i, u: x.at[i].add(u),
        [shaped(1 << 20), shaped(1 << 20, dtype=np.int32), shaped(1 << 20)],
    ),
    "scatter of large boxes": (
        _boxes_added,
        [shaped(4, 300, 301), shaped(20, 3, dtype=np.int32), shaped(20, 200, 299)],
    ),
    "reduction in order": (_folded, [shaped(1 << 22)]),
    "product": (lambda x: jax.nn.softmax(x @ x), [shaped(2048, 2048)]),
    "deep product of complex numbers": (
        lambda x, y: x @ y,
        [shaped(128, 1 << 15, dtype=np.complex64), shaped(1 << 15, 128, dtype=np.complex64)],
    ),
    "cholesky": (lambda x: lax.linalg.cholesky(x, symmetrize_input=False), [shaped(1500, 1500)]),
    "lu": (lambda x: lax.linalg.lu(x)[0], [shaped(1500, 1500)]),
    "selected and scattered": (
        jax.grad(lambda x: _pooled(x).sum()),
        [shaped(1, 256, 256, 16)],
    ),
    "triangular solve": (
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True),
        [shaped(1500, 1500), shaped(1500, 1600)],
    ),
}
"""Programs whose last kernel that polls is long, though not for a test."""


WATCHED = """for i_begin in range(2, 100, 30):
    if watch_i64(cancelled) != 0:
        return
    for i in range(i_begin, minimum(add(i_begin, 30), 100)):
        pass"""


def test_a_watched_loop_tests_the_flag_before_each_span() -> None:
    body = Body()
    for flag in (Buffer(7, Usage.FLAG), None):
        with watched_loop(body, "i", Index(100), Index(2), 98, flag, 30):
            pass
    text = "\n".join(NumbaText().lines(body.statements))
    assert text == f"{WATCHED}\nfor i in range(2, 100):\n    pass"


@pytest.mark.parametrize("name", LONG)
def test_a_kernel_leaves_off_once_the_word_is_set(name: str) -> None:
    executable = compiled(*LONG[name])
    kernels = Kernels()
    polling = [
        thunk
        for thunk in executable._program.thunks
        if isinstance(thunk, KernelThunk) and CANCELLATION in thunk.arguments
    ]
    assert polling
    thunk = polling[-1]
    memory = {
        value: np.full(value.byte_size + 64, 0x55, np.uint8)
        for value in thunk.arguments
        if value is not CANCELLATION
    }
    memory[CANCELLATION] = np.array([STOP]).view(np.uint8)
    buffers = np.array([memory[value].ctypes.data for value in thunk.arguments], np.int64)
    kernel = kernels.get(thunk.kernel)
    callable_at(kernel.address, 3)(buffers.ctypes.data, 0, thunk.work_items)
    # Memory to work in may have been begun with.
    ends = [memory[value][value.byte_size - 4 : value.byte_size] for value in thunk.writes]
    assert any((end == 0x55).all() for end in ends)


def test_a_run_after_a_cancelled_one_is_right_and_nothing_is_lost() -> None:
    x = np.random.default_rng(0).integers(0, 9, 1 << 19).astype(np.int32)
    y = np.random.default_rng(1).standard_normal(1 << 19).astype(np.float32)
    executable = compiled(lambda x, y: lax.sort((x, y), num_keys=2), [x, y])
    device = CPU.devices[0]
    placed = [CPU.to_device(Literal.from_numpy(array), device) for array in (x, y)]

    def run(cancellation: Cancellation) -> Any:
        return executable.execute(
            placed,
            device=device,
            options=ExecuteOptions(cancellation=cancellation),
        ).output.value

    begun = time.monotonic()
    expected = [np.array(part) for part in run(Cancellation())]
    whole = time.monotonic() - begun
    kept = CPU._blocks.free_bytes
    cancellation = Cancellation()
    threading.Timer(whole / 20, cancellation.cancel).start()
    with pytest.raises(CancelledError):
        run(cancellation)
    assert CPU._blocks.free_bytes == kept
    order = np.lexsort((y, x))
    for got, first, array in zip(run(Cancellation()), expected, (x, y), strict=True):
        np.testing.assert_array_equal(got, first)
        np.testing.assert_array_equal(got, array[order])


def test_the_innermost_loop_of_many_elements_looks() -> None:
    assert span_of([SPAN * 2]) == (0, SPAN)
    assert span_of([10, SPAN * 2]) == (1, SPAN)
    assert span_of([SPAN, 4]) == (0, SPAN // 4)
    assert span_of([7, SPAN, 3], inside=1000) == (1, 5)
    assert span_of([SPAN, SPAN], inside=2 * SPAN) == (1, 1)
