"""Literals of Python's and numpy's values, and the rule for their element types.

Values of numpy, and of libraries with numpy's types, keep their element type. Python's numbers,
alone and in lists, become pred (bool), s32 (int), f32 (float) and c64 (complex); a list takes the
widest of its numbers. If a list also has values of numpy, numpy's rules of promotion decide. If the
type is known, as that of a parameter, Python's numbers take that one.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from xla_client.coercion.numbers import described
from xla_contract.errors import ArgumentTypeError, InvalidArgumentError, XlaError
from xla_contract.types.element_type import ElementType
from xla_contract.types.literal import Array, Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import MAX_NESTING

_OF_KIND = {
    "b": np.dtype(np.bool_),
    "i": np.dtype(np.int32),
    "u": np.dtype(np.int32),
    "f": np.dtype(np.float32),
    "c": np.dtype(np.complex64),
}
"""Element type of Python's numbers, by the kind of the numpy type that numpy first gives them."""


def as_literal(value: Any, shape: Shape | None = None, *, copy: bool = True) -> Literal:
    """Return the literal of an array, a number, or (nested) lists of numbers; tuples nest.

    Args:
        value: A Literal, or what numpy makes an array of. A tuple is a tuple, None a token.
        shape: Types and layouts, where they are known. Python's numbers take its types, everything
            else must have them already.
        copy: False lets the literal share the memory of an array, which must then not change.

    Raises:
        InvalidArgumentError: Value and shape do not fit, XLA has no such type, or an int needs
            more than 32 bits if nothing determines the type.
    """
    if isinstance(value, Literal):
        return value if shape is None else value.relayout(shape)
    if shape is None:
        return _of_unknown_type(value, copy, 0)
    value = _own_array(value)
    if shape.is_tuple and isinstance(value, list):
        raise InvalidArgumentError(
            f"a value must fit its shape, got a list for {shape}",
            hint="a tuple of values is a tuple, tuple(values); a list is an array",
        )
    try:
        return Literal.from_numpy(value, shape, copy=copy)
    except InvalidArgumentError as error:
        # The error of an int that is too large has the range of the type.
        if not isinstance(error.__cause__, OverflowError):
            _raise_clearer(value, shape)
        raise error from None


def _of_unknown_type(value: Any, copy: bool, depth: int) -> Literal:
    if isinstance(value, Literal):
        return value
    if isinstance(value, tuple):
        if depth > MAX_NESTING:
            raise InvalidArgumentError(f"at most {MAX_NESTING} tuples may nest, got more")
        return Literal.tuple_of([_of_unknown_type(part, copy, depth + 1) for part in value])
    if value is None:
        return Literal.token()
    return Literal.from_numpy(as_array(value), copy=copy)


def _raise_clearer(value: Any, shape: Shape) -> None:
    """Raise a more specific error for a value that does not become a literal of this shape."""
    if isinstance(value, tuple) or (value is None and shape.is_tuple):
        return
    array = as_array(value)
    if not shape.is_array or array.dtype == shape.element_type.dtype:
        return
    if hasattr(value, "dtype"):
        given = ElementType.from_dtype(array.dtype).text
        name = shape.element_type.dtype.name
        raise InvalidArgumentError(
            f"a value must fit its shape, got elements of {given} for {shape}",
            hint=f"array.astype({name!r}) converts; Python's numbers and lists take the type",
        )
    # Kinds of numbers, each of which has those before it. Those of the numbers in a list count, and
    # not the array's: numpy makes floats of some ints of 64 bits.
    kinds = ("buifc".find(np.asarray(each).dtype.kind) for each in _leaves((value,)))
    if max(kinds, default=0) > "buifc".find(_kind_of(shape.element_type)):
        raise InvalidArgumentError(
            f"a value must fit its shape, got {described(value)} for {shape}",
            hint=f"{shape.element_type.text} has no such numbers; only floats are rounded",
        )


def _kind_of(element_type: ElementType) -> str:
    if element_type.is_complex:
        return "c"
    if element_type.is_floating:
        return "f"
    return "b" if element_type is ElementType.PRED else "i"


_TREE_HINT = "jax.tree.map(client.to_device, tree) uploads each array of a tree."


def as_array(value: Any) -> Array:
    """Return the array of a value of unknown type: the rule at the head of this module.

    Raises:
        ArgumentTypeError: The value is no number or array of numbers.
        InvalidArgumentError: numpy cannot make an array of the value.
        XlaError: The value is an Op, which has no value yet.
    """
    value = _own_array(value)
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "dtype"):
        return np.asarray(value)
    try:
        array = np.asarray(value)
    except XlaError:  # An Op has no value yet.
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(
            f"a value must be a number or an array of numbers, got {type(value).__name__}: {error}"
        ) from None
    if array.dtype.kind == "O" and all(type(each) is int for each in array.flat):
        _refuse_large(value)
    if array.dtype.kind not in _OF_KIND:
        raise ArgumentTypeError(
            f"a value must be a number or an array of numbers, got {value!r:.80} "
            f"({type(value).__name__})",
            hint=_TREE_HINT if isinstance(value, Mapping) else "",
        )
    leaves = _leaves(value) if isinstance(value, list | tuple) else ()
    known = {leaf.dtype for leaf in leaves if isinstance(leaf, np.ndarray | np.generic)}
    if known:
        return _promoted(array, known)
    target = _OF_KIND[array.dtype.kind]
    if target == np.int32 and array.size and (array.min() < -(1 << 31) or array.max() >= 1 << 31):
        _refuse_large(value)
    return array.astype(target)


def _own_array(value: Any) -> Any:
    """Return the array of another library's value; return anything else unchanged."""
    if hasattr(value, "__array__") and not isinstance(value, np.ndarray | np.generic | type):
        return value.__array__()
    return value


def _refuse_large(value: object) -> None:
    raise InvalidArgumentError(
        f"an int without a type must fit s32, got {value!r:.80}",
        hint="np.int64(...) and np.array(..., np.int64) say a type",
    )


def _promoted(array: Array, known: "set[np.dtype[Any]]") -> Array:
    """Promote a list with numpy's values as numpy does; Python's numbers are weakly typed."""
    weak = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}[array.dtype.kind]
    return array.astype(np.result_type(*known, weak))


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the values in nested lists and tuples."""
    ahead = [iter((value,))]
    while ahead:
        for each in ahead[-1]:
            if isinstance(each, list | tuple):
                ahead.append(iter(each))
                break
            yield each
        else:
            ahead.pop()


def element_type_of(value: Any) -> ElementType:
    """Return the element type of a number, or of a list of them, by the rule of this module."""
    return ElementType.from_dtype(as_array(value).dtype)
