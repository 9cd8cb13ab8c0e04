"""Products, convolutions, factorisations and transforms, as steps of random modules."""

import math

import numpy as np

from tests.fuzz.answers.steps.graph import FreeGraph
from tests.property.random_programs.graphs import FLOATS, INTEGERS, Graph, Node, Step
from tests.property.random_programs.steps import dot_dimensions
from xla_client import ConvolutionDimensionNumbers, DotDimensionNumbers, ops
from xla_contract.ops.linear_algebra.fft import FftType
from xla_contract.ops.linear_algebra.triangular_solve import Transpose
from xla_contract.types.element_type import ElementType as E

_KINDS = (*FLOATS, *FLOATS, *INTEGERS, E.C64, E.C128)
_MAX_FACTOR = 2048
_WIDER = {
    E.S8: (E.S32, E.S16),
    E.U8: (E.S32, E.U32),
    E.BF16: (E.F32,),
    E.F16: (E.F32,),
    E.S16: (E.S32,),
}


def _preferred(graph: Graph, kind: E) -> E | None:
    return graph.chance.choice((None, None, *_WIDER.get(kind, ())))


def dot(graph: Graph) -> Node | None:
    """A product over dimensions in any order."""
    node = graph.any(_KINDS)
    numbers, sizes = dot_dimensions(graph, node)
    if math.prod(sizes) > _MAX_FACTOR:
        return None
    other = graph.shaped(node.kind, sizes)
    wide = _preferred(graph, node.kind)
    return Node(ops.dot_general(node.op, other.op, numbers, None, wide))


def matrix_product(graph: Graph) -> Node | None:
    """A product of matrices large enough for panels and tiles."""
    kind = graph.chance.choice(_KINDS)
    rows, depth, columns = (graph.chance.choice((1, 2, 7, 16, 33, 64)) for _ in range(3))
    left, right = graph.fresh(kind, (rows, depth)), graph.fresh(kind, (depth, columns))
    return Node(ops.dot(left.op, right.op, None, _preferred(graph, kind)))


def ragged_dot(graph: Graph) -> Node | None:
    """A product of rows in groups, each with a matrix of its own."""
    assert isinstance(graph, FreeGraph)
    if graph.is_for_jaxlib:
        return None
    kind = graph.chance.choice((E.F32, E.F64, E.BF16, E.S32))
    rows, depth, columns = (graph.chance.randint(1, 6) for _ in range(3))
    groups = graph.chance.randint(1, 3)
    cuts = sorted(graph.chance.randint(0, rows) for _ in range(groups))
    sizes = np.diff([0, *cuts]).astype(np.int32)
    left = graph.fresh(kind, (rows, depth))
    right = graph.fresh(kind, (groups, depth, columns))
    numbers = DotDimensionNumbers((1,), (1,))
    given = graph.builder.constant(sizes)
    return Node(ops.ragged_dot(left.op, right.op, given, numbers, 0, 0))


def convolution(graph: Graph) -> Node | None:
    """A convolution with groups, strides, dilations, padding and dimensions in any order."""
    chance = graph.chance
    spatial = chance.randint(0, 3)
    by_feature, by_batch = chance.choice(((1, 1), (1, 1), (2, 1), (3, 1), (1, 2)))
    per_group, per_output = chance.randint(1, 3), chance.randint(1, 2)
    columns = [_spatial(graph) for _ in range(spatial)]
    bases, kernels, strides, padding, inner, outer, flipped = (
        [list(column) for column in zip(*columns, strict=True)] if columns else [[]] * 7
    )
    orders = [chance.sample(range(spatial + 2), spatial + 2) for _ in range(3)]
    numbers = ConvolutionDimensionNumbers(
        *(part for x, y, *rest in orders for part in (x, y, tuple(rest)))
    )
    batch = chance.randint(1, 2) * by_batch
    outputs = per_output * by_feature * by_batch
    plain = ([batch, per_group * by_feature, *bases], [per_group, outputs, *kernels])
    kind = chance.choice((*FLOATS, E.F32, E.S32, E.S8, E.C64))
    sides = [
        graph.fresh(kind, [sizes[order.index(n)] for n in range(spatial + 2)])
        for sizes, order in zip(plain, orders, strict=False)
    ]
    found = ops.conv_general_dilated(
        sides[0].op,
        sides[1].op,
        strides,
        padding,
        inner,
        outer,
        numbers,
        by_feature,
        by_batch,
        preferred_element_type=_preferred(graph, kind),
        window_reversal=flipped,
    )
    return Node(found)


