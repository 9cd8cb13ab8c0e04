"""Programs, written one operation at a time.

A builder checks the shape rule of every operation at the call that states it, so an error's
traceback ends at the faulty line. Operations on values are functions of `xla_client.ops`; the
builder itself has the sources of values and `build`.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, TypeAlias

from xla_client.coercion.literals import as_array, as_literal
from xla_client.coercion.numbers import Dimensions, data, integers
from xla_client.coercion.shapes import ShapeLike, as_shape
from xla_client.programs.arguments import operands as operand_rules
from xla_client.programs.arguments.checked import CONVERTERS, checked
from xla_client.programs.arguments.operands import ComputationLike
from xla_client.programs.arguments.scalars import Scalar, scalar_array
from xla_client.programs.computation import Computation
from xla_client.programs.module_embedding import Embedding, Names
from xla_client.programs.operators import Operators
from xla_contract.errors import ArgumentTypeError, InvalidArgumentError, XlaError
from xla_contract.ops.control.constant import ConstantAttributes
from xla_contract.ops.control.parameter import ParameterAttributes
from xla_contract.ops.control.tuple import GetTupleElementAttributes
from xla_contract.ops.definition import NO_ATTRIBUTES
from xla_contract.ops.definitions import definition, infer_shape
from xla_contract.ops.feeds.infeed import InfeedAttributes
from xla_contract.ops.feeds.send_recv import ChannelAttributes, RecvAttributes
from xla_contract.ops.shaping.iota import IotaAttributes
from xla_contract.stubs import hlo_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape
from xla_contract.wire.shape_proto import program_shape_to_proto, shape_to_proto

__all__ = [
    "Builder",
    "Dimensions",
    "Op",
    "Operands",
    "Values",
    "as_sequence",
    "builder_of",
    "errors_at",
    "integers",
    "promoted",
]

_ENTRY_ID = 1
"""The computation id of the builder's own instructions; embedded computations follow."""


class Op(Operators):
    """One instruction of a builder, standing for the value it will have.

    Operators work between Ops and between an Op and a Python or numpy scalar, which becomes a
    constant of the Op's element type. Each is a function of `xla_client.ops`: operands of different
    rank are refused unless one is a scalar, and `/` of integers truncates. `//` and `%` follow
    Python and numpy: they round towards minus infinity and take the sign of the divisor (`ops.div`
    and `ops.rem` are XLA's own). `@` is `ops.matmul`, `~ & | ^ << >>` work on integers and, but for
    shifts, on pred.

    Comparisons are `x.eq(y)`, `x.lt(y)` ... or `ops.eq`, `ops.lt` ...: Python takes `==` and `<`
    for questions that it can answer at once, so these operators raise. `x[i, 1:3, None, ...]`
    slices as numpy does, with Ops as indices computed at run time. A tuple has a length, elements
    by number, and can be unpacked.
    """

    __slots__ = ("builder", "id")

    def __init__(self, builder: "Builder", id: int, name: str, shape: Shape) -> None:
        self.builder = builder
        self.id = id
        self.name = name
        self.shape = shape


Operands: TypeAlias = Op | Sequence[Op]
"""Ops; one stands for a sequence of one."""

Values: TypeAlias = Op | Scalar | Sequence[Op | Scalar]
"""Ops and Python's numbers, which become constants; one stands for a sequence of one."""

CONVERTERS.update(
    {
        Op: operand_rules.op,
        Op | Scalar: operand_rules.value,
        Op | int: operand_rules.index,
        Operands: operand_rules.ops,
        Values: operand_rules.values,
        ComputationLike | Values: operand_rules.branch_or_values,
    }
)


