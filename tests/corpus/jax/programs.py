"""HLO modules made by JAX: what a client of another origin sends.

``PROGRAMS`` maps a name to a function that returns a serialized HloModuleProto as JAX lowers it;
``OPTIMIZED`` does the same for what XLA's CPU compiler makes of it. Needs jax, which is imported
when the first module is made.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from tests.corpus.jax.cases import CASES, Case
from tests.corpus.kept import kept

Program = Callable[[], bytes]

DEVICES = 4


def lower(function: Callable[..., Any], *args: Any, platform: str = "cpu") -> bytes:
    """Return the module JAX makes of ``function`` before any optimization."""
    import jax

    lowered = jax.jit(function).trace(*args).lower(lowering_platforms=(platform,))
    data: bytes = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
    return data


def optimize(function: Callable[..., Any], *args: Any) -> bytes:
    """Return the module XLA's CPU compiler runs for ``function``."""
    import jax

    executable = jax.jit(function).lower(*args).compile().runtime_executable()
    data: bytes = executable.hlo_modules()[0].as_serialized_hlo_module_proto()
    return data


def _lowered(make: Callable[[], Case], platform: str = "cpu") -> Program:
    def run() -> bytes:
        function, args = make()
        return lower(function, *args, platform=platform)

    return run


def _optimized(make: Callable[[], Case]) -> Program:
    def run() -> bytes:
        function, args = make()
        return optimize(function, *args)

    return run


def _constant(dtype: Any) -> Program:
    value = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    if np.dtype(dtype).kind == "c":
        value = value * np.asarray(1 - 2j, dtype)

    def make() -> bytes:
        import jax

        with jax.enable_x64(True):
            return lower(lambda: value)

    return make


CONSTANT_TYPES: tuple[Any, ...] = (
    *(np.dtype(kind) for kind in "?bBhHiIlLefdFD"),
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e4m3b11fnuz,
    ml_dtypes.float8_e5m2fnuz,
    ml_dtypes.float8_e4m3fnuz,
    ml_dtypes.float8_e4m3,
    ml_dtypes.float8_e3m4,
    ml_dtypes.float8_e8m0fnu,
    ml_dtypes.float4_e2m1fn,
    ml_dtypes.int4,
    ml_dtypes.uint4,
    ml_dtypes.int2,
    ml_dtypes.uint2,
)


def _collectives(x: Any) -> Any:
    import jax
    import jax.numpy as jnp

    ring = [(i, (i + 1) % DEVICES) for i in range(DEVICES)]
    total = jax.lax.psum(x, "d")
    everyone = jax.lax.all_gather(x, "d")
    shifted = jax.lax.ppermute(x, "d", ring)
    swapped = jax.lax.all_to_all(jnp.tile(x, (DEVICES, 1)), "d", 0, 0, tiled=True)
    part = jax.lax.psum_scatter(jnp.tile(x, (DEVICES, 1)), "d", tiled=True)
    return total + everyone.sum(0) + shifted + swapped[:1] + part + jax.lax.axis_index("d")


def _sharded(mesh: Any) -> Callable[[Any], Any]:
    import jax

    spec = jax.sharding.PartitionSpec("d")
    return jax.shard_map(_collectives, mesh=mesh, in_specs=spec, out_specs=spec)


def collectives() -> bytes:
    """Return a module with every collective, lowered without any real device."""
    import jax

    return lower(
        _sharded(jax.sharding.AbstractMesh((DEVICES,), ("d",))), np.ones((DEVICES, 4), np.float32)
    )


def optimized_collectives() -> bytes:
    """Return the same module compiled; the process must have ``DEVICES`` host devices."""
    import jax

    mesh = jax.make_mesh((DEVICES,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    return optimize(_sharded(mesh), np.ones((DEVICES, 4), np.float32))


PROGRAMS: dict[str, Program] = {
    **{name: _lowered(make) for name, make in CASES.items()},
    **{f"constant_{np.dtype(kind).name}": _constant(kind) for kind in CONSTANT_TYPES},
    # For the CPU, JAX turns these into calls of LAPACK and the like; elsewhere they stay HLO.
    **{f"{name}_as_hlo": _lowered(CASES[name], "tpu") for name in ("cholesky", "ragged_dot")},
    "collectives": collectives,
}
OPTIMIZED: dict[str, Program] = {
    name: functools.partial(kept, f"optimized/{name}", _optimized(make))
    for name, make in CASES.items()
}
