"""Programs, written one operation at a time.

A builder checks the shape rule of every operation at the call that states it, so an error's
traceback ends at the faulty line. Operations on values are functions of `xla_client.ops`; the
builder itself has the sources of values and `build`.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from xla_client.broadcasting import Stretch, plan_binary
from xla_client.computation import Computation
from xla_client.embedding import Embedding, Names
from xla_client.scalars import SCALAR_TYPES, Scalar, scalar_array
from xla_contract.errors import InvalidArgumentError, XlaError
from xla_contract.literal import Literal
from xla_contract.opcode import Opcode
from xla_contract.ops.broadcast import BroadcastAttributes
from xla_contract.ops.constant import ConstantAttributes
from xla_contract.ops.definition import NO_ATTRIBUTES
from xla_contract.ops.infeed import InfeedAttributes
from xla_contract.ops.iota import IotaAttributes
from xla_contract.ops.parameter import ParameterAttributes
from xla_contract.ops.registry import definition, infer_shape
from xla_contract.ops.reshape import ReshapeAttributes
from xla_contract.ops.send_recv import ChannelAttributes, RecvAttributes
from xla_contract.ops.tuple import GetTupleElementAttributes
from xla_contract.shape import ProgramShape, Shape
from xla_contract.shape_proto import program_shape_to_proto, shape_to_proto
from xla_contract.stubs import hlo_pb2

_ENTRY_ID = 1
"""The computation id of the builder's own instructions; embedded computations follow."""


class Op:
    """One instruction of a builder, standing for the value it will have.

    Arithmetic operators work between Ops and between an Op and a scalar, which becomes a constant
    of the Op's element type: `+ - * / % **`, unary `-` and `abs`. They follow XLA, not Python:
    integer division truncates, `%` takes the sign of the dividend, and operands of different rank
    are refused unless one is a scalar. Comparisons are functions (`eq`, `lt` ...), because
    Python takes `==` and `<` for questions it can answer at once.
    """

    __slots__ = ("builder", "id", "name", "shape")

    __array_ufunc__ = None  # numpy scalars then leave `scalar + op` to us

    def __init__(self, builder: "Builder", id: int, name: str, shape: Shape) -> None:
        self.builder = builder
        self.id = id
        self.name = name
        self.shape = shape

    def __add__(self, other: "Op | Scalar") -> "Op":
        return _operator(Opcode.ADD, self, other)

    def __radd__(self, other: Scalar) -> "Op":
        return _operator(Opcode.ADD, other, self)

    def __sub__(self, other: "Op | Scalar") -> "Op":
        return _operator(Opcode.SUBTRACT, self, other)

    def __rsub__(self, other: Scalar) -> "Op":
        return _operator(Opcode.SUBTRACT, other, self)

    def __mul__(self, other: "Op | Scalar") -> "Op":
        return _operator(Opcode.MULTIPLY, self, other)

    def __rmul__(self, other: Scalar) -> "Op":
        return _operator(Opcode.MULTIPLY, other, self)

    def __truediv__(self, other: "Op | Scalar") -> "Op":
        return _operator(Opcode.DIVIDE, self, other)

    def __rtruediv__(self, other: Scalar) -> "Op":
        return _operator(Opcode.DIVIDE, other, self)

    def __mod__(self, other: "Op | Scalar") -> "Op":
        return _operator(Opcode.REMAINDER, self, other)

    def __rmod__(self, other: Scalar) -> "Op":
        return _operator(Opcode.REMAINDER, other, self)

    def __pow__(self, other: "Op | Scalar") -> "Op":
        return _operator(Opcode.POWER, self, other)

    def __rpow__(self, other: Scalar) -> "Op":
        return _operator(Opcode.POWER, other, self)

    def __neg__(self) -> "Op":
        return self.builder.instruction(Opcode.NEGATE, [self])

    def __abs__(self) -> "Op":
        return self.builder.instruction(Opcode.ABS, [self])

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"%{self.name} has no truth value while the program is written; use "
            "ops.conditional, ops.select or ops.while_"
        )

    def __repr__(self) -> str:
        return f"%{self.name}: {self.shape}"


