"""An operator's functions as targets: Python callables over arrays, and C functions.

Arrays are contiguous, row-major and, where they are operands, read-only; elements narrower than a
byte take one byte each.
"""

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from xla_contract.errors import InternalError, ShapeError, XlaError
from xla_contract.ops.signature import listed
from xla_contract.types.shape import Shape, parse_program_shape
from xla_server.custom_calls.attributes import parse_attributes
from xla_server.custom_calls.target import CustomCallTarget, require_result, static_operands
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, Frame, Value

Signature: TypeAlias = str | Callable[[Sequence[Shape]], Shape]
"""The shapes a function takes and gives: HLO text such as `(f32[2], f32[2]) -> f32[2]`, or the
rule: the result's shape for operands' shapes, raising ShapeError for those it does not take."""

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))


def function_target(
    name: str,
    function: Callable[..., Any],
    signature: Signature | None,
    *,
    with_attributes: bool,
) -> CustomCallTarget:
    """The target of CustomCallRegistry.register_function."""

    def evaluate(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
        given = [_read_only(cast(Array, operand)) for operand in operands]
        options = parse_attributes(instruction.attributes.opaque) if with_attributes else {}
        try:
            with frame.outside():
                result = function(*given, **options)
        except XlaError:
            raise
        except Exception as error:
            raise InternalError(f'target "{name}" failed with {type(error).__name__}') from error
        return _as_value(name, result, instruction.shape)

    def check(instruction: HloInstruction) -> None:
        _check_call(instruction, signature)
        if with_attributes:
            parse_attributes(instruction.attributes.opaque)

    return CustomCallTarget(name, evaluate, check)


def symbol_target(name: str, symbol: Any, signature: Signature) -> CustomCallTarget:
    """The target of CustomCallRegistry.register_symbol: XLA's first custom-call interface."""
    entry = _ENTRY(_address(symbol))

    def evaluate(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
        given = [_read_only(cast(Array, operand)) for operand in operands]
        # Each buffer has at least one byte, so that its pointer is valid.
        results = [
            np.empty(max(1, leaf.element_count), leaf.element_type.dtype)
            for leaf in instruction.shape.leaves()
        ]
        inputs = (ctypes.c_void_p * max(1, len(given)))(*(part.ctypes.data for part in given))
        outputs = (ctypes.c_void_p * max(1, len(results)))(*(part.ctypes.data for part in results))
        is_tuple = instruction.shape.is_tuple
        with frame.outside():
            entry(ctypes.addressof(outputs) if is_tuple else results[0].ctypes.data, inputs)
        arrays = [
            result[: leaf.element_count].reshape(leaf.dimensions)
            for result, leaf in zip(results, instruction.shape.leaves(), strict=True)
        ]
        return tuple(arrays) if is_tuple else arrays[0]

    return CustomCallTarget(name, evaluate, functools.partial(_check_call, signature=signature))


def _address(symbol: Any) -> int:
    if isinstance(symbol, int):
        address: int | None = symbol
    elif isinstance(getattr(symbol, "address", None), int):
        address = symbol.address
    else:
        address = ctypes.cast(symbol, ctypes.c_void_p).value
    if not address:
        raise ValueError(f"a symbol must have an address, got {symbol!r}")
    return address


def _check_call(instruction: HloInstruction, signature: Signature | None) -> None:
    shapes = static_operands(instruction)
    declared = instruction.shape
    if not all(shape.is_array for shape in (*shapes, *declared.parts)):
        raise ShapeError(
            "the target takes arrays and gives one or a tuple of them, got "
            f"{listed(shapes)} -> {declared.without_layout()}"
        )
    if signature is not None:
        require_result(instruction, _rule(signature)(shapes))


def _rule(signature: Signature) -> Callable[[Sequence[Shape]], Shape]:
    if callable(signature):
        return signature
    program = parse_program_shape(signature)

    def exactly(shapes: Sequence[Shape]) -> Shape:
        wanted = program.parameters
        if len(wanted) != len(shapes) or not all(map(Shape.compatible, wanted, shapes)):
            raise ShapeError(f"the target takes {listed(wanted)}, got {listed(shapes)}")
        return program.result

    return exactly


def _read_only(array: Array) -> Array:
    given = np.require(array, requirements=["C", "A"]).view()
    given.flags.writeable = False
    return given


def _as_value(name: str, result: Any, shape: Shape) -> Value:
    parts = result if isinstance(result, tuple) else (result,)
    arrays = [np.asarray(part) for part in parts]
    fits = isinstance(result, tuple) == shape.is_tuple and len(arrays) == len(shape.parts)
    if not fits or any(
        (array.dtype, array.shape) != (leaf.element_type.dtype, leaf.dimensions)
        for array, leaf in zip(arrays, shape.parts, strict=True)
    ):
        got = ", ".join(f"{array.dtype}{list(array.shape)}" for array in arrays)
        raise InternalError(f'target "{name}" must give {shape.without_layout()}, got ({got})')
    return tuple(arrays) if shape.is_tuple else arrays[0]