class Builder:
    """Collects the instructions of one computation.

    Not for use by several threads at a time. While a function given to an operation (a loop's body,
    a branch, a reducer) is called, the instructions that it writes belong to its computation,
    whichever builder it writes them with: see `xla_client.programs.functions`.
    """

    @checked
    def __init__(self, name: str = "computation") -> None:
        if not name:
            raise InvalidArgumentError("a computation needs a name, got an empty one")
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise _no_text(error) from None
        self.name = name
        self._names = Names()
        self._embedding = Embedding(self._names, first_id=_ENTRY_ID + 1)
        self._instructions: list[hlo_pb2.HloInstructionProto] = []
        self._ops: list[Op] = []
        self._parameters: dict[int, tuple[str, Shape]] = {}
        self._inner: Builder | None = None
        """The builder of the function that is being called, which takes all instructions."""
        self.outer: Builder | None = None
        """The builder in whose program this one writes a function; None for programs."""

    @checked
    def parameter(self, number: int, shape: ShapeLike, name: str = "") -> Op:
        """The argument at position `number`.

        Args:
            number: The position, from 0.
            shape: Shape of the argument and its layout, if any, in a form that `as_shape` takes
                ("f32[2,3]").
            name: The name of the instruction.

        Returns:
            The parameter.

        Raises:
            InvalidArgumentError: The number is negative or taken, or the builder is in a function
                that is given to an operation.
        """
        if self._inner is not None:
            raise InvalidArgumentError(
                "a parameter belongs to the program, not to a function inside it, got "
                f"{name or number!r} in {self._inner.name!r}"
            )
        shape = as_shape(shape)
        name = name or f"p{number}"
        if number < 0 or number in self._parameters:
            raise InvalidArgumentError(
                f"a parameter number must be free and not negative, got {number} for "
                f"{name!r} beside {sorted(self._parameters)}"
            )
        attributes = ParameterAttributes(number, shape)
        op = self.instruction(Opcode.PARAMETER, [], attributes, name=name, declared=shape)
        self._parameters[number] = (name, shape)
        return op

    def constant(self, value: Any) -> Op:
        """A constant array: a number, lists of numbers, anything with numpy's arrays, a Literal.

        numpy's values keep their type. Python's become pred (bool), s32 (int), f32 (float) and c64
        (complex), alone and in lists: see `xla_client.coercion.literals`.

        Args:
            value: The value.

        Returns:
            The constant.

        Raises:
            ArgumentTypeError: The value is no number or array.
            InvalidArgumentError: XLA does not have the dtype, or an int exceeds s32.
        """
        try:
            literal = as_literal(value if isinstance(value, Literal) else as_array(value))
        except XlaError as error:
            raise error.at("Builder.constant") from None
        attributes = ConstantAttributes(literal)
        return self.instruction(Opcode.CONSTANT, [], attributes, declared=literal.shape)

    @checked
    def iota(self, shape: ShapeLike, dimension: int) -> Op:
        """An array whose elements count 0, 1, 2 ... along `dimension`."""
        attributes = IotaAttributes(as_shape(shape).without_layout(), dimension)
        return self.instruction(Opcode.IOTA, [], attributes)

    def create_token(self) -> Op:
        """A token that waits for nothing."""
        return self.instruction(Opcode.AFTER_ALL, [])

    @checked
    def after_all(self, tokens: Operands) -> Op:
        """A token that waits for all of `tokens`."""
        return self.instruction(Opcode.AFTER_ALL, as_sequence(tokens))

    def replica_id(self) -> Op:
        """The number of the replica that runs the program, u32[]."""
        return self.instruction(Opcode.REPLICA_ID, [])

    def partition_id(self) -> Op:
        """The number of the partition that runs the program, u32[]."""
        return self.instruction(Opcode.PARTITION_ID, [])

    @checked
    def infeed(self, shape: ShapeLike, config: bytes | str = b"") -> Op:
        """Return the next value of the device's infeed queue, which must have this shape.

        Infeeds that must follow each other in a known order take a token from one to the next:
        `ops.infeed_with_token`.
        """
        attributes = InfeedAttributes(as_shape(shape), data("config", config))
        pair = self.instruction(Opcode.INFEED, [self.create_token()], attributes)
        return self.instruction(Opcode.GET_TUPLE_ELEMENT, [pair], GetTupleElementAttributes(0))

    @checked
    def recv(self, shape: ShapeLike, channel_id: int) -> Op:
        """Return the next value on a channel, which must have this shape.

        Recvs that must follow each other in a known order take a token from one to the next:
        `ops.recv_with_token`.
        """
        attributes = RecvAttributes(as_shape(shape).without_layout(), channel_id)
        receiving = self.instruction(Opcode.RECV, [self.create_token()], attributes)
        done = ChannelAttributes(channel_id)
        pair = self.instruction(Opcode.RECV_DONE, [receiving], done)
        return self.instruction(Opcode.GET_TUPLE_ELEMENT, [pair], GetTupleElementAttributes(0))

    def instruction(
        self,
        opcode: Opcode,
        operands: Sequence[Op],
        attributes: Any = NO_ATTRIBUTES,
        called: Sequence[Computation] = (),
        *,
        name: str = "",
        declared: Shape | None = None,
        decoration: hlo_pb2.HloInstructionProto | None = None,
    ) -> Op:
        """Return a new instruction: all operations are added by this method.

        `attributes` is the record of the opcode's definition in `xla_contract.ops`, `called` the
        computations in the order of called_computation_ids. `declared`, when given, supplies the
        layout of the result, and `decoration` the fields that do not change what is computed.

        Raises:
            ShapeError: The shape rule is broken; opcode and instruction are named.
            InvalidArgumentError: An operand belongs to another builder, a text is no Unicode, or a
                number exceeds its attribute's field.
        """
        return self.innermost()._written(
            opcode,
            operands,
            attributes,
            called,
            name=name,
            declared=declared,
            decoration=decoration,
        )

    def innermost(self) -> "Builder":
        """The builder that instructions go to now: this one, or that of the function called."""
        builder = self
        while builder._inner is not None:
            builder = builder._inner
        return builder

    @contextlib.contextmanager
    def calling(self, inner: "Builder") -> Iterator[None]:
        """Have instructions go to `inner` in a block: it calls the function that `inner` builds."""
        before = self._inner
        self._inner = inner
        try:
            yield
        finally:
            self._inner = before

    def _written(
        self,
        opcode: Opcode,
        operands: Sequence[Op],
        attributes: Any = NO_ATTRIBUTES,
        called: Sequence[Computation] = (),
        *,
        name: str = "",
        declared: Shape | None = None,
        decoration: hlo_pb2.HloInstructionProto | None = None,
    ) -> Op:
        """Add an instruction to this builder itself, also while a function is being called."""
        name = self._names.fresh(name or str(opcode), len(self._instructions) + 1)
        try:
            operands = [self.own(operand) for operand in operands]
            signatures = [_without_layouts(computation) for computation in called]
            shape = infer_shape(
                opcode, [op.shape for op in operands], attributes, signatures, instruction=name
            )
            proto = hlo_pb2.HloInstructionProto(
                name=name,
                opcode=opcode,
                shape=shape_to_proto((declared or shape).with_default_layout()),
                id=self._instruction_id(len(self._instructions) + 1),
                operand_ids=[self._instruction_id(op.id) for op in operands],
            )
            definition(opcode).encode(attributes, proto)
            if decoration is not None:
                proto.MergeFrom(decoration)
        except XlaError as error:
            self._names.release(name)
            raise error.at(opcode, name) from error.__cause__
        except UnicodeEncodeError as error:
            self._names.release(name)
            raise _no_text(error).at(opcode) from None
        except ValueError as error:
            self._names.release(name)
            raise _too_large(error).at(opcode) from None
        proto.called_computation_ids.extend(self._embedding.add(each) for each in called)
        return self._added(proto, shape)

    def _added(self, proto: hlo_pb2.HloInstructionProto, shape: Shape) -> Op:
        self._instructions.append(proto)
        op = Op(self, len(self._instructions), proto.name, shape)
        self._ops.append(op)
        return op

    def program_shape(self, root: Op | None = None) -> ProgramShape:
        """The signature with `root` (the last instruction, when left out) as the result."""
        root = self._root(root)
        numbers = sorted(self._parameters)
        if numbers != list(range(len(numbers))):
            raise InvalidArgumentError(
                f"parameter numbers must be 0 to {len(numbers) - 1}, got {numbers} in {self.name!r}"
            )
        return ProgramShape(
            tuple(self._parameters[number][1].with_default_layout() for number in numbers),
            root.shape.with_default_layout(),
            tuple(self._parameters[number][0] for number in numbers),
        )

    def build(self, root: "Op | Scalar | Sequence[Op | Scalar] | None" = None) -> Computation:
        """Return the computation whose result is `root`, or the last instruction when left out.

        A sequence is a tuple of results. The builder stays usable: instructions added later belong
        to later builds only.

        Raises:
            InvalidArgumentError: The computation is empty, or a parameter number is left out.
        """
        if root is not None and not isinstance(root, Op):
            root = self._result(root)
        root = self._root(root)
        program_shape = program_shape_to_proto(self.program_shape(root))
        module = hlo_pb2.HloModuleProto(
            name=self.name,
            entry_computation_name=self.name,
            entry_computation_id=_ENTRY_ID,
            host_program_shape=program_shape,
        )
        self._embedding.write(module, reserved_name=self.name)
        module.computations.add(
            name=self.name,
            id=_ENTRY_ID,
            root_id=self._instruction_id(root.id),
            program_shape=program_shape,
            instructions=self._instructions,
        )
        return Computation(module)

    def _root(self, root: Op | None) -> Op:
        if root is None:
            if not self._ops:
                raise InvalidArgumentError(
                    f"a computation needs an instruction, got none in {self.name!r}"
                )
            return self._ops[-1]
        return self.own(root)

    def message_of(self, op: Op) -> hlo_pb2.HloInstructionProto:
        """The message of one of this builder's instructions, which must not be changed."""
        return self._instructions[op.id - 1]

    def operands_of(self, op: Op) -> list[Op]:
        """The operands of one of this builder's instructions."""
        numbers = self.message_of(op).operand_ids
        return [self._ops[(number & 0xFFFFFFFF) - 1] for number in numbers]

    def _result(self, root: Any) -> Op:
        """Return the Op of a result: a constant for a number, a tuple for several values."""
        try:
            given = operand_rules.values("root", root)
        except XlaError as error:
            raise error.at("Builder.build") from None
        results = [promoted(self, each) for each in given]
        if not isinstance(root, Sequence):
            return results[0]
        return self.instruction(Opcode.TUPLE, results)

    def own(self, op: Op) -> Op:
        """The Op of this builder for an operand of its instructions; raises if there is none."""
        if not isinstance(op, Op):
            raise ArgumentTypeError(
                f"operands must be Ops, got {type(op).__name__}",
                hint="builder.constant makes an Op of an array",
            )
        if op.builder is not self:
            self._refuse_foreign(op)
        return op

    def _refuse_foreign(self, op: Op) -> NoReturn:
        if op.builder.outer is not None:
            raise InvalidArgumentError(
                f"a value of a function can be used in that function only, got {op!r} of "
                f"{op.builder.name!r} in {self.name!r}",
                hint="return it from the function",
            )
        raise InvalidArgumentError(
            f"operands must belong to the builder of their user, got {op!r} of builder "
            f"{op.builder.name!r} in builder {self.name!r}",
            hint="functions may use values of the builder they are written in",
        )

    @staticmethod
    def _instruction_id(local: int) -> int:
        return _ENTRY_ID << 32 | local

    def __repr__(self) -> str:
        return f"Builder({self.name!r}, {len(self._instructions)} instructions)"


