"""Recursive functions run on a stack on the heap, so that no program is too deep for them.

Such a function is a generator. It yields the generator of each call that it would make of itself
or of its like, and receives the value which that one returns. The order of evaluation is that of
ordinary calls, and exceptions propagate from the callee to the caller as usual.
"""

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Deep: TypeAlias = Generator["Deep[Any]", Any, T]
"""A generator function that may recurse as deeply as the program nests, and returns a T."""


def result_of(call: Deep[T]) -> T:
    """Return the result of a call; raises what it raises.

    Example:
        >>> def depth(pair):
        ...     return 0 if pair is None else 1 + (yield depth(pair[0]))
        >>> result_of(depth(((None,),)))
        2
    """
    stack: list[Deep[Any]] = [call]
    value: Any = None
    error: BaseException | None = None
    while stack:
        top = stack[-1]
        try:
            if error is None:
                called = top.send(value)
            else:
                raised, error = error, None
                called = top.throw(raised)
        except StopIteration as end:
            stack.pop()
            value = end.value
        except BaseException as caught:
            stack.pop()
            value, error = None, caught
        else:
            stack.append(called)
            value = None
    if error is not None:
        raise error
    result: T = value
    return result
