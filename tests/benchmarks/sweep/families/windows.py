"""Families of windows: pools, cumulative sums and moving averages, convolutions."""

import math

from tests.benchmarks.sweep.draw import Draw


def pool(draw: Draw) -> str:
    """Draw a sum, maximum or mean over windows of 1 to 3 dimensions."""
    rank = draw.integer(1, 4)
    shape = draw.shape(rank, high=2**20)
    dtype = draw.dtype(integers=0.1)
    x = draw.parameter(shape, dtype)
    budget = 64
    window, strides = [], []
    for size in shape:
        most = min(size, budget, 15)
        wide = draw.integer(1, most) if draw.chance(0.7) else 1
        window.append(wide)
        budget //= wide
        strides.append(draw.choice(1, 1, wide, min(2, size)))
    kind = draw.choice("add", "max", "min")
    padding = draw.choice("SAME", "VALID")
    zero = {"add": "0", "max": "-jnp.inf", "min": "jnp.inf"}[kind]
    if not dtype.startswith(("float", "bfloat")) and kind != "add":
        zero = f"jnp.iinfo(jnp.{dtype}).{'min' if kind == 'max' else 'max'}"
    value = f"jnp.{dtype}({zero})" if dtype != "bfloat16" else f"jnp.bfloat16({zero})"
    pooled = (
        f"lax.reduce_window({x}, {value}, lax.{kind}, {tuple(window)}, {tuple(strides)}, "
        f"'{padding}')"
    )
    return draw.choice(pooled, pooled, f"{pooled} * 2 + 1", f"jnp.sum({pooled}, -1)")


def running(draw: Draw) -> str:
    """Draw a cumulative sum, product or maximum, or an associative scan of a formula."""
    rank = draw.integer(1, 4)
    dtype = draw.dtype(integers=0.15)
    shape = draw.shape(rank, high=2**20)
    x = draw.parameter(shape, dtype)
    axis = draw.integer(0, rank - 1)
    is_float = dtype.startswith(("float", "bfloat"))
    kinds = [f"jnp.cumsum({x}, {axis})"] * 3 + [f"lax.cummax({x}, {axis})"] * 2
    kinds += [f"lax.cummin({x}, {axis}, reverse=True)", f"jnp.flip(jnp.cumsum({x}, {axis}))"]
    kinds += [f"jnp.diff(jnp.cumsum({x}, {axis}), axis={axis})"] if shape[axis] > 1 else []
    if is_float:
        kinds += [f"jnp.cumprod(1 + {x} / {2 * shape[axis]}, {axis})"]
        kinds += [f"lax.cumlogsumexp({x}, {axis})"]
        kinds += [f"lax.associative_scan(jnp.maximum, jnp.sin({x}), axis={axis})"]
        kinds += [
            "lax.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), "
            f"(jax.nn.sigmoid({x}), {x}), axis={axis})[1]"
        ] * 2
    return draw.choice(*kinds)


def moving(draw: Draw) -> str:
    """Draw a moving average along an axis: differences of sums, shifted sums, or a filter."""
    columns = draw.size(32, 2**17)
    rows = draw.size(1, max(1, 2**19 // columns))
    dtype = draw.dtype()
    x = draw.parameter((rows, columns), dtype)
    width = draw.integer(2, 24)
    form = draw.choice("sums", "shifts", "filter", "roll")
    if form == "sums":
        total = draw.let(f"jnp.cumsum({x}, 1)")
        return f"({total}[:, {width}:] - {total}[:, :-{width}]) / {width}"
    if form == "shifts":
        shifted = (f"{x}[:, {at}:{columns - width + at + 1}]" for at in range(min(width, columns)))
        return f"({' + '.join(shifted)}) / {width}"
    if form == "filter":
        taps = draw.parameter((width,), dtype)
        return f"jax.vmap(lambda row: jnp.convolve(row, {taps}, 'same'))({x})"
    rolled = (f"jnp.roll({x}, {at}, {draw.integer(0, 1)})" for at in range(width // 2 + 1))
    return " + ".join(rolled)


def convolution(draw: Draw) -> str:
    """Draw a convolution of 1 to 3 spatial dimensions: strides, dilation, groups, either layout."""
    spatial = draw.weighted({1: 3, 2: 6, 3: 1})
    groups = draw.weighted({1: 6, 2: 1, 4: 1, 0: 2})
    features = draw.size(1, 64)
    if groups > 1:
        features = -(-features // groups) * groups
    depthwise = groups == 0
    groups = groups or features
    made = groups * draw.integer(1, 2) if depthwise else groups * max(1, draw.size(1, 64) // groups)
    kernel = tuple(draw.weighted({1: 2, 3: 5, 5: 2, 7: 1, 2: 1}) for _ in range(spatial))
    taps = math.prod(kernel) * features // groups * made
    batch = draw.size(1, 16)
    # XLA takes 100 ms for about 2^31 multiplications of a large one, and of a poor one for fewer.
    pixels = max(16, min(2**27 // taps, 2**21 // max(features, made)) // batch)
    side = max(2, round(draw.size(16, max(16, pixels)) ** (1 / spatial)))
    sizes = tuple(max(width, side + draw.integer(0, 3)) for width in kernel)
    dtype = draw.weighted({"float32": 10, "bfloat16": 1, "float64": 1})
    letters = "DHW"[-spatial:]
    last = draw.chance(0.6)
    layout = (f"N{letters}C", f"{letters}IO") if last else (f"NC{letters}", f"OI{letters}")
    x_shape = (batch, *sizes, features) if last else (batch, features, *sizes)
    k_shape = (*kernel, features // groups, made) if last else (made, features // groups, *kernel)
    x, k = draw.parameter(x_shape, dtype), draw.parameter(k_shape, dtype)
    strides = tuple(draw.choice(1, 1, 1, 2) for _ in range(spatial))
    padding = draw.choice("SAME", "SAME", "VALID")
    dilated = f", rhs_dilation={(2,) * spatial}" if draw.chance(0.1) and padding == "SAME" else ""
    text = (
        f"lax.conv_general_dilated({x}, {k}, {strides}, '{padding}'{dilated}, dimension_numbers="
        f"{(layout[0], layout[1], layout[0])}, feature_group_count={groups})"
    )
    return draw.choice(text, f"jax.nn.relu({text})", f"{text} + 1")


FAMILIES = {"pool": pool, "running": running, "moving": moving, "convolution": convolution}
