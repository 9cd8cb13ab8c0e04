"""Families of matrix products: orientations, batches, vectors, layers, attention."""

from tests.benchmarks.sweep.draw import Draw

MAX_MULTIPLICATIONS = 2**29
"""Multiplications of one product: XLA needs up to 100 ms for twice as many in f64."""

_TYPES = {"float32": 10, "float64": 2, "bfloat16": 2, "float16": 1, "int32": 1.5, "complex64": 1}


def _sizes(draw: Draw, dtype: str) -> tuple[int, int, int]:
    most = MAX_MULTIPLICATIONS if dtype == "float32" else MAX_MULTIPLICATIONS // 16
    while True:
        rows, inner, columns = (draw.size(1, 4096) for _ in range(3))
        largest = max(rows * inner, inner * columns, rows * columns)
        if rows * inner * columns <= most and largest <= 2**22:
            return rows, inner, columns


def product(draw: Draw) -> str:
    """Draw a product in one of four orientations, alone or with elementwise work around it."""
    dtype = draw.weighted(_TYPES)
    rows, inner, columns = _sizes(draw, dtype)
    left_turned, right_turned = draw.chance(0.4), draw.chance(0.4)
    a = draw.parameter((inner, rows) if left_turned else (rows, inner), dtype)
    b = draw.parameter((columns, inner) if right_turned else (inner, columns), dtype)
    left, right = a + ".T" * left_turned, b + ".T" * right_turned
    if draw.chance(0.25):
        left = f"({left} * 2)" if draw.chance(0.5) else f"({left} + 1)"
    if draw.chance(0.15):
        right = f"({right} - 1)"
    text = f"{left} @ {right}"
    after = ["{}", "{}", "{}", "({}) * 2 + 1", "({}).T", "jnp.sum({}, 0)", "jnp.sum({}, 1)"]
    bias = draw.parameter((columns,), dtype)
    after += [f"({{}}) + {bias}"]
    if dtype.startswith(("float", "bfloat")):
        after += [f"jax.nn.relu(({{}}) + {bias})", "jnp.tanh({})", "jax.nn.softmax({}, -1)"]
    return draw.choice(*after).format(text)


