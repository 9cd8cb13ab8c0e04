"""The examples of XLA's "Broadcasting", worked through numpy with the axes it names."""

import numpy as np
import pytest

from xla_client import Builder, InvalidArgumentError, Shape, ShapeError, ops


def _operands(lhs: str, rhs: str):
    builder = Builder("broadcasting")
    shapes = (Shape.parse(lhs), Shape.parse(rhs))
    return tuple(builder.parameter(number, shape) for number, shape in enumerate(shapes))


@pytest.mark.parametrize(
    ("lhs", "rhs", "dimensions", "result"),
    [
        ("f32[2,3]", "f32[3]", (1,), "f32[2,3]"),
        ("f32[3]", "f32[2,3]", (1,), "f32[2,3]"),
        ("f32[2,3]", "f32[2]", (0,), "f32[2,3]"),
        ("f32[2,3,4]", "f32[3,4]", (1, 2), "f32[2,3,4]"),
        ("f32[2,3,4]", "f32[2,4]", (0, 2), "f32[2,3,4]"),
        ("f32[2,3,4]", "f32[2,3]", (0, 1), "f32[2,3,4]"),
        ("f32[2,3]", "f32[]", None, "f32[2,3]"),
        ("f32[]", "f32[2,3]", (), "f32[2,3]"),
        ("f32[2,3]", "f32[2,3]", (0, 1), "f32[2,3]"),
        ("f32[1,2]", "f32[4,2]", None, "f32[4,2]"),
        ("f32[4,1]", "f32[1,2]", None, "f32[4,2]"),
        ("f32[1,0]", "f32[3,1]", None, "f32[3,0]"),
        ("f32[4]", "f32[1,2]", (0,), "f32[4,2]"),
        ("f32[1,2]", "f32[4,3,1]", (1, 2), "f32[4,3,2]"),
    ],
)
def test_operands_meet_where_the_caller_says(lhs, rhs, dimensions, result):
    assert str(ops.add(*_operands(lhs, rhs), dimensions).shape) == result


@pytest.mark.parametrize(
    ("lhs", "rhs", "dimensions", "rule"),
    [
        ("f32[2,3]", "f32[3]", None, "different rank need broadcast_dimensions"),
        ("f32[2,3]", "f32[3]", (0,), "lhs dim 0 = 2 of f32[2,3] and rhs dim 0 = 3 of f32[3]"),
        ("f32[2,3]", "f32[2,2]", None, "lhs dim 1 = 3 of f32[2,3] and rhs dim 1 = 2"),
        ("f32[2,3,4]", "f32[4,2]", (2, 0), "must increase, got {2,0}"),
        ("f32[2,3,3]", "f32[3,3]", (1, 1), "must increase, got {1,1}"),
        ("f32[2,3]", "f32[3]", (2,), "dimensions of the result of rank 2, got {2}"),
        ("f32[2,3]", "f32[3]", (-1,), "dimensions of the result of rank 2, got {-1}"),
        ("f32[2,3]", "f32[3]", (0, 1), "one entry per dimension of the smaller operand"),
        ("f32[2,3]", "f32[2,3]", (1, 0), "operands of equal rank"),
        ("f32[2]", "s32[2]", None, "element type"),
    ],
)
def test_what_the_caller_leaves_open_is_refused(lhs, rhs, dimensions, rule):
    with pytest.raises(ShapeError, match=r"^add") as caught:
        ops.add(*_operands(lhs, rhs), dimensions)
    assert rule in str(caught.value)
    assert caught.value.op == "add"


def test_degenerate_dimensions_become_reshape_and_broadcast():
    lhs, rhs = _operands("f32[1,2]", "f32[4,3,1]")
    emitted = lhs.builder.build(ops.add(lhs, rhs, (1, 2))).proto.computations[-1].instructions
    # [1,2] loses its 1 and is put at 2; [4,3,1] loses its 1 and is put at 0 and 1.
    assert [
        (each.opcode, list(each.shape.dimensions), list(each.dimensions)) for each in emitted[2:]
    ] == [
        ("reshape", [2], []),
        ("broadcast", [4, 3, 2], [2]),
        ("reshape", [4, 3], []),
        ("broadcast", [4, 3, 2], [0, 1]),
        ("add", [4, 3, 2], []),
    ]


@pytest.mark.parametrize("scalar", [2, 2.5, np.float64(0.1), np.int8(3)])
def test_scalar_takes_the_type_of_the_op(scalar):
    x = Builder().parameter(0, Shape.parse("bf16[4]"))
    for op in (x + scalar, scalar + x, x - scalar, scalar * x, scalar / x, x % scalar, scalar**x):
        assert str(op.shape) == "bf16[4]"


@pytest.mark.parametrize(
    ("type_", "scalar"),
    [("s32", 1.5), ("s8", 128), ("u8", -1), ("f32", 1j), ("f32", True), ("pred", 1)],
)
def test_scalar_that_would_change_its_value_is_refused(type_, scalar):
    x = Builder().parameter(0, Shape.parse(f"{type_}[4]"))
    with pytest.raises(InvalidArgumentError, match="a scalar must fit the element type"):
        ops.eq(x, scalar)


def test_operands_are_arrays():
    with pytest.raises(ShapeError, match=r"^add.*operands must be arrays, got f32\[2\] and \(s32"):
        ops.add(*_operands("f32[2]", "(s32[])"))


@pytest.mark.parametrize(
    ("operand", "dimensions", "mapping", "rule"),
    [
        ("f32[2]", (3, 4), (0,), "got dim 0 = 2 of f32[2] and dim 0 = 3 of f32[3,4]"),
        ("f32[2]", (2, 4), (2,), "dimensions of the result of rank 2, got {2}"),
        ("f32[2,4]", (2, 4), (0,), "one entry per dimension"),
    ],
)
def test_a_dimension_fits_where_it_is_put(operand, dimensions, mapping, rule):
    builder = Builder()
    x = builder.parameter(0, Shape.parse(operand))
    with pytest.raises(ShapeError) as caught:
        ops.broadcast_in_dim(x, dimensions, mapping)
    assert rule in str(caught.value)
