"""`xla_client.lib`: shapes and refusals of factors, solvers, loops, indexing and pooling."""

import pytest

from xla_client import Builder, ElementType, Shape, XlaError, ops
from xla_client.lib import factorizations, indexing, loops, matrix, pooling, solvers


def _operands(*shapes: str):
    builder = Builder("lib")
    return [builder.parameter(number, Shape.parse(text)) for number, text in enumerate(shapes)]


@pytest.mark.parametrize(
    ("function", "shape", "results"),
    [
        (factorizations.qr, "c64[7,4,3]", "c64[7,4,3] c64[7,3]"),
        (factorizations.qr_explicit, "f64[4,3]", "f64[4,3] f64[3,3]"),
        (
            lambda x: factorizations.qr_explicit(x, full_matrices=True),
            "f64[4,3]",
            "f64[4,4] f64[4,3]",
        ),
        (factorizations.lu_decomposition, "f32[7,4,3]", "f32[7,4,3] s32[7,3] s32[7,4]"),
        (factorizations.lu_explicit, "f32[3,4]", "f32[3,3] f32[3,4] s32[3]"),
        (factorizations.eigh, "c128[7,3,3]", "c128[7,3,3] f64[7,3]"),
        (factorizations.svd, "c64[4,3]", "c64[4,3] f32[3] c64[3,3]"),
        (
            lambda x: factorizations.svd(x, full_matrices=True),
            "f32[3,4]",
            "f32[3,3] f32[3] f32[4,4]",
        ),
        (solvers.slogdet, "c64[2,3,3]", "c64[2] f32[2]"),
    ],
)
def test_shapes_of_factors(function, shape, results):
    assert " ".join(str(each.shape) for each in function(*_operands(shape))) == results


def test_factors_call_targets_that_belong_to_no_platform():
    (x,) = _operands("f32[3,3]")
    factorizations.qr_explicit(x)
    solvers.inverse(x)
    root = factorizations.eigh(x).values
    instructions = x.builder.build(root).proto.computations[0].instructions
    targets = {each.custom_call_target for each in instructions if each.opcode == "custom-call"}
    assert targets == {
        "Eigh",
        "LuDecomposition",
        "ProductOfElementaryHouseholderReflectors",
        "Qr",
    }


@pytest.mark.parametrize(
    ("function", "shapes", "message"),
    [
        (factorizations.qr, ["f32[3]"], r"qr: matrices of f32, .*, got f32\[3\]"),
        (factorizations.svd, ["f16[3,3]"], r"svd: matrices of .*, got f16\[3,3\]"),
        (factorizations.eigh, ["f32[2,3]"], "must be square, got 2 rows and 3 columns"),
        (
            factorizations.householder_product,
            ["f32[2,3]", "f32[2]"],
            r"factors must be one per reflector.*got f32\[2\] for f32\[2,3\]",
        ),
        (factorizations.householder_product, ["f32[3,2]", "f64[2]"], r"got f64\[2\]"),
        (solvers.solve, ["f32[3,3]", "f32[3]"], r"got f32\[3\] for f32\[3,3\]"),
        (solvers.solve, ["f32[3,3]", "f64[3,1]"], r"got f64\[3,1\]"),
        (solvers.cholesky_solve, ["f32[2,3,3]", "f32[3,1]"], r"the batch of the matrices"),
        (solvers.determinant, ["f32[2,3]"], "determinant: the matrices must be square"),
        (
            solvers.tridiagonal_solve,
            ["f32[3]", "f32[3]", "f32[2]", "f32[3,1]"],
            r"diagonals must be arrays of one shape.*f32\[3\] and f32\[2\]",
        ),
        (solvers.tridiagonal_solve, ["f32[3]", "f32[3]", "f32[3]", "f32[3]"], "right side"),
        (matrix.symmetrize, ["f32[2,3]"], r"must be square, got f32\[2,3\]"),
        (lambda x: loops.for_each_index(-1, lambda i, v: v, [x]), ["f32[]"], "got -1"),
        (
            lambda x: loops.for_each_index(200, lambda i, v: v, [x], ElementType.S8),
            ["f32[]"],
            "200 for s8",
        ),
        (lambda x: loops.while_loop(lambda v: x, lambda v: v, []), ["f32[]"], "got none"),
        (
            lambda x: loops.while_loop(lambda v: ops.lt(v[0], x), lambda v: v[0] > 1, [x]),
            ["f32[]"],
            "`>` cannot be answered while the program is written",
        ),
        (
            lambda x: loops.while_loop(lambda v: ops.lt(v[0], 1.0), lambda v: [v[0], v[0]], [x]),
            ["f32[]"],
            "while",
        ),
        (
            lambda x, i: indexing.torch_gather(x, i, 0),
            ["f32[3,4]", "s32[9,5]"],
            r"no larger in other dimensions than 0, got s32\[9,5\] for f32\[3,4\]",
        ),
        (lambda x, i: indexing.torch_gather(x, i, 0), ["f32[3,4]", "s32[9]"], "operand's rank"),
        (
            lambda x, i, s: indexing.torch_scatter_dense(x, i, s, 0, ops.add),
            ["f32[3]", "s32[2]", "f32[1]"],
            r"one index for each source, got s32\[2\] and f32\[1\]",
        ),
        (
            lambda x, i: indexing.torch_index_select(x, i, 0, 1),
            ["f32[3,4]", "s32[3]"],
            "batch dimensions must be equal and stand before",
        ),
        (
            lambda g: pooling.avg_pool_grad(g, [6], [2], [2]),
            ["f32[4]"],
            r"shape of the pool, f32\[3\], got f32\[4\]",
        ),
        (lambda x: pooling.max_pool(x, [2], [2, 2]), ["f32[4,4]"], "one size and one stride"),
    ],
)
def test_mistakes_are_refused(function, shapes, message):
    with pytest.raises(XlaError, match=message):
        function(*_operands(*shapes))