def builder_of(*operands: object) -> Builder:
    """Return the builder of the first Op among `operands`; raises ArgumentTypeError without one."""
    for operand in operands:
        if isinstance(operand, Op):
            return operand.builder
    kinds = ", ".join(type(operand).__name__ for operand in operands)
    raise ArgumentTypeError(
        f"an operand must be an Op, got ({kinds})",
        hint="builder.constant makes an Op of an array",
    )


def as_sequence(operands: Op | Sequence[Op]) -> Sequence[Op]:
    """One Op as a sequence of one."""
    return [operands] if isinstance(operands, Op) else operands


def promoted(builder: Builder, value: Op | Scalar, like: Shape | None = None) -> Op:
    """Return an Op as it is, and a number as a constant: of the element type of `like`, if given.

    Raises:
        InvalidArgumentError: The type does not have the number.
    """
    if isinstance(value, Op):
        return value
    if like is None or not like.is_array:
        return builder.constant(value)
    return builder.constant(scalar_array(value, like.element_type))


@contextlib.contextmanager
def errors_at(opcode: str) -> Iterator[None]:
    """Name the opcode or function in errors raised inside that do not name one yet."""
    try:
        yield
    except XlaError as error:
        raise error.at(opcode) from error.__cause__


def _without_layouts(computation: Computation) -> ProgramShape:
    shape = computation.program_shape
    return ProgramShape(
        tuple(parameter.without_layout() for parameter in shape.parameters),
        shape.result.without_layout(),
        shape.parameter_names,
    )


def _no_text(error: UnicodeEncodeError) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"names and other text must be Unicode without lone surrogates, got {error.object!a:.200}"
    )


def _too_large(error: ValueError) -> InvalidArgumentError:
    number = str(error).rpartition(" ")[2]
    return InvalidArgumentError(
        f"a number must fit the field of its attribute, of 32 or 64 bits, got {number}"
    )
