"""Programs on several devices at once, against real servers of both platforms."""

import itertools
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xla_client as xc
from tests.e2e import modules
from tests.e2e.process import Raw, start_ranks, start_server
from tests.fault.plain import until
from xla_client import Builder, Computation, Op, Shape, ops
from xla_contract.stubs import xla_pb2

EXAMPLES = Path(__file__).parents[3] / "client" / "examples"
X = np.arange(8, dtype=np.float32)
PART = Shape.parse("f32[2]")


@pytest.fixture(scope="module", params=["interpreter", "cpu", "cpu on 2 ranks"])
def address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of a server of four devices, of each platform, in one process or two."""
    platform, _, ranks = request.param.partition(" on ")
    flags = ["--platform", platform, "--session-grace-seconds", "0.5", "--devices"]
    directory = tmp_path_factory.mktemp(platform)
    with (
        start_ranks(directory, 2, *flags, "2") if ranks else start_server(directory, *flags, "4")
    ) as running:
        yield running.address


def summed(channel_id: int = 0, groups: Any = ()) -> Computation:
    """The sum over the participants of a group, and the numbers of this one."""
    builder = Builder("summed")
    x = builder.parameter(0, PART)
    total = ops.all_reduce(x, ops.add, groups, channel_id, bool(channel_id))
    return builder.build(ops.tuple([total, builder.replica_id(), builder.partition_id()]))


def fed_sum() -> Computation:
    """The sum over the replicas of what each one is fed."""
    builder = Builder("fed_sum")
    return builder.build(ops.all_reduce(builder.infeed(PART), ops.add))


def only_some() -> Computation:
    """The sum over the replicas, which replica 3 has no part in."""
    builder = Builder("only_some")
    x = builder.parameter(0, PART)

    def joins(value: Op) -> Op:
        return ops.all_reduce(value, ops.add)

    is_last = ops.eq(builder.replica_id(), np.uint32(3))
    return builder.build(ops.conditional(is_last, lambda value: value, joins, x))


def replicas(client: xc.Client, computation: Computation) -> tuple[xc.Mesh, Any]:
    mesh = client.mesh((4,), ("data",), replicas=4)
    return mesh, client.compile(computation, mesh=mesh)


def executions(client: xc.Client) -> int:
    return client.describe().use.concurrent_executions


def test_replicas_have_shards_and_sum_them(client: xc.Client) -> None:
    mesh, run = replicas(client, summed())
    results = run.execute_sharded(mesh.shard(X, "data"))
    for number, (total, replica, partition) in enumerate(results):
        np.testing.assert_array_equal(total.to_numpy(), X.reshape(4, 2).sum(0))
        assert (int(replica), int(partition)) == (number, 0)
    by_hand = run.execute_sharded(xc.Shards(list(X.reshape(4, 2))))
    np.testing.assert_array_equal(by_hand[3][0].to_numpy(), results[3][0].to_numpy())
    kept = client.to_device(X)
    whole = [mesh.sharding("data"), mesh.sharding(), mesh.sharding()]
    total, _, _ = run.execute_sharded(mesh.shard(kept, "data"), join=whole)
    np.testing.assert_array_equal(total.to_numpy(), np.tile(X.reshape(4, 2).sum(0), 4))
    same, _, _ = run.execute_sharded([1, 2], join=True)
    np.testing.assert_array_equal(same.to_numpy(), [4, 8])


def test_partitions_of_a_mesh_meet_along_an_axis(client: xc.Client) -> None:
    mesh = client.mesh((2, 2), ("a", "b"), ordinals=(3, 1, 0, 2))
    along_b = client.compile(summed(1, [[0, 1], [2, 3]]), mesh=mesh)
    results = along_b.execute_sharded(mesh.shard(X, ("a", "b")))
    parts = X.reshape(2, 2, 2)
    for (a, b), (total, replica, partition) in zip(np.ndindex(2, 2), results, strict=True):
        np.testing.assert_array_equal(total.to_numpy(), parts[a].sum(0))
        assert (int(replica), int(partition)) == (0, 2 * a + b)


def test_each_replica_has_an_infeed_of_its_own(client: xc.Client, address: str) -> None:
    _, run = replicas(client, fed_sum())
    for device, part in zip(client.devices(), X.reshape(4, 2), strict=True):
        device.to_infeed(part)
    for result in run.execute_sharded():
        np.testing.assert_array_equal(result.to_numpy(), X.reshape(4, 2).sum(0))
    with_ids = Raw(address)
    for replica in 2 * list(range(4)):
        literal = modules.literal(np.full(2, replica, np.float32))
        request = xla_pb2.TransferToInfeedRequest(literal=literal, replica_id=replica)
        with_ids.TransferToInfeed(request)
    handle = with_ids.compile(fed_sum().proto, execution_options=_replicated())
    answer = with_ids.Execute(xla_pb2.ExecuteRequest(handle=handle))
    assert with_ids.download(answer.output).f32s == [6, 6]
    part = xla_pb2.ExecuteGraphRequest(computation=fed_sum().proto)
    part.execution_options.CopyFrom(_replicated(4))
    request = xla_pb2.ExecuteGraphParallelRequest(requests=[part])
    answers = with_ids.ExecuteGraphParallel(request).responses
    assert [with_ids.download(each.output).f32s[:] for each in answers] == [[6, 6]] * 4
    with_ids.close()


def _replicated(handles: int = 0) -> xla_pb2.ExecutionOptions:
    options = xla_pb2.ExecutionOptions(num_replicas=4)
    for number in range(handles):
        options.device_handles.add(handle=number, device_count=4)
    return options


def test_requests_of_one_call_are_partitions(address: str) -> None:
    raw = Raw(address)
    request = xla_pb2.ExecuteGraphParallelRequest()
    for number, part in enumerate(X.reshape(4, 2)):
        proto = summed(1, [range(4)]).proto
        each = request.requests.add(computation=proto, arguments=[raw.upload(part)])
        each.execution_options.device_handles.add(handle=number, device_count=4)
    for number, answer in enumerate(raw.ExecuteGraphParallel(request).responses):
        total, _, partition = raw.download(answer.output).tuple_literals
        assert total.f32s == X.reshape(4, 2).sum(0).tolist()
        assert partition.u32s == [number]
    raw.close()


def test_a_replica_that_does_not_come_is_named(client: xc.Client) -> None:
    mesh, run = replicas(client, only_some())
    with pytest.raises(xc.FailedPreconditionError) as caught:
        run.execute_sharded(mesh.shard(X, "data"))
    assert caught.value.op == "all-reduce"
    assert "{0,1,2,3}" in caught.value.message
    assert executions(client) == 0
    # The next run has nothing to do with it.
    mesh, run = replicas(client, summed())
    assert len(run.execute_sharded(mesh.shard(X, "data"))) == 4


def test_a_replica_that_fails_ends_the_others(client: xc.Client) -> None:
    _, run = replicas(client, fed_sum())
    for number in (0, 1, 3):
        client.device(number).to_infeed(X[:2])
    client.device(2).to_infeed(X[:3])
    with pytest.raises(
        xc.InvalidArgumentError, match=r"^.*replica 2, partition 0: infeed .*f32\[3\]"
    ):
        run.execute_sharded()
    assert executions(client) == 0
    client.reset_device()
    for device in client.devices():
        device.to_infeed(X[:2])
    for result in run.execute_sharded():
        np.testing.assert_array_equal(result.to_numpy(), 4 * X[:2])


def test_a_deadline_and_a_client_that_leaves_end_all(client: xc.Client, address: str) -> None:
    _, run = replicas(client, fed_sum())
    feed = client.device(1)
    feed.to_infeed([1.0, 1.0])
    with pytest.raises(xc.DeadlineExceededError):
        run.execute_sharded(timeout=0.5)
    until(lambda: executions(client) == 0)
    client.reset_device()
    leaver = xc.connect(address, timeout=60)
    token = leaver.session_token
    _, waiting = replicas(leaver, fed_sum())
    leaver.device(0).to_infeed([1.0, 1.0])
    ended = threading.Event()

    def wait() -> None:
        with pytest.raises(xc.XlaError):
            waiting.execute_sharded()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    with xc.connect(address, session=token, timeout=60) as other:
        until(lambda: executions(other) == 4)
        leaver.detach()
        assert ended.wait(60)
        until(lambda: executions(other) == 0)


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: summed(0, [[0, 1], [1, 2, 3]]), r"all-reduce .* once, got \{\{0,1\},\{1,2,3\}\}"),
        (lambda: summed(0, [[0, 1], [2]]), "all-reduce .* each id from 0 to 3 once"),
        (lambda: summed(0, [[0, 1], [2, 9]]), "all-reduce .* each id from 0 to 3 once"),
    ],
)
def test_groups_that_do_not_fit_are_refused_at_compile(
    client: xc.Client, make: Any, rule: str
) -> None:
    with pytest.raises(xc.InvalidArgumentError, match=rule) as caught:
        replicas(client, make())
    assert caught.value.instruction


def test_devices_and_shards_that_are_not_there_are_refused(client: xc.Client) -> None:
    with pytest.raises(xc.ResourceExhaustedError, match="has 4 devices, got a program for 8"):
        client.compile(summed(), mesh=client.mesh((8,), ("data",), replicas=8))
    for ordinals, rule in (((0, 1, 2, 4), "below 4, got 4"), ((0, 1, 2, 2), "once, got 2 for")):
        mesh = client.mesh((4,), ("data",), ordinals=ordinals)
        with pytest.raises(xc.InvalidArgumentError, match=rule):
            client.compile(summed(1, [range(4)]), mesh=mesh)
    mesh, run = replicas(client, summed())
    for argument, rule in (
        (xc.Shards([X[:2]] * 3), "a shard for each of 4 participants, got 3"),
        (mesh.shard(X[:6], "data"), r"argument 0: .* got dimension 0 = 6 of f32\[6\]"),
        (
            mesh.shard(client.to_device(X[:6]), "data"),
            r"argument 0: .* dimension 0 = 6 of f32\[6\]",
        ),
        (
            xc.Sharded(X, xc.Sharding.tiled([2])),
            "argument 0: a sharding must number the 4 participants",
        ),
    ):
        with pytest.raises(xc.InvalidArgumentError, match=rule):
            run.execute_sharded(argument)


def test_sums_of_many_runs_have_the_same_bits(client: xc.Client) -> None:
    mesh, run = replicas(client, summed())
    values = np.random.default_rng(0).standard_normal(8).astype(np.float32)
    parts = values.reshape(4, 2)
    fold = np.float32(0) + parts[0]
    for part in parts[1:]:
        fold = fold + part
    for _ in range(20):
        for total, _, _ in run.execute_sharded(mesh.shard(values, "data")):
            np.testing.assert_array_equal(total.to_numpy(), fold)


def test_the_demo_of_many_devices_trains_alike() -> None:
    pytest.importorskip("sklearn")
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "train_distributed.py"), "--steps", "24"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert {"replicas agree: True", "processes agree: True"} <= {*lines}
    *_, last = lines
    assert float(last.rpartition(" ")[2]) < 1e-4
    losses = [
        line.split()[1] for line in itertools.takewhile(lambda one: ":" not in one, lines[1:])
    ]
    assert float(losses[-1]) < float(losses[0]) / 2
