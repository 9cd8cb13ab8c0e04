"""Programs as JAX lowers them, with regions, over the grid: the answers are jaxlib's."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.corpus.grids import BACKENDS
from tests.device_programs import DeviceProgram, device_program, names
from tests.unit.passes.partitioning.grids import run_shards, split
from xla_contract.types.devices.sharding import REPLICATED
from xla_contract.types.shape import Shape
from xla_server.ir.importer import import_serialized_module
from xla_server.ir.verification.verifier import verify
from xla_server.passes.partitioning.partition import Partitioned, needs_partitioning, partition

LOWERED = names("collective", "nested", "pmap", "auto", "program", "gspmd")
HELD_WHOLE = {"jit_dot_contracting", "jit_elementwise_sharded", "gspmd_jit_dot"}
"""Programs with operations on whole values that are split at the entry."""


def partitioned(stored: DeviceProgram) -> Partitioned:
    module = import_serialized_module(stored.lowered)
    module.grid = stored.grid
    verify(module)
    result = partition(module)
    verify(module)
    return result


def shards_of(stored: DeviceProgram, result: Partitioned) -> list[list[Any]]:
    """The arguments of each participant, cut from the whole ones as the program says."""
    arguments: list[list[Any]] = []
    local = result.module.entry_program_shape.parameters
    for n, (value, sharding) in enumerate(
        zip(stored.arguments, result.signature.parameters, strict=True)
    ):
        if value.shards.shape[1:] == local[n].dimensions:
            arguments.append(list(value.shards))
            continue
        shape = Shape.array("f32", value.dimensions)
        whole = value.sharding.join(shape, list(value.shards))
        arguments.append(split(whole, sharding, stored.grid))
    return arguments


def check(stored: DeviceProgram, shards: Sequence[Sequence[Any]]) -> None:
    for number, value in enumerate(stored.results):
        value.check([shard[number] for shard in shards])


@pytest.mark.parametrize("name", LOWERED)
@pytest.mark.parametrize("platform", sorted(BACKENDS))
def test_each_partition_computes_what_jaxlib_does(name: str, platform: str) -> None:
    stored = device_program(name)
    result = partitioned(stored)
    check(stored, run_shards(result.module, shards_of(stored, result), platform))


@pytest.mark.parametrize("name", LOWERED)
def test_shards_have_the_shapes_that_xla_gives_them(name: str) -> None:
    stored = device_program(name)
    result = partitioned(stored)
    local = result.module.entry_program_shape
    results = local.result.tuple_shapes or (local.result,)
    # Where the entry says nothing, XLA also splits along axes that an outer region leaves to it.
    if name != "nested_shard_map":
        assert [parameter.dimensions for parameter in local.parameters] == [
            value.shards.shape[1:] for value in stored.arguments
        ]
    assert [part.dimensions for part in results] == [v.shards.shape[1:] for v in stored.results]
    assert bool(result.work.values) == (name in HELD_WHOLE)
    whole = result.signature.shape.parameters
    assert [parameter.dimensions for parameter in whole] == [v.dimensions for v in stored.arguments]


@pytest.mark.parametrize("name", [name for name in names() if device_program(name).spmd])
def test_programs_for_one_device_already_stay_as_they_are(name: str) -> None:
    stored = device_program(name)
    module = import_serialized_module(stored.spmd or b"")
    module.grid = stored.grid
    before = [(i.name, i.shape) for i in module.instructions()]
    assert not needs_partitioning(module)
    result = partition(module)
    assert [(i.name, i.shape) for i in result.module.instructions()] == before
    if stored.group == "raw":
        assert set(result.signature.parameters) <= {REPLICATED}
        return
    # The shardings that XLA's partitioner wrote down say how whole arguments are cut.
    whole = result.signature.shape.parameters
    assert [parameter.dimensions for parameter in whole] == [v.dimensions for v in stored.arguments]
    for value, sharding in zip(stored.arguments, result.signature.parameters, strict=True):
        assert sharding.placement() == value.sharding.placement()