def vectors(draw: Draw) -> str:
    """Draw a product of a matrix and a vector, of two vectors, or an outer product."""
    dtype = draw.weighted(_TYPES)
    elements = draw.size(2**8, 2**21)
    rows = draw.size(1, min(elements, 2**14))
    columns = max(1, elements // rows)
    form = draw.choice("right", "left", "inner", "outer", "turned", "few")
    if form == "inner":
        a, b = (draw.parameter((elements,), dtype) for _ in range(2))
        return draw.choice(f"{a} @ {b}", f"jnp.vdot({a}, {b})", f"jnp.sum({a} * {b})")
    if form == "outer":
        a, b = draw.parameter((rows,), dtype), draw.parameter((columns,), dtype)
        return draw.choice(f"jnp.outer({a}, {b})", f"jnp.outer({a}, {b}) + 1")
    a = draw.parameter((rows, columns), dtype)
    if form == "right":
        return f"{a} @ {draw.parameter((columns,), dtype)}"
    if form == "left":
        return f"{draw.parameter((rows,), dtype)} @ {a}"
    if form == "turned":
        return f"{a}.T @ {draw.parameter((rows,), dtype)} + 1"
    few = draw.integer(1, 8)
    return draw.choice(
        f"{a} @ {draw.parameter((columns, few), dtype)}",
        f"{draw.parameter((few, rows), dtype)} @ {a}",
    )


def batched(draw: Draw) -> str:
    """Draw a product of many matrices, by einsum with the axes in any order."""
    dtype = draw.weighted({"float32": 10, "float64": 1, "bfloat16": 1})
    batch = draw.size(2, 256)
    while True:
        rows, inner, columns = (draw.size(1, 512) for _ in range(3))
        rows = 1 if draw.chance(0.25) else rows
        if (
            batch * rows * inner * columns <= 2**27
            and batch * max(rows * inner, inner * columns, rows * columns) <= 2**21
        ):
            break
    sizes = {"b": batch, "i": rows, "k": inner, "j": columns}
    left, right = ("".join(draw.sample(letters, 3)) for letters in ("bik", "bkj"))
    if draw.chance(0.5):
        left, right = "bik", draw.choice("bkj", "bjk")
    out = "".join(draw.sample("bij", 3)) if draw.chance(0.3) else "bij"
    a = draw.parameter([sizes[letter] for letter in left], dtype)
    b = draw.parameter([sizes[letter] for letter in right], dtype)
    return f"jnp.einsum('{left},{right}->{out}', {a}, {b})"


def small_matrices(draw: Draw) -> str:
    """Draw products of many matrices of 1 to 16 rows and columns, or of many short rows."""
    dtype = draw.weighted({"float32": 10, "float64": 2, "bfloat16": 1, "int32": 1})
    rows, inner, columns = (draw.integer(1, draw.choice(4, 8, 16)) for _ in range(3))
    batch = draw.size(2**6, 2**20 // max(rows * inner, inner * columns, rows * columns))
    sizes = {"b": batch, "i": rows, "k": inner, "j": columns}
    if draw.chance(0.3):
        x, weight = draw.parameter((batch, inner), dtype), draw.parameter((inner, columns), dtype)
        return draw.choice(f"{x} @ {weight}", f"({x} @ {weight}).T", f"jnp.abs({x}) @ {weight} + 1")
    left, right = draw.choice(("bik", "bkj"), ("bik", "bjk"), ("bki", "bkj"), ("ikb", "kjb"))
    a, b = (draw.parameter([sizes[at] for at in letters], dtype) for letters in (left, right))
    product = f"jnp.einsum('{left},{right}->bij', {a}, {b})"
    return draw.choice(product, f"jnp.abs({product}) + 1", f"jnp.sum({product}, {draw.axes(3)})")


def layers(draw: Draw) -> str:
    """Draw two to five dense layers with activations."""
    dtype = draw.weighted({"float32": 8, "bfloat16": 1, "float64": 1})
    batch = draw.size(1, 512)
    width = draw.size(4, 512)
    x = draw.parameter((batch, width), dtype)
    for _ in range(draw.integer(2, 5)):
        following = draw.size(4, 512)
        weight = draw.parameter((width, following), dtype)
        bias = draw.parameter((following,), dtype)
        act = draw.choice("jnp.tanh", "jax.nn.relu", "jax.nn.gelu", "jax.nn.sigmoid")
        x = draw.let(f"{act}({x} @ {weight} / {round(width**0.5)} + {bias})")
        width = following
    return x


def attention(draw: Draw) -> str:
    """Draw attention of several heads, with or without a causal mask."""
    heads, length, width = draw.size(1, 16), draw.size(2, 256), draw.size(4, 64)
    batch = draw.size(1, 4)
    dtype = draw.weighted({"float32": 8, "bfloat16": 1})
    q, k, v = (draw.parameter((batch, length, heads, width), dtype) for _ in range(3))
    logits = draw.let(f"jnp.einsum('bqhd,bkhd->bhqk', {q}, {k}) * {width**-0.5:.4f}")
    if draw.chance(0.5):
        mask = draw.let(f"jnp.tril(jnp.ones(({length}, {length}), bool))")
        logits = draw.let(f"jnp.where({mask}, {logits}, -1e9)")
    weights = draw.let(f"jax.nn.softmax({logits}, -1)")
    return f"jnp.einsum('bhqk,bkhd->bqhd', {weights}, {v})"


FAMILIES = {
    "product": product,
    "vectors": vectors,
    "batched": batched,
    "small_matrices": small_matrices,
    "layers": layers,
    "attention": attention,
}
