"""Families of loops and of long elementwise chains on small arrays, of integers and conversions."""

from tests.benchmarks.sweep.draw import Draw
from tests.benchmarks.sweep.graphs.steps import BINARY, UNARY

_BODIES = (
    "jnp.tanh({0} * 0.9 + 0.1)",
    "{0} * 0.99 + i",
    "{0} - 0.1 * jnp.mean({0})",
    "{0} / (1 + jnp.max(jnp.abs({0})))",
    "jnp.roll({0}, 1, -1) * 0.5 + {0} * 0.5",
    "0.5 * ({0} + 1 / (1 + jnp.abs({0})))",
    "jnp.sin({0}) + jnp.cos({0})",
    "{0} * 0.5 + jnp.cumsum({0}, -1) * 0.001",
)


def loop(draw: Draw) -> str:
    """Draw a fori_loop, while_loop or scan whose state is one array, two, or a number."""
    shape = draw.shape(draw.integer(1, 2), 1, 2**15)
    dtype = draw.choice("float32", "float32", "float32", "float64")
    elements = max(1, shape[0] * shape[-1])
    trips = draw.size(2, max(2, min(2000, 2**21 // elements)))
    x = draw.parameter(shape, dtype)
    body = draw.choice(*_BODIES)
    form = draw.choice("fori", "while", "scan", "carry", "update", "two", "map")
    if form == "fori":
        return f"lax.fori_loop(0, {trips}, lambda i, y: {body.format('y')}, {x})"
    if form == "while":
        step = body.format("s[0]").replace("+ i", "+ s[1]")
        return (
            f"lax.while_loop(lambda s: (s[1] < {trips}) & (jnp.sum(s[0]) < 1e30), "
            f"lambda s: (({step}).astype({x}.dtype), s[1] + 1), ({x}, 0))"
        )
    if form == "update":
        return (
            f"lax.fori_loop(0, {trips}, lambda i, y: y.at[i % {shape[0]}]"
            f".set(y[(i * 7 + 1) % {shape[0]}] * 0.5 + 1), {x})"
        )
    if form == "two":
        body = body.replace("+ i", "+ 1")
        return (
            f"lax.fori_loop(0, {trips}, lambda i, s: (s[1] * 0.5, "
            f"{body.format('s[0]')}), ({x}, {x} + 1))"
        )
    steps = draw.size(2, max(2, min(512, 2**19 // elements)))
    rows = draw.parameter((steps, *shape), dtype)
    body = body.replace("+ i", "+ 1")
    if form == "map":
        return f"lax.map(lambda row: {body.format('row')}, {rows})"
    if form == "scan":
        return f"lax.scan(lambda y, row: ({body.format('(y + row)')}, jnp.sum(y)), {x}, {rows})"
    return f"lax.scan(lambda y, row: ({body.format('(y * row)')}, y), {x}, {rows})[0]"


def recurrent(draw: Draw) -> str:
    """Draw a recurrent network: a scan whose step multiplies by a matrix."""
    batch, width, steps = draw.size(1, 64), draw.size(4, 128), draw.size(4, 128)
    dtype = draw.choice("float32", "float32", "float64")
    h, w = draw.parameter((batch, width), dtype), draw.parameter((width, width), dtype)
    xs = draw.parameter((steps, batch, width), dtype)
    step = draw.choice(
        f"jnp.tanh(h @ {w} / {width} + x)",
        f"jax.nn.sigmoid(h @ {w}) * jnp.tanh(x) + h * 0.5",
        f"(h @ {w}) / {width} * jax.nn.sigmoid(x)",
    )
    return draw.choice(
        f"lax.scan(lambda h, x: ({step},) * 2, {h}, {xs})",
        f"lax.scan(lambda h, x: ({step}, None), {h}, {xs})[0]",
    )


def chain(draw: Draw) -> str:
    """Draw tens to hundreds of elementwise instructions on a small array, with fan-out."""
    shape = draw.shape(draw.integer(1, 2), 2**6, 2**13)
    dtype = draw.choice("float32", "float32", "float32", "float64", "bfloat16")
    names = [draw.parameter(shape, dtype) for _ in range(2)]
    for _ in range(draw.size(20, 250)):
        recent = names[-8:] if draw.chance(0.7) else names
        text = draw.choice(*(UNARY if draw.chance(0.35) else BINARY))
        pair = (draw.choice(*recent), names[-1])
        text = text.format(*pair)
        names.append(draw.let(f"jnp.tanh({text})" if draw.chance(0.1) else text))
    return f"{names[-1]}, {names[-2]}"


def integers(draw: Draw) -> str:
    """Draw arithmetic of integers and bits, and conversions between types."""
    shape = draw.shape(draw.integer(1, 3), high=2**20)
    kind = draw.choice("int32", "int32", "uint32", "int8", "int64", "uint8", "int16")
    a, b = (draw.parameter(shape, kind, "bits") for _ in range(2))
    names = [a, b]
    for _ in range(draw.integer(2, 10)):
        one, other = draw.choice(*names), names[-1]
        texts = [
            f"{one} + {other}",
            f"{one} * {other}",
            f"{one} ^ {other}",
            f"{one} & {other}",
            f"({one} << 3) | ({other} >> 5)",
            f"jnp.maximum({one}, {other})",
            f"{one} // ({other} | 1)",
            f"{one} % ({other} | 1)",
            f"jnp.where({one} > {other}, {one}, {other})",
            f"lax.population_count({other}) + {one}",
            f"jnp.abs({other})",
            f"lax.clz({one}) ^ {other}",
        ]
        names.append(draw.let(draw.choice(*texts)))
    last = names[-1]
    return draw.choice(
        last,
        f"jnp.sum({last})",
        f"jnp.max({last}, 0)",
        f"{last}.astype(jnp.float32) * 0.5",
        f"({last} > 3).sum(-1)",
        f"({last}.astype(jnp.bfloat16) + 1).astype(jnp.int8)",
    )


def complex_numbers(draw: Draw) -> str:
    """Draw elementwise functions and reductions of complex numbers."""
    shape = draw.shape(draw.integer(1, 2), high=2**18)
    a, b = (draw.parameter(shape, "complex64") for _ in range(2))
    text = draw.choice(
        f"{a} * {b} + {a}",
        f"jnp.exp({a}) / (1 + {b} * jnp.conj({b}))",
        f"jnp.abs({a}) + jnp.angle({b})",
        f"lax.complex(jnp.real({a}), jnp.imag({b}))",
        f"jnp.sqrt({a}) * jnp.conj({b})",
        f"jnp.sin({a}) + jnp.log({b})",
    )
    return draw.choice(text, f"jnp.sum({text}, -1)", f"jnp.abs({text})")


FAMILIES = {
    "loop": loop,
    "recurrent": recurrent,
    "chain": chain,
    "integers": integers,
    "complex_numbers": complex_numbers,
}
