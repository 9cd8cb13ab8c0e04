"""Loops, conditionals and scans of functions; values from outside are passed to the functions."""

import itertools
from collections.abc import Sequence
from typing import Any

from xla_client.programs.arguments import operands
from xla_client.programs.arguments.operands import ComputationLike
from xla_client.programs.arguments.scalars import SCALAR_TYPES, Scalar
from xla_client.programs.builder import Builder, Op, Values, builder_of, promoted
from xla_client.programs.computation import Computation
from xla_client.programs.functions import Inner, as_result, begun, called, raw_result
from xla_contract.errors import ArgumentTypeError, InvalidArgumentError, ShapeError
from xla_contract.ops.control.tuple import GetTupleElementAttributes
from xla_contract.ops.reduction.scan import ScanAttributes
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape


def loop(
    condition: ComputationLike, body: ComputationLike, given: Sequence[Op | Scalar], is_one: bool
) -> Op:
    """Return the while instruction for computations or functions; implements `ops.while_`."""
    if not given:
        raise InvalidArgumentError("a loop needs values to carry, got none")
    builder = builder_of(*given)
    values = [promoted(builder, each) for each in given]
    if isinstance(condition, Computation) and isinstance(body, Computation):
        state = values[0] if is_one else tuple_of(builder, values)
        return builder.instruction(Opcode.WHILE, [state], called=[body, condition])
    if isinstance(condition, Computation) or isinstance(body, Computation):
        raise ArgumentTypeError(
            "condition and body must both be functions or both be Computations, got "
            f"{type(condition).__name__} and {type(body).__name__}"
        )
    if is_one and not values[0].shape.is_tuple:
        return loop_of_functions(condition, body, values)[0]
    parts = elements_of(values[0]) if is_one else values
    if not parts:
        raise InvalidArgumentError("a loop needs values to carry, got an empty tuple")
    return tuple_of(builder, loop_of_functions(condition, body, parts, takes_tuple=True))


def loop_of_functions(
    condition: Any,
    body: Any,
    values: Sequence[Op],
    *,
    takes_tuple: bool = False,
    takes_list: bool = False,
    is_packed: bool = False,
) -> list[Op]:
    """The values after a loop; its functions take them one by one, as a tuple or as a list.

    Args:
        condition: A function of the values that returns pred[].
        body: A function of the values that returns the next ones.
        values: The values before the loop.
        takes_tuple: Whether the functions take a tuple Op.
        takes_list: Whether the functions take a list.
        is_packed: Whether the state is a tuple where there is one value and nothing from outside.

    Returns:
        The values after the loop.

    Raises:
        ShapeError: The body gives other shapes than it takes.
    """
    builder = values[0].builder.innermost()
    shapes = [value.shape for value in values]
    roles = (condition, "condition"), (body, "body")
    test, step = (begun(each, builder, role, shapes) for each, role in roles)
    tested = called(test, condition, _body_arguments(test, takes_tuple, takes_list), "condition")
    result = raw_result(step, body, _body_arguments(step, takes_tuple, takes_list), "body")
    results = _results_of_body(step, body, result, values)
    around = [*step.taken, *(op for op in test.taken if op not in step.taken)]
    if not around and len(values) == 1 and not is_packed:
        called_here = [step.build(results[0]), test.build(tested)]
        return [builder.instruction(Opcode.WHILE, [values[0]], called=called_here)]
    root = tuple_of(step, [*results, *(step.own(op) for op in around)])
    called_here = [step.packed(around, root), test.packed(around, tested)]
    state = tuple_of(builder, [*values, *around])
    finished = builder.instruction(Opcode.WHILE, [state], called=called_here)
    return elements_of(finished)[: len(values)]


def branches(
    index: Op,
    computations: ComputationLike | Sequence[ComputationLike],
    given: ComputationLike | Values | None,
    shared: Sequence[Op | Scalar],
) -> Op:
    """Return the conditional for computations or functions; implements `ops.conditional`."""
    builder = index.builder.innermost()
    if isinstance(computations, list | tuple):
        called_here = list(computations)
        is_value = given is None or isinstance(given, (list, Op, *SCALAR_TYPES))
        if shared or not is_value:
            raise ArgumentTypeError(
                "branch_operands must have one operand per branch, got "
                f"{given!r:.80} and {len(shared)} more for {len(called_here)} branches"
            )
        each = _operand_of_each(index, given, len(called_here))
    else:
        if given is None or isinstance(given, (list, Op, *SCALAR_TYPES)):
            raise ArgumentTypeError(
                "a branch needs another one, got a single computation; write conditional(pred, "
                "on_true, on_false, *operands) or conditional(index, [f, g], [x, y])"
            )
        called_here = [computations, given]
        values = [promoted(builder, value) for value in shared]
        each = [values, values]
    return _conditional(builder, index, called_here, each)


