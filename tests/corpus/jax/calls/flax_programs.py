"""Layers, models and steps of training in flax, made and applied in one program."""

from tests.corpus.jax.calls.values import HEADS, IMAGES, Group, K, T, X, reasons

SEQUENCES = T.astype("f4")
"""Cells keep states of f32, and loops want one type."""


def _made(module, *inputs, **options):  # type: ignore[no-untyped-def]
    """A call that makes the module's parameters from a seed and applies it: both are compared."""
    import jax

    def run(seed, *arrays):  # type: ignore[no-untyped-def]
        keys = {"params": jax.random.key(seed), "dropout": jax.random.key(seed + 1)}
        # Not every layer draws its parameters, and JAX drops arguments that nothing reads.
        return module.init_with_output(keys, *arrays, **options), seed + 1

    return (run, 3, *inputs)


def layers() -> Group:
    import flax.linen as nn
    import jax.numpy as jnp

    return {
        "Dense": _made(nn.Dense(5), X),
        "Dense/bf16": _made(nn.Dense(5, dtype=jnp.bfloat16), X),
        "DenseGeneral": _made(nn.DenseGeneral((2, 3), axis=(-2, -1)), T),
        "Einsum": _made(nn.Einsum((6, 5), "ij,jk->ik"), X),
        "Embed": _made(nn.Embed(5, 3), K),
        "Conv": _made(nn.Conv(6, (3, 3), strides=2), IMAGES),
        "Conv/circular": _made(
            nn.Conv(8, (3, 2), padding="CIRCULAR", feature_group_count=2), IMAGES
        ),
        "Conv/causal": _made(nn.Conv(3, (3,), padding="CAUSAL", kernel_dilation=2), T),
        "ConvLocal": _made(nn.ConvLocal(3, (2, 2)), IMAGES),
        "ConvTranspose": _made(nn.ConvTranspose(3, (3, 3), strides=(2, 2)), IMAGES),
        "BatchNorm": _made(nn.BatchNorm(use_running_average=False), IMAGES),
        "LayerNorm": _made(nn.LayerNorm(), IMAGES),
        "RMSNorm": _made(nn.RMSNorm(), IMAGES),
        "GroupNorm": _made(nn.GroupNorm(2), IMAGES),
        "InstanceNorm": _made(nn.InstanceNorm(), IMAGES),
        "SpectralNorm": _made(nn.SpectralNorm(nn.Dense(4)), X, update_stats=True),
        "WeightNorm": _made(nn.WeightNorm(nn.Dense(4)), X),
        "PReLU": _made(nn.PReLU(), X),
        "Dropout": _made(nn.Dropout(0.4, deterministic=False), X),
        "Sequential": _made(nn.Sequential([nn.Dense(4), nn.relu, nn.Dense(2)]), X),
        "BatchApply": (lambda t: nn.BatchApply(nn.softmax, 2)(t), T),
        "Fp8DotGeneralOp": _made(nn.Dense(5, dot_general_cls=nn.Fp8DotGeneralOp), X.astype("f4")),
    }


def recurrent() -> Group:
    import flax.linen as nn

    cells = {
        name: nn.RNN(getattr(nn, name)(4))
        for name in ("LSTMCell", "OptimizedLSTMCell", "GRUCell", "MGUCell", "SimpleCell")
    }
    return {
        **{name: _made(cell, SEQUENCES) for name, cell in cells.items()},
        "RNN": _made(
            nn.RNN(nn.GRUCell(4), reverse=True, keep_order=True, return_carry=True), SEQUENCES
        ),
        "Bidirectional": _made(
            nn.Bidirectional(nn.RNN(nn.LSTMCell(3)), nn.RNN(nn.GRUCell(3))), SEQUENCES
        ),
        "ConvLSTMCell": _made(nn.RNN(nn.ConvLSTMCell(3, (2, 2))), IMAGES[:, None].astype("f4")),
    }


def attention_and_pooling() -> Group:
    import flax.linen as nn

    window = {"window_shape": (2, 2), "strides": (2, 1), "padding": "SAME"}
    return {
        "MultiHeadDotProductAttention": _made(nn.MultiHeadDotProductAttention(2), T, T),
        "MultiHeadAttention": _made(
            nn.MultiHeadAttention(2, dropout_rate=0.3, deterministic=False), T, T
        ),
        "SelfAttention": _made(nn.SelfAttention(2, decode=False), T),
        "dot_product_attention": (lambda h: nn.dot_product_attention(h, h, h), HEADS),
        "dot_product_attention_weights": (
            lambda h: nn.dot_product_attention_weights(h, 2 * h),
            HEADS,
        ),
        "make_causal_mask": (lambda t: nn.make_causal_mask(t[..., 0]), T),
        "make_attention_mask": (
            lambda t: nn.make_attention_mask(t[0, :, 0] > 0, t[1, :, 0] > 0),
            T,
        ),
        "combine_masks": (lambda x: nn.combine_masks(x > 0, x < 1), X),
        "avg_pool": (lambda i: nn.avg_pool(i, **window), IMAGES),
        "max_pool": (lambda i: nn.max_pool(i, **window), IMAGES),
        "pool": (
            lambda i: nn.pool(i, 0.0, lambda a, b: a + b, (2, 3), (1, 2), "VALID"),
            IMAGES,
        ),
    }


