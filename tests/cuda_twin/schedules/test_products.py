"""Products of matrices as kernels for a GPU, on the host, beside the interpreter and the walker."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.oracle import assert_equal_bits
from tests.conformance.sweep.draws.depth import drawn
from tests.cuda.checks.outcomes import assert_near
from tests.cuda_twin.programs import kernel_of, on_twin, rows_of, schedule_of
from tests.cuda_twin.schedules.test_rows import module_of, numbers
from tests.example_platform.walker import run
from tests.unit.codegen.compiled import interpreted
from xla_server.codegen.kernel_ir.statements import For, Set
from xla_server.codegen.kernel_ir.walk import walk
from xla_server.target.gpu.properties import BLOCK_THREADS, PRODUCT_TILE

TYPES = ("float32", "float64", "float16", "bfloat16", "int8", "int32", "complex64", "complex128")

SIZES = (16, 31, 32, 33, 64, 70)

DEPTHS = (16, 31, 32, 64, 65, 130)
"""Sums of less than a step, of whole steps, and of a last step that is shorter."""

EPILOGUES: dict[str, Callable[..., Any]] = {
    "none": lambda x: x,
    "sum": lambda x, other: x + other,
    "mask": lambda x, other: jax.lax.select(other == 1, x, jax.lax.full_like(x, 0)),
    "update": lambda x, other: other - 2 * x,
    "row": lambda x, other: x + other[..., :1, :],
}

PRODUCERS: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda x: x,
    "reversed": lambda x: x[..., ::-1, :],
    "masked": lambda x: jax.lax.select(x == 1, jax.lax.full_like(x, 0), x),
    "a part": lambda x: x[..., 1:, :-1],
}


def whole(dtype: str, *sizes: int) -> Any:
    """Return small whole numbers, of which sums and products are exact."""
    drawn = np.random.default_rng(sizes[-1]).integers(-2, 3, sizes)
    return np.array(jnp.asarray(drawn, dtype))


@drawn(10, 800)
@given(st.data())
def test_products_of_any_form_are_exact(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(TYPES))
    batch = data.draw(st.sampled_from([(), (2,), (2, 3)]))
    rows, columns = (data.draw(st.sampled_from(SIZES)) for _ in range(2))
    depth = data.draw(st.sampled_from(DEPTHS))
    turned = [data.draw(st.booleans()) for _ in range(2)]
    ending = data.draw(st.sampled_from(sorted(EPILOGUES)))
    made = [PRODUCERS[data.draw(st.sampled_from(sorted(PRODUCERS)))] for _ in range(2)]
    shapes = [
        (wide, tall) if is_turned else (tall, wide)
        for (tall, wide), is_turned in zip(
            ((rows + 1, depth + 1), (depth + 1, columns + 1)), turned, strict=True
        )
    ]

    def product(x: Any, y: Any, *others: Any) -> Any:
        left, right = (
            make(side).swapaxes(-1, -2) if is_turned else make(side)
            for side, make, is_turned in zip((x, y), made, turned, strict=True)
        )
        left, right = left[..., :rows, :depth], right[..., :depth, :columns]
        wide = "int32" if dtype == "int8" else dtype
        found = jnp.matmul(left, right, preferred_element_type=wide)
        return EPILOGUES[ending](found, *others)

    with jax.enable_x64(True):
        operands = [whole(dtype, *batch, *shape) for shape in shapes]
        if ending != "none":
            operands.append(whole("int32" if dtype == "int8" else dtype, *batch, rows, columns))
        module = module_of(product, *operands)
        (ours,), (expected,) = on_twin(module, operands), interpreted(module, operands)
    np.testing.assert_array_equal(ours, expected)
    assert schedule_of(module) == "products"


FORMS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "distances": (
        lambda x, y: jnp.sum(abs(x[:, None] - y[None]), axis=2),
        [(33, 20), (40, 20)],
    ),
    "largest sums": (
        lambda x, y: jnp.max(x[:, None] + y[None], axis=2),
        [(33, 70), (40, 70)],
    ),
    "three factors": (
        lambda x, y, z: jnp.sum(x[:, None, None] * y[None, :, None] * z[None, None], axis=3),
        [(5, 20), (4, 20), (18, 20)],
    ),
    "two sums": (lambda x, y: jnp.einsum("abk,kcb->ac", x, y), [(20, 5, 7), (7, 30, 5)]),
    "a result of each batch in the middle": (
        lambda x, y: jnp.einsum("abk,bck->abc", x, y),
        [(20, 3, 17), (3, 17, 17)],
    ),
    "a convolution": (
        lambda x, y: jax.lax.conv_general_dilated(
            x, y, (2, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        [(2, 9, 11, 3), (3, 3, 3, 16)],
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_all_sums_of_what_two_sides_have_are_products(name: str) -> None:
    function, sizes = FORMS[name]
    operands = [whole("float32", *each) for each in sizes]
    module = module_of(function, *operands)
    assert schedule_of(module) == "products"
    (ours,), (expected,) = on_twin(module, operands), interpreted(module, operands)
    np.testing.assert_array_equal(ours, expected)


OTHERS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "few rows": (lambda x, y: x @ y, [(15, 40), (40, 40)]),
    "few columns": (lambda x, y: x @ y, [(40, 40), (40, 15)]),
    "short sums": (lambda x, y: x @ y, [(40, 15), (15, 40)]),
    "a vector": (lambda x, y: x @ y, [(40, 40), (40,)]),
    "one side": (lambda x: jnp.sum(x, axis=2), [(40, 40, 40)]),
    "an array of both": (
        lambda x, y, z: jnp.sum(x[:, None] * y[None] * z, axis=2),
        [(20, 20), (20, 20), (20, 20, 20)],
    ),
    "a batch of neighbours": (
        lambda x, y: jnp.einsum("ikb,jkb->ijb", x, y),
        [(20, 20, 20), (20, 20, 20)],
    ),
    "two products": (lambda x, y: x @ y + y @ x, [(20, 20), (20, 20)]),
    "more than shared memory holds": (
        lambda *p: jnp.sum(
            math.prod(x[:, None] - y for x, y in zip(p[::2], p[1::2], strict=True)), axis=2
        ),
        [(20, 20)] * 12,
    ),
    "rows of a product": (lambda x, y: jnp.sum(x @ y, axis=1), [(20, 20), (20, 20)]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_tiles_would_not_fill_or_load_once_is_no_product(name: str) -> None:
    function, sizes = OTHERS[name]
    module = module_of(function, *(whole("float32", *each) for each in sizes))
    assert schedule_of(module) != "products"


@pytest.mark.parametrize("depth", [64, 70, 200])
def test_sums_have_the_order_that_the_ir_says(depth: int) -> None:
    """Products are added to the sum of a step without being rounded."""
    x, y = numbers("float32", 40, depth), numbers("float32", 33, depth)
    module = module_of(lambda x, y: x @ y.T, x, y)
    (row,), result = rows_of(module), np.empty((40, 33), np.float32)
    grid = kernel_of(module, row)
    buffers = [each.reshape(-1).view(np.uint8) for each in (x, y, result)]
    run(grid.kernel, buffers, 0, grid.kernel.items)
    tiles = -(-40 // PRODUCT_TILE) * -(-33 // PRODUCT_TILE)
    assert (grid.threads, grid.blocks) == (BLOCK_THREADS, tiles)
    (ours,), (expected,) = on_twin(module, [x, y]), interpreted(module, [x, y])
    assert_equal_bits(ours, result)
    assert_near([ours], [expected])


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_runs_of_a_step_stay_a_loop(depth: int) -> None:
    """An assembler that sees all loads of a step begins with them, in registers of their own."""
    module = module_of(jnp.matmul, numbers("float32", 32, depth), numbers("float32", depth, 32))
    (row,) = rows_of(module)
    sums = [
        path for each, path in walk(kernel_of(module, row).kernel.body) if isinstance(each, Set)
    ]
    assert sums
    assert all(isinstance(path[-2], For) and not path[-2].unrolled for path in sums)
