"""A wide choice of what programs in JAX are made of, as functions with arguments.

Each group is a function, so that jax is imported only when a group is asked for.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.corpus.jax.programs import lower
from tests.corpus.kept import kept

Group = dict[str, tuple[Any, ...]]
"""Name -> function, then its arguments."""

_RANDOM = np.random.default_rng(0)
X = _RANDOM.standard_normal((4, 6)).astype(np.float32)
V = _RANDOM.standard_normal(8).astype(np.float32)
A = _RANDOM.standard_normal((5, 5)).astype(np.float32)
S = A @ A.T + 5 * np.eye(5, dtype=np.float32)
INDICES = np.array([3, 1, 2], np.int32)
IMAGES = _RANDOM.standard_normal((2, 5, 5, 4)).astype(np.float32)
HEADS = _RANDOM.standard_normal((1, 4, 2, 8)).astype(np.float32)


def special_functions() -> Group:
    import jax
    import jax.numpy as jnp
    import jax.scipy as jsp

    return {
        "cumsum": (lambda x: jnp.cumsum(x, 1), X),
        "sort": (lambda x: jnp.sort(x, 0), X),
        "argsort": (lambda x: jnp.argsort(x, 1), X),
        "median": (jnp.median, X),
        "quantile": (lambda x: jnp.quantile(x, 0.3, axis=0), X),
        "var": (lambda x: jnp.var(x, 0), X),
        "logsumexp": (lambda x: jsp.special.logsumexp(x, 1), X),
        "logsumexp of a stack": (lambda x: jsp.special.logsumexp(jnp.stack([x, -x]), 0), X),
        "softmax": (jax.nn.softmax, X),
        "gelu": (jax.nn.gelu, X),
        "erf_inv": (lambda x: jsp.special.erfinv(jnp.tanh(x)), X),
        "gammaln": (lambda x: jsp.special.gammaln(jnp.abs(x) + 0.1), X),
        "digamma": (lambda x: jsp.special.digamma(jnp.abs(x) + 0.1), X),
        "igamma": (lambda x: jsp.special.gammainc(jnp.abs(x) + 0.1, 1.5), X),
        "betainc": (lambda x: jsp.special.betainc(2.0, 3.0, jax.nn.sigmoid(x)), X),
        "i0": (jsp.special.i0, X),
        "zeta": (lambda x: jsp.special.zeta(jnp.abs(x) + 1.5, 1.0), X),
        "nextafter": (lambda v: jnp.nextafter(v, 1.0), V),
        "frexp": (jnp.frexp, V),
        "ldexp": (lambda v: jnp.ldexp(v, 2), V),
        "spacing": (jnp.spacing, V),
        "sinc": (jnp.sinc, V),
    }


def signals() -> Group:
    import jax
    import jax.numpy as jnp
    import jax.scipy as jsp
    from jax import lax

    return {
        "fft": (jnp.fft.fft, V),
        "rfft2": (jnp.fft.rfft2, X),
        "irfft": (lambda v: jnp.fft.irfft(jnp.fft.rfft(v)), V),
        "convolve": (lambda v: jnp.convolve(v, v), V),
        "convolve_same": (lambda v: jsp.signal.convolve(v, v, mode="same"), V),
        "resize": (lambda x: jax.image.resize(x, (8, 3), "bilinear"), X),
        "depthwise": (
            lambda a: lax.conv_general_dilated(
                a,
                jnp.ones((3, 3, 1, 4)),
                (1, 1),
                "SAME",
                feature_group_count=4,
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
            ),
            IMAGES,
        ),
        "conv_transpose": (
            lambda a: lax.conv_transpose(a, jnp.ones((3, 3, 4, 2)), (2, 2), "SAME"),
            IMAGES,
        ),
        "sum_pool": (lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (2, 2), "SAME"), X),
    }


def linear_algebra() -> Group:
    import jax.numpy as jnp
    import jax.scipy as jsp

    return {
        "inv": (jnp.linalg.inv, A),
        "svd": (lambda a: jnp.linalg.svd(a, compute_uv=False), A),
        "eigh": (lambda a: jnp.linalg.eigh(a)[0], S),
        "cholesky": (jnp.linalg.cholesky, S),
        "qr": (lambda a: jnp.abs(jnp.linalg.qr(a)[1]), A),
        "det": (jnp.linalg.det, A),
        "slogdet": (jnp.linalg.slogdet, A),
        "expm": (jsp.linalg.expm, A),
        "solve": (jnp.linalg.solve, A, V[:5]),
        "lstsq": (lambda a, b: jnp.linalg.lstsq(a, b)[0], A, V[:5]),
        "matrix_power": (lambda a: jnp.linalg.matrix_power(a, 3), A),
        "eigenvalues": (lambda a: jnp.sort(jnp.abs(jnp.linalg.eigvals(a))), A),
        "sqrtm": (lambda a: jnp.real(jsp.linalg.sqrtm(a)), S),
        "schur": (lambda a: jnp.abs(jsp.linalg.schur(a)[0]), S),
        "lu": (lambda a: jsp.linalg.lu(a), A),
        "cholesky_solve": (
            lambda a, b: jsp.linalg.cho_solve(jsp.linalg.cho_factor(a), b),
            S,
            V[:5],
        ),
    }


def indexing() -> Group:
    import jax
    import jax.numpy as jnp
    from jax import lax

    return {
        "gather": (lambda x, i: x[:, i], X, INDICES),
        "scatter": (lambda x, i: x.at[i].add(1.0), X, INDICES),
        "scatter_multiply": (lambda x, i: x.at[i].mul(2.0), X, INDICES),
        "take": (lambda x, i: jnp.take(x, i, axis=1, mode="clip"), X, INDICES),
        "unique": (lambda i: jnp.unique(i, size=3), INDICES),
        "nonzero": (lambda x: jnp.nonzero(x > 0, size=5), X),
        "where": (lambda x: jnp.where(x > 0, x, 0), X),
        "searchsorted": (lambda v: jnp.searchsorted(jnp.sort(v), v), V),
        "bincount": (lambda i: jnp.bincount(i, length=5), INDICES),
        "histogram": (lambda v: jnp.histogram(v, bins=4)[0], V),
        "digitize": (lambda v: jnp.digitize(v, jnp.array([-1.0, 0.0, 1.0])), V),
        "interp": (
            lambda v: jnp.interp(v, jnp.array([-1.0, 0.0, 1.0]), jnp.array([0.0, 1.0, 4.0])),
            V,
        ),
        "roll": (lambda x: jnp.roll(x, 2, 1), X),
        "tril": (jnp.tril, X),
        "pad": (lambda x: jnp.pad(x, 2, mode="reflect"), X),
        "segment_sum": (
            lambda v: jax.ops.segment_sum(v, jnp.array([0, 1, 0, 1, 2, 2, 0, 1]), 3),
            V,
        ),
        "one_hot": (lambda i: jax.nn.one_hot(i, 5), INDICES),
        "top_k": (lambda v: lax.top_k(v, 3), V),
        "approx_max_k": (lambda v: lax.approx_max_k(v, 3), V),
    }


def control_flow() -> Group:
    import jax
    import jax.numpy as jnp
    from jax import lax

    return {
        "scan": (lambda v: lax.scan(lambda c, a: (c * 0.9 + a, c), 0.0, v), V),
        "associative_scan": (lambda v: lax.associative_scan(jnp.add, v), V),
        "fori_loop": (lambda v: lax.fori_loop(0, 10, lambda i, c: c * 1.1 + i, v), V),
        "while_loop": (
            lambda v: lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 2), (0, v)),
            V,
        ),
        "cond": (lambda v: lax.cond(v[0] > 0, lambda a: a + 1, lambda a: a - 1, v), V),
        "switch": (lambda v: lax.switch(2, [jnp.sin, jnp.cos, jnp.tan], v), V),
        "map": (lambda v: lax.map(lambda a: a * a, v), V),
        "hessian": (jax.hessian(lambda v: jnp.sum(jnp.tanh(v) ** 3)), V),
        "jacobian": (jax.jacfwd(lambda v: v * jnp.sum(v)), V),
    }


def random_numbers() -> Group:
    import jax
    import jax.numpy as jnp

    return {
        "normal": (lambda: jax.random.normal(jax.random.key(0), (5,)),),
        "uniform": (lambda: jax.random.uniform(jax.random.key(1), (5,)),),
        "gamma": (lambda: jax.random.gamma(jax.random.key(2), 2.0, (5,)),),
        "permutation": (lambda: jax.random.permutation(jax.random.key(3), 10),),
        "categorical": (lambda: jax.random.categorical(jax.random.key(4), jnp.zeros((3, 4))),),
        "poisson": (lambda: jax.random.poisson(jax.random.key(5), 3.0, (5,)),),
        "beta": (lambda: jax.random.beta(jax.random.key(6), 2.0, 3.0, (4,)),),
        "truncated_normal": (lambda: jax.random.truncated_normal(jax.random.key(7), -1, 1, (5,)),),
    }


def products_and_bits() -> Group:
    import jax
    import jax.numpy as jnp
    from jax import lax

    return {
        "kron": (lambda x: jnp.kron(x, x), X),
        "einsum": (lambda x: jnp.einsum("ij,kj->ik", x, x), X),
        "tensordot": (lambda x: jnp.tensordot(x, x, [[0], [0]]), X),
        "attention": (lambda a: jax.nn.dot_product_attention(a, a, a), HEADS),
        "int8_dot": (
            lambda x: jnp.dot(
                (x * 10).astype(jnp.int8),
                (x.T * 10).astype(jnp.int8),
                preferred_element_type=jnp.int32,
            ),
            X,
        ),
        "complex_dot": (lambda x: jnp.abs((x + 1j * x) @ (x.T - 1j * x.T)), X),
        "polyval": (lambda v: jnp.polyval(jnp.array([1.0, 2.0, 3.0]), v), V),
        "bf16_dot": (
            lambda x: (x.astype(jnp.bfloat16) @ x.astype(jnp.bfloat16).T).astype(jnp.float32),
            X,
        ),
        "reduce_precision": (lambda v: lax.reduce_precision(v, 5, 10), V),
        "clz": (lambda i: lax.clz(i), INDICES),
        "popcount": (lambda i: lax.population_count(i), INDICES),
    }


GROUPS: tuple[Callable[[], Group], ...] = (
    special_functions,
    signals,
    linear_algebra,
    indexing,
    control_flow,
    random_numbers,
    products_and_bits,
)


def lowered(group: Callable[[], Group]) -> Iterator[tuple[str, bytes, list[Any]]]:
    """Yield the name of each function of a group, its module as JAX lowers it, and arguments."""
    for name, (function, *arguments) in group().items():
        make = functools.partial(lower, function, *arguments)
        yield name, kept(f"vocabulary/{group.__name__}/{name}", make), arguments
