"""Loops written as functions of Ops.

Conditions and bodies may use values of the program around them, which the loop then carries along.
"""

from collections.abc import Callable, Sequence
from typing import Any, overload

from xla_client import ops
from xla_client.coercion.shapes import as_element_type
from xla_client.lib import constants
from xla_client.programs.arguments import operands
from xla_client.programs.arguments.checked import checked
from xla_client.programs.arguments.scalars import Scalar
from xla_client.programs.builder import Op, Values, builder_of, errors_at, promoted
from xla_client.programs.control_flow import loop_of_functions
from xla_client.programs.functions import check_arity
from xla_contract.errors import InvalidArgumentError
from xla_contract.types.element_type import ElementType, ElementTypeLike


@overload
def while_loop(
    condition: Callable[[Op], Op], body: Callable[[Op], Op | Scalar], initial: Op | Scalar
) -> Op: ...
@overload
def while_loop(
    condition: Callable[[list[Op]], Op],
    body: Callable[[list[Op]], Op | Scalar | Sequence[Op | Scalar]],
    initial: Sequence[Op | Scalar],
) -> list[Op]: ...
@checked
def while_loop(condition: Callable[..., Any], body: Callable[..., Any], initial: Any) -> Any:
    """The values after a loop that calls `body` as long as `condition` holds.

    Functions take a list of values, and `body` returns as many. Where `initial` is one value and no
    sequence, they take that one, and one is returned.

    Args:
        condition: A function of the values that returns pred[].
        body: A function of the values that returns the next ones.
        initial: The values before the loop; numbers become constants, see `Builder.constant`.

    Returns:
        The values after the loop.

    Raises:
        ShapeError: The body returns other shapes than it takes, or the condition no pred[].
        InvalidArgumentError: There are no values.

    Example:
        >>> x = Builder("example").parameter(0, "f32[]")
        >>> lib.loops.while_loop(lambda v: v.lt(8), lambda v: v * 2, x)
        %while.2: f32[]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/loops.h
    """
    with errors_at("while"):
        given = _initial(initial)
        builder = builder_of(*given)
        values = [promoted(builder, value) for value in given]
        is_one = not isinstance(initial, Sequence)
        result = loop_of_functions(
            condition, body, values, takes_list=not is_one, is_packed=not is_one
        )
    return result[0] if is_one else result


@overload
def for_each_index(
    count: int,
    body: Callable[[Op, Op], Op | Scalar],
    initial: Op | Scalar,
    index_type: ElementTypeLike = ElementType.S32,
) -> Op: ...
@overload
def for_each_index(
    count: int,
    body: Callable[[Op, list[Op]], Op | Scalar | Sequence[Op | Scalar]],
    initial: Sequence[Op | Scalar],
    index_type: ElementTypeLike = ElementType.S32,
) -> list[Op]: ...
@checked
def for_each_index(
    count: int,
    body: Callable[..., Any],
    initial: Any,
    index_type: ElementTypeLike = ElementType.S32,
) -> Any:
    """The values after a loop that calls `body` with 0, 1, ... count - 1 and the values.

    The values are a list, or one, as in `while_loop`.

    Args:
        count: The number of iterations.
        body: A function of the index and the values that returns the next values.
        initial: The values before the loop; numbers become constants, see `Builder.constant`.
        index_type: The element type of the index, an integer type.

    Returns:
        The values after the loop.

    Raises:
        ShapeError: The body returns other shapes than it takes.
        InvalidArgumentError: The count is negative, `index_type` does not have it, or there are no
            values.

    Example:
        >>> x = Builder("example").parameter(0, "f32[]")
        >>> lib.loops.for_each_index(4, lambda index, v: v * 2, x)
        %get-tuple-element.8: f32[]

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/loops.h
    """
    if count < 0:
        raise InvalidArgumentError(f"a loop needs a count from 0, got {count}", op="while")
    with errors_at("while"):
        given = _initial(initial)
        builder = builder_of(*given)
        element_type = as_element_type(index_type)
        start = constants.zero(builder, element_type)
        limit = constants.scalar(builder, count, element_type)
        values = [promoted(builder, value) for value in given]
    is_one = not isinstance(initial, Sequence)
    with errors_at("while"):
        check_arity(body, (start, given), "body")

    def again(state: list[Op]) -> Op:
        return ops.lt(state[0], state[1])

    def once(state: list[Op]) -> list[Any]:
        index, limit, *rest = state
        result = body(index, rest[0] if is_one else rest)
        several = isinstance(result, list | tuple)
        return [index + 1, limit, *(result if several else [result])]

    with errors_at("while"):
        finished = loop_of_functions(again, once, [start, limit, *values], takes_list=True)
    return finished[2] if is_one else finished[2:]


def _initial(initial: Values) -> list[Op | Scalar]:
    given = operands.values("initial", initial)
    if not given:
        raise InvalidArgumentError("a loop needs values to carry, got none", op="while")
    return given
