"""Arguments and results of programs of several devices, with one value for all participants.

Arguments are cut, and results joined, as the program says; other arguments go to all participants,
and of other results that of participant 0 is taken.
"""

from collections.abc import Sequence
from typing import TypeAlias

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.devices.sharding import Sharding
from xla_contract.types.shape import Shape
from xla_server.sessions.error_context import part_of_request
from xla_server.sessions.programs.executable_table import LoadedExecutable
from xla_server.sessions.runs.grids.shards import cut_bytes, joined_shape, require_cut
from xla_server.sessions.runs.program_runner import require_fitting, same_but_for_layout
from xla_server.sessions.runs.requests import ShardedOutput

Joining: TypeAlias = "tuple[Sharding, Shape] | None"
"""The assembly of the results, and the assembled shape; None if they stay apart."""

AS_ONE = ShardedOutput(join=True, sharding=None, flatten=False)
"""The output of Execute, Run and Launch: one result."""


def shared_step(compiled: LoadedExecutable, arguments: Sequence[Shape]) -> tuple[Shape, int]:
    """Return the result's shape of a step that all devices of a grid run, and its bytes.

    The bytes are those of all devices, without the values that its arguments name. Raises
    InvalidArgumentError as ExecuteSharded for shapes of arguments that do not fit.
    """
    cuts = list[tuple[Sharding, Shape]]()
    for number, shape in enumerate(arguments):
        with part_of_request(f"argument {number}"):
            sharding = cutting_of(compiled, number, shape)
            if sharding is not None:
                cuts.append((sharding, shape))
    joining = joining_of(AS_ONE, compiled)
    result = compiled.program_shape.result if joining is None else joining[1]
    return result, execution_bytes(compiled, cuts, joining)


def parameter_shape(compiled: LoadedExecutable, number: int, given: Shape) -> Shape:
    """The shape of a parameter that a value of shape `given` is an argument for.

    For a parameter that the program splits, that value may be a shard or the whole.
    """
    if len(compiled.devices) > 1:
        whole = whole_parameter(compiled, number)
        if whole is not None and given.compatible(whole[0]):
            return whole[0].without_layout().with_default_layout()
    return compiled.program_shape.parameters[number]


def cutting_of(
    compiled: LoadedExecutable, number: int, value: Shape, sharding: Sharding | None = None
) -> Sharding | None:
    """Return how a value, which must fit, is cut for a parameter; None if all get all of it.

    Without `sharding` it is cut as the program says, if it is whole.
    """
    parameter = compiled.program_shape.parameters[number]
    if sharding is None:
        whole = whole_parameter(compiled, number)
        if whole is None or not same_but_for_layout(value, whole[0]):
            require_fitting(value, parameter, "it")
            return None
        sharding = whole[1]
    require_cut(sharding, value, compiled.program.grid.size)
    require_fitting(sharding.shard_shape(value), parameter, f"its shard by {sharding}")
    return sharding


def execution_bytes(
    compiled: LoadedExecutable, cuts: Sequence[tuple[Sharding, Shape]], joining: Joining
) -> int:
    """Bytes of an execution on all devices, with its shards and a joined result."""
    size = compiled.program.grid.size
    return (
        size * compiled.footprint.byte_size
        + sum(cut_bytes(sharding, shape, size) for sharding, shape in cuts)
        + (0 if joining is None else joining[1].byte_size)
    )


def whole_parameter(compiled: LoadedExecutable, number: int) -> tuple[Shape, Sharding] | None:
    """The whole shape and the sharding of a parameter that the program splits; else None."""
    signature = compiled.signature
    if signature is None or not signature.parameters[number].is_split:
        return None
    sharding = signature.parameters[number].copied(compiled.program.grid.replicas)
    return signature.shape.parameters[number], sharding


def joining_of(output: ShardedOutput, compiled: LoadedExecutable) -> Joining:
    """Return how results are joined to the requested one; None if they stay apart.

    Raises InvalidArgumentError for a sharding that does not fit, or without `output.join`.
    """
    sharding, signature, grid = output.sharding, compiled.signature, compiled.program.grid
    if sharding is not None and not output.join:
        raise InvalidArgumentError(f"a sharding is for results to be joined, got {sharding}")
    if sharding is None and output.join and signature is not None and signature.result.is_split:
        sharding = signature.result.copied(grid.replicas)
    if sharding is None:
        return None
    with part_of_request("the output"):
        result = compiled.program_shape.result
        return sharding, joined_shape(sharding, result, grid.size)