def training() -> Group:
    import flax.linen as nn
    import jax
    import jax.numpy as jnp
    import optax

    class Convolutional(nn.Module):
        """A small network with everything that has state."""

        @nn.compact
        def __call__(self, x, train: bool):  # type: ignore[no-untyped-def]
            x = nn.relu(nn.BatchNorm(not train)(nn.Conv(4, (3, 3), use_bias=False)(x)))
            x = nn.max_pool(x, (2, 2), (2, 2)).reshape(x.shape[0], -1)
            return nn.Dense(3)(nn.Dropout(0.2, deterministic=not train)(x))

    def steps(make_optimizer):  # type: ignore[no-untyped-def]
        def run(seed, images):  # type: ignore[no-untyped-def]
            key = jax.random.key(seed)
            model, optimizer = Convolutional(), make_optimizer()
            variables = model.init(key, images, train=False)
            labels = jnp.array([2, 0])

            def loss(params, stats):  # type: ignore[no-untyped-def]
                logits, updated = model.apply(
                    {"params": params, "batch_stats": stats},
                    images,
                    train=True,
                    mutable=["batch_stats"],
                    rngs={"dropout": key},
                )
                losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
                return losses.mean(), updated["batch_stats"]

            def step(carry, _):  # type: ignore[no-untyped-def]
                params, stats, state = carry
                (value, stats), grads = jax.value_and_grad(loss, has_aux=True)(params, stats)
                updates, state = optimizer.update(grads, state, params)
                return (optax.apply_updates(params, updates), stats, state), value

            params = variables["params"]
            start = (params, variables["batch_stats"], optimizer.init(params))
            return jax.lax.scan(step, start, None, length=3)

        return (run, 5, IMAGES.astype("f4"))

    makers = {
        "sgd": lambda: optax.sgd(0.1, momentum=0.9, nesterov=True),
        "adamw": lambda: optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-2)),
        "adafactor": lambda: optax.adafactor(1e-2),
        "lion": lambda: optax.lion(1e-3),
        "rmsprop": lambda: optax.rmsprop(optax.cosine_decay_schedule(1e-2, 10)),
    }
    return {f"train/{name}": steps(maker) for name, maker in makers.items()}


def newer() -> Group:
    import jax
    import jax.numpy as jnp
    from flax import nnx

    def applied(make):  # type: ignore[no-untyped-def]
        def run(seed, *inputs):  # type: ignore[no-untyped-def]
            model = make(nnx.Rngs(jax.random.key(seed)))
            result = model(*inputs)
            return result, nnx.to_pure_dict(nnx.state(model, nnx.Param)), seed + 1

        return run

    def step(seed, x):  # type: ignore[no-untyped-def]
        model = nnx.Linear(6, 3, rngs=nnx.Rngs(jax.random.key(seed)))
        value, grads = nnx.value_and_grad(lambda m: (m(x) ** 2).mean())(model)
        return value, nnx.to_pure_dict(nnx.state(grads))

    return {
        "nnx.Linear": (applied(lambda rngs: nnx.Linear(6, 3, rngs=rngs)), 3, X),
        "nnx.Conv": (applied(lambda rngs: nnx.Conv(4, 3, (3, 3), rngs=rngs)), 3, IMAGES),
        "nnx.BatchNorm": (applied(lambda rngs: nnx.BatchNorm(4, rngs=rngs)), 3, IMAGES),
        "nnx.LayerNorm": (applied(lambda rngs: nnx.LayerNorm(4, rngs=rngs)), 3, IMAGES),
        "nnx.Embed": (applied(lambda rngs: nnx.Embed(5, 3, rngs=rngs)), 3, K),
        "nnx.Dropout": (
            lambda seed, x: nnx.Dropout(0.5, rngs=nnx.Rngs(jax.random.key(seed)))(x),
            3,
            X,
        ),
        "nnx.MultiHeadAttention": (
            applied(lambda rngs: nnx.MultiHeadAttention(2, 4, 8, decode=False, rngs=rngs)),
            3,
            T,
        ),
        "nnx.RNN": (
            applied(lambda rngs: nnx.RNN(nnx.GRUCell(4, 5, rngs=rngs), rngs=rngs)),
            3,
            SEQUENCES,
        ),
        "nnx.value_and_grad": (step, 3, jnp.asarray(X, "f4")),
    }


PROGRAMS = (layers, recurrent, attention_and_pooling, training, newer)

NOT_A_PROGRAM = reasons(
    {
        "a base class or a record of the library": "Module RNNCellBase Variable FrozenDict "
        "DenyList LogicallyPartitioned Partitioned",
        "another format of eight bits": "Fp8DirectDotGeneralOp NANOOFp8DotGeneralOp "
        "Fp8Einsum Fp8DotGeneral",
        "a function of jax or jax.nn, whose own calls stand elsewhere": "celu elu gelu glu "
        "hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log_sigmoid log_softmax logsumexp "
        "normalize one_hot relu relu6 selu sigmoid silu soft_sign softmax softplus standardize "
        "swish tanh ones ones_init zeros zeros_init",
        "moves modules about, when they are traced": "add_metadata_axis apply "
        "checkpoint compact compact_name_scope cond custom_vjp disable_named_call "
        "enable_named_call fold_rngs get_logical_axis_rules get_partition_spec get_sharding grad "
        "init init_with_output intercept_methods jit jvp logical_axis_rules "
        "logical_to_mesh logical_to_mesh_axes logical_to_mesh_sharding map_variables merge_param "
        "named_call nowrap override_named_call remat remat_scan scan set_logical_axis_rules "
        "share_scope switch tabulate unbox value_and_grad vjp vmap while_loop "
        "with_logical_constraint with_logical_partitioning with_partitioning",
    }
)
