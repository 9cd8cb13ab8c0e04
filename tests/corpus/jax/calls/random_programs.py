"""Calls of jax.random, with each kind of keys."""

from tests.corpus.jax.calls.values import Builder, Group, P, S, U, V, X, reasons

IMPLEMENTATIONS = ("threefry2x32", "rbg", "unsafe_rbg")
NEWER = ("philox2x32", "philox4x32", "threefry4x32")
_OF_BITS = (
    "bits",
    "bits/u8",
    "uniform",
    "uniform/bf16",
    "normal",
    "randint",
    "randint/s8",
    "permutation",
    "key",
    "key_data",
    "fold_in",
    "split",
    "split/many",
    "wrap_key_data",
)


def _programs(implementation: str) -> Group:
    import jax
    import jax.numpy as jnp
    from jax import random

    def drawn(name: str, *before: object, **options: object) -> tuple[object, ...]:
        def draw(seed: object, *arguments: object) -> object:
            key = random.key(seed, impl=implementation)
            return getattr(random, name)(key, *arguments, **options)

        return (draw, 11, *before)

    def keyed(function):  # type: ignore[no-untyped-def]
        return lambda seed, *rest: function(random.key(seed, impl=implementation), *rest)

    plain = "bits cauchy exponential gumbel laplace logistic maxwell normal rademacher uniform"
    return {
        **{name: drawn(name, shape=(3, 5)) for name in plain.split()},
        **{
            f"{name}/f16": drawn(name, shape=(9,), dtype="float16")
            for name in ("normal", "uniform", "exponential", "laplace")
        },
        "bits/u8": drawn("bits", shape=(7,), dtype="uint8"),
        "uniform/bf16": drawn("uniform", shape=(7,), dtype="bfloat16"),
        "normal/complex": drawn("normal", shape=(7,), dtype="complex64"),
        "normal/long": drawn("normal", shape=(1001,)),
        "ball": drawn("ball", d=3, p=2.5, shape=(4,)),
        "bernoulli": drawn("bernoulli", U),
        "bernoulli/high": drawn("bernoulli", U, mode="high"),
        "beta": drawn("beta", P, P + 1),
        "binomial": drawn("binomial", 20.0, U),
        "categorical": drawn("categorical", X),
        "categorical/without": drawn("categorical", X, shape=(3, 4), replace=False),
        "chisquare": drawn("chisquare", P),
        "choice": drawn("choice", V, shape=(5,)),
        "choice/weights": drawn("choice", V, shape=(5,), replace=False, p=jnp.arange(8) / 28),
        "dirichlet": drawn("dirichlet", P[0], shape=(3,)),
        "double_sided_maxwell": drawn("double_sided_maxwell", 0.5, 2.0, shape=(4,)),
        "f": drawn("f", P, P + 1),
        "gamma": drawn("gamma", P),
        "generalized_normal": drawn("generalized_normal", p=1.5, shape=(4,)),
        "geometric": drawn("geometric", U),
        "loggamma": drawn("loggamma", P),
        "lognormal": drawn("lognormal", P[0]),
        "multinomial": drawn("multinomial", 9.0, U[0] / U[0].sum()),
        "multivariate_normal": drawn("multivariate_normal", V[:5], S),
        "multivariate_normal/svd": drawn("multivariate_normal", V[:5], S, method="svd"),
        "orthogonal": drawn("orthogonal", n=4),
        "pareto": drawn("pareto", P),
        "permutation": drawn("permutation", X),
        "permutation/independent": drawn("permutation", X, axis=1, independent=True),
        # JAX has it for these keys alone.
        **(
            {
                "poisson": drawn("poisson", 3 * P),
                "poisson/large": drawn("poisson", 50 * P),
            }
            if implementation == "threefry2x32"
            else {}
        ),
        "randint": drawn("randint", shape=(9,), minval=-5, maxval=1000),
        "randint/s8": drawn("randint", shape=(9,), minval=-5, maxval=100, dtype="int8"),
        "rayleigh": drawn("rayleigh", P),
        "t": drawn("t", P),
        "triangular": drawn("triangular", -1.0, 0.5, 2.0, shape=(4,)),
        "truncated_normal": drawn("truncated_normal", -1.0, 2.0, shape=(4,)),
        "wald": drawn("wald", P),
        "weibull_min": drawn("weibull_min", 1.5, 0.7, shape=(4,)),
        "key": (keyed(random.key_data), 5),
        "key_data": (keyed(lambda key: random.key_data(random.fold_in(key, 3))), 5),
        "fold_in": (keyed(lambda key: random.normal(random.fold_in(key, 7), (3,))), 5),
        "split": (keyed(lambda key: random.key_data(random.split(key, (2, 3)))), 5),
        "split/many": (
            keyed(lambda key: jax.vmap(lambda k: random.normal(k, (3,)))(random.split(key, 4))),
            5,
        ),
        "clone": (keyed(lambda key: random.normal(random.clone(key), (3,))), 5),
        "wrap_key_data": (
            keyed(
                lambda key: random.bits(
                    random.wrap_key_data(random.key_data(key), impl=implementation), (3,)
                )
            ),
            5,
        ),
        "PRNGKey": (lambda seed: random.PRNGKey(seed, impl=implementation), 2**31 - 5),
        "gamma/gradient": (
            keyed(lambda key, p: jax.grad(lambda a: random.gamma(key, a).sum())(p)),
            5,
            P[0],
        ),
    }


def of(implementation: str) -> Builder:
    """The calls with keys of one kind; of the kinds that only some have, the calls about bits."""

    def build() -> Group:
        whole = _programs(implementation)
        if implementation in IMPLEMENTATIONS:
            return whole
        return {name: call for name, call in whole.items() if name in _OF_BITS}

    build.__name__ = implementation
    return build


PROGRAMS = tuple(of(implementation) for implementation in (*IMPLEMENTATIONS, *NEWER))

NOT_A_PROGRAM = reasons({"answers from types alone, when it is traced": "key_dtype key_impl"})
