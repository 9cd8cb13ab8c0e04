"""Scans, sorts, transforms, factors, random numbers."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.benchmarks.workloads.workload import Draws, Workload


def workloads() -> dict[str, Workload]:
    """Algorithms for which libraries have routines."""
    draws = Draws(7)
    x = draws.f32(1024, 1024)
    square = draws.f32(256, 256)
    definite = (square @ square.T + 256 * np.eye(256)).astype(np.float32)
    key = np.array([1, 2], np.uint32)
    return {
        "cumsum of rows": Workload(lambda x: jnp.cumsum(x, 1), (x,)),
        "cumsum of columns": Workload(lambda x: jnp.cumsum(x, 0), (x,)),
        "cumulative maximum": Workload(lambda x: lax.cummax(x, 1), (x,)),
        "associative scan": Workload(
            lambda x: lax.associative_scan(lambda a, b: a * 0.5 + b, x, axis=1), (x[:256],)
        ),
        "sort of rows": Workload(lambda x: jnp.sort(x, 1), (x[:256],)),
        "sort of a vector": Workload(jnp.sort, (x[:256].reshape(-1),)),
        "argsort of rows s32": Workload(
            lambda x: jnp.argsort(x, 1), (draws.s32(10**6, 256, 1024),)
        ),
        "top 8 of rows": Workload(lambda x: lax.top_k(x, 8), (x,)),
        "top 100 of rows": Workload(lambda x: lax.top_k(x, 100), (x[:128],)),
        "median of rows": Workload(lambda x: jnp.median(x, 1), (x[:128],)),
        "fft": Workload(jnp.fft.fft, (x[:256].astype(np.complex64),)),
        "rfft": Workload(jnp.fft.rfft, (x[:256],)),
        "fft of two dimensions": Workload(jnp.fft.fft2, (x[:512, :512].astype(np.complex64),)),
        "fft of three dimensions": Workload(
            lambda x: jnp.fft.fftn(x, axes=(1, 2, 3)),
            (x.reshape(4, 64, 64, 64).astype(np.complex64),),
        ),
        "fft of one line": Workload(jnp.fft.fft, (x[:64].reshape(-1).astype(np.complex64),)),
        "fft of a prime length": Workload(jnp.fft.fft, (x[:64, :1009].astype(np.complex64),)),
        "rfft with a large prime factor": Workload(jnp.fft.rfft, (draws.f32(64, 4 * 283),)),
        "irfft of an odd length": Workload(
            lambda x: jnp.fft.irfft(x, 999), (x[:128, :500].astype(np.complex64),)
        ),
        "cholesky": Workload(lax.linalg.cholesky, (definite,)),
        "cholesky of a batch": Workload(
            lax.linalg.cholesky, (np.broadcast_to(definite[:16, :16], (256, 16, 16)).copy(),)
        ),
        "triangular solve": Workload(
            lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True),
            (np.tril(definite), square),
        ),
        "threefry bits": Workload(lambda key: jax.random.bits(key, (1 << 20,)), (key,)),
        "uniform numbers": Workload(lambda key: jax.random.uniform(key, (1 << 20,)), (key,)),
        "normal numbers": Workload(lambda key: jax.random.normal(key, (1 << 20,)), (key,)),
        "dropout": Workload(
            lambda key, x: jnp.where(jax.random.bernoulli(key, 0.9, x.shape), x / 0.9, 0), (key, x)
        ),
    }