def scanned(
    inputs: Sequence[Op],
    init_values: Values,
    step: ComputationLike,
    dimension: int,
    is_reverse: bool,
    is_associative: bool | None,
) -> Op:
    """Return the scan instruction for a computation or a function; implements `ops.scan`."""
    builder = builder_of(*inputs)
    given = operands.values("init_values", init_values)
    if isinstance(step, Computation):
        likes: list[Shape | None] = [*step.parameters[len(inputs) :], *[None] * len(given)]
        carried = [
            promoted(builder, value, like) for value, like in zip(given, likes, strict=False)
        ]
        attributes = ScanAttributes(dimension, len(carried), is_reverse, is_associative)
        return builder.instruction(Opcode.SCAN, [*inputs, *carried], attributes, [step])
    carried = [promoted(builder, value) for value in given]
    slices = [_slice_of(each, dimension) for each in inputs]
    inner = begun(step, builder, "step", [*slices, *(each.shape for each in carried)])
    result = called(inner, step, inner.arguments, "step")
    around = list(inner.taken)
    if not result.shape.is_tuple:
        raise ArgumentTypeError(
            "the function given as step must return a slice of each result and the carried "
            f"values, got one value, {result!r}"
        )
    parts = elements_of(result)
    root = tuple_of(inner, [*parts, *(inner.own(op) for op in around)])
    attributes = ScanAttributes(dimension, len(carried) + len(around), is_reverse, is_associative)
    everything = [*inputs, *carried, *around]
    whole = builder.instruction(Opcode.SCAN, everything, attributes, [inner.build(root)])
    return tuple_of(builder, elements_of(whole)[: len(parts)]) if around else whole


def tuple_of(builder: Builder, values: Sequence[Op]) -> Op:
    """The tuple of these values."""
    return builder.instruction(Opcode.TUPLE, values)


def elements_of(value: Op) -> list[Op]:
    """The elements of a tuple."""
    return [
        value.builder.instruction(
            Opcode.GET_TUPLE_ELEMENT, [value], GetTupleElementAttributes(number)
        )
        for number in range(len(value.shape.tuple_shapes))
    ]


def _body_arguments(inner: Inner, takes_tuple: bool, takes_list: bool) -> list[Any]:
    if takes_tuple:
        return [tuple_of(inner, inner.arguments)]
    return [list(inner.arguments)] if takes_list else list(inner.arguments)


def _results_of_body(inner: Inner, body: Any, result: Any, values: Sequence[Op]) -> list[Op]:
    if isinstance(result, Op) and result.shape.is_tuple:
        results = elements_of(inner.own(result))
    else:
        given = operands.values("result", result) if _are_values(result) else [result]
        likes = itertools.chain((value.shape for value in values), itertools.repeat(None))
        results = [
            as_result(inner, each, body, "body", like)
            for each, like in zip(given, likes, strict=False)
        ]
    if len(results) != len(values) or not all(
        mine.shape.compatible(theirs.shape) for mine, theirs in zip(results, values, strict=True)
    ):
        raise ShapeError(
            "the body must give what it takes, got "
            f"({', '.join(str(each.shape) for each in results)}) for "
            f"({', '.join(str(each.shape) for each in values)})"
        )
    return results


def _are_values(result: Any) -> bool:
    return isinstance(result, list | tuple)


def _operand_of_each(index: Op, given: Any, count: int) -> list[list[Op]]:
    builder = index.builder.innermost()
    if given is None:
        return [[] for _ in range(count)]
    if isinstance(given, list):
        values = [promoted(builder, value) for value in given]
    else:
        values = [promoted(builder, given)] * count
    if len(values) != count:
        shapes = ", ".join(str(value.shape) for value in (index, *values))
        raise ShapeError(
            f"the operands must be a choice and one input per branch, got ({shapes}) for {count} "
            "branches"
        )
    return [[value] for value in values]


def _conditional(
    builder: Builder,
    index: Op,
    computations: Sequence[ComputationLike],
    operands_of_each: Sequence[Sequence[Op]],
) -> Op:
    written: list[tuple[Inner, Any] | None] = []
    for number, (each, values) in enumerate(zip(computations, operands_of_each, strict=True)):
        if isinstance(each, Computation):
            written.append(None)
            continue
        role = f"branch_computations[{number}]"
        inner = begun(each, builder, f"branch_{number}", [value.shape for value in values])
        written.append((inner, raw_result(inner, each, inner.arguments, role)))
    like = next((each.result for each in computations if isinstance(each, Computation)), None)
    results = [pair[1] for pair in written if pair is not None]
    like = next((each.shape for each in results if isinstance(each, Op)), like)
    called_here: list[Computation] = []
    states: list[Op] = []
    for each, values, pair in zip(computations, operands_of_each, written, strict=True):
        if isinstance(each, Computation) or pair is None:
            assert isinstance(each, Computation)
            called_here.append(each)
            states.append(values[0] if len(values) == 1 else tuple_of(builder, values))
            continue
        inner, result = pair
        root = as_result(inner, result, each, "branch_computations", like)
        around = list(inner.taken)
        if not around and len(values) == 1:
            called_here.append(inner.build(root))
            states.append(values[0])
        else:
            called_here.append(inner.packed(around, root))
            states.append(tuple_of(builder, [*values, *around]))
    return builder.instruction(Opcode.CONDITIONAL, [index, *states], called=called_here)


def _slice_of(array: Op, dimension: int) -> Shape:
    number = array.shape.dimension_number(dimension)
    sizes = array.shape.dimensions
    if dimension < 0:
        raise InvalidArgumentError(f"dimension must not be negative, got {dimension}")
    return array.shape.with_dimensions((*sizes[:number], *sizes[number + 1 :]))
