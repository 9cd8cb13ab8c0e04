"""Kernels of random bits, scans, scatters, windows and sorts become PTX, for each GPU."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.cuda_twin.codes import launches
from tests.unit.codegen.compiled import built
from tests.unit.codegen.lower.indexing.test_scatter import ROWS, scattered
from tests.unit.codegen.lower.indexing.test_sort import comparator
from tests.unit.codegen.lower.reduction.test_scan import running
from tests.unit.codegen.lower.reduction.test_select_and_scatter import scattered as selected
from tests.unit.codegen.lower.test_random import KEY, drawn
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.ops.random.rng_bit_generator import RandomAlgorithm
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.shape import Shape
from xla_server.codegen.gpu.emit.emitter import grid_module
from xla_server.codegen.gpu.emit.ptx import PtxCompiler
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.target.gpu.properties import GPUS
from xla_server.target.machine import Machine


def bits(algorithm: RandomAlgorithm) -> Callable[..., Op]:
    return lambda state: ops.tuple(drawn(algorithm, state, Shape.array(E.F32, (7, 5))))


def zeros(*sizes: int, dtype: str = "f4") -> Any:
    return np.zeros(sizes, dtype)


def updates(count: int) -> tuple[Any, ...]:
    return zeros(9, 3), zeros(count, 1, dtype="i4"), zeros(count, 3)


STATE = np.array([KEY, 5], np.uint64)
ORDER = comparator(lambda a, b: ops.lt(a * a + b, b * b + a), "f4")
PROGRAMS: dict[str, tuple[Callable[..., Op], tuple[Any, ...]]] = {
    "philox": (bits(RandomAlgorithm.PHILOX), (STATE,)),
    "three-fry": (bits(RandomAlgorithm.THREE_FRY), (STATE,)),
    "lines of warps": (running(ops.add, "f4", (2, 1100), 1), (zeros(2, 1100), zeros())),
    "exact sums": (
        running(ops.add, "c16", (1100,), 0),
        (zeros(1100, dtype="c16"), zeros(dtype="c16")),
    ),
    "lines of threads": (running(ops.max, "f4", (200, 3), 0), (zeros(200, 3), zeros())),
    "few updates": (scattered(ROWS), updates(5)),
    "linked updates": (scattered(ROWS), updates(50)),
    "sorted updates": (scattered(ROWS), updates(20_000)),
    "windows": (
        selected("f4", (2, 3), (2, 1), [(0, 0), (1, 1)]),
        (zeros(6, 8), zeros(3, 8), zeros()),
    ),
    "keys": (lambda x: ops.top_k(x, 3), (zeros(2, 50),)),
    "a comparator": (lambda x: ops.sort(x, ORDER), (zeros(2, 50),)),
}


@pytest.mark.parametrize("name", GPUS)
def test_kernels_become_ptx(name: str) -> None:
    machine = Machine.cuda(name)
    with PtxCompiler(machine) as compiler:
        for function, arguments in PROGRAMS.values():
            rows = launches(built(function, arguments))
            kernels = {
                f"k{n}": row.kernel
                for n, row in enumerate(rows)
                if isinstance(row.kernel, GridKernel)
            }
            text = compiler.module(str(grid_module(kernels, machine))).ptx.decode()
            assert text.count(".visible .entry") == len(rows)
