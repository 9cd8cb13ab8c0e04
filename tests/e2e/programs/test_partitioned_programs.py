"""Programs with manual regions on real servers of both platforms: whole values in and out."""

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import xla_client as xc
from tests.device_programs import DeviceProgram, device_program
from tests.e2e.process import serving
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.types.shape import Shape

CUT = ["psum_scatter_dim1_axis_b", "dp_mlp_step_8", "gspmd_all_gather_2d", "psum_scatter_bf16"]
"""Programs with arguments in tiles, from both partitioners."""

COMPILED_BY_JAXLIB = """HloModule jit__lambda, is_scheduled=true, \
entry_computation_layout={(f32[4,2]{1,0})->f32[1,2]{1,0}}, \
allow_spmd_sharding_propagation_to_parameters={true}, \
allow_spmd_sharding_propagation_to_output={true}, num_partitions=4

%region_0.0 (reduce_scatter.0: f32[], reduce_scatter.1: f32[]) -> f32[] {
  %reduce_scatter.0 = f32[] parameter(0), metadata={op_name="reduce_scatter"}
  %reduce_scatter.1 = f32[] parameter(1), metadata={op_name="reduce_scatter"}
  ROOT %add.0 = f32[] add(%reduce_scatter.0, %reduce_scatter.1), metadata={op_name="add"}
}

ENTRY %main.0_spmd (param.1: f32[4,2]) -> f32[1,2] {
  %param.1 = f32[4,2]{1,0} parameter(0), sharding={devices=[1,4]<=[4]}, metadata={op_name="v"}
  ROOT %reduce_scatter.7 = f32[1,2]{1,0} reduce-scatter(%param.1), channel_id=1, \
replica_groups={{0,1,2,3}}, use_global_device_ids=true, dimensions={0}, to_apply=%region_0.0
}
"""
"""A psum_scatter of shard_map after compilation, as `as_text` gives it: parts alone."""

HELD_WHOLE = "jit_elementwise_sharded"


server = serving(
    "--devices", "8", "--max-replicated-bytes", "1KiB", platforms=("interpreter", "cpu")
)


def compiled(client: xc.Client, stored: DeviceProgram, data: bytes) -> Any:
    mesh = client.mesh((stored.grid.partitions,), ("all",))
    return client.compile(xc.Computation.from_serialized(data), mesh=mesh)


def arrays(result: Any) -> list[Any]:
    parts = result if isinstance(result, tuple) else (result,)
    return [part.to_numpy() for part in parts]


def check_joined(stored: DeviceProgram, results: Sequence[Any]) -> None:
    for value, array in zip(stored.results, results, strict=True):
        shape = Shape.array("f32", array.shape)
        parts = range(stored.grid.partitions)
        value.check([array[value.sharding.slices(shape, part)] for part in parts])


@pytest.mark.parametrize("name", [*CUT, HELD_WHOLE])
def test_whole_arguments_are_cut_as_the_program_says(client: xc.Client, name: str) -> None:
    stored = device_program(name)
    run = compiled(client, stored, stored.lowered)
    arguments = [value.whole for value in stored.arguments]
    check_joined(stored, arrays(run.execute_sharded(*arguments, join=True)))
    each = run.execute_sharded(*(client.to_device(argument) for argument in arguments))
    for value, shards in zip(stored.results, zip(*map(arrays, each), strict=True), strict=True):
        value.check(shards)
    shards = [xc.Shards(list(value.shards)) for value in stored.arguments]
    check_joined(stored, arrays(run.execute_sharded(*shards, join=True)))


@pytest.mark.parametrize("name", CUT)
def test_what_a_partitioner_made_takes_whole_arguments_too(client: xc.Client, name: str) -> None:
    stored = device_program(name)
    run = compiled(client, stored, stored.spmd or b"")
    kept = [client.to_device(value.whole) for value in stored.arguments]
    check_joined(stored, arrays(run.execute_sharded(*kept, join=True)))
    request = xla_pb2.ExecuteRequest(
        handle=xla_data_pb2.ExecutionHandle(handle=run.handle),
        arguments=[xla_data_pb2.GlobalDataHandle(handle=buffer.handle) for buffer in kept],
    )
    output = client.adopt(client._session.call("Execute", request).output.handle)
    results = output.to_numpy() if output.shape.is_tuple else [output.to_numpy()]
    check_joined(stored, results)


def in_a_pipeline(client: xc.Client, run: Any, *arguments: Any) -> Any:
    pipeline = client.pipeline()
    pipeline.fetch(pipeline.call(run, *arguments))
    (result,) = pipeline.run()
    return result


