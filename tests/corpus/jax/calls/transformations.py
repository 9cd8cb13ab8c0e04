"""Transformations of JAX: derivatives, batches, loops, branches, programs in programs."""

from tests.corpus.jax.calls.values import A, B, Group, K, N, P, S, U, V, W, X, Y


def derivatives() -> Group:
    import jax
    import jax.numpy as jnp

    def f(v):  # type: ignore[no-untyped-def]
        return jnp.sum(jnp.tanh(v) ** 3) + jnp.prod(jnp.cos(v))

    def g(v):  # type: ignore[no-untyped-def]
        return jnp.sin(v) * jnp.cumsum(v)

    @jax.custom_vjp
    def clipped(x):  # type: ignore[no-untyped-def]
        return x**2

    clipped.defvjp(lambda x: (x**2, x), lambda x, ct: (jnp.clip(ct * x, -1, 1),))

    @jax.custom_jvp
    def logistic(x):  # type: ignore[no-untyped-def]
        return 1 / (1 + jnp.exp(-x))

    logistic.defjvp(lambda xs, ts: (logistic(xs[0]), ts[0] * 0.25))
    saved = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
    return {
        "grad": (jax.grad(f), V),
        "grad/twice": (jax.grad(jax.grad(lambda x: jnp.exp(x) * jnp.sin(x))), 0.3),
        "grad/complex": (
            lambda x, y: jax.grad(lambda z: jnp.abs(z * z).sum(), holomorphic=False)(x + 1j * y),
            X,
            Y,
        ),
        "grad/holomorphic": (
            lambda x: jax.vmap(jax.grad(jnp.sin, holomorphic=True))(x + 0.5j),
            V,
        ),
        "value_and_grad": (jax.value_and_grad(f), V),
        "jvp": (lambda v, w: jax.jvp(g, (v,), (w,)), V, W),
        "vjp": (lambda v, w: jax.vjp(g, v)[1](w), V, W),
        "linearize": (lambda v, w: jax.linearize(g, v)[1](w), V, W),
        "linear_transpose": (
            lambda b, a: jax.linear_transpose(lambda x: a @ x, b)(a @ b),
            B,
            A,
        ),
        "jacfwd": (jax.jacfwd(g), V),
        "jacrev": (jax.jacrev(g), V),
        "hessian": (jax.hessian(f), V),
        "custom_vjp": (jax.grad(lambda v: clipped(v).sum()), V),
        "custom_jvp": (jax.grad(lambda v: logistic(v).sum()), V),
        "checkpoint": (jax.grad(lambda v: jax.checkpoint(f)(v) * 2), V),
        "checkpoint/policy": (
            jax.grad(
                lambda a, b: jax.checkpoint(lambda x: f(a @ x), policy=saved)(b).sum(), (0, 1)
            ),
            A,
            B,
        ),
        "stop_gradient": (jax.grad(lambda v: f(jax.lax.stop_gradient(v) * v)), V),
        "closure_convert": (lambda v: jax.closure_convert(g, v)[0](v), V),
        "jet": (jax.jacfwd(jax.jacrev(jax.jacfwd(lambda x: jnp.sin(x) * x**3))), 0.4),
    }


def batches() -> Group:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def per_axis(function):  # type: ignore[no-untyped-def]
        return jax.vmap(function, axis_name="rows")

    def gathered(x):  # type: ignore[no-untyped-def]
        return lax.all_gather(x, "rows"), lax.axis_index("rows"), lax.axis_size("rows") * x

    ring = [(number, (number + 1) % 4) for number in range(4)]
    whole = {
        name: (per_axis(lambda x, name=name: getattr(lax, name)(x, "rows")), X)
        for name in ("psum", "pmean", "pmax", "pmin")
    }
    return {
        "vmap": (jax.vmap(jnp.dot, (0, None)), X, V[:6]),
        "vmap/out_axes": (jax.vmap(jnp.sort, 1, 1), X),
        "vmap/nested": (jax.vmap(jax.vmap(jnp.multiply, (None, 0)), (0, None)), V, W),
        "vmap/gather": (jax.vmap(lambda x, k: x[k], (0, 0)), X, K[:4]),
        "vmap/scatter": (jax.vmap(lambda x, k: x.at[k].add(1.0)), X, K[:4]),
        "vmap/dynamic_slice": (jax.vmap(lambda x, k: lax.dynamic_slice(x, (k,), (2,))), X, K[:4]),
        "vmap/solve": (jax.vmap(jnp.linalg.solve, (None, 1)), S, B),
        "vmap/cond": (jax.vmap(lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x)), X),
        "vmap/while_loop": (
            jax.vmap(lambda n: lax.while_loop(lambda s: s < 20, lambda s: s * 2 + 1, n)),
            N[0] + 10,
        ),
        "vmap/switch": (
            jax.vmap(lambda k, x: lax.switch(k, [jnp.sin, jnp.cos, jnp.tanh], x)),
            K[:4],
            X,
        ),
        "vmap/random": (
            lambda: jax.vmap(lambda k: jax.random.gamma(k, 2.0))(
                jax.random.split(jax.random.key(1), 3)
            ),
        ),
        "vmap/conv": (jax.vmap(lambda v, w: jnp.convolve(v, w, "same")), X, Y),
        "vmap/grad": (jax.vmap(jax.grad(lambda x: jnp.sum(x**3))), X),
        **whole,
        "all_gather": (per_axis(gathered), X),
        "ppermute": (per_axis(lambda x: lax.ppermute(x, "rows", ring)), X),
        "psum_scatter": (per_axis(lambda x: lax.psum_scatter(x[:4], "rows")), X),
        "all_to_all": (per_axis(lambda x: lax.all_to_all(x[:4], "rows", 0, 0)), X),
        "pshuffle": (per_axis(lambda x: lax.pshuffle(x, "rows", [2, 0, 3, 1])), X),
    }