def _spatial(graph: Graph) -> tuple[int, int, int, tuple[int, int], int, int, bool]:
    chance = graph.chance
    base = chance.randint(1, 7)
    kernel = chance.randint(1, min(base, 3))
    inner, outer = chance.choice((1, 1, 2, 3)), chance.choice((1, 1, 2))
    low = chance.randint(-1 if base > 1 else 0, 3)
    high = chance.randint(0, 3)
    return base, kernel, chance.randint(1, 3), (low, high), inner, outer, chance.random() < 0.2


def fft(graph: Graph) -> Node | None:
    """A Fourier transform of one to three dimensions."""
    chance = graph.chance
    kind = chance.choice(list(FftType))
    sizes = [chance.choice((1, 2, 3, 5, 8, 12, 17)) for _ in range(chance.randint(1, 3))]
    along = sizes[-chance.randint(1, len(sizes)) :]
    element = chance.choice((E.F32, E.F64))
    if kind is FftType.IRFFT:
        sizes[-1] = sizes[-1] // 2 + 1
    if kind is not FftType.RFFT:
        element = element.complex_of
    return Node(ops.fft(_ordinary(graph, element, sizes).op, kind, along))


def cholesky(graph: Graph) -> Node | None:
    """The factor of well conditioned matrices."""
    kind = graph.chance.choice((E.F32, E.F64, E.C64, E.C128))
    size = graph.chance.choice((1, 2, 5, 9))
    a = _definite(graph, kind, _batch(graph), size)
    return Node(ops.cholesky(a.op, graph.chance.random() < 0.5))


def triangular_solve(graph: Graph) -> Node | None:
    """The solution of triangular systems."""
    kind = graph.chance.choice((E.F32, E.F64, E.C64, E.C128))
    size, count = graph.chance.choice((1, 2, 5, 9)), graph.chance.randint(0, 4)
    left, batch = graph.chance.random() < 0.5, _batch(graph)
    a = _definite(graph, kind, batch, size)
    b = _ordinary(graph, kind, (*batch, size, count) if left else (*batch, count, size))
    lower, unit = (graph.chance.random() < 0.5 for _ in range(2))
    how = graph.chance.choice((Transpose.NO_TRANSPOSE, Transpose.TRANSPOSE, Transpose.ADJOINT))
    return Node(ops.triangular_solve(a.op, b.op, left, lower, unit, how))


def _batch(graph: Graph) -> tuple[int, ...]:
    return graph.chance.choice(((), (), (3,), (2, 2), (0,)))


def _ordinary(graph: Graph, kind: E, sizes: object) -> Node:
    assert isinstance(graph, FreeGraph)
    return graph.argument(graph.array(kind, sizes, special=False))  # type: ignore[arg-type]


def _definite(graph: Graph, kind: E, batch: tuple[int, ...], size: int) -> Node:
    assert isinstance(graph, FreeGraph)
    wide = graph.array(kind, (*batch, size, size), special=False).astype(np.complex128)
    wide = np.clip(wide.real, -2, 2) + 1j * np.clip(wide.imag, -2, 2)
    product = wide @ wide.conj().swapaxes(-1, -2) / size + 2 * np.eye(size)
    return graph.argument((product if kind.is_complex else product.real).astype(kind.dtype))


STEPS: tuple[Step, ...] = (
    dot,
    dot,
    matrix_product,
    ragged_dot,
    convolution,
    convolution,
    fft,
    cholesky,
    triangular_solve,
)
