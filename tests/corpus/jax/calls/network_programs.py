"""Calls of jax.nn, jax.nn.initializers and jax.image."""

from tests.corpus.jax.calls.values import (
    HEADS,
    IMAGES,
    LOGICAL,
    SPECIAL,
    Group,
    K,
    P,
    V,
    X,
    each,
    reasons,
)

_ACTIVATIONS = (
    "celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh identity leaky_relu log_sigmoid "
    "log_softmax logmeanexp logsumexp mish relu relu6 selu sigmoid silu soft_sign softmax softplus "
    "sparse_plus sparse_sigmoid squareplus standardize swish tanh"
)
_METHODS = ("nearest", "linear", "bilinear", "cubic", "lanczos3", "lanczos5")


def activations() -> Group:
    import jax
    import jax.numpy as jnp

    def gradient(name: str) -> object:
        return jax.grad(lambda x: (getattr(jax.nn, name)(x) ** 3).sum())

    return {
        **each(jax.nn, _ACTIVATIONS, X),
        **each(jax.nn, _ACTIVATIONS, SPECIAL, tag="/special"),
        **each(jax.nn, _ACTIVATIONS, X.astype(jnp.bfloat16), tag="/bf16"),
        **{f"{name}/gradient": (gradient(name), X) for name in _ACTIVATIONS.split()},
        **each(jax.nn, "gelu", X, tag="/exact", approximate=False),
        **each(jax.nn, "softmax log_softmax standardize", X, tag="/axis", axis=0),
        "log1mexp": (jax.nn.log1mexp, P),
        "one_hot": (lambda k: jax.nn.one_hot(k, 4, axis=0), K),
        "softmax/where": (lambda x, m: jax.nn.softmax(x, where=m), X, LOGICAL),
        "logsumexp/where": (lambda x, m: jax.nn.logsumexp(x, 0, where=m), X, LOGICAL),
    }


def attention() -> Group:
    import jax
    import jax.numpy as jnp

    attend = jax.nn.dot_product_attention
    return {
        "dot_product_attention": (lambda h: attend(h, h, h), HEADS),
        "dot_product_attention/causal": (lambda h: attend(h, h, 2 * h, is_causal=True), HEADS),
        "dot_product_attention/window": (
            lambda h: attend(h, h, h, scale=0.3, local_window_size=(1, 0)),
            HEADS,
        ),
        "dot_product_attention/lengths": (
            lambda h: attend(
                h, h, h, query_seq_lengths=jnp.int32([3]), key_value_seq_lengths=jnp.int32([2])
            ),
            HEADS,
        ),
        "dot_product_attention/bias": (
            lambda h: attend(
                h, h, h, bias=h[:, :, :, :4].swapaxes(1, 2), mask=h[:, :, :, :4].swapaxes(1, 2) > -1
            ),
            HEADS,
        ),
        "dot_product_attention/gradient": (
            jax.grad(lambda h: (attend(h, h, h) ** 2).sum()),
            HEADS,
        ),
    }


def initializers() -> Group:
    import jax
    from jax.nn import initializers

    made = (
        "glorot_normal glorot_uniform he_normal he_uniform kaiming_normal kaiming_uniform "
        "lecun_normal lecun_uniform normal orthogonal truncated_normal uniform xavier_normal "
        "xavier_uniform"
    )

    def drawn(initializer, shape=(3, 4)):  # type: ignore[no-untyped-def]
        return lambda seed: initializer(jax.random.key(seed), shape)

    return {
        **{
            f"initializers.{name}": (drawn(getattr(initializers, name)()), 3)
            for name in made.split()
        },
        "initializers.constant": (drawn(initializers.constant(2.0)), 3),
        "initializers.ones": (drawn(initializers.ones), 3),
        "initializers.zeros": (drawn(initializers.zeros), 3),
        "initializers.delta_orthogonal": (drawn(initializers.delta_orthogonal(), (3, 3, 2, 4)), 3),
        "initializers.variance_scaling": (
            drawn(initializers.variance_scaling(2.0, "fan_avg", "truncated_normal")),
            3,
        ),
    }


def images() -> Group:
    import jax
    import jax.numpy as jnp

    return {
        **{
            f"image.resize/{method}": (
                lambda i, method=method: jax.image.resize(i, (2, 9, 4, 4), method),
                IMAGES,
            )
            for method in _METHODS
        },
        "image.resize/aliased": (
            lambda i: jax.image.resize(i, (2, 3, 3, 4), "bilinear", antialias=False),
            IMAGES,
        ),
        "image.scale_and_translate": (
            lambda x, v: jax.image.scale_and_translate(
                x, (5, 4), (0, 1), jnp.abs(v[:2]) + 0.5, v[2:4], "cubic"
            ),
            X,
            V,
        ),
    }


PROGRAMS = (activations, attention, initializers, images)

NOT_A_PROGRAM = reasons(
    {
        "a type": "initializers.Initializer image.ResizeMethod",
        "multiplies with scales by kernels for GPUs": "get_scaled_dot_general_config "
        "scaled_dot_general scaled_matmul",
    }
)
