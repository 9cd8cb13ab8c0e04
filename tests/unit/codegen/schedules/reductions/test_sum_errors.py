"""Errors of long sums of f32 of one sign, against exact ones."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.example_platform.platform import Example
from tests.processors import HOST, MACHINES, runs
from tests.unit.codegen.compiled import on_cpu
from tests.unit.passes.passing import imported
from xla_contract.types.literal import Literal
from xla_server.backends.compiled.cpu import Cpu
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.module import HloModule
from xla_server.target.target import Target

HALF_UNIT = 2.0**-24
"""The relative error of a correctly rounded result, at most."""

RUN = {"host": HOST} | {name: machine for name, machine in MACHINES.items() if runs(machine)}
"""Processors whose code this host runs."""


def summed(
    x: Any, dimension: int, elements: str = "x", on: Callable[..., list[Any]] = on_cpu
) -> Any:
    result = ",".join(str(size) for d, size in enumerate(x.shape) if d != dimension)
    shape = f"f32[{','.join(map(str, x.shape))}]"
    module = imported(
        f"""HloModule sums
        add {{ a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT s = f32[] add(a, b) }}
        ENTRY e {{ p = {shape} parameter(0)
          x = {shape} copy(p)
          y = {shape} multiply(p, p)
          zero = f32[] constant(0)
          ROOT r = f32[{result}] reduce({elements}, zero), dimensions={{{dimension}}},
            to_apply=add }}"""
    )
    return on(module, [x])[0]


def walked(module: HloModule, arguments: list[Any]) -> list[Any]:
    platform = Example()
    device = platform.devices[0]
    output = (
        platform.compile(module, module.entry_program_shape)
        .execute(
            [platform.to_device(Literal.from_numpy(each), device) for each in arguments],
            device=device,
            options=ExecuteOptions(),
        )
        .output
    )
    return [output.to_literal().value]


def error(result: Any, rows: Any) -> float:
    exact = [math.fsum(row) for row in rows]
    return max(abs(float(a) - b) / b for a, b in zip(np.ravel(result), exact, strict=True))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [1 << 20, 1 << 22, (1 << 22) + 12345])
def test_a_long_sum_is_all_but_correctly_rounded(size: int, seed: int) -> None:
    x = np.random.default_rng(seed).random(size, np.float32)
    assert error(summed(x, 0), [x]) <= 1.05 * HALF_UNIT


def test_a_sum_of_2_to_the_24_elements() -> None:
    x = np.random.default_rng(4).random(1 << 24, np.float32)
    assert error(summed(x, 0), [x]) <= 1.05 * HALF_UNIT


@pytest.mark.parametrize("shape", [(4, 1 << 20), (64, 1 << 16), (300, 7000)])
def test_long_rows_and_columns(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(5).random(shape, np.float32)
    assert error(summed(x, 1), x) <= 2 * HALF_UNIT
    columns = np.ascontiguousarray(x.T)
    assert error(summed(columns, 0), x) <= 2 * HALF_UNIT


@pytest.mark.parametrize(("size", "bound"), [(512, 4), (1 << 14, 4), (1 << 22, 2)])
@pytest.mark.parametrize("name", RUN)
def test_equal_elements_whose_roundings_all_go_one_way(name: str, size: int, bound: int) -> None:
    """The bound is one for vectors of every width."""
    x = np.full(size, 0.1, np.float32)
    found = summed(x, 0, on=functools.partial(on_cpu, cpu=Cpu(target=Target.of(RUN[name]))))
    assert error(found, [x]) <= bound * HALF_UNIT


def test_equal_elements_without_vectors() -> None:
    """The walker adds the elements of a run one by one, as no processor does."""
    x = np.full(1 << 15, 0.7, np.float32)
    assert error(summed(x, 0, on=walked), [x]) <= 12 * HALF_UNIT


def test_sums_of_what_is_computed() -> None:
    x = np.random.default_rng(6).random((64, 1 << 16), np.float32)
    assert error(summed(x, 1, "y"), x * x) <= 2 * HALF_UNIT
