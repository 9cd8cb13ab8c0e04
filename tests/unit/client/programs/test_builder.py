import math
import operator

import numpy as np
import pytest

from xla_client import (
    ArgumentTypeError,
    Builder,
    Computation,
    ElementType,
    InvalidArgumentError,
    Literal,
    Shape,
    ShapeError,
    ops,
)
from xla_client.programs.builder import builder_of
from xla_contract.stubs import hlo_pb2
from xla_server.ir.importer import import_module
from xla_server.ir.verification.verifier import verify


def _adder(name: str = "adder") -> Computation:
    builder = Builder(name)
    scalar = Shape.scalar(ElementType.F32)
    return builder.build(builder.parameter(0, scalar, "a") + builder.parameter(1, scalar, "b"))


def test_text_is_unicode():
    builder = Builder("text")
    reported = r"Unicode without lone surrogates, got '.*\\ud800.*'"
    with pytest.raises(InvalidArgumentError, match=reported):
        Builder("na\ud800")
    with pytest.raises(InvalidArgumentError, match=reported):
        builder.parameter(0, Shape.parse("f32[2]"), "na\ud800")
    x = builder.parameter(0, Shape.parse("f32[2]"), "größe")
    with pytest.raises(InvalidArgumentError, match=reported) as caught:
        ops.custom_call([x], "na\ud800", x.shape)
    assert str(caught.value).isascii()
    # A refused instruction has no effect.
    assert (x + x).name == "add.2"
    verify(import_module(builder.build().proto))


def test_error_rises_at_the_faulty_call_and_names_it():
    builder = Builder()
    lhs = builder.parameter(0, Shape.parse("f32[2,3]"))
    rhs = builder.parameter(1, Shape.parse("f32[4,5]"))
    with pytest.raises(ShapeError) as caught:
        ops.dot(lhs, rhs)
    assert caught.value.op == "dot"
    assert caught.value.instruction == "dot.3"
    for evidence in ("dot %dot.3:", "f32[2,3]", "f32[4,5]"):
        assert evidence in str(caught.value)
    # The failed call leaves nothing behind: the name is free and the program is whole.
    assert ops.neg(lhs).name == "negate.3"
    verify(import_module(builder.build().proto))


def test_signature_has_names_and_layouts():
    builder = Builder("signature")
    builder.parameter(1, Shape.parse("s32[]"), "count")
    x = builder.parameter(0, Shape.parse("f32[2,3]{0,1}"), "x")
    computation = builder.build(ops.tuple([x, ops.transpose(x, [1, 0])]))
    assert str(computation.program_shape) == (
        "(x: f32[2,3]{0,1}, count: s32[]) -> (f32[2,3]{1,0}, f32[3,2]{1,0})"
    )


def test_called_computations_are_embedded_once_with_ids_and_names_of_their_own():
    inner = _adder("same")
    middle = Builder("same")
    x = middle.parameter(0, Shape.parse("f32[3]"))
    zero = middle.constant(0.0)
    total = ops.reduce(x, zero, inner, [0])
    twice = middle.build(total + ops.reduce(x, zero, inner, [0]))
    outer = Builder("same")
    y = outer.parameter(0, Shape.parse("f32[3]"))
    proto = outer.build(ops.call(twice, [y]) + ops.reduce_all(y, outer.constant(1.0), inner)).proto

    names = [computation.name for computation in proto.computations]
    assert len(names) == len(set(names)) == 4
    assert names[-1] == "same"
    module = import_module(proto)
    verify(module)
    instructions = [each.name for each in module.instructions()]
    assert len(instructions) == len(set(instructions))
    for computation in proto.computations:
        uppers = {each.id >> 32 for each in computation.instructions}
        assert uppers == {computation.id}


def test_embedding_reads_old_ids_and_leaves_the_callee_alone():
    old = _adder().proto
    (computation,) = old.computations
    for number, instruction in enumerate(computation.instructions):
        instruction.id = 100 + number
    computation.instructions[2].operand_ids[:] = [100, 101]
    computation.root_id = 102
    callee = Computation.from_proto(old)
    before = callee.to_bytes()
    builder = Builder("caller")
    x = builder.parameter(0, Shape.parse("f32[3]"))
    caller = builder.build(ops.reduce_all(x, builder.constant(0.0), callee))
    verify(import_module(caller.proto))
    assert callee.to_bytes() == before


def test_builds_share_nothing():
    builder = Builder()
    x = builder.parameter(0, Shape.parse("f32[3]"))
    first = builder.build(-x)
    second = builder.build(abs(x))
    assert len(first.proto.computations[0].instructions) == 2
    assert len(second.proto.computations[0].instructions) == 3
    first.proto.name = "changed"
    assert first.name == "computation"


