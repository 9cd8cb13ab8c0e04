"""Arguments that a module gives up by itself: its input_output_alias and buffer_donor."""

from collections.abc import Collection, Sequence
from typing import Any

from xla_client.buffer import Buffer
from xla_contract.stubs import hlo_pb2


def donated_parameters(module: hlo_pb2.HloModuleProto) -> frozenset[int]:
    """Return the numbers of the parameters that are donated whole.

    JAX writes them for `donate_argnums`. A part of a tuple parameter is not donated by itself.
    """
    entries: tuple[Any, ...] = (
        *module.input_output_alias.entries,
        *module.buffer_donor.entries,
    )
    return frozenset(entry.parameter_number for entry in entries if not entry.parameter_shape_index)


def donated_arguments(parameters: Collection[int], arguments: Sequence[Any]) -> tuple[int, ...]:
    """Return the numbers of the arguments to give up: Buffers that are given once."""
    if not parameters:
        return ()
    given = [id(argument) for argument in arguments]
    return tuple(
        number
        for number, argument in enumerate(arguments)
        if number in parameters and isinstance(argument, Buffer) and given.count(id(argument)) == 1
    )
