"""Families of reductions: over random axes, softmax and norms in chains, gradients of these."""

from tests.benchmarks.sweep.draw import Draw

_PROLOGUES = ("{}", "{}", "jnp.abs({})", "jnp.exp(-jnp.abs({}))", "{0} * {0}", "jnp.sin({})")
_FLOAT = ("sum", "max", "min", "mean", "var", "std", "argmax", "argmin", "prod", "logsumexp")
_INTEGER = ("sum", "max", "min", "argmax", "any", "all", "prod", "ptp")


def reduction(draw: Draw) -> str:
    """Draw one or two reductions of an array over random axes."""
    rank = draw.integer(1, 5)
    dtype = draw.dtype(integers=0.2, others=("bool", "complex64"))
    a = draw.parameter(draw.shape(rank), dtype, "bits" if dtype == "uint8" else "normal")
    if dtype == "complex64":
        kinds: tuple[str, ...] = ("sum", "mean", "prod")
    else:
        is_float = dtype.startswith(("float", "bfloat"))
        kinds = _FLOAT if is_float else ("any", "all", "sum") if dtype == "bool" else _INTEGER
        if is_float:
            a = draw.let(draw.choice(*_PROLOGUES).format(a))
    return ", ".join(_reduced(draw, a, rank, kinds) for _ in range(draw.integer(1, 2)))


def _reduced(draw: Draw, a: str, rank: int, kinds: tuple[str, ...]) -> str:
    kind = draw.choice(*kinds)
    axes: object = draw.integer(0, rank - 1) if kind[:3] == "arg" else draw.axes(rank)
    kept = draw.choice("", ", keepdims=True")
    if kind == "logsumexp":
        return f"jax.nn.logsumexp({a}, {axes}{kept})"
    return f"jnp.{kind}({a}, {axes}{kept})"


_MOVES = (
    "jnp.pad({x}, {around})",
    "jnp.pad({x}, {around}, 'edge')",
    "jnp.pad({x}, {around}, 'reflect')",
    "{x} * jnp.roll({x}, {shift}, {axis})",
    "jnp.concatenate([{x}, {x} * 2], {axis})",
    "jnp.concatenate([jnp.flip({x}, {axis}), {x}, jnp.abs({x})], {axis})",
    "jnp.stack([{x}, jnp.exp(-jnp.abs({x}))], {axis})",
    "jnp.stack([{x} * k for k in range({parts})], {axis})",
    "jnp.repeat({x}, 2, {axis})",
    "jnp.diff({x}, axis={axis})",
)


def moved_reduction(draw: Draw) -> str:
    """Draw reductions and norms of what pads, rolls, concatenates and stacks make of an array."""
    rank = draw.integer(1, 3)
    shape = draw.shape(rank, high=2**20)
    x = draw.parameter(shape, draw.dtype())
    axis = draw.choice(rank - 1, draw.integer(0, rank - 1))
    around = [(0, 0)] * rank
    for d in {axis, draw.integer(0, rank - 1)}:
        around[d] = draw.integer(0, min(3, shape[d] - 1)), draw.integer(0, min(3, shape[d] - 1))
    shift, parts = draw.integer(1, 9), draw.integer(3, 20)
    move = draw.choice(*_MOVES).format(x=x, axis=axis, around=around, shift=shift, parts=parts)
    moved = draw.let(draw.choice(*_PROLOGUES).format(draw.let(move)))
    if draw.chance(0.3):
        return draw.choice(*_NORMS).format(x=moved, axis=axis)
    return _reduced(draw, moved, rank, ("sum", "max", "mean", "logsumexp", "std"))


