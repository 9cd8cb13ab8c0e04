"""HLO modules built by hand, as by any writer of the protobufs."""

from collections.abc import Sequence

import numpy as np

from xla_contract.stubs import hlo_pb2, xla_data_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.proto import literal_to_proto
from xla_contract.wire.shape_proto import shape_from_proto, shape_to_proto


class Computation:
    """Instructions in order; each method adds one and gives its id."""

    def __init__(self, name: str, number: int) -> None:
        self.proto = hlo_pb2.HloComputationProto(name=name, id=number)

    def add(self, opcode: str, shape: str, operands: Sequence[int] = (), **fields: object) -> int:
        number = len(self.proto.instructions) + 1
        instruction = self.proto.instructions.add(
            name=f"{opcode}.{self.proto.id}.{number}",
            opcode=opcode,
            id=number,
            operand_ids=operands,
            **fields,
        )
        instruction.shape.CopyFrom(shape_to_proto(Shape.parse(shape)))
        self.proto.root_id = number
        return number

    def parameter(self, number: int, shape: str) -> int:
        return self.add("parameter", shape, parameter_number=number)

    def constant(self, shape: str, value: object) -> int:
        array = np.asarray(value, Shape.parse(shape).element_type.dtype)
        return self.add("constant", shape, literal=literal(array))

    def feed_in(self, shape: str, token: int) -> int:
        return self.add("infeed", f"({shape}, token[])", [token])

    def feed_out(self, shape: str, value: int, token: int) -> int:
        feed = self.add("outfeed", "token[]", [value, token])
        self.proto.instructions[-1].outfeed_shape.CopyFrom(shape_to_proto(Shape.parse(shape)))
        return feed


def literal(value: object) -> xla_data_pb2.LiteralProto:
    return literal_to_proto(Literal.from_numpy(value))


def shape(text: str) -> xla_data_pb2.ShapeProto:
    return shape_to_proto(Shape.parse(text).with_default_layout())


def module(*computations: Computation) -> hlo_pb2.HloModuleProto:
    """The module whose entry is the last computation."""
    entry = computations[-1].proto
    proto = hlo_pb2.HloModuleProto(
        name="module",
        computations=[one.proto for one in computations],
        entry_computation_id=entry.id,
        entry_computation_name=entry.name,
    )
    root = entry.instructions[entry.root_id - 1]
    proto.host_program_shape.result.CopyFrom(root.shape)
    parameters = [one for one in entry.instructions if one.opcode == "parameter"]
    for one in sorted(parameters, key=lambda one: one.parameter_number):
        proto.host_program_shape.parameters.add().CopyFrom(one.shape)
        proto.host_program_shape.parameter_names.append(one.name)
    return proto


def axpy(size: int = 3) -> hlo_pb2.HloModuleProto:
    """alpha * x + y"""
    main, array = Computation("axpy", 1), f"f32[{size}]"
    alpha, x, y = main.parameter(0, "f32[]"), main.parameter(1, array), main.parameter(2, array)
    spread = main.add("broadcast", array, [alpha])
    main.add("add", array, [main.add("multiply", array, [spread, x]), y])
    return module(main)


def pair() -> hlo_pb2.HloModuleProto:
    """(x, -x)"""
    main = Computation("pair", 1)
    x = main.parameter(0, "f32[2,3]")
    main.add("tuple", "(f32[2,3], f32[2,3])", [x, main.add("negate", "f32[2,3]", [x])])
    return module(main)


def constant_sum() -> hlo_pb2.HloModuleProto:
    main = Computation("constant", 1)
    left = main.constant("f32[2,3]", [[1, 2, 3], [4, 5, 6]])
    main.add("exponential", "f32[2,3]", [main.add("add", "f32[2,3]", [left, left])])
    return module(main)


def echo_feed(shape_text: str = "f32[2]") -> hlo_pb2.HloModuleProto:
    """Takes one value from infeed, sends it to outfeed and returns it."""
    main = Computation("echo", 1)
    fed = main.feed_in(shape_text, main.add("after-all", "token[]"))
    value = main.add("get-tuple-element", shape_text, [fed], tuple_index=0)
    token = main.add("get-tuple-element", "token[]", [fed], tuple_index=1)
    main.feed_out(shape_text, value, token)
    main.proto.root_id = value
    return module(main)


def countdown(steps: int) -> hlo_pb2.HloModuleProto:
    """Counts from `steps` down to 0."""
    condition = Computation("condition", 1)
    left = condition.parameter(0, "s32[]")
    zero = condition.constant("s32[]", 0)
    condition.add("compare", "pred[]", [left, zero], comparison_direction="GT")
    body = Computation("body", 2)
    left = body.parameter(0, "s32[]")
    body.add("subtract", "s32[]", [left, body.constant("s32[]", 1)])
    main = Computation("main", 3)
    start = main.constant("s32[]", steps)
    main.add("while", "s32[]", [start], called_computation_ids=[2, 1])
    return module(condition, body, main)


def endless() -> hlo_pb2.HloModuleProto:
    """A loop that never ends."""
    condition = Computation("condition", 1)
    condition.parameter(0, "s32[]")
    condition.constant("pred[]", True)
    body = Computation("body", 2)
    body.add("negate", "s32[]", [body.parameter(0, "s32[]")])
    main = Computation("main", 3)
    start = main.constant("s32[]", 1)
    main.add("while", "s32[]", [start], called_computation_ids=[2, 1])
    return module(condition, body, main)


def shape_of(proto: xla_data_pb2.ShapeProto) -> xla_data_pb2.ShapeProto:
    """The shape with default layouts where it says none."""
    return shape_to_proto(shape_from_proto(proto).with_default_layout())
