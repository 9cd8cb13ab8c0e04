"""Tuples, calls and control flow. Semantics: XLA's While, Scan, Conditional, Call and kin.

Computations may be functions of Ops, which may use values of the program around them: see
`xla_client.programs.functions`.
"""

from collections.abc import Sequence
from typing import Any

from xla_client.coercion.numbers import data
from xla_client.coercion.shapes import ShapeLike, as_shape
from xla_client.programs.arguments import operands as operand_rules
from xla_client.programs.arguments.checked import checked
from xla_client.programs.arguments.operands import ComputationLike
from xla_client.programs.arguments.scalars import Scalar
from xla_client.programs.builder import (
    Builder,
    Op,
    Operands,
    Values,
    as_sequence,
    builder_of,
    errors_at,
    promoted,
)
from xla_client.programs.computation import Computation
from xla_client.programs.control_flow import branches, loop, scanned
from xla_client.programs.functions import call_computation
from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.ops.control.custom_call import CustomCallAttributes
from xla_contract.ops.control.tuple import GetTupleElementAttributes
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import shape_to_proto

_API_VERSION_ORIGINAL = 1
"""API_VERSION_ORIGINAL of XLA's CustomCallApiVersion, its default in XlaBuilder."""


def tuple(
    elements: "Values | Builder" = (),
    builder: "Op | Scalar | Builder | None" = None,
    *more: "Op | Scalar",
) -> Op:
    """The tuple of these values: `ops.tuple(x, y)` or `ops.tuple([x, y])`.

    Numbers become constants: see `Builder.constant`. An empty tuple needs its builder.

    Args:
        elements: The first element, or a sequence of all.
        builder: The second element; or the builder, if `elements` is a sequence.
        more: The other elements.

    Returns:
        The tuple.

    Raises:
        ArgumentTypeError: An argument has a type that its parameter does not take.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.tuple(x, 1.5)
        %tuple.3: (f32[3], f32[])

    See https://openxla.org/xla/operation_semantics#tuple
    """
    given: Any = elements
    own = builder if isinstance(builder, Builder) else None
    if builder is not None and own is None:
        given = [elements, builder, *more]
    with errors_at("ops.tuple"):
        values = operand_rules.values("elements", given)
        own = own or builder_of(*values)
        return own.instruction(Opcode.TUPLE, [promoted(own, value) for value in values])


@checked
def get_tuple_element(operand: Op, index: int) -> Op:
    """One element of a tuple.

    Args:
        operand: A tuple.
        index: The number of the element, from 0.

    Returns:
        The element.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.get_tuple_element(ops.tuple(x, 1), 1)
        %get-tuple-element.4: s32[]

    See https://openxla.org/xla/operation_semantics#gettupleelement
    """
    attributes = GetTupleElementAttributes(index)
    return operand.builder.instruction(Opcode.GET_TUPLE_ELEMENT, [operand], attributes)


@checked
def call(computation: ComputationLike, operands: Values = (), builder: Builder | None = None) -> Op:
    """The result of a computation for some operands.

    Args:
        computation: A Computation or a function of Ops.
        operands: Its arguments; numbers take the type of their parameter.
        builder: The builder of the program; needed if no operand is an Op.

    Returns:
        The computation's result.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.call(lambda a, b: a * b, [x, x])
        %call.2: f32[3]

    See https://openxla.org/xla/operation_semantics#call
    """
    return _called(computation, operands, builder)