ROADS: dict[str, Callable[..., Any]] = {
    "call": lambda _, run, *arguments: run(*arguments),
    "run": lambda _, run, *arguments: run.run(*arguments),
    "arun": lambda _, run, *arguments: asyncio.run(run.arun(*arguments)),
    "run_batch": lambda _, run, *arguments: run.run_batch([arguments])[0],
    "submit": lambda _, run, *arguments: run.submit(*arguments).result(),
    "pipeline": in_a_pipeline,
}


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("name", CUT)
def test_every_road_of_running_takes_whole_values(client: xc.Client, name: str, road: str) -> None:
    stored = device_program(name)
    run = compiled(client, stored, stored.lowered)
    arguments = [value.whole for value in stored.arguments]
    kept = map(client.to_device, arguments)
    for given in (arguments, kept):
        result = ROADS[road](client, run, *given)
        parts = result if isinstance(result, tuple) else (result,)
        check_joined(
            stored, [part.to_numpy() if isinstance(part, xc.Buffer) else part for part in parts]
        )


def test_the_header_of_a_text_says_the_partitions(client: xc.Client) -> None:
    text = (
        "HloModule m, num_partitions=4\n\nENTRY main {\n  ROOT number = u32[] partition-id()\n}\n"
    )
    run = client.compile(text)
    assert [number.to_numpy() for number in run.execute_sharded()] == [0, 1, 2, 3]
    assert run.run() == 0
    (alone,) = client.compile(text, mesh=client.mesh((1,), ("x",))).execute_sharded()
    assert alone.to_numpy() == 0


def test_text_that_jaxlib_compiled_takes_whole_values_and_parts(client: xc.Client) -> None:
    run = client.compile(COMPILED_BY_JAXLIB)
    whole = np.arange(32, dtype=np.float32).reshape(4, 8)
    parts = np.split(whole, 4, axis=1)
    want = np.sum(parts, axis=0)
    for argument in (client.to_device(whole), xc.Shards(parts)):
        rows = [row.to_numpy() for row in run.execute_sharded(argument)]
        np.testing.assert_array_equal(np.concatenate(rows), want)
    # The client knows the signature of a part, which all participants are given.
    np.testing.assert_array_equal(run.run(parts[0]), 4 * parts[0][:1])


def test_a_value_that_is_neither_whole_nor_a_part_is_refused(client: xc.Client) -> None:
    stored = device_program("psum_scatter_dim1_axis_b")
    run = compiled(client, stored, stored.lowered)
    odd = client.to_device(np.zeros((3, 8), np.float32))
    said = "argument 0: it must have the type and dimensions of its parameter, got f32[3,8]"
    with pytest.raises(xc.InvalidArgumentError, match=re.escape(said)):
        run.execute_sharded(odd)


def test_more_whole_values_than_the_server_allows_are_refused(client: xc.Client) -> None:
    stored = device_program("jit_dot_contracting")
    with pytest.raises(xc.ResourceExhaustedError, match="--max-replicated-bytes") as caught:
        compiled(client, stored, stored.lowered)
    assert "got 1280 with dot %dot_general.2: f32[8,8]" in caught.value.message


def test_without_options_a_program_has_the_partitions_of_its_mesh(client: xc.Client) -> None:
    stored = device_program("dp_mlp_step_8")
    run = client.compile(xc.Computation.from_serialized(stored.lowered))
    arguments = [value.whole for value in stored.arguments]
    check_joined(stored, arrays(run.execute_sharded(*arguments, join=True)))


def test_functions_of_jax_run_on_the_devices_of_their_mesh(client: xc.Client) -> None:
    import jax
    from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

    line, rows = AbstractMesh((4,), ("x",)), PartitionSpec("x")
    values, matrix = np.arange(8, dtype=np.float32), np.ones((8, 3), np.float32)

    def share(part: Any) -> Any:
        return part / jax.lax.psum(part.sum(), "x")

    cut = jax.shard_map(share, mesh=line, in_specs=rows, out_specs=rows)
    for mesh in (None, client.mesh((4,), ("all",))):
        shares = client.jit(lambda x: {"shares": cut(x)}, mesh=mesh)(values)["shares"]
        np.testing.assert_allclose(shares.to_numpy(), values / 28, rtol=1e-6)

    def product(x: Any) -> Any:
        x = jax.lax.with_sharding_constraint(x, NamedSharding(line, rows))
        return cut(x) @ matrix

    np.testing.assert_allclose(client.jit(product)(shares).to_numpy(), np.ones(3), rtol=1e-6)


def test_a_region_on_one_partition_is_refused(client: xc.Client) -> None:
    stored = device_program("psum_scatter_dim1_axis_b")
    with pytest.raises(xc.ShapeError, match="where there is one partition, got") as caught:
        client.compile(
            xc.Computation.from_serialized(stored.lowered), mesh=client.mesh((1,), ("all",))
        )
    assert "num_partitions, or a mesh" in caught.value.hint


def test_a_region_for_another_number_of_partitions_is_refused(client: xc.Client) -> None:
    stored = device_program("pmap_no_collective")
    mesh = client.mesh((4,), ("all",))
    with pytest.raises(xc.InvalidArgumentError, match="for the 4 partitions of the program"):
        client.compile(xc.Computation.from_serialized(stored.lowered), mesh=mesh)
