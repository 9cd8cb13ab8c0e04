"""Calls of the functions of jax.numpy that work element by element."""

import numpy as np

from tests.corpus.jax.calls.values import (
    LOGICAL,
    NANS,
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
    U,
    X,
    Y,
    each,
)

_REAL = (
    "abs absolute angle arcsinh arctan asinh atan cbrt ceil conj conjugate cos cosh deg2rad "
    "degrees exp exp2 expm1 fabs floor frexp i0 imag iscomplex isfinite isinf isnan isneginf "
    "isposinf isreal logical_not modf nan_to_num negative positive rad2deg radians real reciprocal "
    "rint round around sign signbit sin sinc sinh spacing square tan tanh trunc copy asarray array"
)
_DOMAIN = "acos arccos arcsin asin arctanh atanh acosh arccosh log log10 log1p log2 sqrt"
_COMPLEX = (
    "abs absolute angle arccos arccosh arcsin arcsinh arctan arctanh conj cos cosh exp exp2 expm1 "
    "imag iscomplex isfinite isinf isnan isreal log log10 log1p log2 negative nan_to_num real "
    "reciprocal round sign sin sinc sinh sqrt square tan tanh"
)
_OF_INTEGERS = (
    "abs absolute ceil cos exp expm1 fabs floor isfinite isinf isnan isneginf log1p negative "
    "positive reciprocal rint round sign sin square sqrt tanh trunc arctan logical_not"
)
_PAIRS = (
    "add arctan2 atan2 copysign divide equal floor_divide fmax fmin fmod greater greater_equal "
    "heaviside hypot less less_equal logaddexp logaddexp2 maximum minimum mod multiply nextafter "
    "not_equal remainder subtract true_divide divmod isclose"
)
_PAIRS_OF_COMPLEX = (
    "add divide equal greater less maximum minimum multiply not_equal subtract power "
    "logaddexp float_power isclose"
)
_PAIRS_OF_INTEGERS = (
    "add divide equal floor_divide fmax fmin fmod greater less maximum minimum mod multiply "
    "not_equal remainder subtract divmod arctan2 hypot float_power bitwise_and bitwise_or "
    "bitwise_xor gcd lcm left_shift bitwise_left_shift right_shift bitwise_right_shift power pow"
)


def of_one() -> Group:
    import jax.numpy as jnp

    return {
        **each(jnp, _REAL, X),
        **each(jnp, _REAL, SPECIAL, tag="/special"),
        **each(jnp, "acos arccos arcsin asin arctanh atanh", U),
        **each(jnp, "acosh arccosh", P + 1),
        **each(jnp, "log log10 log1p log2 sqrt", P),
        **each(jnp, _DOMAIN, SPECIAL, tag="/special"),
    }


def of_one_of_another_type() -> Group:
    import jax.numpy as jnp

    half = U.astype(jnp.bfloat16)
    return {
        **each(jnp, _COMPLEX, C, tag="/complex"),
        **each(jnp, _OF_INTEGERS, N, tag="/int"),
        **each(jnp, "abs arcsin cos exp log sqrt tanh trunc i0 sinc frexp", half, tag="/bf16"),
        **each(jnp, "abs arcsin cos exp log sqrt tanh trunc", U.astype("f2"), tag="/f16"),
        **each(jnp, "bitwise_count bitwise_invert bitwise_not invert", N),
        **each(jnp, "invert logical_not abs isnan", LOGICAL, tag="/bool"),
        "astype": (lambda x: jnp.astype(x, jnp.int32), 5 * X),
        "astype/complex": (lambda x: jnp.astype(x, jnp.complex64), X),
        "astype/float8": (lambda x: jnp.astype(x, jnp.float8_e4m3fn).astype("f4"), X),
        "astype/bool": (lambda x: jnp.astype(x, bool), N),
        "astype/uint8": (lambda x: jnp.astype(x, jnp.uint8), N),
        "round/decimals": (lambda x: jnp.round(x, 2), X),
        "clip": (lambda x: jnp.clip(x, -0.5, 0.7), X),
        "nan_to_num/values": (lambda x: jnp.nan_to_num(x, nan=1.0, posinf=2.0), SPECIAL),
        "unwrap": (lambda x: jnp.unwrap(x, axis=1), 5 * X),
        "piecewise": (lambda x: jnp.piecewise(x, [x < 0, x > 1], [-1.0, jnp.sin, 0.0]), X),
    }


def of_two() -> Group:
    import jax.numpy as jnp

    pairs = [array.ravel() for array in np.meshgrid(SPECIAL, SPECIAL)]
    return {
        **each(jnp, _PAIRS, X, Y),
        **each(jnp, _PAIRS, *pairs, tag="/special"),
        **each(jnp, _PAIRS_OF_COMPLEX, C, D, tag="/complex"),
        **each(jnp, _PAIRS_OF_INTEGERS, N, M, tag="/int"),
        **each(
            jnp, "floor_divide mod fmod divide maximum", N.astype("i2"), M.astype("i2"), tag="/s16"
        ),
        **each(
            jnp, "floor_divide mod power multiply", M.astype("u1"), M[::-1].astype("u1"), tag="/u8"
        ),
        **each(jnp, "add multiply equal", X.astype("f2"), N, tag="/mixed"),
        **each(jnp, "float_power power pow", P, Y),
        **each(jnp, "float_power power", *pairs, tag="/special"),
        **each(jnp, "logical_and logical_or logical_xor bitwise_and", LOGICAL, OTHER),
        **each(jnp, "bitwise_and bitwise_or bitwise_xor gcd lcm", N, M),
        **each(jnp, "left_shift bitwise_left_shift right_shift bitwise_right_shift", N, M),
        "ldexp": (jnp.ldexp, X, N),
        "where": (jnp.where, LOGICAL, X, Y),
        "select": (lambda x, y: jnp.select([x > 1, y > 0], [x, 2 * y], 7.0), X, Y),
        "choose": (lambda k, x: jnp.choose(k, x[:, :6], mode="clip"), K, X),
        "vectorize": (lambda x, y: jnp.vectorize(jnp.dot, signature="(n),(n)->()")(x, y), X, Y),
        "frompyfunc": (lambda x, y: jnp.frompyfunc(lambda a, b: a * b + 1, 2, 1)(x, y), X, Y),
        "isclose/nan": (lambda x: jnp.isclose(x, x + 1e-9, equal_nan=True), NANS),
    }


def methods_of_ufuncs() -> Group:
    import jax.numpy as jnp

    names = "add multiply maximum minimum logaddexp"
    return {
        **each(jnp, " ".join(f"{name}.reduce" for name in names.split()), X),
        **each(jnp, " ".join(f"{name}.accumulate" for name in names.split()), X),
        **each(jnp, " ".join(f"{name}.outer" for name in names.split()), X[0], Y[0]),
        "add.at": (lambda x, k: jnp.add.at(x, k, 2.0, inplace=False), Q[0], K),
        "add.reduceat": (lambda x: jnp.add.reduceat(x, jnp.array([0, 2, 3])), X[0]),
    }


PROGRAMS = (of_one, of_one_of_another_type, of_two, methods_of_ufuncs)
