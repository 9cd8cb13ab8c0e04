"""Python functions as computations: reducers, comparators, branches, loop bodies.

A function is called once, with Ops that stand for its arguments, and the instructions that it
writes become a computation. It may use values of the builder around it. Small constants are copied
into the computation. Other values are passed in: by the loop's state, by a branch's operand, by
further operands of a call. A computation on scalars (of reduce, sort, map, scatter ...) cannot be
passed further values, so it may not use them.

Names in errors: `role` is the parameter that the function was given for.
"""

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any

from xla_client.programs.arguments import operands
from xla_client.programs.arguments.operands import ComputationLike
from xla_client.programs.arguments.scalars import Scalar
from xla_client.programs.builder import Builder, Op, promoted
from xla_client.programs.computation import Computation
from xla_contract.errors import ArgumentTypeError, InvalidArgumentError, XlaError
from xla_contract.ops.control.parameter import ParameterAttributes
from xla_contract.ops.control.tuple import GetTupleElementAttributes
from xla_contract.ops.definitions import definition
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import shape_to_proto

COPIED_BYTES = 4096
"""Size in bytes up to which constants are copied into a function, even if it could be passed
them."""

_COPIED = {
    str(opcode)
    for opcode in (
        Opcode.BROADCAST,
        Opcode.CONVERT,
        Opcode.IOTA,
        Opcode.NEGATE,
        Opcode.RESHAPE,
    )
}
"""Operations that are copied with the constants that are their operands."""

_COPIED_DEPTH = 8
"""Longest chain of operations that is copied with a constant."""


class Inner(Builder):
    """The builder of a function's computation, inside that of the program around it."""

    def __init__(self, name: str, outer: Builder, role: str, *, takes_values: bool) -> None:
        super().__init__(name)
        self.outer: Builder = outer
        self._role = role
        self._takes_values = takes_values
        self.arguments: list[Op] = []
        self.taken: dict[Op, Op] = {}
        """The parameters that stand for values from outside the function, by those values."""
        self._copies: dict[Op, Op] = {}
        self._is_finished = False

    def argument(self, shape: Shape, name: str = "") -> Op:
        """The next parameter of the computation."""
        number = len(self._parameters)
        shape = shape.without_layout()
        name = name or f"p{number}"
        attributes = ParameterAttributes(number, shape)
        op = self._written(Opcode.PARAMETER, [], attributes, name=name, declared=shape)
        self._parameters[number] = (name, shape)
        return op

    def build(self, root: "Op | Scalar | Sequence[Op | Scalar] | None" = None) -> Computation:
        """The computation, to which nothing is added later."""
        built = super().build(root)
        self._is_finished = True
        return built

    def own(self, op: Op) -> Op:
        """Return the Op here that stands for one of this builder or of one around it.

        Raises:
            InvalidArgumentError: A function like this cannot have a value from outside.
        """
        if self._is_finished:
            raise InvalidArgumentError(
                f"a value of a function can be used in that function only, got {op!r} of "
                f"{self.name!r}, which has returned",
                hint="return it from the function",
            )
        if not isinstance(op, Op) or op.builder is self:
            return super().own(op)
        known = self.taken.get(op, self._copies.get(op))
        if known is not None:
            return known
        if not self._is_around(op.builder):
            self._refuse_foreign(op)
        copied = self._copied(op, 0)
        if copied is not None:
            return copied
        outside = self.outer.own(op)
        if not self._takes_values:
            raise InvalidArgumentError(
                f"a function given as {self._role} can use its arguments and constants, got "
                f"{op!r} of the program around it",
                hint="it is applied to scalars one after the other; what else it needs is handed "
                "in as another operand, or applied before or after it",
            )
        if outside in self.taken:
            return self.taken[outside]
        placeholder = self.argument(outside.shape, f"from_outside_{len(self.taken)}")
        self.taken[outside] = placeholder
        return placeholder

    def packed(self, around: Sequence[Op], root: Op) -> Computation:
        """Return the computation of one tuple: the arguments, then the outside values `around`."""
        elements = [*self.arguments, *(self.own(op) for op in around)]
        state = Shape.tuple_of([element.shape for element in elements])
        number = len(self._instructions) + 1
        for index, element in enumerate(elements):
            proto = self._instructions[element.id - 1]
            proto.ClearField("parameter_number")
            proto.opcode = str(Opcode.GET_TUPLE_ELEMENT)
            proto.operand_ids[:] = [self._instruction_id(number)]
            definition(Opcode.GET_TUPLE_ELEMENT).encode(GetTupleElementAttributes(index), proto)
        proto = hlo_pb2.HloInstructionProto(
            name=self._names.fresh("state", number),
            opcode=str(Opcode.PARAMETER),
            shape=shape_to_proto(state.with_default_layout()),
            id=self._instruction_id(number),
        )
        definition(Opcode.PARAMETER).encode(ParameterAttributes(0, state), proto)
        self._instructions.insert(0, proto)
        self._parameters = {0: ("state", state)}
        return self.build(root)

    def _is_around(self, builder: Builder) -> bool:
        around: Builder | None = self.outer
        while around is not None and around is not builder:
            around = around.outer
        return around is builder

    def _copied(self, op: Op, depth: int) -> Op | None:
        """Copy a constant, or the result of a few operations on constants, into this builder."""
        if self._takes_values and op.shape.is_array and op.shape.byte_size > COPIED_BYTES:
            return None
        proto = op.builder.message_of(op)
        sources = op.builder.operands_of(op)
        if proto.opcode != str(Opcode.CONSTANT) and (
            depth == _COPIED_DEPTH or proto.opcode not in _COPIED
        ):
            return None
        copies = [self._copied(source, depth + 1) for source in sources]
        if any(copy is None for copy in copies):
            return None
        if op not in self._copies:
            again = hlo_pb2.HloInstructionProto()
            again.CopyFrom(proto)
            number = len(self._instructions) + 1
            again.name = self._names.fresh(str(proto.opcode), number)
            again.id = self._instruction_id(number)
            again.operand_ids[:] = [
                self._instruction_id(each.id) for each in copies if each is not None
            ]
            self._copies[op] = self._added(again, op.shape)
        return self._copies[op]


