"""Names and counts of the arguments of a call."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xla_contract.errors import ArgumentTypeError


def require_bound(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    named: Mapping[str, Any],
    *,
    is_method: bool = False,
) -> None:
    """Check that each argument has a parameter, and each parameter what it needs.

    Args:
        function: The function that is called.
        arguments: The arguments by position, without `self` if it `is_method`.
        named: The arguments by name.
        is_method: True if the first parameter is `self` or the class.

    Raises:
        ArgumentTypeError: They do not; the message lists the parameters.
    """
    signature = inspect.signature(function)
    if is_method:
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])
    try:
        signature.bind(*arguments, **named)
    except TypeError as error:
        texts = [
            # Python's own notation, without annotations.
            f"{each.replace(annotation=each.empty)!s:.60}"
            for each in signature.parameters.values()
        ]
        raise ArgumentTypeError(f"{error}; the parameters are ({', '.join(texts)})") from None
