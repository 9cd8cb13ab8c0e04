"""`xla_client.lib`: the shapes its functions give and the mistakes they refuse."""

import pytest

from xla_client import Builder, ElementType, InvalidArgumentError, Shape, ShapeError, XlaError, ops
from xla_client.lib import (
    activations,
    argminmax,
    arithmetic,
    constants,
    matrix,
    numpy_broadcasting,
    prng,
    slicing,
    sorting,
    special,
)
from xla_client.lib.einsum import einsum

F32, S32 = ElementType.F32, ElementType.S32


def _operands(*shapes: str):
    builder = Builder("lib")
    return [builder.parameter(number, Shape.parse(text)) for number, text in enumerate(shapes)]


def test_reducers_are_shared_and_embedded_once():
    x, y = _operands("f32[2,3]", "f32[4]")
    assert arithmetic.create_scalar_add_computation(F32) is (
        arithmetic.create_scalar_add_computation(F32)
    )
    total = arithmetic.sum(x) + arithmetic.sum(y)
    computations = x.builder.build(total).proto.computations
    assert [each.name for each in computations] == ["add_f32", "lib"]


@pytest.mark.parametrize(
    ("subscripts", "shapes", "result"),
    [
        ("bij,bjk", ["f32[5,2,3]", "f32[5,3,4]"], "f32[2,4]"),
        ("...ij,...jk", ["f32[5,2,3]", "f32[5,3,4]"], "f32[5,2,4]"),
        ("...i,j->j...", ["f32[5,2,3]", "f32[7]"], "f32[7,5,2]"),
        ("iijj->ji", ["s8[2,2,3,3]"], "s8[3,2]"),
    ],
)
def test_einsum_shapes(subscripts, shapes, result):
    assert str(einsum(subscripts, *_operands(*shapes)).shape) == result


def test_einsum_is_one_dot_where_it_can_be():
    x, y = _operands("f32[5,2,3]", "f32[5,3,4]")
    product = einsum("bij,bjk->bik", x, y)
    opcodes = [each.opcode for each in x.builder.build(product).proto.computations[0].instructions]
    assert opcodes == ["parameter", "parameter", "dot"]


@pytest.mark.parametrize(
    ("subscripts", "shapes", "error", "message"),
    [
        ("ij,jk->ik", ["f32[2,3]", "f32[4,5]"], ShapeError, r"3 of f32\[2,3\] and 4 .*for 'j'"),
        ("ii", ["f32[2,3]"], ShapeError, "got 2 .* and 3 .*for 'i'"),
        ("ij,j->i", ["f32[2,1]", "f32[3]"], ShapeError, "got 1 .* and 3 .*for 'j'"),
        ("...,...", ["f32[2]", "f32[3]"], ShapeError, r"for '\.\.\.-1'"),
        ("ijk", ["f32[2,3]"], ShapeError, r"got 3 labels for f32\[2,3\] by 'ijk'"),
        ("i", ["f32[2,3]"], ShapeError, "got 1 labels"),
        ("ij,jk", ["f32[2,3]"], InvalidArgumentError, "got 2 terms and 1 operands"),
        ("ij->ik", ["f32[2,3]"], InvalidArgumentError, "got 'k'"),
        ("ij->ii", ["f32[2,3]"], InvalidArgumentError, "got 'i'"),
        ("i1->i", ["f32[2,3]"], InvalidArgumentError, "must be letters.*got '1' in 'i1'"),
        ("......", ["f32[2,3]"], InvalidArgumentError, "must be letters"),
        ("ij->i->j", ["f32[2,3]"], InvalidArgumentError, "must be letters.*got '-'"),
        ("...i->i", ["f32[2,3]"], InvalidArgumentError, "dimensions of"),
    ],
)
def test_einsum_refuses(subscripts, shapes, error, message):
    with pytest.raises(error, match=f"^einsum: .*{message}"):
        einsum(subscripts, *_operands(*shapes))