def loops() -> Group:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def step(c, x):  # type: ignore[no-untyped-def]
        return c * 0.9 + x, (c, jnp.sin(x))

    def newton(p):  # type: ignore[no-untyped-def]
        def improve(state):  # type: ignore[no-untyped-def]
            number, x = state
            return number + 1, 0.5 * (x + p / x)

        return lax.while_loop(lambda state: state[0] < 12, improve, (0, p))

    def collatz(n):  # type: ignore[no-untyped-def]
        def following(state):  # type: ignore[no-untyped-def]
            value, steps = state
            return jnp.where(value % 2 == 0, value // 2, 3 * value + 1), steps + 1

        return lax.while_loop(lambda state: state[0] != 1, following, (n, 0))[1]

    return {
        "scan": (lambda x: lax.scan(step, x[0], x), X),
        "scan/reverse": (lambda x: lax.scan(step, x[0], x, reverse=True, unroll=2), X),
        "scan/length": (lambda v: lax.scan(lambda c, _: (c * 1.1, c), v, None, length=5), V),
        "scan/gradient": (jax.grad(lambda x: lax.scan(step, x[0], x)[0].sum()), X),
        "scan/nested": (
            lambda x: lax.scan(
                lambda c, row: lax.scan(lambda a, b: (a + b, a * b), c, row), x[0, 0], x
            ),
            X,
        ),
        "fori_loop": (lambda v: lax.fori_loop(0, 10, lambda i, c: c * 1.1 + i, v), V),
        "fori_loop/traced": (lambda v, k: lax.fori_loop(0, k[0], lambda i, c: c + v[i], v), V, K),
        "fori_loop/gradient": (
            jax.grad(lambda v: lax.fori_loop(0, 4, lambda i, c: jnp.sin(c) + v[i], v).sum()),
            V,
        ),
        "fori_loop/update": (
            lambda x: lax.fori_loop(0, 4, lambda i, c: c.at[i].set(c[i - 1] * 2), x),
            X,
        ),
        "while_loop": (newton, P),
        "while_loop/jvp": (lambda p: jax.jvp(lambda q: newton(q)[1], (p,), (p,)), P),
        "while_loop/integers": (jax.vmap(collatz), jnp.arange(1, 20)),
        "map": (lambda x: lax.map(lambda row: jnp.sort(row) * row.sum(), x), X),
        "map/batches": (lambda x: lax.map(jnp.sin, x, batch_size=3), X),
        "associative_scan": (lambda x: lax.associative_scan(jnp.add, x, axis=1), X),
        "associative_scan/reverse": (
            lambda x, y: lax.associative_scan(
                lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (x, y), reverse=True
            ),
            X,
            Y,
        ),
    }


def branches() -> Group:
    import jax
    import jax.flatten_util
    import jax.numpy as jnp
    from jax import lax

    functions = [jnp.sin, jnp.cos, lambda v: v * 3]

    def inner(x, y):  # type: ignore[no-untyped-def]
        return jnp.where(x > y, x - y, x * y)

    twice = jax.jit(lambda x: jax.jit(inner)(x, 2.0) + jax.jit(inner)(x, x))
    return {
        "cond": (lambda v: lax.cond(v[0] > 0, jnp.sin, jnp.cos, v), V),
        "cond/several": (
            lambda v, w: lax.cond(v[0] > w[0], lambda a, b: (a, b), lambda a, b: (b, a + b), v, w),
            V,
            W,
        ),
        "cond/gradient": (jax.grad(lambda v: lax.cond(v[1] > 0, jnp.sin, jnp.cos, v).sum()), V),
        **{
            f"switch/{index}": (lambda v, i: lax.switch(i, functions, v), V, index)
            for index in (-1, 0, 2, 5)
        },
        "jit": (twice, V),
        "jit/static": (jax.jit(lambda x, n=3: x**n), V),
        "jit/donated": (jax.jit(lambda x, y: (x + y, x - y), donate_argnums=0), V.astype("f4"), W),
        "jit/tree": (lambda tree: jax.tree.map(lambda x: x * 2, tree), {"a": V, "b": (X, [U])}),
        "jit/inline": (lambda x: jax.jit(inner, inline=True)(x, 1.0), X),
        "jit/constant": (lambda v: v + jnp.asarray(W), V),
        "named_call": (lambda v: jax.named_call(inner, name="ours")(v, 2 * v), V),
        "named_scope": (lambda v: jax.named_scope("ours")(inner)(v, 2 * v), V),
        "remat_in_scan": (
            jax.grad(
                lambda x: lax.scan(jax.checkpoint(lambda c, r: (jnp.tanh(c * r), None)), x[0], x)[
                    0
                ].sum()
            ),
            X,
        ),
        "eval_shape": (lambda x: jnp.zeros(jax.eval_shape(jnp.sin, x).shape) + x, X),
        "pure_tree_reduce": (lambda x, y: jax.tree.reduce(jnp.add, [x, y, x]), X, Y),
        "flatten": (lambda x, y: jax.flatten_util.ravel_pytree({"x": x, "y": y})[0], X, Y),
        "segment_sum": (lambda x, k: jax.ops.segment_sum(x, k[:4], 4), X, K),
        "segment_max": (lambda x, k: jax.ops.segment_max(x, k[:4], 4), X, K),
        "segment_min": (lambda x, k: jax.ops.segment_min(x, k[:4], 4), X, K),
        "segment_prod": (lambda x, k: jax.ops.segment_prod(x, k[:4], 4), X, K),
    }


PROGRAMS = (derivatives, batches, loops, branches)
