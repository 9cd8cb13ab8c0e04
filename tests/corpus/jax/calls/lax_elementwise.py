"""Calls of the functions of jax.lax that work element by element, reduce, or make arrays."""

import numpy as np

from tests.corpus.jax.calls.values import (
    LOGICAL,
    OTHER,
    SPECIAL,
    C,
    D,
    Group,
    K,
    M,
    N,
    P,
    Q,
    T,
    U,
    V,
    X,
    Y,
    each,
)

_REAL = (
    "abs asinh atan bessel_i0e bessel_i1e cbrt ceil cos cosh digamma erf erfc exp exp2 expm1 floor "
    "is_finite lgamma logistic neg reciprocal round sign sin sinh square tan tanh stop_gradient"
)
_DOMAIN = "acos asin atanh erf_inv log log1p sqrt rsqrt acosh"
_COMPLEX = (
    "abs acos acosh asin asinh atan atanh conj cos cosh exp exp2 expm1 imag log log1p "
    "logistic neg real reciprocal rsqrt sign sin sinh sqrt square tan tanh"
)
_PAIRS = "add atan2 complex div eq ge gt le lt max min mul ne nextafter pow rem sub"
_BITS = "bitwise_and bitwise_or bitwise_xor shift_left shift_right_arithmetic shift_right_logical"
_REDUCE = "reduce_max reduce_min reduce_prod reduce_sum"
_ALONG = "cumlogsumexp cummax cummin cumprod cumsum"


def of_one() -> Group:
    import jax.numpy as jnp
    from jax import lax

    half = U.astype(jnp.bfloat16)
    return {
        **each(lax, _REAL, X),
        **each(lax, _REAL, SPECIAL, tag="/special"),
        **each(lax, "acos asin atanh erf_inv log log1p sqrt rsqrt", U),
        **each(lax, "acosh", P + 1),
        **each(lax, _DOMAIN, SPECIAL, tag="/special"),
        **each(lax, _COMPLEX, C, tag="/complex"),
        **each(lax, "conj imag real", C),
        **each(lax, f"{_REAL} {_DOMAIN}", half, tag="/bf16"),
        **each(lax, f"{_REAL} {_DOMAIN}", U.astype("f2"), tag="/f16"),
        **each(lax, "abs neg sign square", N, tag="/int"),
        **each(lax, "clz population_count bitwise_not", N),
        **each(lax, "clz population_count bitwise_not", N.astype("i1"), tag="/s8"),
        "integer_pow": (lambda x: lax.integer_pow(x, -3), X),
        "round/even": (lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), 2 * SPECIAL),
        "reduce_precision": (lambda x: lax.reduce_precision(x, 4, 5), X),
        "convert_element_type": (lambda x: lax.convert_element_type(x, "int32"), 3 * X),
        "bitcast_convert_type": (lambda x: lax.bitcast_convert_type(x, "uint16"), X),
        "exp/accuracy": (lambda x: lax.exp(x, accuracy=lax.AccuracyMode.HIGHEST), X),
    }


def of_two() -> Group:
    import jax.numpy as jnp
    from jax import lax

    one, other = (array.ravel() for array in np.meshgrid(SPECIAL, SPECIAL))
    pairs = "add atan2 div eq ge gt le lt max min mul ne nextafter pow rem sub"
    return {
        **each(lax, _PAIRS, X, Y),
        **each(lax, "pow", P, Y),
        **each(lax, pairs, one, other, tag="/special"),
        **each(lax, "add div eq mul ne pow sub", C, D, tag="/complex"),
        **each(lax, "add div eq ge gt le lt max min mul ne rem sub mulhi", N, M, tag="/int"),
        **each(lax, _BITS, N, M),
        **each(lax, _BITS, N.astype("i1"), M.astype("i1") * 2, tag="/s8"),
        **each(lax, "mulhi", N * 10**15, M * 10**15),
        **each(lax, "bitwise_and bitwise_or bitwise_xor", LOGICAL, OTHER, tag="/bool"),
        **each(lax, "igamma igammac igamma_grad_a random_gamma_grad", P, Q),
        **each(lax, "igamma igammac", 20 * P, 20 * Q, tag="/large"),
        **each(lax, "zeta", P + 1, Q),
        "polygamma": (lambda q: lax.polygamma(jnp.full_like(q, 2), q), Q),
        "betainc": (lax.betainc, P, Q, U),
        "clamp": (lambda x: lax.clamp(jnp.asarray(-0.5, x.dtype), x, jnp.asarray(0.7, x.dtype)), X),
        "select": (lax.select, LOGICAL, X, Y),
        "select_n": (lambda m, x, y: lax.select_n(m % 3, x, y, x * y), M, X, Y),
    }


