"""The signature of a program over several partitions: whole values and their shardings.

Semantics: the fields spmd_parameters_shardings and spmd_output_sharding that XLA's partitioners
leave in a module, whose own signature has the shapes of one partition.
"""

import dataclasses

from xla_contract.stubs import hlo_pb2
from xla_contract.types.devices.sharding import REPLICATED, Sharding
from xla_contract.types.shape import ProgramShape
from xla_contract.wire.sharding_proto import sharding_from_proto, sharding_to_proto
from xla_server.ir.module import HloInstruction, HloModule
from xla_server.passes.partitioning.markers import stated_sharding


@dataclasses.dataclass(frozen=True, slots=True)
class ShardedSignature:
    """Signature of all partitions together, with a sharding per parameter and one of the result."""

    shape: ProgramShape
    parameters: tuple[Sharding, ...]
    result: Sharding


def is_partitioned(module: HloModule) -> bool:
    """Return whether a partitioner made the module: its shapes are those of one partition.

    HLO text cannot express the partitioner's shardings, but states that a module is scheduled,
    which XLA does after partitioning.
    """
    proto = module.decoration
    return proto is not None and (
        proto.HasField("spmd_output_sharding")
        or bool(proto.spmd_parameters_shardings)
        or proto.HasField("schedule")
    )


def sharded_signature(module: HloModule) -> ShardedSignature:
    """The signature of all partitions of a module that each of them runs.

    Without a partitioner's shardings those apply that parameters and the result of a scheduled
    module state; other values are whole on every partition. Raises InvalidArgumentError for
    shardings that do not fit the module's signature.
    """
    local, proto = module.entry_program_shape, module.decoration or hlo_pb2.HloModuleProto()
    parameters = [sharding_from_proto(part) for part in proto.spmd_parameters_shardings]
    if len(parameters) != len(local.parameters):
        parameters = [_stated(module, parameter) for parameter in module.entry.parameters]
    result = _stated(module, module.entry.root)
    if proto.HasField("spmd_output_sharding"):
        result = sharding_from_proto(proto.spmd_output_sharding)
    pairs = zip(local.parameters, parameters, strict=True)
    whole = ProgramShape(
        tuple(sharding.whole_shape(shape) for shape, sharding in pairs),
        result.whole_shape(local.result),
        local.parameter_names,
    )
    return ShardedSignature(whole, tuple(parameters), result)


def _stated(module: HloModule, edge: HloInstruction) -> Sharding:
    """The sharding that a parameter or result of a scheduled module states, if it splits it."""
    proto = module.decoration
    if module.grid.partitions == 1 or proto is None or not proto.HasField("schedule"):
        return REPLICATED
    stated = stated_sharding(edge)
    return stated if stated is not None and stated.is_split else REPLICATED


def state_signature(module: HloModule, signature: ShardedSignature) -> None:
    """Write the shardings of a signature into a module."""
    proto = hlo_pb2.HloModuleProto()
    if module.decoration is not None:
        proto.CopyFrom(module.decoration)
    proto.spmd_output_sharding.CopyFrom(sharding_to_proto(signature.result))
    del proto.spmd_parameters_shardings[:]
    proto.spmd_parameters_shardings.extend(map(sharding_to_proto, signature.parameters))
    module.decoration = proto