def scalar_computation(
    given: ComputationLike, builder: Builder, shapes: Sequence[Shape], role: str
) -> Computation:
    """Return a Computation as it is, or a function of scalars, of the element types of `shapes`.

    Raises:
        ArgumentTypeError: The function takes another number of values or gives no Op.
        InvalidArgumentError: The function uses a value of the program around it that is no
            constant.
    """
    if isinstance(given, Computation):
        return given
    inner = _begun(given, builder, role, takes_values=False)
    for shape in shapes:
        inner.arguments.append(inner.argument(_scalar_of(shape)))
    return inner.build(called(inner, given, inner.arguments, role))


def call_computation(
    given: ComputationLike, builder: Builder, shapes: Sequence[Shape], role: str
) -> tuple[Computation, list[Op]]:
    """A computation of values of these shapes, and the values from outside that follow them."""
    if isinstance(given, Computation):
        return given, []
    inner = _begun(given, builder, role)
    inner.arguments += [inner.argument(shape) for shape in shapes]
    root = called(inner, given, inner.arguments, role)
    return inner.build(root), list(inner.taken)


def called(
    inner: Inner,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    role: str,
    like: Shape | None = None,
) -> Op:
    """Call a function and return its result as one Op; several values become a tuple."""
    result = raw_result(inner, function, arguments, role)
    return as_result(inner, result, function, role, like)


def raw_result(
    inner: Inner, function: Callable[..., Any], arguments: Sequence[Any], role: str
) -> Any:
    """Call a function so that its instructions go into its computation; return its result."""
    check_arity(function, arguments, role)
    with inner.outer.calling(inner):
        return function(*arguments)


def as_result(
    inner: Inner,
    result: Any,
    function: Callable[..., Any],
    role: str,
    like: Shape | None = None,
) -> Op:
    """The result of a function as an Op of its builder; numbers take the type of `like`."""
    try:
        values = operands.values("result", result)
    except XlaError as error:
        raise ArgumentTypeError(
            f"the function given as {role} must return an Op, got {error.message} from "
            f"{_name_of(function)}"
        ) from None
    with inner.outer.calling(inner):
        results = [inner.own(promoted(inner, value, like)) for value in values]
        if isinstance(result, Op) or not isinstance(result, list | tuple):
            return results[0]
        return inner.instruction(Opcode.TUPLE, results)


def begun(
    function: Callable[..., Any], builder: Builder, role: str, shapes: Sequence[Shape]
) -> Inner:
    """Return the builder of a function's computation, with a parameter of each shape."""
    inner = _begun(function, builder, role)
    inner.arguments += [inner.argument(shape) for shape in shapes]
    return inner


def _begun(
    function: Callable[..., Any], builder: Builder, role: str, *, takes_values: bool = True
) -> Inner:
    name = re.sub(r"[^A-Za-z0-9_.\-]", "_", getattr(function, "__name__", ""))
    if not name or "lambda" in name:
        name = role
    return Inner(name, builder.innermost(), role, takes_values=takes_values)


def _scalar_of(shape: Shape) -> Shape:
    return Shape.scalar(shape.element_type) if shape.is_array else shape


def check_arity(function: Callable[..., Any], arguments: Sequence[Any], role: str) -> None:
    """Raise ArgumentTypeError unless the function takes as many values."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # Functions written in C may have none.
    try:
        signature.bind(*arguments)
    except TypeError:
        raise ArgumentTypeError(
            f"the function given as {role} must take {len(arguments)} values, got "
            f"{_name_of(function)}{signature}"
        ) from None


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
