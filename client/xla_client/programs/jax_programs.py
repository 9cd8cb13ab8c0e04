"""Programs of functions of JAX: traced for the types of their arguments, and lowered."""

import dataclasses
import functools
import importlib
import inspect
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

import numpy as np

from xla_client.programs.computation import Computation, as_computation
from xla_contract.errors import UnimplementedError

JaxType: TypeAlias = tuple[tuple[int, ...], Any, bool]
"""The type of an array in JAX: dimensions, dtype, and whether it is weak."""

_PARAMETER_BYTES = 1 << 16
"""Smallest array that a function closes over, in bytes, that becomes a parameter.

It is uploaded once for all programs of the function, while a constant is compiled with each.
Smaller ones are constants, which the compiler can compute with."""


@dataclasses.dataclass(frozen=True, slots=True)
class JaxProgram:
    """A program with what a call of its function needs."""

    computation: Computation
    constants: list[Any]
    """Large arrays that the function closes over, copies of those of numpy: first parameters."""
    dtypes: list[Any]
    """The dtypes of the other parameters, the arguments; None for typed keys."""
    results: list[JaxType]
    """The types of the results."""
    tree: Any
    """The tree that the function returns, of which the results are the leaves."""


def jax_module() -> Any:
    """Return JAX; raises UnimplementedError if it is not installed."""
    try:
        return importlib.import_module("jax")
    except ImportError as error:
        raise UnimplementedError(
            f"Client.jit has functions traced by JAX, got none: {error}", hint="pip install jax"
        ) from error


def jax_program(
    function: Callable[..., Any], arguments: Mapping[str, Any], donated: Collection[str]
) -> JaxProgram:
    """Return the program of a function of arrays, for CPUs.

    Args:
        function: The function, which takes arguments by name and returns a tree of arrays. Large
            arrays that it closes over become parameters, but those of a `jax.jit` inside of it
            remain constants.
        arguments: The arguments: trees of `jax.ShapeDtypeStruct`. Their arrays, in the order of
            `jax.tree.leaves(arguments)`, are the other parameters.
        donated: The names of the arguments that are donated.

    Returns:
        The program.
    """
    jax = jax_module()
    jit = functools.partial(jax.jit, keep_unused=True, donate_argnames=tuple(donated))
    traced = jit(function).trace(**arguments)
    closed, tree = traced.jaxpr, jax.tree.structure(traced.out_info)
    numbers, large = [], []
    for number, constant in enumerate(closed.consts):
        if _is_extended(constant.dtype):
            continue
        if math.prod(constant.shape) * constant.dtype.itemsize >= _PARAMETER_BYTES:
            numbers.append(number)
            # The caller may write to an array of numpy later.
            large.append(constant if isinstance(constant, jax.Array) else np.array(constant))
    if large:

        def of_constants(*parameters: Any, **named: Any) -> Any:
            filled = list(closed.consts)
            for number, parameter in zip(numbers, parameters, strict=True):
                filled[number] = parameter
            return jax.core.eval_jaxpr(closed.jaxpr, filled, *jax.tree.leaves(named))

        of_constants.__name__ = traced.fun_name
        # Without names for constants: JAX refuses the function if an argument has the same one.
        by_name = inspect.Parameter("arguments", inspect.Parameter.VAR_KEYWORD)
        of_constants.__dict__.update(__signature__=inspect.Signature([by_name]))
        structs = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in large]
        traced = jit(of_constants).trace(*structs, **arguments)
    return JaxProgram(
        as_computation(traced.lower(lowering_platforms=("cpu",))),
        large,
        [None if _is_extended(each.dtype) else each.dtype for each in closed.in_avals],
        list(map(jax_type, closed.out_avals)),
        tree,
    )


def jax_type(value: Any) -> JaxType:
    """Return the type of a value of JAX or numpy."""
    return tuple(value.shape), value.dtype, getattr(value, "weak_type", False)


def _is_extended(dtype: Any) -> bool:
    """Return whether a dtype is JAX's own, as that of typed keys."""
    dtypes = jax_module().dtypes
    return bool(dtypes.issubdtype(dtype, dtypes.extended))
