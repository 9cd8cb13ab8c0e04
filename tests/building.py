"""Computations of functions of Ops, written with the client's builder."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from xla_client import Builder, Computation, Op
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.shape import Shape


def computation(
    function: Callable[..., Op], shapes: Iterable[Shape], name: str = "called"
) -> Computation:
    """Return the computation of a function of parameters of these shapes."""
    builder = Builder(name)
    return builder.build(function(*(builder.parameter(n, s) for n, s in enumerate(shapes))))


def scalars(function: Callable[..., Op], *kinds: Any, name: str = "called") -> Computation:
    """Return the computation of a function of scalars of these types, ours or numpy's."""
    types = (k if isinstance(k, E) else E.from_dtype(np.dtype(k)) for k in kinds)
    return computation(function, map(Shape.scalar, types), name)


def shape_of(array: Any) -> Shape:
    """Return the shape of an array as numpy has it."""
    array = np.asarray(array)
    return Shape.array(E.from_dtype(array.dtype), array.shape)


def built(
    function: Callable[..., Op], arguments: Sequence[Any], name: str = "sweep"
) -> Computation:
    """Return the program that a function states over parameters shaped like the arguments."""
    return computation(function, map(shape_of, arguments), name)
