"""Programs of one operation on operands of one kind: whether they can be stated and run."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from xla_client import ops
from xla_client.programs.builder import Builder, Op
from xla_client.programs.computation import Computation
from xla_contract.errors import InternalError, XlaError
from xla_contract.stubs import xla_pb2
from xla_contract.types.element_type import ElementType
from xla_contract.types.literal import Literal
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.decoding import UndecodedLiteral
from xla_server.backends.platform import Backend
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.decode.programs import read_compile_request
from xla_server.rpc.threads.thread_pool import ThreadPool
from xla_server.sessions.limits.server_limits import Limits
from xla_server.sessions.session import Session
from xla_server.sessions.shared_resources import SharedResources

KINDS = (
    *(kind for kind in ElementType if kind.is_array),
    ElementType.TUPLE,
    ElementType.TOKEN,
)
"""Kinds of operands: an array of each element type, a tuple or a token."""


class ProbeError(Exception):
    """A probe that does not ask what it should."""


class Subject(Builder):
    """A builder of a program about operands of one kind."""

    def __init__(self, kind: ElementType) -> None:
        super().__init__("probe")
        self.kind = kind
        self.is_asked = False
        self.parameters: list[Shape] = []
        self.fed: list[Shape] = []

    def shape(self, *dimensions: int) -> Shape:
        """The shape of an operand of the kind; tuples hold one array of these dimensions."""
        self.is_asked = True
        if self.kind is ElementType.TOKEN:
            return Shape.token()
        if self.kind is ElementType.TUPLE:
            return Shape.tuple_of([Shape.array(ElementType.F32, dimensions)])
        return Shape.array(self.kind, dimensions)

    def main(self, *dimensions: int) -> Op:
        """An operand of the kind."""
        shape = self.shape(*dimensions)
        if shape.is_token:
            return self.create_token()
        if shape.is_tuple:
            return self.instruction(Opcode.TUPLE, [self.of(ElementType.F32, *dimensions)])
        return self.of(self.kind, *dimensions)

    def of(self, element_type: ElementType, *dimensions: int) -> Op:
        """An operand that is not what the probe asks about: an array of ones."""
        return self.argument(Shape.array(element_type, dimensions))

    def argument(self, shape: Shape) -> Op:
        """The next parameter."""
        self.parameters.append(shape)
        return self.parameter(len(self.parameters) - 1, shape)

    def unsigned(self, *dimensions: int) -> Op:
        """An array of the unsigned type as wide as the kind, u32 where there is none."""
        return self.of(self.unsigned_type(), *dimensions)

    def unsigned_type(self) -> ElementType:
        """The unsigned type as wide as the kind, u32 where there is none."""
        if self.kind.is_array:
            for found in KINDS:
                if found.is_unsigned_integer and found.bit_width == self.kind.bit_width:
                    return found
        return ElementType.U32

    def combiner(self) -> Computation:
        """A computation of two scalars of the kind that gives one of them, or their sum."""
        builder = Builder("combiner")
        x, y = (builder.parameter(number, self.shape()) for number in range(2))
        if not self.kind.is_array:
            return builder.build(x)
        opcode = Opcode.OR if self.kind is ElementType.PRED else Opcode.ADD
        return builder.build(builder.instruction(opcode, [x, y]))

    def decider(self, answer: bool) -> Computation:
        """A computation of two scalars of the kind that always gives the same answer."""
        builder = Builder("decider")
        for number in range(2):
            builder.parameter(number, self.shape())
        return builder.build(builder.constant(answer))

    def identity(self, *dimensions: int) -> Computation:
        """A computation that gives its operand of the kind back."""
        builder = Builder("identity")
        return builder.build(builder.parameter(0, self.shape(*dimensions)))

    def never(self, *dimensions: int) -> Computation:
        """A condition on an operand of the kind that is false."""
        builder = Builder("never")
        builder.parameter(0, self.shape(*dimensions))
        return builder.build(builder.constant(False))

    def feed(self, shape: Shape) -> Shape:
        """The shape, which the program will find in its infeed queue."""
        self.fed.append(shape)
        return shape


Program = Callable[[Subject], Op]


@dataclasses.dataclass(frozen=True, slots=True)
class Stated:
    """A program the shape rules accept, with its parameters and what it is fed."""

    kind: ElementType
    computation: Computation
    parameters: Sequence[Shape]
    fed: Sequence[Shape]


@dataclasses.dataclass(frozen=True, slots=True)
class Accepted:
    """The programs of one operation that its shape rule accepts.

    Where the operation has no operand that could be of several kinds, `is_typed` is false and
    there is one program.
    """

    programs: tuple[Stated, ...]
    is_typed: bool


def accepted(opcode: Opcode, program: Program, before: Opcode | None = None) -> Accepted:
    """Return the programs for each kind that the operation's shape rule accepts.

    For an operation that takes the results of another one, `before`, that one's rule decides too.
    Raises ProbeError for a program that fails elsewhere, or does not hold the operation.
    """
    programs = []
    for kind in KINDS:
        subject = Subject(kind)
        try:
            root = program(subject)
        except XlaError as error:
            # A function of the builder may refuse before there is an instruction to name.
            if error.op not in (opcode, before, ""):
                raise ProbeError(
                    f"the probe of {opcode} must fail at {opcode} or nowhere, got for "
                    f"{kind.text}: {error}"
                ) from error
            continue
        computation = subject.build(root)
        instructions = computation.proto.computations[-1].instructions
        if opcode not in {each.opcode for each in instructions}:
            raise ProbeError(f"the probe of {opcode} must hold it, got {computation.proto}")
        programs.append(Stated(kind, computation, subject.parameters, subject.fed))
        if not subject.is_asked:
            return Accepted(tuple(programs), is_typed=False)
    return Accepted(tuple(programs), is_typed=True)


def _raise_if(error: XlaError | None) -> None:
    if error is not None:
        raise error


class Runner:
    """Runs programs on a platform, through the service that every platform stands behind."""

    def __init__(self, backend: Backend) -> None:
        self._service = Session(
            SharedResources(backend, Limits(max_device_bytes=1 << 26), ThreadPool(1, "execution"))
        )
        self._arguments: dict[str, int] = {}

    def refused(self, programs: Sequence[Stated]) -> list[ElementType]:
        """The kinds whose programs the platform does not compile or execute, on arrays of ones.

        Raises ProbeError for an internal error.
        """
        # Programs called by one program run for the cost of one. Where that one is refused,
        # perhaps because two of them cannot be together, each is asked for itself.
        if self._runs(_together(programs), is_last_word=False):
            return []
        return [program.kind for program in programs if not self._runs(program)]

    def _runs(self, program: Stated, *, is_last_word: bool = True) -> bool:
        cancellation = Cancellation()
        try:
            arguments = [self._argument(shape) for shape in program.parameters]
            for shape in program.fed:
                literal = UndecodedLiteral(literal_of(shape))
                self._service.transfer_to_infeed(literal, 0, None, cancellation, _raise_if)
            handle = self._service.runner.compile(
                read_compile_request(program.computation.proto, xla_pb2.ExecutionOptions()),
                program.parameters,
                cancellation,
            )
            done = self._service.runner.execute(handle, arguments, cancellation)
            self._service.unregister([done.output, handle])
        except InternalError as error:
            if is_last_word:
                raise ProbeError(f"{program.kind.text}: {error}") from error
            return False
        except XlaError:
            return False
        finally:
            self._service.reset_device()
        return True

    def _argument(self, shape: Shape) -> int:
        found = self._arguments.get(str(shape))
        if found is None:
            literal = UndecodedLiteral(literal_of(shape))
            found = self._arguments[str(shape)] = self._service.transfer_to_server(literal, None)
        return found


def _together(programs: Sequence[Stated]) -> Stated:
    """One program that calls them all."""
    builder = Builder("together")
    results = []
    parameters: list[Shape] = []
    for program in programs:
        arguments = []
        for shape in program.parameters:
            arguments.append(builder.parameter(len(parameters), shape))
            parameters.append(shape)
        results.append(ops.call(program.computation, arguments, builder))
    fed = [shape for program in programs for shape in program.fed]
    computation = builder.build(ops.tuple(results, builder))
    return Stated(ElementType.TUPLE, computation, parameters, fed)


def literal_of(shape: Shape) -> Literal:
    """A value of a shape: ones in all its arrays."""
    if shape.is_token:
        return Literal.token()
    if shape.is_tuple:
        return Literal.tuple_of([literal_of(part) for part in shape.tuple_shapes])
    ones = np.ones(shape.dimensions).astype(shape.element_type.dtype)
    return Literal.from_numpy(ones, shape.with_default_layout())