@checked
def composite_call(
    computation: ComputationLike,
    operands: Values,
    name: str,
    attributes: str = "{}",
    version: int = 0,
    builder: Builder | None = None,
) -> Op:
    """A call that a platform may replace by an operation of its own, which it knows by name.

    Args:
        computation: The meaning of the operation: a Computation or a function of Ops.
        operands: Its arguments.
        name: The name of the operation.
        attributes: Options for platforms that know the operation: a dictionary in MLIR's text form.
        version: The version of the operation, from 0.
        builder: The builder of the program; needed if no operand is an Op.

    Returns:
        The computation's result.

    Raises:
        InvalidArgumentError: The version is negative, or the name or the attributes are empty.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.composite_call(ops.tanh, x, "my.tanh")
        %call.2: f32[3]
    """
    if not name or not attributes or version < 0:
        raise InvalidArgumentError(
            "a composite must have a name, attributes ({} for none) and a version from 0, got "
            f"{name!r}, {attributes!r} and {version}"
        )
    decoration = hlo_pb2.HloInstructionProto(is_composite=True)
    decoration.frontend_attributes.map["composite.name"] = name
    decoration.frontend_attributes.map["composite.attributes"] = attributes
    decoration.frontend_attributes.map["composite.version"] = str(version)
    return _called(computation, operands, builder, decoration)


@checked
def while_(condition: ComputationLike, body: ComputationLike, init: Any) -> Op:
    """The state after a loop, which applies `body` to it as long as `condition` is true.

    Args:
        condition: A function of the state that returns pred[].
        body: A function of the state that returns the next one, of the same shape. If the state is
            a tuple it may return a sequence.
        init: The first state: an Op, a number, or a sequence of them, which becomes a tuple.

    Returns:
        The state after the loop.

    Raises:
        ShapeError: The body returns another shape than it takes, or the condition no pred[].
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.while_(lambda v: v.sum().lt(9.0), lambda v: v * 2, x)
        %while.2: f32[3]

    See https://openxla.org/xla/operation_semantics#while
    """
    with errors_at(Opcode.WHILE):
        given = operand_rules.values("init", init)
        return loop(condition, body, given, not isinstance(init, Sequence))


@checked
def scan(
    arrays: Operands,
    init_values: Values,
    step: ComputationLike,
    dimension: int = 0,
    is_reverse: bool = False,
    is_associative: bool | None = None,
) -> Op:
    """A loop over the slices of arrays that carries values from step to step.

    Args:
        arrays: An array, or several in a sequence, of one size in `dimension`.
        init_values: The carried values before the first slice.
        step: A function of a slice of each array, without `dimension`, then of each carried value.
            It returns a slice of each result, then the next carried values.
        dimension: The dimension to go along, from 0.
        is_reverse: Whether to begin with the last slice.
        is_associative: Whether steps may be grouped in any way; None if that is not known.

    Returns:
        A tuple: the results' slices stacked along `dimension`, then the last carried values.

    Raises:
        InvalidArgumentError: A number does not fit the element type that it meets.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.scan(x, 0.0, lambda row, total: (row * 2, total + row.sum()))
        %scan.3: (f32[2,3], f32[])
    """
    inputs = as_sequence(arrays)
    builder_of(*inputs)
    with errors_at(Opcode.SCAN):
        return scanned(inputs, init_values, step, dimension, is_reverse, is_associative)


@checked
def conditional(
    branch_index: Op,
    branch_computations: ComputationLike | Sequence[ComputationLike],
    branch_operands: ComputationLike | Values | None = None,
    *operands: Op | Scalar,
) -> Op:
    """The result of one of several computations; only that one is run.

    There are two forms. `conditional(pred, on_true, on_false, *operands)` passes the same operands
    to both branches. `conditional(index, [f, g, h], [x, y, z])` passes each branch its own operand:
    one Op is passed to all, and without operands the branches take none.

    Args:
        branch_index: s32[], the number of the branch; one out of range means the last. pred[] for
            two branches: true means the first.
        branch_computations: The first branch, or a sequence of all.
        branch_operands: The second branch, or an operand for each branch of the sequence.
        operands: The operands of both branches.

    Returns:
        The result of the branch.

    Raises:
        ShapeError: The branches return different shapes, or the operands do not fit them.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.conditional(x[0].gt(0), lambda: x, lambda: -x)
        %conditional.8: f32[3]

    See https://openxla.org/xla/operation_semantics#conditional
    """
    with errors_at(Opcode.CONDITIONAL):
        return branches(branch_index, branch_computations, branch_operands, operands)