_NORMS = (
    "jax.nn.softmax({x}, {axis})",
    "jax.nn.log_softmax({x}, {axis})",
    "({x} - jnp.mean({x}, {axis}, keepdims=True)) * lax.rsqrt("
    "jnp.var({x}, {axis}, keepdims=True) + 1e-3)",
    "{x} * lax.rsqrt(jnp.mean({x} * {x}, {axis}, keepdims=True) + 1e-3)",
    "{x} / (jnp.sqrt(jnp.sum({x} * {x}, {axis}, keepdims=True)) + 1e-3)",
    "{x} / (jnp.sum(jnp.abs({x}), {axis}, keepdims=True) + 1e-3)",
    "({x} - jnp.min({x}, {axis}, keepdims=True)) / ("
    "jnp.max({x}, {axis}, keepdims=True) - jnp.min({x}, {axis}, keepdims=True) + 1e-3)",
)
_BETWEEN = ("{}", "jax.nn.gelu({})", "{} * 1.5 + 0.5", "jax.nn.relu({})", "{} + p0")


def normalisations(draw: Draw) -> str:
    """Draw one to four of softmax, layer norm, RMS norm, x / norm(x), with things between them."""
    rank = draw.integer(1, 4)
    shape = draw.shape(rank, high=2**21)
    dtype = draw.dtype()
    x = draw.parameter(shape, dtype)
    axis: object = draw.choice(rank - 1, rank - 1, draw.integer(0, rank - 1))
    for _ in range(draw.integer(1, 4)):
        if draw.chance(0.2):
            axis = draw.axes(rank) if draw.chance(0.4) else draw.integer(0, rank - 1)
        x = draw.let(draw.choice(*_NORMS).format(x=x, axis=axis))
        if draw.chance(0.4):
            scale, offset = (draw.parameter(shape[-1:], dtype) for _ in range(2))
            x = draw.let(f"{x} * {scale} + {offset}")
        x = draw.let(draw.choice(*_BETWEEN).format(x))
    return draw.choice(x, x, f"jnp.sum({x}, -1)", f"jnp.argmax({x}, -1)")


def batch_statistics(draw: Draw) -> str:
    """Draw a batch norm: statistics over all axes but one, applied and sometimes returned."""
    rank = draw.integer(2, 4)
    shape = draw.shape(rank, high=2**20)
    dtype = draw.dtype()
    x = draw.parameter(shape, dtype)
    kept = draw.integer(0, rank - 1)
    axes = tuple(axis for axis in range(rank) if axis != kept)
    mean = draw.let(f"jnp.mean({x}, {axes}, keepdims=True)")
    var = draw.let(f"jnp.mean(jnp.square({x} - {mean}), {axes}, keepdims=True)")
    y = draw.let(f"({x} - {mean}) * lax.rsqrt({var} + 1e-3)")
    if draw.chance(0.5):
        y = draw.let(f"jax.nn.relu({y})")
    return draw.choice(y, f"({y}, {mean}, {var})", f"jnp.sum({y} * {x}, {kept})")


def gradient(draw: Draw) -> str:
    """Draw the gradient of a scalar made of norms, activations and products."""
    rows, columns, inner = draw.size(4, 512), draw.size(4, 512), draw.size(4, 256)
    dtype = draw.choice("float32", "float32", "float32", "float64", "bfloat16")
    x = draw.parameter((rows, columns), dtype)
    weight = draw.parameter((columns, inner), dtype)
    y = draw.let(f"lambda x, w: {draw.choice('jnp.tanh', 'jax.nn.relu', 'jax.nn.gelu')}(x @ w)")
    axis = draw.integer(0, 1)
    loss = draw.choice(
        f"jnp.sum(jax.nn.logsumexp({y}(x, w), {axis}))",
        f"jnp.mean(jax.nn.softmax({y}(x, w), {axis}) ** 2)",
        f"jnp.mean(jnp.var({y}(x, w), {axis}))",
        f"jnp.sum(jnp.max({y}(x, w), {axis}))",
        f"jnp.mean(jnp.sqrt(jnp.sum({y}(x, w) ** 2, {axis}) + 1))",
        f"jnp.sum(jnp.cumsum({y}(x, w), {axis}) ** 2)",
    )
    with_value = draw.choice("grad", "value_and_grad")
    return f"jax.{with_value}(lambda x, w: {loss}, {draw.choice(0, (0, 1))})({x}, {weight})"


FAMILIES = {
    "reduction": reduction,
    "moved_reduction": moved_reduction,
    "normalisations": normalisations,
    "batch_statistics": batch_statistics,
    "gradient": gradient,
}
