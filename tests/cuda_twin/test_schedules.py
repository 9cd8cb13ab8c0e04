"""The schedules of a GPU: what each is for, and the bytes that its kernels move."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.cuda_twin.programs import kernels_of, schedule_of
from tests.cuda_twin.test_rows import module_of
from tests.cuda_twin.traffic import bytes_moved
from xla_server.codegen.gpu.schedules import SCHEDULES

CASES: list[tuple[str, Callable[..., Any], list[tuple[int, ...]], tuple[int, ...]]] = [
    ("elements", lambda x, y: x + y, [(1000,)] * 2, (1000,)),
    ("elements", lambda x, y: x * y, [(1001,)] * 2, (1001,)),
    ("elements", lambda x: abs(x.transpose(1, 0, 2)), [(20, 30, 8)], (30, 20, 8)),
    ("transposes", lambda x: x.T, [(64, 96)], (96, 64)),
    ("transposes", lambda x: x.T, [(65, 70)], (70, 65)),
    ("transposes", lambda x, y: x.T + y, [(40, 50), (50, 40)], (50, 40)),
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


def test_every_schedule_says_what_it_is_for() -> None:
    names = [schedule.name for schedule in SCHEDULES]
    assert len(set(names)) == len(names)
    assert {name for name, *_ in CASES} | {"threads"} == set(names)
    assert all(schedule.fits and schedule.reason for schedule in SCHEDULES)
