"""Markers: custom calls that convert between whole values and those of one partition.

Semantics: Shardy's xla.sdy.GlobalToLocalShape and xla.sdy.LocalToGlobalShape, and
SPMDFullToShardShape and SPMDShardToFullShape of XLA's GSPMD. A sharding in a hint is not binding.
"""

import dataclasses
import math
from collections.abc import Mapping

from xla_contract.errors import InvalidArgumentError, ShapeError, UnimplementedError, XlaError
from xla_contract.stubs import hlo_pb2
from xla_contract.types.devices.mesh import Mesh
from xla_contract.types.devices.sharding import Sharding, ShardingKind
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_contract.wire.sharding_proto import sharding_from_proto
from xla_server.ir.module import HloInstruction, HloModule
from xla_server.passes.partitioning.shardy_text import read_manual_axes, read_meshes, read_shardings

HINTS = frozenset({"Sharding", "xla.sdy.FuncResultSharding"})
"""Targets of calls that return their operand and hint at its sharding."""

_GSPMD_ENTRY, _GSPMD_EXIT = "SPMDFullToShardShape", "SPMDShardToFullShape"
_SHARDY_ENTRY, _SHARDY_EXIT = "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape"
_ENTRIES = frozenset({_GSPMD_ENTRY, _SHARDY_ENTRY})
_EXITS = frozenset({_GSPMD_EXIT, _SHARDY_EXIT})
_MESHES = "xla.sdy.meshes"


@dataclasses.dataclass(frozen=True, slots=True)
class Marker:
    """An entry into a region that is written per partition, or the exit from one.

    `shardings` are those of the whole values: the operands of an entry, the results of an exit.
    `automatic` names the axes of the mesh that the region leaves to the compiler.
    """

    is_entry: bool
    shardings: tuple[Sharding, ...]
    automatic: tuple[str, ...] = ()


def target_of(instruction: HloInstruction) -> str:
    """The target of a custom call; "" for other instructions."""
    if instruction.opcode is not Opcode.CUSTOM_CALL:
        return ""
    target: str = instruction.attributes.target
    return target


def is_marker(instruction: HloInstruction) -> bool:
    """Return whether an instruction enters or leaves a region."""
    return target_of(instruction) in _ENTRIES | _EXITS


def stated_partitions(proto: hlo_pb2.HloModuleProto) -> int:
    """Return the number of partitions in the mesh of a module's regions; 1 without a mesh.

    The largest of several meshes counts. Raises InvalidArgumentError for malformed meshes.
    """
    text = proto.frontend_attributes.map.get(_MESHES)
    has_regions = text is not None and any(
        i.custom_call_target in (_SHARDY_ENTRY, _SHARDY_EXIT)
        for computation in proto.computations
        for i in computation.instructions
    )
    if text is None or not has_regions:
        return 1
    return max((math.prod(mesh.sizes) for mesh in read_meshes(text).values()), default=1)


def read_markers(module: HloModule, partitions: int) -> dict[HloInstruction, Marker]:
    """The markers of a module for this many partitions.

    Raises InvalidArgumentError (ShapeError for shapes) for shardings that cannot be read, do not
    fit their values or are for another number of partitions, and UnimplementedError for unreduced
    values that are no numbers. Errors name the instruction.
    """
    known = None
    found = {}
    for instruction in module.instructions():
        if not is_marker(instruction):
            continue
        try:
            known = _meshes(module) if known is None else known
            if target_of(instruction) in (_SHARDY_ENTRY, _SHARDY_EXIT):
                marker = _shardy_marker(instruction, known)
            else:
                marker = _gspmd_marker(instruction)
            _check_shapes(instruction, marker)
            for sharding in marker.shardings:
                check_partitions(sharding, partitions)
        except XlaError as error:
            raise error.at(instruction.opcode, instruction.name) from error.__cause__
        found[instruction] = marker
    return found


def stated_sharding(instruction: HloInstruction) -> Sharding | None:
    """The sharding in an instruction's own field; InvalidArgumentError if it cannot be read."""
    decoration = instruction.decoration
    if decoration is None or not decoration.HasField("sharding"):
        return None
    try:
        return sharding_from_proto(decoration.sharding)
    except XlaError as error:
        raise error.at(instruction.opcode, instruction.name) from error.__cause__


def check_partitions(sharding: Sharding, partitions: int) -> None:
    """Raise InvalidArgumentError for another number of partitions, or an unknown partition."""
    if sharding.kind is ShardingKind.MAXIMAL and sharding.devices[0] >= partitions:
        raise InvalidArgumentError(
            f"a sharding must name one of the {partitions} partitions of the program, got "
            f"{sharding}"
        )
    if sharding.partitions not in (None, partitions):
        raise InvalidArgumentError(
            f"a sharding must be for the {partitions} partitions of the program, got {sharding}"
        )


def _meshes(module: HloModule) -> dict[str, Mesh]:
    if module.decoration is None:
        return {}
    return read_meshes(module.decoration.frontend_attributes.map.get(_MESHES, "{}"))


def _shardy_marker(instruction: HloInstruction, meshes: Mapping[str, Mesh]) -> Marker:
    is_entry = target_of(instruction) == _SHARDY_ENTRY
    attribute = "xla.sdy.in_shardings" if is_entry else "xla.sdy.out_shardings"
    stated = read_shardings(_attribute(instruction, attribute), meshes)
    axes = read_manual_axes(_attribute(instruction, "xla.sdy.manual_axes"))
    left = {name for each in stated for name in each.mesh.names if name not in axes}
    return Marker(is_entry, tuple(each.along(axes) for each in stated), tuple(sorted(left)))


def _attribute(instruction: HloInstruction, name: str) -> str:
    decoration = instruction.decoration
    if decoration is None or name not in decoration.frontend_attributes.map:
        raise InvalidArgumentError(f"the frontend attribute {name} must be there, got none")
    return decoration.frontend_attributes.map[name]


def _gspmd_marker(instruction: HloInstruction) -> Marker:
    is_entry = target_of(instruction) == _GSPMD_ENTRY
    whole = instruction
    if is_entry:
        if len(instruction.operands) != 1:
            raise ShapeError(f"the target takes one value, got {len(instruction.operands)}")
        (whole,) = instruction.operands
    sharding = stated_sharding(whole)
    if sharding is None:
        raise InvalidArgumentError(f"a sharding must be stated for %{whole.name}, got none")
    return Marker(is_entry, (sharding,))


def _check_shapes(instruction: HloInstruction, marker: Marker) -> None:
    operands = [operand.shape for operand in instruction.operands]
    results = instruction.shape.parts
    whole, local = (operands, results) if marker.is_entry else (results, operands)
    if not len(whole) == len(local) == len(marker.shardings):
        raise ShapeError(
            "there must be one sharding and one result per operand, got "
            f"{len(marker.shardings)} and {len(results)} for {len(operands)} operands"
        )
    for shape, shard, sharding in zip(whole, local, marker.shardings, strict=True):
        if shape.element_type is ElementType.PRED and sharding.addends(1):
            raise UnimplementedError(
                f"an unreduced value must be of numbers, got {shape.without_layout()} in {sharding}"
            )
        expected = sharding.shard_shape(shape)
        if not shard.compatible(expected):
            raise ShapeError(
                f"the part of {shape.without_layout()} that a partition holds in {sharding} must "
                f"be {expected.without_layout()}, got {shard.without_layout()}"
            )