class Builder:
    """Collects the instructions of one computation.

    Not for use by several threads at a time.
    """

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

    def parameter(self, number: int, shape: Shape, name: str = "") -> Op:
        """The argument at position `number`.

        A layout in `shape` is the layout in which the argument will lie. Raises
        InvalidArgumentError when the number is negative or taken.
        """
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

    def constant(self, value: "ArrayLike | Literal") -> Op:
        """A constant array: anything numpy makes an array of, or a Literal.

        A Python int becomes s32, a float f32, a complex c64 and a bool pred; lists are what numpy
        makes of them. Raises InvalidArgumentError for a dtype XLA does not have.
        """
        literal = value if isinstance(value, Literal) else Literal.from_numpy(_array(value))
        attributes = ConstantAttributes(literal)
        return self.instruction(Opcode.CONSTANT, [], attributes, declared=literal.shape)

    def iota(self, shape: Shape, dimension: int) -> Op:
        """An array whose elements count 0, 1, 2 ... along `dimension`."""
        return self.instruction(Opcode.IOTA, [], IotaAttributes(shape.without_layout(), dimension))

    def create_token(self) -> Op:
        """A token that waits for nothing."""
        return self.instruction(Opcode.AFTER_ALL, [])

    def after_all(self, tokens: Sequence[Op]) -> Op:
        """A token that waits for all of `tokens`."""
        return self.instruction(Opcode.AFTER_ALL, tokens)

    def replica_id(self) -> Op:
        """The number of the replica that runs the program, u32[]."""
        return self.instruction(Opcode.REPLICA_ID, [])

    def partition_id(self) -> Op:
        """The number of the partition that runs the program, u32[]."""
        return self.instruction(Opcode.PARTITION_ID, [])

    def infeed(self, shape: Shape, config: bytes = b"") -> Op:
        """The next value of the device's infeed queue, which must have this shape.

        Infeeds that must follow each other in a known order take a token from one to the next:
        `ops.infeed_with_token`.
        """
        attributes = InfeedAttributes(shape, config)
        pair = self.instruction(Opcode.INFEED, [self.create_token()], attributes)
        return self.instruction(Opcode.GET_TUPLE_ELEMENT, [pair], GetTupleElementAttributes(0))

    def recv(self, shape: Shape, channel_id: int) -> Op:
        """The next value on a channel, which must have this shape.

        Recvs that must follow each other in a known order take a token from one to the next:
        `ops.recv_with_token`.
        """
        attributes = RecvAttributes(shape.without_layout(), channel_id)
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
        """Any instruction: the one door that all operations go through.

        `attributes` is the record of the opcode's definition in `xla_contract.ops`, `called` the
        computations in the order of called_computation_ids. `declared`, when given, supplies the
        layout of the result, and `decoration` the fields that do not change what is computed.
        Raises ShapeError, naming opcode and instruction, when the shape rule is broken, and
        InvalidArgumentError for operands of another builder and text that is none.
        """
        name = self._names.fresh(name or str(opcode), len(self._instructions) + 1)
        try:
            for operand in operands:
                self._check_own(operand)
            signatures = [_without_layouts(computation) for computation in called]
            shape = infer_shape(
                opcode, [op.shape for op in operands], attributes, signatures, instruction=name
            )
            proto = hlo_pb2.HloInstructionProto(
                name=name,
                opcode=opcode,
                shape=shape_to_proto((declared or shape).with_default_layout()),
                id=_instruction_id(len(self._instructions) + 1),
                operand_ids=[_instruction_id(op.id) for op in operands],
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
        proto.called_computation_ids.extend(self._embedding.add(each) for each in called)
        self._instructions.append(proto)
        op = Op(self, len(self._instructions), name, shape)
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

    def build(self, root: Op | None = None) -> Computation:
        """The computation whose result is `root`, or the last instruction when left out.

        The builder stays usable: instructions added later belong to later builds only. Raises
        InvalidArgumentError for an empty computation or a gap in the parameter numbers.
        """
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
            root_id=_instruction_id(root.id),
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
        self._check_own(root)
        return root

    def _check_own(self, op: Op) -> None:
        if not isinstance(op, Op):
            raise InvalidArgumentError(
                f"operands must be Ops, got {type(op).__name__}",
                hint="builder.constant makes an Op of an array",
            )
        if op.builder is not self:
            raise InvalidArgumentError(
                f"operands must belong to the builder of their user, got {op!r} of builder "
                f"{op.builder.name!r} in builder {self.name!r}"
            )

    def __repr__(self) -> str:
        return f"Builder({self.name!r}, {len(self._instructions)} instructions)"


def elementwise(
    opcode: Opcode,
    lhs: Op | Scalar,
    rhs: Op | Scalar,
    broadcast_dimensions: Sequence[int] | None = None,
    attributes: Any = NO_ATTRIBUTES,
) -> Op:
    """A binary elementwise operation with XLA's explicit broadcasting.

    One operand may be a Python or numpy scalar; it takes the other's element type. Raises
    ShapeError where the operands' dimensions do not match.
    """
    builder = builder_of(lhs, rhs)
    try:
        lhs, rhs = _as_op(builder, lhs, rhs), _as_op(builder, rhs, lhs)
        lhs_plan, rhs_plan = plan_binary(lhs.shape, rhs.shape, broadcast_dimensions)
    except XlaError as error:
        raise error.at(opcode) from error.__cause__
    operands = [stretch(lhs, lhs_plan), stretch(rhs, rhs_plan)]
    return builder.instruction(opcode, operands, attributes)


def stretch(operand: Op, plan: Stretch) -> Op:
    """`operand` broadcast as planned: degenerate dimensions are reshaped away first."""
    if plan.is_trivial:
        return operand
    builder = operand.builder
    kept = plan.kept
    if len(kept) < operand.shape.rank:
        sizes = tuple(operand.shape.dimensions[number] for number in kept)
        operand = builder.instruction(Opcode.RESHAPE, [operand], ReshapeAttributes(sizes))
    mapping = tuple(plan.mapping[number] for number in kept)
    attributes = BroadcastAttributes(mapping, plan.result)
    return builder.instruction(Opcode.BROADCAST, [operand], attributes)


def builder_of(*operands: object) -> Builder:
    """The builder of the first Op among `operands`; raises InvalidArgumentError without one."""
    for operand in operands:
        if isinstance(operand, Op):
            return operand.builder
    kinds = ", ".join(type(operand).__name__ for operand in operands)
    raise InvalidArgumentError(
        f"an operand must be an Op, got ({kinds})",
        hint="builder.constant makes an Op of an array",
    )


def as_sequence(operands: Op | Sequence[Op]) -> Sequence[Op]:
    """One Op as a sequence of one."""
    return [operands] if isinstance(operands, Op) else operands


@contextlib.contextmanager
def placed(opcode: Opcode) -> Iterator[None]:
    """Put the opcode in front of errors raised inside that do not say their place yet."""
    try:
        yield
    except XlaError as error:
        raise error.at(opcode) from error.__cause__


def integers(numbers: Iterable[int]) -> tuple[int, ...]:
    """Dimension numbers or sizes as Python ints; raises TypeError for fractions."""
    return tuple(number.__index__() for number in numbers)


def _operator(opcode: Opcode, lhs: Op | Scalar, rhs: Op | Scalar) -> Op:
    for side in (lhs, rhs):
        if not isinstance(side, (Op, *SCALAR_TYPES)):
            return NotImplemented
    return elementwise(opcode, lhs, rhs)


def _as_op(builder: Builder, value: Op | Scalar, other: Op | Scalar) -> Op:
    if isinstance(value, Op):
        return value
    if not isinstance(other, Op) or not isinstance(value, SCALAR_TYPES):
        raise InvalidArgumentError(
            f"operands must be Ops or scalars, got {type(value).__name__}",
            hint="builder.constant makes an Op of an array",
        )
    return builder.constant(scalar_array(value, other.shape.element_type))


def _array(value: ArrayLike) -> "np.typing.NDArray[np.generic]":
    narrow = {bool: np.bool_, int: np.int32, float: np.float32, complex: np.complex64}
    return np.asarray(value, dtype=narrow.get(type(value)))


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


def _instruction_id(local: int) -> int:
    return _ENTRY_ID << 32 | local
