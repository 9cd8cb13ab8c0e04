"""Families that move elements: gathers, scatters, concatenates, transposes, slices."""

import math

from tests.benchmarks.sweep.draw import Draw

_CHEAP = ("{}", "{}", "{} * 2", "{} + 1", "jnp.abs({})", "-{}")
_COMPUTED = (
    "jnp.exp(-jnp.abs({}))",
    "jnp.sin({})",
    "{0} * {0}",
    "{} + 1",
    "jnp.tanh({})",
    "jnp.cumsum({}, 0)",
)


def gather(draw: Draw) -> str:
    """Draw elements, rows or columns chosen by indices."""
    rank = draw.integer(1, 3)
    shape = draw.shape(rank, high=2**20)
    dtype = draw.dtype(integers=0.2)
    x = draw.parameter(shape, dtype)
    axis = draw.integer(0, rank - 1)
    size = shape[axis]
    others = max(1, math.prod(shape) // size)
    form = draw.choice("take", "take", "along", "points", "dynamic", "one_hot")
    if form == "along":
        picked = list(shape)
        picked[axis] = draw.size(1, max(1, min(2**20 // others, 2 * size)))
        at = draw.parameter(picked, "int32", "index", size)
        return f"jnp.take_along_axis({x}, {at}, {axis})"
    if form == "points":
        count = draw.size(2**6, 2**18)
        indices = [draw.parameter((count,), "int32", "index", size) for size in shape]
        return f"{x}[{', '.join(indices)}]"
    if form == "dynamic":
        starts = [draw.parameter((), "int32", "index", size) for size in shape]
        sizes = tuple(draw.integer(max(1, size // 2), size) for size in shape)
        return f"lax.dynamic_slice({x}, ({', '.join(starts)},), {sizes}) * 2"
    count = draw.size(1, max(1, min(2**20 // others, 2**16)))
    at = draw.parameter((count,), "int32", "index", size)
    if form == "one_hot" and count * size <= 2**20 and count * size * others <= 2**26:
        name = f"jax.nn.one_hot({at}, {size}, dtype={x}.dtype)"
        return f"jnp.tensordot({name}, {x}, ((1,), ({axis},)))"
    mode = draw.choice("", ", mode='clip'", ", mode='wrap'")
    return draw.choice(*_CHEAP).format(f"jnp.take({x}, {at}, {axis}{mode})")


def scatter(draw: Draw) -> str:
    """Draw elements or rows set or added at indices, sums of segments, histograms."""
    rank = draw.integer(1, 3)
    shape = draw.shape(rank, high=2**20)
    dtype = draw.dtype(integers=0.15)
    size = shape[0]
    form = draw.choice("rows", "rows", "points", "segments", "histogram", "slice")
    if form == "histogram":
        count = draw.size(2**8, 2**18)
        at = draw.parameter((count,), "int32", "index", size)
        return f"jnp.bincount({at}, length={size})"
    x = draw.parameter(shape, dtype)
    if form == "segments":
        at = draw.parameter((size,), "int32", "index", draw.size(1, size))
        kind = draw.choice("sum", "max", "sum")
        return f"jax.ops.segment_{kind}({x}, {at}, num_segments={size})"
    kind = draw.choice("set", "add", "add", "max", "multiply")
    if form == "points":
        count = draw.size(2**6, 2**16)
        indices = [draw.parameter((count,), "int32", "index", size) for size in shape]
        updates = draw.parameter((count,), dtype)
        return f"{x}.at[{', '.join(indices)}].{kind}({updates})"
    if form == "slice":
        starts = [draw.parameter((), "int32", "index", size) for size in shape]
        part = tuple(draw.integer(1, max(1, size // 2)) for size in shape)
        updates = draw.parameter(part, dtype)
        return f"lax.dynamic_update_slice({x}, {updates}, ({', '.join(starts)},))"
    count = draw.size(1, max(1, min(2**16, 2**20 // max(1, math.prod(shape) // size))))
    at = draw.parameter((count,), "int32", "index", size)
    updates = draw.parameter((count, *shape[1:]), dtype)
    # XLA leaves open which of repeated indices a `set` takes.
    if kind == "set":
        return f"{x}.at[{at}].set({draw.parameter((), dtype)})"
    return f"{x}.at[{at}].{kind}({updates})"


def concatenate(draw: Draw) -> str:
    """Draw a concatenate or stack of 2 to 40 operands: parameters, computed, pieces."""
    rank = draw.integer(1, 3)
    count = draw.size(2, 40)
    shape = draw.shape(rank, 16, 2**20 // count)
    axis = draw.integer(0, rank - 1)
    dtype = draw.dtype(integers=0.2)
    is_float = dtype.startswith(("float", "bfloat"))
    is_stack = draw.chance(0.3)
    distinct = draw.integer(1, min(count, 8)) if draw.chance(0.5) else count
    names = []
    for _ in range(distinct):
        sizes = list(shape)
        if not is_stack and draw.chance(0.5):
            sizes[axis] = draw.size(1, shape[axis])
        names.append(draw.parameter(sizes, dtype))
    computed = draw.choice(0.0, 0.5, 1.0)
    parts = []
    for number in range(count):
        name = names[number % distinct]
        if draw.chance(computed):
            options = _COMPUTED if is_float else _CHEAP
            name = draw.choice(*options).format(name)
        parts.append(name)
    joined = f"jnp.{'stack' if is_stack else 'concatenate'}([{', '.join(parts)}], {axis})"
    after = ["{}", "{}", "{} * 2", "jnp.sum({}, 0)", "jnp.sum({}, -1)"]
    if is_float:
        after += ["jax.nn.softmax({}, -1)", "jnp.tanh({})"]
    return draw.choice(*after).format(joined)


def transpose(draw: Draw) -> str:
    """Draw a transpose of random axes, with something before or behind it."""
    rank = draw.integer(2, 5)
    shape = draw.shape(rank, high=2**21)
    dtype = draw.dtype(integers=0.3, others=("complex64", "bool"))
    x = draw.parameter(shape, dtype)
    order = draw.permutation(rank)
    moved = tuple(shape[axis] for axis in order)
    text = f"jnp.transpose({x}, {order})"
    if dtype == "bool":
        return draw.choice(text, f"~{text}", f"jnp.any({text}, 0)")
    options = [text, text, f"{text} * 2", f"{text}.reshape(-1) + 1", f"jnp.sum({text}, 0)"]
    options += [f"jnp.sum({text}, -1)", f"{text} + {draw.parameter(moved[-1:], dtype)}"]
    if moved == shape:
        options += [f"{text} + {x}"]
    options += [f"jnp.transpose({text} * {text}, {draw.permutation(rank)}) + 1"]
    return draw.choice(*options)


def slicing(draw: Draw) -> str:
    """Draw slices, pads, rolls, flips, repeats and tiles, one after the other."""
    rank = draw.integer(1, 3)
    shape = list(draw.shape(rank, high=2**19))
    dtype = draw.dtype(integers=0.3, others=("bool",))
    x = draw.parameter(shape, dtype)
    for _ in range(draw.integer(1, 4)):
        axis = draw.integer(0, rank - 1)
        size = shape[axis]
        is_small = math.prod(shape) * 4 <= 2**20
        form = draw.choice("step", "part", "pad", "roll", "flip", *(("repeat", "tile") * is_small))
        if form == "step" and size >= 4:
            step = draw.integer(2, 3)
            x = draw.let(f"{x}[{':, ' * axis}::{step}]")
            shape[axis] = -(-size // step)
        elif form == "part" and size >= 4:
            start = draw.integer(1, size // 2)
            x = draw.let(f"{x}[{':, ' * axis}{start}:]")
            shape[axis] = size - start
        elif form == "pad":
            widths = [(0, 0)] * rank
            widths[axis] = (draw.integer(0, 9), draw.integer(0, 9))
            mode = draw.choice("constant", "edge", "wrap") if size >= 9 else "constant"
            x = draw.let(f"jnp.pad({x}, {widths}, '{mode}')")
            shape[axis] += sum(widths[axis])
        elif form in ("repeat", "tile"):
            count = draw.integer(2, 4)
            reps = [1] * rank
            reps[axis] = count
            x = draw.let(
                f"jnp.repeat({x}, {count}, {axis})"
                if form == "repeat"
                else f"jnp.tile({x}, {reps})"
            )
            shape[axis] *= count
        elif form == "flip":
            x = draw.let(f"jnp.flip({x}, {axis})")
        else:
            x = draw.let(f"jnp.roll({x}, {draw.integer(1, max(1, size))}, {axis})")
    return x


FAMILIES = {
    "gather": gather,
    "scatter": scatter,
    "concatenate": concatenate,
    "transpose": transpose,
    "slicing": slicing,
}
