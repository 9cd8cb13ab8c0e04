"""Collectives as JAX lowers them for one device, against jaxlib's numbers; and for more devices."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits, evaluated, run_on_xla
from tests.corpus.hlo_programs import program
from tests.corpus.hlo_text import parse_hlo, print_hlo
from tests.corpus.jax.programs import DEVICES, collectives, lower
from xla_contract.errors import XlaError
from xla_contract.stubs import hlo_pb2
from xla_server.evaluator.interpret import evaluate
from xla_server.ir.exporter import export_module
from xla_server.ir.importer import import_module
from xla_server.ir.verification.verifier import verify

Program = Callable[[Any], Any]


def _programs() -> dict[str, Program]:
    import jax

    lax = jax.lax
    return {
        "psum": lambda x: lax.psum(x, "d"),
        "psum_tuple": lambda x: lax.psum((x, x[0]), "d")[0],
        "pmax": lambda x: lax.pmax(x, "d"),
        "pmin": lambda x: lax.pmin(x, "d"),
        "pmean": lambda x: lax.pmean(x, "d"),
        "psum_of_true": lambda x: lax.psum(x > 3, "d"),
        "all_gather": lambda x: lax.all_gather(x, "d"),
        "all_gather_tiled": lambda x: lax.all_gather(x, "d", axis=1, tiled=True),
        "ppermute": lambda x: lax.ppermute(x, "d", [(0, 0)]),
        "ppermute_to_nobody": lambda x: lax.ppermute(x, "d", []),
        "psum_scatter": lambda x: lax.psum_scatter(x, "d", tiled=True),
        "all_to_all": lambda x: lax.all_to_all(x[None], "d", 0, 1),
        "all_to_all_tiled": lambda x: lax.all_to_all(x, "d", 1, 0, tiled=True),
        "axis_index": lambda x: x + lax.axis_index("d"),
        "groups": lambda x: lax.psum(x, "d", axis_index_groups=[[0]]),
    }


NAMES = (
    "all_gather", "all_gather_tiled", "all_to_all", "all_to_all_tiled", "axis_index", "groups",
    "pmax", "pmean", "pmin", "ppermute", "ppermute_to_nobody", "psum", "psum_of_true",
    "psum_scatter", "psum_tuple",
)  # fmt: skip
X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize(
    ("name", "by"),
    [
        (name, by)
        for name in NAMES
        for by in ("shard_map", "pmap")
        # shard_map takes no axis_index_groups.
        if (name, by) != ("groups", "shard_map")
    ],
)
def test_on_a_mesh_of_one(name: str, by: str) -> None:
    import jax

    function = _programs()[name]
    if by == "pmap":
        mapped = jax.pmap(function, "d", devices=jax.devices("cpu")[:1])
        argument = X[None]
    else:
        mesh = jax.make_mesh(
            (1,),
            ("d",),
            devices=jax.devices("cpu")[:1],
            axis_types=(jax.sharding.AxisType.Auto,),
        )
        everything = jax.sharding.PartitionSpec()
        mapped = jax.jit(
            jax.shard_map(
                function, mesh=mesh, in_specs=everything, out_specs=everything, check_vma=False
            )
        )
        argument = X
    lowered = mapped.lower(argument).compiler_ir("hlo").as_serialized_hlo_module_proto()
    proto = hlo_pb2.HloModuleProto.FromString(lowered)
    (ours,) = evaluated(proto, [argument])
    assert_equal_bits(ours, np.asarray(mapped(argument)))


@pytest.mark.parametrize(
    "root",
    [
        "f32[4] all-reduce(x0), replica_groups={}, to_apply=add",
        "f32[4] all-reduce(x0), replica_groups={{0},{1}}, to_apply=add",
        "f32[4] all-gather(x0), replica_groups={{0}}, dimensions={0}",
        "f32[4] reduce-scatter(x0), replica_groups={{0}}, dimensions={0}, to_apply=add",
        "f32[4] all-to-all(x0), replica_groups={{0}}, dimensions={0}",
        "f32[4] collective-permute(x0), source_target_pairs={{0,0}}",
        "f32[4] collective-permute(x0), source_target_pairs={}",
    ],
)
def test_xla_s_answer_on_one_device(root: str) -> None:
    proto = parse_hlo(program(["f32[4]"], root))
    x = np.arange(4, dtype=np.float32) + 1
    for ours, theirs in zip(evaluated(proto, [x]), run_on_xla(proto, [x]), strict=True):
        assert_equal_bits(ours, theirs)


def test_a_program_for_several_devices_is_read_and_refused_when_run() -> None:
    proto = hlo_pb2.HloModuleProto.FromString(collectives())
    module = import_module(proto)
    verify(module)
    assert print_hlo(export_module(module)) == print_hlo(proto)
    (body,) = [part for part in module.computations if "manual_computation" in part.name]
    message = r"(?m)^all-reduce %.* once, got \{\{0,1,2,3\}\} for 1 replicas x 1 partitions$"
    with pytest.raises(XlaError, match=message):
        evaluate(body, [np.ones((1, 4), np.float32)])


def test_a_ring_of_several_devices_has_a_source_that_is_not_there() -> None:
    import jax

    mesh = jax.sharding.AbstractMesh((DEVICES,), ("d",))
    spec = jax.sharding.PartitionSpec("d")
    ring = [(i, (i + 1) % DEVICES) for i in range(DEVICES)]
    shifted = jax.shard_map(
        lambda x: jax.lax.ppermute(x, "d", ring), mesh=mesh, in_specs=spec, out_specs=spec
    )
    proto = hlo_pb2.HloModuleProto.FromString(lower(shifted, np.ones((DEVICES, 2), np.float32)))
    module = import_module(proto)
    verify(module)
    (body,) = [part for part in module.computations if "manual_computation" in part.name]
    with pytest.raises(XlaError, match=r"(?m)^collective-permute %.*got pairs \{\{0,1\},\{1,2\},"):
        evaluate(body, [np.ones((1, 2), np.float32)])