def test_comparison_operators_are_not_operators_on_values():
    x = Builder().parameter(0, Shape.parse("f32[3]"))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        with pytest.raises(ArgumentTypeError, match=rf"ops.{name}\(x, y\) or x.{name}\(y\)"):
            getattr(operator, name)(x, x)
    with pytest.raises(TypeError, match="no truth value"):
        bool(ops.lt(x, x))
    # Dictionaries and lists find an Op by identity.
    assert {x: 1}[x] == 1
    assert x in [x]


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (1, "s32[]"),
        (1.0, "f32[]"),
        (1j, "c64[]"),
        (True, "pred[]"),
        (np.float64(1), "f64[]"),
        (np.zeros((2, 3), np.uint8), "u8[2,3]"),
        ([[1.0, 2.0]], "f32[1,2]"),
        ([1, 2], "s32[2]"),
        (Literal.from_numpy(np.zeros((2, 3), np.int16)), "s16[2,3]"),
    ],
)
def test_constants(value, shape):
    assert str(Builder().constant(value).shape) == shape


def test_named_padding():
    builder = Builder()
    x = builder.parameter(0, Shape.parse("f32[1,5,5,1]"))
    # 5 with stride 2 gives 3 windows of 2, which reach over 6: one element of padding, behind.
    pooled = ops.reduce_window(
        x, builder.constant(0.0), _adder(), [1, 2, 2, 1], [1, 2, 2, 1], "same"
    )
    assert pooled.shape.dimensions == (1, 3, 3, 1)
    window = builder.build().proto.computations[-1].instructions[-1].window
    assert [(d.padding_low, d.padding_high) for d in window.dimensions] == [
        (0, 0),
        (0, 1),
        (0, 1),
        (0, 0),
    ]
    image = builder.parameter(1, Shape.parse("f32[1,3,8,8]"))
    kernel = builder.parameter(2, Shape.parse("f32[16,3,3,3]"))
    assert ops.conv(image, kernel, [1, 1], "same").shape.dimensions == (1, 16, 8, 8)
    assert ops.conv(image, kernel, [2, 2], "valid").shape.dimensions == (1, 16, 3, 3)


def test_loaded_modules():
    jax = pytest.importorskip("jax")

    def program(x):
        return jax.numpy.tanh(x) @ x

    lowered = jax.jit(program).lower(np.zeros((4, 4), np.float32))
    data = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
    loaded = Computation.from_serialized(data)
    assert loaded.result == Shape.parse("f32[4,4]{1,0}")
    dump = hlo_pb2.HloProto(hlo_module=loaded.proto).SerializeToString()
    assert Computation.from_serialized(dump).to_bytes() == loaded.to_bytes()
    for wrong in (b"", b"\xff" * 9, math.pi.hex().encode()):
        with pytest.raises(InvalidArgumentError):
            Computation.from_serialized(wrong)


def test_what_is_no_op_is_named():
    builder = Builder("one")
    x = builder.parameter(0, Shape.parse("f32[3]"))
    with pytest.raises(
        InvalidArgumentError, match=r"^ops.tuple: elements\[1\] must be an Op or a number"
    ):
        ops.tuple([x, np.zeros(3)])
    with pytest.raises(
        InvalidArgumentError, match=r"(?m)must be an Op, got \(int, list\)$"
    ) as caught:
        builder_of(1, [2])
    assert "builder.constant" in caught.value.hint
    # A refused instruction is in no program, and its name is free.
    assert repr(builder) == "Builder('one', 1 instructions)"
    assert (x + x).name == "add.2"


def test_operators_of_python_are_the_operations():
    builder = Builder()
    x = builder.parameter(0, Shape.parse("f32[]"))
    for made, opcode in (
        (x + 1, "add"),
        (1 + x, "add"),
        (x - 1, "subtract"),
        (1 - x, "subtract"),
        (x * 2, "multiply"),
        (2 * x, "multiply"),
        (x / 2, "divide"),
        (2 / x, "divide"),
        (x**2, "power"),
        (2**x, "power"),
        (-x, "negate"),
        (abs(x), "abs"),
    ):
        instructions = builder.build(made).proto.computations[-1].instructions
        by_id = {each.id: each for each in instructions}
        (last,) = [each for each in instructions if each.name == made.name]
        assert last.opcode == opcode
        # The scalar is on its side.
        sides = [by_id[number].opcode for number in last.operand_ids]
        assert sides[0] == "parameter" or sides == ["constant", "parameter"]
