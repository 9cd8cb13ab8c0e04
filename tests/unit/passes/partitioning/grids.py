"""Modules with markers of regions, and runs of all partitions of their programs together."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.corpus.grids import run_per_device
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.devices.sharding import Sharding
from xla_contract.types.shape import Shape
from xla_server.ir.module import HloModule
from xla_server.ir.text.parser import parse_module
from xla_server.ir.verification.verifier import verify
from xla_server.passes.partitioning.partition import Partitioned, partition
from xla_server.passes.partitioning.signature import ShardedSignature

BOTH = ("a", "b")
HEADER = 'HloModule m, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["a"=2, "b"=2]>}}\n'


def marker(shape: str, operands: str, *shardings: str, axes: Sequence[str] = BOTH) -> str:
    """An entry, or with results first (`->`) an exit, of a region in Shardy's form.

    Shardings are as in `a,`: the axis of the first dimension and none of the second; what comes
    after `!` is unreduced.
    """
    is_exit = operands.startswith("->")
    target = "LocalToGlobalShape" if is_exit else "GlobalToLocalShape"
    values = ", ".join(f"<@mesh, {_stated(sharding)}>" for sharding in shardings)
    manual = ", ".join(f'\\"{axis}\\"' for axis in axes)
    return (
        f"{shape} custom-call({operands.removeprefix('->')}), "
        f'custom_call_target="xla.sdy.{target}", custom_call_has_side_effect=true, '
        f"frontend_attributes={{xla.sdy.{'out' if is_exit else 'in'}_shardings="
        f'"#sdy.sharding_per_value<[{values}]>",'
        f'xla.sdy.manual_axes="#sdy<manual_axes{{{manual}}}>"}}'
    )


SUM = """
sum { l = f32[] parameter(0)
  r = f32[] parameter(1)
  ROOT s = f32[] add(l, r) }
"""
BODY = """
body { v = f32[2,4] parameter(0)
  ROOT n = f32[2,4] negate(v) }
"""


def region(
    before: str = "x = f32[4,8] parameter(0)",
    after: str = "",
    into: str = "a,b",
    out: str = "a,b",
) -> str:
    """A module that negates blocks of what `x` is, in one region; `g` is the whole result."""
    root = "" if after else "ROOT "
    return f"""{HEADER}{SUM}{BODY}
ENTRY main {{ {before}
  e = {marker("f32[2,4]", "x", into)}
  c = f32[2,4] call(e), to_apply=body
  {root}g = {marker("f32[4,8]", "->c", out)}
  {after} }}"""


def _stated(sharding: str) -> str:
    dimensions, _, unreduced = sharding.partition("!")
    text = "[" + ", ".join(_axes(part) for part in dimensions.split(",")) + "]"
    return text + (f", unreduced={_axes(unreduced)}" if unreduced else "")


def _axes(names: str) -> str:
    return "{" + ", ".join(f'\\"{name}\\"' for name in names) + "}"


def module(text: str, partitions: int = 4, replicas: int = 1) -> HloModule:
    """The verified module of HLO text, for a grid."""
    parsed = parse_module(text)
    parsed.grid = DeviceGrid(replicas, partitions)
    verify(parsed)
    return parsed


def partitioned(text: str, partitions: int = 4, replicas: int = 1, **options: Any) -> Partitioned:
    """The program of one partition, verified."""
    result = partition(module(text, partitions, replicas), **options)
    verify(result.module)
    return result


def run_shards(
    program: HloModule, arguments: Sequence[Sequence[Any]], platform: str = "interpreter"
) -> list[list[Any]]:
    """The results of every participant; `arguments` has the shards of each parameter."""
    own = [[shards[number] for shards in arguments] for number in range(program.grid.size)]
    return run_per_device(platform, program, own)


def split(array: NDArray[Any], sharding: Sharding, grid: DeviceGrid) -> list[NDArray[Any]]:
    """The part of a value that every participant holds."""
    shape = Shape.array("f32", array.shape)
    positions = (grid.position(number)[1] for number in range(grid.size))
    return [array[sharding.slices(shape, position)] for position in positions]


def run_whole(
    program: HloModule,
    signature: ShardedSignature,
    arguments: Sequence[NDArray[Any]],
    platform: str = "interpreter",
) -> list[NDArray[Any]]:
    """The results of a program of one replica on whole arguments, put together."""
    pairs = zip(arguments, signature.parameters, strict=True)
    shards = [split(np.asarray(array), sharding, program.grid) for array, sharding in pairs]
    results = run_shards(program, shards, platform)
    leaves = signature.result.leaves(signature.shape.result)
    return [
        sharding.join(shape, [result[number] for result in results])
        for number, (shape, sharding) in enumerate(leaves)
    ]
