"""Steps of random graphs that move elements, cumulative sums and matrix products."""

import math

from tests.benchmarks.sweep.draw import Draw
from tests.benchmarks.sweep.graphs.graph import Graph, Made

MAX_PRODUCT = 2**26
"""Multiplications of a matrix product inside a graph."""


def transpose(draw: Draw, graph: Graph) -> Made:
    """Draw a transpose, sometimes read again as a matrix of the shape it had."""
    value = graph.value(ranks=(2, 3))
    assert value is not None
    if draw.chance(0.3):
        return f"{value.name}.T.reshape({value.shape})", value.shape
    order = draw.permutation(len(value.shape))
    return f"jnp.transpose({value.name}, {order})", tuple(value.shape[axis] for axis in order)


def reshape(draw: Draw, graph: Graph) -> Made:
    """Draw a reshape: to a vector, to a matrix of other sizes, or with a dimension split."""
    value = graph.value(ranks=(1, 2, 3))
    assert value is not None
    elements = math.prod(value.shape)
    divisors = [d for d in range(1, min(elements, 4096) + 1) if elements % d == 0]
    rows = draw.choice(*divisors)
    shape = draw.choice(
        (elements,),
        (rows, elements // rows),
        (elements // rows, rows),
        tuple(reversed(value.shape)),
        (*value.shape, 1) if len(value.shape) < 3 else value.shape,
        (1, *value.shape) if len(value.shape) < 3 else value.shape,
    )
    return f"{value.name}.reshape({shape})", shape


def broadcast_back(draw: Draw, graph: Graph) -> Made:
    """Draw a row or column of a matrix's shape, repeated over the matrix."""
    matrix = graph.value(ranks=(2,))
    vector = graph.value(ranks=(1,))
    if matrix is None or vector is None:
        return None
    if vector.shape[0] == matrix.shape[0]:
        return f"jnp.broadcast_to({vector.name}[:, None], {matrix.shape})", matrix.shape
    if vector.shape[0] == matrix.shape[1]:
        return f"jnp.broadcast_to({vector.name}, {matrix.shape})", matrix.shape
    shape = (vector.shape[0], 1) if draw.chance(0.5) else (1, vector.shape[0])
    return f"{vector.name}.reshape({shape})", shape


def join(draw: Draw, graph: Graph) -> Made:
    """Draw a concatenate or stack of two to four values."""
    value = graph.value(ranks=(1, 2))
    assert value is not None
    alike = [other for other in graph.values if other.shape == value.shape]
    parts = [value, *(draw.choice(*alike) for _ in range(draw.integer(1, 3)))]
    names = ", ".join(part.name for part in parts)
    rank = len(value.shape)
    if draw.chance(0.35):
        axis = draw.integer(0, rank)
        shape = (*value.shape[:axis], len(parts), *value.shape[axis:])
        text = f"jnp.stack([{names}], {axis})"
        if draw.chance(0.5):
            over = draw.integer(0, rank)
            kept = tuple(size for at, size in enumerate(shape) if at != over)
            return f"jnp.mean({text}, {over})", kept
        return text, shape
    axis = draw.integer(0, rank - 1)
    sizes = list(value.shape)
    sizes[axis] *= len(parts)
    return f"jnp.concatenate([{names}], {axis})", tuple(sizes)


def piece(draw: Draw, graph: Graph) -> Made:
    """Draw a slice of one axis: a part, every other element, or all of them backwards."""
    value = graph.value(ranks=(1, 2, 3))
    assert value is not None
    axis = draw.integer(0, len(value.shape) - 1)
    size = value.shape[axis]
    shape = list(value.shape)
    if size < 2 or draw.chance(0.25):
        step = "::-1"
    elif draw.chance(0.4):
        step = "::2"
        shape[axis] = (size + 1) // 2
    else:
        start = draw.integer(0, size - 1)
        stop = draw.integer(start + 1, size)
        step = f"{start}:{stop}"
        shape[axis] = stop - start
    if math.prod(shape) < 16:
        return None
    return f"{value.name}[{':, ' * axis}{step}]", tuple(shape)


def roll(draw: Draw, graph: Graph) -> Made:
    """Draw a rotation along one axis."""
    value = graph.value(ranks=(1, 2, 3))
    assert value is not None
    axis = draw.integer(0, len(value.shape) - 1)
    by = draw.choice(1, -1, draw.integer(0, value.shape[axis]))
    return f"jnp.roll({value.name}, {by}, {axis})", value.shape


def pad(draw: Draw, graph: Graph) -> Made:
    """Draw a pad with zeros or edges, or a shift with the size kept."""
    value = graph.value(ranks=(1, 2))
    assert value is not None
    widths = [(draw.integer(0, 3), draw.integer(0, 3)) for _ in value.shape]
    shape = tuple(size + low + high for size, (low, high) in zip(value.shape, widths, strict=True))
    mode = draw.choice("constant", "constant", "edge")
    return f"jnp.pad({value.name}, {widths}, '{mode}')", shape


def running(draw: Draw, graph: Graph) -> Made:
    """Draw a cumulative sum or maximum along one axis."""
    value = graph.value(ranks=(1, 2))
    assert value is not None
    axis = draw.integer(0, len(value.shape) - 1)
    text = draw.choice(
        f"jnp.cumsum({value.name}, {axis}) / {value.shape[axis]}",
        f"lax.cummax({value.name}, {axis})",
    )
    return text, value.shape


def product(draw: Draw, graph: Graph) -> Made:
    """Draw a matrix product with any of the matrices that fit."""
    one = graph.value(ranks=(2,))
    if one is None:
        return None
    (rows, inner) = one.shape
    fitting: list[tuple[str, int]] = []
    for other in graph.values:
        if len(other.shape) == 2 and other.shape[0] == inner:
            fitting.append((other.name, other.shape[1]))
        if len(other.shape) == 2 and other.shape[1] == inner:
            fitting.append((f"{other.name}.T", other.shape[0]))
    if not fitting:
        return None
    name, columns = draw.choice(*fitting)
    if rows * inner * columns > MAX_PRODUCT:
        return None
    return f"({one.name} @ {name}) / {inner}", (rows, columns)
