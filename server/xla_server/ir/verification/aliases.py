"""Checks of the parameters that a module names: aliases, donors and prefetches.

Semantics: XLA's HloInputOutputAliasConfig, HloBufferDonorConfig and CrossProgramPrefetchInfo.
"""

from collections.abc import Iterable, Sequence

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.shape import ProgramShape, Shape
from xla_server.ir.module import HloModule

_MAX_NUMBERS_SHOWN = 8
"""Numbers of a shape index that a message shows: an index may have any number of them."""


def check_aliases(module: HloModule) -> None:
    """Check that the parameters, results and shape indices exist that a module names.

    Raises InvalidArgumentError with the entry, in HLO notation, and the shape it is about.
    """
    proto = module.decoration
    if proto is None:
        return
    signature = module.entry_program_shape
    for alias in proto.input_output_alias.entries:
        output = _braced(alias.output_shape_index)
        number, index = alias.parameter_number, alias.parameter_shape_index
        entry = f"input_output_alias {output}: {_parameter(number, index)}"
        if not _has_index(signature.result, alias.output_shape_index):
            raise InvalidArgumentError(
                "input_output_alias must name a part of the result, got "
                f"{output} in {entry} for a result {signature.result.without_layout()}"
            )
        _check_parameter(number, index, signature, "input_output_alias", entry)
    for donor in proto.buffer_donor.entries:
        number, index = donor.parameter_number, donor.parameter_shape_index
        entry = f"buffer_donor {_parameter(number, index)}"
        _check_parameter(number, index, signature, "buffer_donor", entry)
    for prefetch in proto.cross_program_prefetches:
        entry = f"cross_program_prefetches {_parameter(prefetch.parameter, prefetch.index)}"
        _check_parameter(
            prefetch.parameter, prefetch.index, signature, "cross_program_prefetches", entry
        )


def _check_parameter(
    number: int, index: Sequence[int], signature: ProgramShape, field: str, entry: str
) -> None:
    count = len(signature.parameters)
    if not 0 <= number < count:
        raise InvalidArgumentError(
            f"{field} must name a parameter of the program, got {number} in {entry} for "
            f"{count} parameters"
        )
    shape = signature.parameters[number]
    if not _has_index(shape, index):
        raise InvalidArgumentError(
            f"{field} must name a part of the parameter, got {_braced(index)} in {entry} for "
            f"parameter {number} of shape {shape.without_layout()}"
        )


def _has_index(shape: Shape, index: Sequence[int]) -> bool:
    for number in index:
        if not shape.is_tuple or not 0 <= number < len(shape.tuple_shapes):
            return False
        shape = shape.tuple_shapes[number]
    return True


def _parameter(number: int, index: Sequence[int]) -> str:
    return f"({number}, {_braced(index)})"


def _braced(index: Iterable[int]) -> str:
    numbers = list(index)
    more = ",..." if len(numbers) > _MAX_NUMBERS_SHOWN else ""
    return f"{{{','.join(map(str, numbers[:_MAX_NUMBERS_SHOWN]))}{more}}}"
