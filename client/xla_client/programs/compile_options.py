"""Compile options of a computation, as messages."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import xla_pb2
from xla_contract.types.layout import Layout
from xla_contract.types.shape import ProgramShape, Shape
from xla_contract.wire.shape_proto import shape_to_proto

LayoutChoice: TypeAlias = Layout | Shape | None
"""A layout for an array, a shape with layouts for a tuple, None for the layouts already stated."""


def compiled_shape(
    program: ProgramShape,
    argument_layouts: Sequence[LayoutChoice] | None,
    result_layout: LayoutChoice,
) -> ProgramShape:
    """Return the signature with the chosen layouts.

    Parameters have the layouts of `program` by default, and the result is row-major: the layout of
    the result in a module comes from shape inference and is no request.

    Raises:
        InvalidArgumentError: A layout does not fit.
    """
    choices = argument_layouts if argument_layouts is not None else [None] * len(program.parameters)
    if len(choices) != len(program.parameters):
        raise InvalidArgumentError(
            f"argument_layouts must have one entry per parameter, got {len(choices)} for {program}"
        )
    return ProgramShape(
        tuple(
            _laid_out(shape, choice, f"parameter {number}")
            for number, (shape, choice) in enumerate(zip(program.parameters, choices, strict=True))
        ),
        _laid_out(program.result.without_layout(), result_layout, "the result"),
        program.parameter_names,
    )


def execution_options(
    result: Shape, seed: int = 0, debug_options: Mapping[str, Any] | None = None
) -> xla_pb2.ExecutionOptions:
    """Return the options message.

    Raises:
        InvalidArgumentError: A debug option is unknown, or the seed is no uint64.
    """
    if not 0 <= seed < 1 << 64:
        raise InvalidArgumentError(f"seed must be between 0 and 2**64 - 1, got {seed}")
    options = xla_pb2.ExecutionOptions(
        shape_with_output_layout=shape_to_proto(result.with_default_layout()), seed=seed
    )
    if debug_options:
        try:
            options.debug_options.CopyFrom(xla_pb2.DebugOptions(**debug_options))
        except (ValueError, TypeError) as error:
            raise InvalidArgumentError(
                f"debug_options must be fields of DebugOptions, got {dict(debug_options)}: {error}"
            ) from error
    return options


def _laid_out(shape: Shape, choice: LayoutChoice, owner: str) -> Shape:
    if choice is None:
        return shape.with_default_layout()
    if isinstance(choice, Layout):
        if not shape.is_array:
            raise InvalidArgumentError(
                f"{owner}: only an array takes a Layout (a tuple takes a Shape), got {shape}"
            )
        return shape.with_layout(choice)
    if not choice.compatible(shape):
        raise InvalidArgumentError(
            f"{owner}: a layout must be for the same types and dimensions, got {choice} for {shape}"
        )
    return choice.with_default_layout()