@checked
def optimization_barrier(operand: Op) -> Op:
    """The operand unchanged: optimisations move no operation across this one.

    Args:
        operand: A value of any shape.

    Returns:
        The operand.

    Raises:
        ArgumentTypeError: An argument has a type that its parameter does not take.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.optimization_barrier(x)
        %opt-barrier.2: f32[3]

    See https://openxla.org/xla/operation_semantics#optimizationbarrier
    """
    return operand.builder.instruction(Opcode.OPT_BARRIER, [operand])


@checked
def custom_call(
    operands: Values,
    call_target_name: str,
    shape: ShapeLike,
    opaque: bytes | str = b"",
    has_side_effect: bool = False,
    api_version: int = _API_VERSION_ORIGINAL,
    builder: Builder | None = None,
    computation: Computation | None = None,
    operand_shapes_with_layout: Sequence[ShapeLike] | None = None,
) -> Op:
    """The result of a function that the server knows by name; it refuses to compile unknown names.

    Args:
        operands: Its arguments; numbers become constants.
        call_target_name: The function's name.
        shape: The shape of its result; with a layout, if `operand_shapes_with_layout` is given.
        opaque: Bytes or text for the function.
        has_side_effect: Whether a call is kept although its result is unused, and never merged with
            an equal one.
        api_version: The convention of the call, a number of XLA's CustomCallApiVersion.
        builder: The builder of the program; needed if no operand is an Op.
        computation: A Computation that is passed to the function.
        operand_shapes_with_layout: The operands' shapes with the layouts in which platforms pass
            them. Functions on the interpreter get logical arrays all the same.

    Returns:
        The function's result.

    Raises:
        ShapeError: `operand_shapes_with_layout` are not the operands' shapes with layouts.
        InvalidArgumentError: The text of the shape is malformed.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.custom_call(x, "my_function", "f32[3]")
        %custom-call.2: f32[3]

    See https://openxla.org/xla/operation_semantics#customcall
    """
    result = as_shape(shape)
    given = operand_rules.values("operands", operands)
    own = builder or builder_of(*given)
    arrays = [promoted(own, each) for each in given]
    attributes = CustomCallAttributes(
        call_target_name, result, data("opaque", opaque), has_side_effect, api_version
    )
    decoration, declared = None, None
    if operand_shapes_with_layout is not None:
        shapes = [as_shape(each) for each in operand_shapes_with_layout]
        _check_constraint(arrays, shapes)
        decoration = hlo_pb2.HloInstructionProto(
            constrain_layout=True, operand_shapes_with_layout=map(shape_to_proto, shapes)
        )
        declared = result
    return own.instruction(
        Opcode.CUSTOM_CALL,
        arrays,
        attributes,
        [] if computation is None else [computation],
        declared=declared,
        decoration=decoration,
    )


def _called(
    computation: ComputationLike,
    operands: Values,
    builder: Builder | None,
    decoration: hlo_pb2.HloInstructionProto | None = None,
) -> Op:
    given = operand_rules.values("operands", operands)
    own = builder or builder_of(*given)
    parameters = computation.parameters if isinstance(computation, Computation) else ()
    likes = [*parameters, *[None] * len(given)]
    with errors_at(Opcode.CALL):
        values = [promoted(own, each, like) for each, like in zip(given, likes, strict=False)]
        shapes = [value.shape for value in values]
        callee, around = call_computation(computation, own, shapes, "computation")
    return own.instruction(Opcode.CALL, [*values, *around], called=[callee], decoration=decoration)


def _check_constraint(operands: Sequence[Op], shapes: Sequence[Shape]) -> None:
    fit = len(shapes) == len(operands) and all(
        shape.has_layout and shape.compatible(operand.shape)
        for shape, operand in zip(shapes, operands, strict=True)
    )
    if not fit:
        constrained = ", ".join(map(str, shapes))
        actual = ", ".join(str(operand.shape) for operand in operands)
        raise ShapeError(
            "operand_shapes_with_layout must be the operands' shapes with their layouts, got "
            f"({constrained}) for ({actual})"
        ).at(Opcode.CUSTOM_CALL)