def gradients() -> Group:
    import jax
    from jax import lax

    def gradient(name: str) -> object:
        return jax.grad(lambda x: getattr(lax, name)(x).real.sum())

    names = "asinh atan bessel_i0e cbrt cosh digamma erf expm1 lgamma logistic tan tanh reciprocal"
    inside = "acos asin atanh erf_inv log log1p sqrt rsqrt"
    return {
        **{f"{name}/gradient": (gradient(name), X) for name in names.split()},
        **{f"{name}/gradient": (gradient(name), U) for name in inside.split()},
        "igamma/gradient": (jax.grad(lambda p, q: lax.igamma(p, q).sum(), (0, 1)), P, Q),
        "betainc/gradient": (jax.grad(lambda p, q, u: lax.betainc(p, q, u).sum(), 2), P, Q, U),
        "pow/gradient": (jax.grad(lambda p, q: lax.pow(p, q).sum(), (0, 1)), P, Q),
        "cumlogsumexp/gradient": (jax.grad(lambda v: lax.cumlogsumexp(v)[-1]), V),
    }


def reductions() -> Group:
    import jax.numpy as jnp
    from jax import lax

    window = {"window_dimensions": (2, 3), "window_strides": (1, 2), "padding": "SAME"}
    return {
        **each(lax, _REDUCE, X, axes=(1,)),
        **each(lax, _REDUCE, N, tag="/int", axes=(0,)),
        **each(lax, "reduce_prod reduce_sum", C, tag="/complex", axes=(0,)),
        **each(lax, "reduce_and reduce_or reduce_xor", LOGICAL, axes=(0,)),
        **each(lax, "reduce_and reduce_or reduce_xor", N, tag="/int", axes=(0,)),
        **each(lax, "argmax argmin", X, axis=1, index_dtype="int32"),
        **each(lax, _ALONG, X, axis=1),
        **each(lax, _ALONG, X, tag="/reverse", axis=0, reverse=True),
        "reduce": (lambda t: lax.reduce(t, jnp.zeros((), t.dtype), jnp.hypot, (0, 2)), T),
        "reduce/variadic": (
            lambda x, y: lax.reduce(
                (x, y),
                (jnp.zeros((), x.dtype), jnp.ones((), y.dtype)),
                lambda a, b: (a[0] + b[0], a[1] * b[1]),
                (1,),
            ),
            X,
            Y,
        ),
        "reduce_window": (
            lambda x: lax.reduce_window(x, jnp.array(-jnp.inf, x.dtype), lax.max, **window),
            X,
        ),
        "reduce_window/dilated": (
            lambda x: lax.reduce_window(
                x,
                jnp.zeros((), x.dtype),
                lax.add,
                (2, 2),
                (1, 1),
                ((1, 0), (0, 2)),
                base_dilation=(2, 1),
                window_dilation=(1, 2),
            ),
            X,
        ),
        "reduce_window/other": (
            lambda x: lax.reduce_window(x, jnp.ones((), x.dtype), lax.mul, **window),
            X,
        ),
        "approx_max_k": (lambda v: lax.approx_max_k(v, 3), V),
        "approx_min_k": (lambda v: lax.approx_min_k(v, 3), V),
        "top_k": (lambda x: lax.top_k(x, 2), X),
        "top_k/axis": (lambda n: lax.top_k(n, 2, axis=0), N),
        "sort": (lambda x: lax.sort(x, dimension=0), X),
        "sort/two": (lambda n, x: lax.sort((n, x), num_keys=2), N % 3, X),
        "sort_key_val": (lax.sort_key_val, M, X),
    }


def makers() -> Group:
    import jax.numpy as jnp
    from jax import lax

    return {
        "iota": (lambda: lax.iota("int32", 5),),
        "broadcasted_iota": (lambda: lax.broadcasted_iota("float32", (3, 4), 1),),
        "full": (lambda: lax.full((2, 3), 1.5),),
        "full_like": (lambda x: lax.full_like(x, 2), X),
        "empty": (lambda: lax.empty((2, 3), "float32").shape[0] + jnp.zeros(2),),
        "rng_uniform/bounds": (
            lambda: (lambda u: (u >= 2.0) & (u < 3.0))(lax.rng_uniform(2.0, 3.0, (4, 4))),
        ),
        "rng_uniform": (lambda: lax.rng_uniform(2.0, 2.0, (3,)),),
        **{
            f"rng_bit_generator/{kind}": (
                lambda key, kind=kind: lax.rng_bit_generator(key, (5, 3), algorithm=kind),
                K[:4].astype("u4"),
            )
            for kind in range(3)
        },
    }


PROGRAMS = (of_one, of_two, gradients, reductions, makers)