@pytest.mark.parametrize(
    ("function", "shapes", "message"),
    [
        (lambda x: arithmetic.sum(x, [2]), ["f32[2,3]"], "a dimension of rank 2 is needed, got 2"),
        (lambda x: arithmetic.mean(x), ["s32[3]"], "floating or complex type, got s32"),
        (lambda x: arithmetic.any(x), ["s32[3]"], "any needs pred elements, got s32"),
        (lambda x: arithmetic.all(x), ["f32[3]"], "all needs pred elements, got f32"),
        (lambda x: arithmetic.max(x), ["c64[3]"], "need an ordered type, got c64"),
        (lambda x: argminmax.argmax(x, 0), ["f32[0,3]"], "must have an element.*dim 0 = 0"),
        (lambda x: argminmax.argmin(x, 0, ElementType.S8), ["f32[129]"], "fit s8, got dim 0 = 129"),
        (lambda x: argminmax.argmin(x, 0, F32), ["f32[3]"], "fit f32"),
        (lambda x: sorting.top_k(x, 4), ["f32[5,3]"], "got k = 4 and dim 1 = 3"),
        (lambda x: sorting.sort(x), ["c64[3]"], "c64"),
        (lambda x: matrix.trace(x), ["f32[3]"], "rank 2 or more is needed"),
        (matrix.batch_dot, ["f32[5,2,3]", "f32[3,4]"], "equal batch dimensions"),
        (matrix.batch_dot, ["f32[5,2,3]", "f32[6,3,4]"], "5 .*6"),
        (matrix.matmul, ["f32[]", "f32[3]"], "must not be scalars"),
        (matrix.set_matrix_diagonal, ["f32[2,3]", "f32[3]"], r"f32\[2\], got f32\[3\]"),
        (lambda x, y: slicing.update_slice(x, y, [2]), ["f32[3]", "f32[2]"], "must lie inside"),
        (lambda x, y: slicing.update_slice(x, y, [-1]), ["f32[3]", "f32[2]"], "must lie inside"),
        (lambda x, y: slicing.update_slice(x, y, [0, 0]), ["f32[3]", "f32[2]"], "must lie inside"),
        (lambda x: slicing.index_in_dim(x, 3), ["f32[3]"], "got 3 of dim 0 = 3"),
        (lambda x: slicing.slice_in_minor_dims(x, [0, 0], [1, 1]), ["f32[3]"], "got 2 for"),
        (lambda x: slicing.slice_in_minor_dims(x, [0], []), ["f32[3]"], "got 1 and 0"),
        (lambda x: prng.split(x), ["u32[3]"], r"must be u32\[2\], got u32\[3\]"),
        (lambda x: prng.random_bits(x, 7, [3]), ["u32[2]"], "got 7"),
        (lambda x: prng.uniform(x, Shape.parse("s32[3]")), ["u32[2]"], "got s32"),
        (lambda x: prng.fold_in(x, 1 << 32), ["u32[2]"], "32 bits"),
        (lambda x: prng.key_of(x), ["f32[]"], "integer scalar"),
        (lambda x: prng.key(x.builder, 1 << 64), ["f32[]"], "64 bits"),
        (special.erf_inv, ["s32[3]"], "floating type, got s32"),
        (lambda x: constants.epsilon(x.builder, S32), ["f32[]"], "floating type is needed"),
        (lambda x: constants.zero(x.builder, ElementType.F8E8M0FNU), ["f32[]"], "must have 0"),
        (lambda x: activations.softmax(x, 2), ["f32[2,3]"], "rank 2 is needed, got 2"),
    ],
)
def test_mistakes_are_refused(function, shapes, message):
    with pytest.raises(XlaError, match=message):
        function(*_operands(*shapes))


@pytest.mark.parametrize(
    ("lhs", "rhs", "result"),
    [
        ("f32[2,3]", "f32[3]", "f32[2,3]"),
        ("f32[3]", "f32[2,3]", "f32[2,3]"),
        ("f32[2,1,4]", "f32[3,1]", "f32[2,3,4]"),
        ("f32[1]", "f32[]", "f32[1]"),
        ("f32[0]", "f32[2,1]", "f32[2,0]"),
    ],
)
def test_implicit_broadcasting_is_in_its_own_module_only(lhs, rhs, result):
    x, y = _operands(lhs, rhs)
    assert str(numpy_broadcasting.add(x, y).shape) == result
    assert [str(each.shape) for each in numpy_broadcasting.broadcast_arrays(x, y)] == [result] * 2
    if x.shape.rank != y.shape.rank and x.shape.rank and y.shape.rank:
        with pytest.raises(ShapeError, match="need broadcast_dimensions, got none"):
            ops.add(x, y)


def test_implicit_broadcasting_takes_scalars_and_refuses_what_numpy_does():
    x, y = _operands("f32[2,3]", "f32[2]")
    assert str(numpy_broadcasting.mul(2.0, x).shape) == "f32[2,3]"
    with pytest.raises(ShapeError, match=r"3 of .* and .* = 2"):
        numpy_broadcasting.add(x, y)
    with pytest.raises(ShapeError, match="got 3 and 2 at dim -1"):
        numpy_broadcasting.broadcast_dimensions(x, y)
    with pytest.raises(ShapeError, match=r"cannot lose dimensions.*for \{3\}"):
        numpy_broadcasting.broadcast_to(x, [3])


def test_core_forms_beyond_one_instruction():
    (x,) = _operands("f32[4,2,3]")
    assert str(ops.reshape(x, [24], [2, 0, 1]).shape) == "f32[24]"
    with pytest.raises(ShapeError, match="permutation"):
        ops.reshape(x, [24], [0, 0, 1])
    pred, pair, single = _operands("pred[]", "(f32[], s32[2])", "(f32[])")
    assert str(ops.select(pred, pair, pair).shape) == "(f32[], s32[2])"
    with pytest.raises(ShapeError, match="equally many elements"):
        ops.select(pred, pair, single)
    with pytest.raises(ShapeError, match="equally many elements"):
        ops.select(pred, pair, 1.0)
    (real,) = _operands("f64[3]")
    assert str(ops.conj(real).shape) == "c128[3]"
