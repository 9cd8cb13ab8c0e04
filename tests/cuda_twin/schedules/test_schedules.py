"""The schedules of a GPU: what each is for, and the bytes that its kernels move."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.cuda_twin.device.twin import Twin, unwritten
from tests.cuda_twin.lowered import compiled, grids
from tests.cuda_twin.programs import kernels_of, places_of, rows_of, schedule_of
from tests.cuda_twin.schedules.test_rows import module_of, numbers
from tests.cuda_twin.traffic import bytes_moved
from xla_server.codegen.gpu.schedules.table import SCHEDULES

CASES: list[tuple[str, Callable[..., Any], list[tuple[int, ...]], tuple[int, ...]]] = [
    ("elements", lambda x, y: x + y, [(1000,)] * 2, (1000,)),
    ("elements", lambda x, y: x * y, [(1001,)] * 2, (1001,)),
    ("elements", lambda x: abs(x.transpose(1, 0, 2)), [(20, 30, 8)], (30, 20, 8)),
    ("transposes", lambda x: x.T, [(64, 96)], (96, 64)),
    ("transposes", lambda x: x.T, [(65, 70)], (70, 65)),
    ("transposes", lambda x, y: x.T + y, [(40, 50), (50, 40)], (50, 40)),
    ("products", lambda x, y: x @ y, [(32, 64), (64, 32)], (32, 32)),
    ("rows", lambda x: jnp.sum(x, axis=1), [(100, 24)], (100,)),
    ("rows", lambda x: jnp.sum(x, axis=1), [(50, 1000)], (50,)),
    ("rows", lambda x: jax.nn.softmax(x, axis=1), [(50, 300)], (50, 300)),
    ("blocks", lambda x: jnp.sum(x, axis=1), [(5, 3001)], (5,)),
    ("blocks", lambda x: jax.nn.softmax(x, axis=1), [(5, 5000)], (5, 5000)),
    ("columns", lambda x: jnp.sum(x, axis=0), [(900, 64)], (64,)),
    ("columns", lambda x: jax.nn.softmax(x, axis=0), [(100, 64)], (100, 64)),
]


@pytest.mark.parametrize(("name", "function", "operands", "result"), CASES)
def test_a_kernel_moves_its_arrays_once(
    name: str, function: Callable[..., Any], operands: Any, result: tuple[int, ...]
) -> None:
    module = module_of(function, *(np.zeros(sizes, np.float32) for sizes in operands))
    assert schedule_of(module) == name
    (grid,) = kernels_of(module).values()
    arrays = 4 * sum(int(np.prod(sizes)) for sizes in (*operands, result))
    assert arrays <= bytes_moved(grid.kernel) <= 1.1 * arrays


def test_what_is_read_at_two_places_is_moved_twice() -> None:
    module = module_of(lambda x: x + x[::-1], np.zeros(1000, np.float32))
    (grid,) = kernels_of(module).values()
    assert bytes_moved(grid.kernel) == 3 * 4000


@pytest.mark.parametrize("length", [1000, 8192])
def test_a_row_in_registers_is_one_kernel(length: int) -> None:
    module = module_of(lambda x: jax.nn.softmax(x, axis=1), np.zeros((4096, length), np.float32))
    assert len(grids(compiled(module))) == 1


OVER: list[tuple[str, Callable[..., Any], list[tuple[int, ...]]]] = [
    ("elements", lambda x, y: x * y + 1, [(1001,)] * 2),
    ("transposes", lambda x, y: x * y.T, [(40, 50), (50, 40)]),
    ("products", lambda x, y: x - y @ y.T, [(40, 40), (40, 20)]),
    ("rows", lambda x, y: jnp.sum(abs(y - x[:, None]), axis=1) + x, [(70,), (70, 12)]),
    ("blocks", lambda x, y: jnp.sum(abs(y - x[:, None]), axis=1) + x, [(3,), (3, 1100)]),
    ("columns", lambda x, y: jnp.sum(abs(y - x), axis=0) + x, [(45,), (300, 45)]),
    ("threads", lambda x, y: jnp.sum(abs(y - x), axis=0) + x, [(45,), (20, 45)]),
]


@pytest.mark.parametrize(("name", "function", "operands"), OVER)
def test_a_result_may_be_written_over_what_is_read_first(
    name: str, function: Callable[..., Any], operands: Any
) -> None:
    arguments = [numbers("float32", *sizes) for sizes in operands]
    module = module_of(function, *arguments)
    assert schedule_of(module) == name
    assert next(each for each in SCHEDULES if each.name == name).reads_first
    (row,) = rows_of(module)
    assert (len(operands), 0) in places_of(module, row)
    twin, result = Twin(kernels_of(module)), unwritten(np.float32, row.shape.dimensions)
    *_, apart = twin.launched("k0", [*arguments, result])
    *_, over = twin.launched("k0", [*arguments, result], {len(operands): 0})
    assert_equal_bits(over, apart)


def test_every_schedule_says_what_it_is_for() -> None:
    names = [schedule.name for schedule in SCHEDULES]
    assert len(set(names)) == len(names)
    assert {name for name, *_ in OVER} == {name for name, *_ in CASES} | {"threads"} == set(names)
    assert all(schedule.fits and schedule.reason for schedule in SCHEDULES)
