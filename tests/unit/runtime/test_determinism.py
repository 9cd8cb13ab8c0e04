"""The same bits from run to run, on any number of threads, whatever else runs."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.corpus.jax.programs import lower
from tests.unit.codegen.compiled import imported
from xla_contract.types.literal import Literal
from xla_server.backends.compiled.cpu import Cpu
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.module import HloModule

_RANDOM = np.random.default_rng(8)
LONG = _RANDOM.standard_normal(300_001).astype(np.float32)
WIDE = _RANDOM.standard_normal((300, 1000)).astype(np.float32)
ROWS = _RANDOM.integers(0, 40, 3000).astype(np.int32)


def sums(long: Any, wide: Any) -> Any:
    return long.sum(), wide.sum(0), wide.sum(1), (wide * wide).sum(), (long * 1.0001).prod()


def sums_of_other_forms(long: Any, wide: Any) -> Any:
    zeros = (np.float32(0), np.float32(0))
    tall = wide.reshape(3000, 100)
    two = jax.lax.reduce((long, long * long), zeros, lambda a, b: (a[0] + b[0], a[1] + b[1]), (0,))
    windows = jax.lax.reduce_window(long, zeros[0], jax.lax.add, (100_000,), (60_000,), ((500, 0),))
    turned = jax.lax.complex(wide, -wide)
    around = wide.reshape(300, 10, 100).sum((0, 2)), wide.reshape(3, 1000, 100).sum(1)
    return (*two, windows, *around, turned.sum(), turned.sum(0), tall.sum(0), tall.var(0))


def wide_columns(wide: Any) -> Any:
    return jnp.concatenate([wide] * 8).reshape(1200, 2000).sum(0)


def softmax(wide: Any) -> Any:
    return jax.nn.softmax(wide, axis=1), jax.nn.softmax(wide, axis=0)


def products(wide: Any) -> Any:
    return wide @ wide.T, wide.T @ wide[:, 0]


def running_sums(long: Any, wide: Any) -> Any:
    return jnp.cumsum(long), jnp.cumsum(wide, 0)


def added_to_rows(wide: Any, rows: Any) -> Any:
    return jnp.zeros((40, 100), jnp.float32).at[rows].add(wide.reshape(3000, 100))


def added_to_short_rows(wide: Any, rows: Any) -> Any:
    return jnp.zeros((40, 20), jnp.float32).at[rows].add(wide.reshape(15000, 20)[:3000])


def added_to_elements(long: Any) -> Any:
    places = (long * 1000).astype(jnp.int32)
    return jnp.zeros(600_000, jnp.float32).at[places].add(long)


def set_once(long: Any) -> Any:
    return long.at[::3].set(long[:100_001] * 2, unique_indices=True)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "sums": (sums, (LONG, WIDE)),
    "sums_of_other_forms": (sums_of_other_forms, (LONG, WIDE)),
    "wide_columns": (wide_columns, (WIDE,)),
    "softmax": (softmax, (WIDE,)),
    "products": (products, (WIDE,)),
    "running_sums": (running_sums, (LONG, WIDE)),
    "added_to_rows": (added_to_rows, (WIDE, ROWS)),
    "added_to_short_rows": (added_to_short_rows, (WIDE, ROWS)),
    "added_to_elements": (added_to_elements, (LONG,)),
    "set_once": (set_once, (LONG,)),
}


def runner(cpu: Cpu, module: HloModule, arguments: Sequence[Any]) -> Callable[[int], bytes]:
    """A function that runs a compiled module, whatever it is given: the bits of the results."""
    executable = cpu.compile(module, module.entry_program_shape)
    device = cpu.devices[0]
    placed = [cpu.to_device(Literal.from_numpy(array), device) for array in arguments]

    def run(_: int) -> bytes:
        output: Any = executable.execute(
            placed,
            device=device,
            options=ExecuteOptions(),
        ).output
        value = output.literal.to_numpy()
        parts = value if isinstance(value, tuple) else (value,)
        return b"".join(part.tobytes() for part in parts)

    return run


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_bits(name: str, tmp_path: Path) -> None:
    function, arguments = PROGRAMS[name]
    module = imported(lower(function, *arguments))
    found: set[bytes] = set()
    for threads in (1, 2, 5):
        cpu = Cpu(threads=threads, compilation_cache_dir=str(tmp_path))
        run = runner(cpu, module, arguments)
        found.add(run(0))
        with ThreadPoolExecutor(4) as several:
            found.update(several.map(run, range(8)))
    assert len(found) == 1
