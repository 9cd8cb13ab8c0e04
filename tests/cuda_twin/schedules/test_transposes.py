"""Transposes as kernels for a GPU, on the host, beside interpreter and walker."""

from collections.abc import Callable
from typing import Any

import jax
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.cuda_twin.programs import kernel_of, on_twin, rows_of, schedule_of
from tests.cuda_twin.schedules.test_rows import both, module_of, numbers, walked

TYPES = (
    *("bool", "int8", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"),
    *("complex64", "complex128"),
)


@pytest.mark.parametrize(("rows", "columns"), [(16, 16), (32, 64), (33, 31), (100, 17), (70, 96)])
def test_matrices_of_any_size(rows: int, columns: int) -> None:
    x = numbers("float32", rows, columns)
    module = module_of(lambda x: x.T, x)
    assert schedule_of(module) == "transposes"
    (ours,) = on_twin(module, [x])
    assert_equal_bits(ours, x.T)
    assert_equal_bits(ours, walked(module, x))


@pytest.mark.parametrize("sizes", [(40, 35), (70, 130)])
@pytest.mark.parametrize("dtype", TYPES)
def test_every_type(dtype: str, sizes: tuple[int, int]) -> None:
    with jax.enable_x64(True):
        x = numbers(dtype, *sizes)
        assert schedule_of(module_of(lambda x: x.T, x)) == "transposes"
        assert_equal_bits(*both(lambda x: x.T, x))


@pytest.mark.parametrize(
    "order", [(0, 2, 1), (2, 1, 0), (1, 2, 0), (2, 0, 1), (1, 0, 2)], ids=lambda order: str(order)
)
def test_three_dimensions(order: tuple[int, ...]) -> None:
    x = numbers("float32", 18, 20, 34)
    module = module_of(lambda x: x.transpose(order), x)
    # Whole rows move where the last dimension stays.
    assert schedule_of(module) == ("elements" if order[-1] == 2 else "transposes")
    assert_equal_bits(*both(lambda x: x.transpose(order), x))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: abs(x.T) + y,
        lambda x, y: x.T * y + y.T.T,
        lambda x, y: x.T[::-1] + y,
        lambda x, y: jax.lax.pad(x.T, 7.0, ((0, 3, 0), (2, 0, 0)))[3:, 2:] - y,
        lambda x, y: jax.lax.select(y > 0, x.T, (x + 1).T),
        lambda x, y: jax.numpy.concatenate([x.T, y], axis=1),
    ],
)
def test_fusions_that_read_an_operand_transposed(function: Callable[..., Any]) -> None:
    x, y = numbers("float32", 50, 40), numbers("float32", 40, 50)
    ours, expected = both(function, x, y)
    assert_equal_bits(ours, expected)


def test_operands_that_do_not_fit_in_shared_memory_are_read_where_they_are() -> None:
    def added(*operands: Any) -> Any:
        return sum(x.T for x in operands)

    with jax.enable_x64(True):
        operands = [numbers("float64", 40, 40) for _ in range(7)]
        assert schedule_of(module_of(added, *operands[:5])) == "transposes"
        assert schedule_of(module_of(added, *operands)) == "elements"
        assert_equal_bits(*both(added, *operands[:5]))


def test_a_tile_is_a_block() -> None:
    module = module_of(lambda x: x.transpose(0, 2, 1), numbers("float32", 3, 65, 32))
    (row,) = rows_of(module)
    grid = kernel_of(module, row)
    assert (grid.threads, grid.blocks) == (256, 3 * 3 * 1)
    assert [array.byte_size for array in grid.kernel.shared] == [32 * 33 * 4]


@pytest.mark.parametrize(
    ("dtype", "sizes", "shared_bytes"),
    [
        ("bfloat16", (128, 64), 64 * 66 * 2),
        ("int8", (128, 64), 64 * 66),
        ("bfloat16", (128, 63), 32 * 33 * 2),
        ("bfloat16", (127, 64), 32 * 33 * 2),
    ],
)
def test_threads_move_two_neighbours_of_a_narrow_type_where_rows_are_aligned(
    dtype: str, sizes: tuple[int, int], shared_bytes: int
) -> None:
    module = module_of(lambda x: x.T, numbers(dtype, *sizes))
    (row,) = rows_of(module)
    assert [array.byte_size for array in kernel_of(module, row).kernel.shared] == [shared_bytes]
