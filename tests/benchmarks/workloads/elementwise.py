"""Chains without reductions, memory-bound and compute-bound, in several types."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.benchmarks.workloads.workload import Draws, Workload

SIZE = 1 << 20


def workloads() -> dict[str, Workload]:
    """A million elements each."""
    draws = Draws(1)
    a, b = draws.f32(SIZE), draws.f32(SIZE)
    wide = a.astype(np.float64)
    half = jnp.asarray(a, jnp.bfloat16)
    complex_numbers = (a + 1j * b).astype(np.complex64)
    whole = draws.s32(1 << 30, SIZE)
    small = whole.astype(np.int8)
    image = small.view(np.uint8)
    return {
        "fma f32": Workload(lambda a, b: a * b + 2.0, (a, b)),
        "fma f64": Workload(lambda a: a * a + 2.0, (wide,)),
        "fma bf16": Workload(lambda a: a * a + a, (half,)),
        "chain of ten f32": Workload(_chain, (a, b)),
        "integer mix s32": Workload(lambda a: (a * 3 + 7) ^ (a >> 3), (whole,)),
        "saturating sum s8": Workload(
            lambda a: jnp.clip(a.astype(jnp.int16) * 2, -128, 127).astype(jnp.int8), (small,)
        ),
        "integer division s32": Workload(lambda a: a // 7 + a % 13, (whole,)),
        "complex product c64": Workload(lambda a: a * a + jnp.conj(a), (complex_numbers,)),
        "complex magnitude c64": Workload(lambda a: jnp.abs(jnp.exp(a)), (complex_numbers,)),
        "select and compare f32": Workload(lambda a, b: jnp.where(a > b, a - b, b * 2), (a, b)),
        "convert f32 to bf16": Workload(lambda a: a.astype(jnp.bfloat16), (a,)),
        "round f32 to s32": Workload(lambda a: jnp.round(a).astype(jnp.int32), (a,)),
        "quantize f32 to s8": Workload(
            lambda a: jnp.clip(jnp.round(a * 40), -127, 127).astype(jnp.int8), (a,)
        ),
        "brighten u8": Workload(
            lambda a: jnp.clip(a.astype(jnp.float32) * 1.2 + 3, 0, 255).astype(jnp.uint8), (image,)
        ),
        "exp f32": Workload(jnp.exp, (a,)),
        "exp f64": Workload(jnp.exp, (wide,)),
        "log f32": Workload(lambda a: jnp.log(jnp.abs(a)), (a,)),
        "tanh f32": Workload(jnp.tanh, (a,)),
        "sin f32": Workload(jnp.sin, (a,)),
        "pow f32": Workload(lambda a, b: jnp.abs(a) ** b, (a, b)),
        "erf f32": Workload(lax.erf, (a,)),
        "atan2 f32": Workload(jnp.arctan2, (a, b)),
        "tanh(a*b+1)*exp(-a)+b": Workload(
            lambda a, b: jnp.tanh(a * b + 1) * jnp.exp(-a) + b, (a, b)
        ),
        "log1p*sin": Workload(lambda a: jnp.log1p(jnp.abs(a)) * jnp.sin(a), (a,)),
        "gelu f32": Workload(jax.nn.gelu, (a,)),
        "gelu bf16": Workload(jax.nn.gelu, (half,)),
    }


def _chain(a: jax.Array, b: jax.Array) -> jax.Array:
    for _ in range(5):
        a = a * b + 0.5
        b = jnp.maximum(b - a, a)
    return a - b
