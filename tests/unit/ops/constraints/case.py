"""One broken constraint: how it is stated to the rule, to the builder and on the wire."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from xla_client import ops
from xla_client.programs.builder import Builder, Op
from xla_client.programs.computation import Computation
from xla_contract.errors import InvalidArgumentError, XlaError
from xla_contract.ops.definition import NO_ATTRIBUTES
from xla_contract.ops.definitions import definition, infer_shape
from xla_contract.stubs import hlo_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape
from xla_contract.wire.shape_proto import program_shape_to_proto, shape_from_proto, shape_to_proto

INSTRUCTION = "broken"
"""The name of the instruction that breaks the rule, on the wire."""

_ENTRY_ID = 100


@dataclasses.dataclass(frozen=True)
class Case:
    """One instruction that breaks one rule, and the expected error.

    `operands` and `called` are shapes and signatures in HLO text. `build` adds the instruction with
    the client's functions, given the operands and then the called computations. It is None if the
    client has no function for the opcode; the case then uses `Builder.instruction`. A text is the
    reason why the builder cannot state it. `edit` changes the encoded instruction if no attribute
    record can hold the mistake; decoding then refuses it. `declared` is the shape of the
    instruction on the wire. `off_wire` is the reason why a message cannot state the case. `at_call`
    is the error of the client's function if it sees the mistake before the rule.
    """

    opcode: Opcode
    operands: Sequence[str]
    message: str
    attributes: Any = NO_ATTRIBUTES
    build: Callable[..., object] | str | None = None
    called: Sequence[str] = ()
    declared: str = "f32[2]"
    edit: Callable[[hlo_pb2.HloInstructionProto], object] | None = None
    off_wire: str = ""
    at_call: str = ""
    error: type[XlaError] = InvalidArgumentError

    def __str__(self) -> str:
        return f"{self.opcode}: {self.message}"

    def by_rule(self) -> None:
        """The shape rule, or the decoder where an edit is what is wrong."""
        if self.edit is not None:
            definition(self.opcode).decode(self.instruction(), Shape.parse(self.declared))
        shapes = [Shape.parse(text) for text in self.operands]
        signatures = [one.program_shape for one in self.computations()]
        plain = [
            ProgramShape(
                tuple(part.without_layout() for part in one.parameters),
                one.result.without_layout(),
                one.parameter_names,
            )
            for one in signatures
        ]
        infer_shape(self.opcode, shapes, self.attributes, plain)

    def by_builder(self) -> None:
        """The client's function, or the builder's one door where the client has none."""
        builder = Builder("case")
        operands = [
            builder.parameter(number, Shape.parse(text))
            for number, text in enumerate(self.operands)
        ]
        if self.build is None:
            builder.instruction(self.opcode, operands, self.attributes, list(self.computations()))
        else:
            assert callable(self.build), self.build
            self.build(*operands, *self.computations())

    def computations(self) -> Iterator[Computation]:
        """A computation of each signature in `called`; what it computes does not matter."""
        for position, text in enumerate(self.called):
            signature = Shape.parse(text.partition("->")[2].strip())
            builder = Builder(f"called{position}")
            inside = Shape.parse(text.partition("->")[0].strip())
            for number, shape in enumerate(inside.tuple_shapes):
                builder.parameter(number, shape, f"{'pqrs'[position]}{number}")
            yield builder.build(_any_value(builder, signature))

    def instruction(self) -> hlo_pb2.HloInstructionProto:
        """The instruction as it goes over the wire."""
        proto = hlo_pb2.HloInstructionProto(
            name=INSTRUCTION,
            opcode=self.opcode,
            shape=shape_to_proto(Shape.parse(self.declared)),
            id=len(self.operands) + 1,
            operand_ids=range(1, len(self.operands) + 1),
            called_computation_ids=range(1, len(self.called) + 1),
        )
        if self.attributes is not NO_ATTRIBUTES:
            definition(self.opcode).encode(self.attributes, proto)
        if self.edit is not None:
            self.edit(proto)
        return proto

    def module(self) -> hlo_pb2.HloModuleProto:
        """A module of parameters and the instruction, which is its root."""
        module = hlo_pb2.HloModuleProto(
            name="case", entry_computation_name="entry", entry_computation_id=_ENTRY_ID
        )
        for number, computation in enumerate(self.computations(), 1):
            (part,) = computation.proto.computations
            part.id = number
            for one in part.instructions:
                plain = shape_from_proto(one.shape).without_layout()
                one.shape.CopyFrom(shape_to_proto(plain))
                if one.opcode != Opcode.PARAMETER:
                    one.name = f"{part.name}.{one.name}"
                else:
                    one.name = one.name.partition(".")[0]
            module.computations.append(part)
        entry = module.computations.add(name="entry", id=_ENTRY_ID, root_id=len(self.operands) + 1)
        for number, text in enumerate(self.operands):
            entry.instructions.add(
                name=f"x{number}",
                opcode=Opcode.PARAMETER,
                id=number + 1,
                parameter_number=number,
                shape=shape_to_proto(Shape.parse(text)),
            )
        entry.instructions.append(self.instruction())
        shapes = tuple(Shape.parse(text) for text in self.operands)
        names = tuple(f"x{number}" for number in range(len(shapes)))
        whole = ProgramShape(shapes, Shape.parse(self.declared), names)
        module.host_program_shape.CopyFrom(program_shape_to_proto(whole))
        return module


def _any_value(builder: Builder, shape: Shape) -> Op:
    if shape.is_tuple:
        return ops.tuple([_any_value(builder, part) for part in shape.tuple_shapes], builder)
    if shape.is_token:
        return builder.create_token()
    return builder.constant(
        Literal.from_numpy(np.zeros(shape.dimensions, shape.element_type.dtype))
    )
