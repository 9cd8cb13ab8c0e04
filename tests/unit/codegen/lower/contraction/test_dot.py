"""Products of matrices by BLAS, in one piece and in several."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.corpus.jax.programs import lower
from tests.unit.codegen.compiled import imported, on_cpu
from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.code import KernelThunk
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.target.machine import Machine
from xla_server.target.target import Target

RANDOM = np.random.default_rng(3)


def matrix(*sizes: int) -> Any:
    real, imaginary = RANDOM.standard_normal((2, *sizes)).astype(np.float32)
    return (real + 1j * imaginary).astype(np.complex64)


def work_items(function: Callable[..., Any], *arguments: Any, dtype: Any = np.complex64) -> int:
    """Return the number of pieces; the kernel is not run."""
    shapes = [jax.ShapeDtypeStruct(sizes, dtype) for sizes in arguments]
    lowered = jax.jit(function).lower(*shapes).compiler_ir("hlo")
    rows = compile_module(imported(lowered.as_serialized_hlo_module_proto())).code.thunks
    (row,) = [row for row in rows if isinstance(row, KernelThunk)]
    return row.work_items


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (matrix(300, 131), matrix(131, 515)),
        (matrix(515, 131), matrix(131, 300)),
        (matrix(1, 2000), matrix(2000, 2000)),
        (matrix(2000, 2000), matrix(2000, 1)),
        (matrix(3, 130, 300), matrix(3, 300, 270)),
        (matrix(2, 12, 4999), matrix(2, 4999, 9)),
    ],
    ids=["wide", "tall", "row", "column", "batch", "parts of sums"],
)
def test_pieces_that_do_not_divide_the_result_make_all_of_it(left: Any, right: Any) -> None:
    module = imported(lower(jnp.matmul, left, right))
    (found,) = on_cpu(module, [left, right])
    wanted = left.astype(np.complex128) @ right.astype(np.complex128)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4 * left.shape[-1] ** 0.5)


def test_large_products_are_divided_and_small_ones_are_not() -> None:
    assert work_items(jnp.matmul, (64, 64), (64, 64)) == 1
    assert work_items(jnp.matmul, (512, 512), (512, 512)) == 4
    assert work_items(jnp.matmul, (64, 64, 64), (64, 64, 64)) == 64
    assert work_items(jnp.matmul, (2048, 512), (512, 2048)) == 16


def test_the_largest_products_have_pieces_between_which_they_can_be_cancelled() -> None:
    for dtype in (np.complex64, np.float32):
        assert work_items(jnp.matmul, (16384, 16384), (16384, 16384), dtype=dtype) >= 1000


def test_blas_does_what_panels_would_take_much_memory_or_be_empty_for(
    machine: Machine,
) -> None:
    def by_blas(left: tuple[int, ...], right: tuple[int, ...]) -> bool:
        shapes = [jax.ShapeDtypeStruct(sizes, np.float32) for sizes in (left, right)]
        lowered = jax.jit(jnp.matmul).lower(*shapes).compiler_ir("hlo")
        module = imported(lowered.as_serialized_hlo_module_proto())
        code = compile_module(module, target=Target.of(machine)).code
        return any("product_into" in row.source for row in kernels_of(code))

    assert by_blas((300, 8192), (8192, 8192))
    assert not by_blas((300, 4096), (4096, 4096))
    # Half a vector: panels of fewer columns would be mostly empty.
    least = machine.lanes(4) // 2
    assert by_blas((300, 40), (40, least - 1))
    assert not by_blas((300, 40), (40, least))
