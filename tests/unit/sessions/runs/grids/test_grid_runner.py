"""Programs on several devices at once: what each is given, what is refused, what is left."""

import functools
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tests.fault.plain import until
from tests.unit.sessions.engines import shared_resources
from tests.unit.sessions.sample_runs import (
    ADD,
    DOUBLE,
    PAIR,
    compiled,
    emptied,
    endless,
    kept,
    program,
)
from xla_client import Builder, Computation, ops
from xla_contract.errors import (
    AbortedError,
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    XlaError,
)
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.devices.sharding import REPLICATED, Sharding
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.decode.programs import read_compile_request
from xla_server.sessions.feeds.device_table import DeviceHandle
from xla_server.sessions.limits.server_limits import Quotas
from xla_server.sessions.programs.device_assignment import DeviceAssignment
from xla_server.sessions.runs.requests import (
    GraphProgram,
    ShardedOutput,
    ShardedRequest,
    ShardsArgument,
    WholeArgument,
)
from xla_server.sessions.session import Session

ONES = np.ones(4, np.float32)
MATRIX = np.arange(16, dtype=np.float32)
HALVES = Sharding.tiled([4])
EACH = ShardedOutput(join=False, sharding=None, flatten=False)
Options = xla_pb2.ExecutionOptions


def session(**quotas: Any) -> Session:
    quotas = {"device_bytes": 2000, "handles": 40, "concurrent_executions": 4} | quotas
    options = {"devices": 5, "execution_wait_seconds": 0.0}
    return Session(shared_resources(2000, Quotas(**quotas), **options))


@pytest.fixture
def service() -> Iterator[Session]:
    with emptied(session()) as made:
        yield made


def numbered() -> Computation:
    """The argument, and the numbers of the replica and the partition."""
    builder = Builder("numbered")
    x = builder.parameter(0, "f32[4]")
    return builder.build(ops.tuple([x, builder.replica_id(), builder.partition_id()]))


def on_grid(
    service: Session, what: str | Computation, replicas: int = 4, partitions: int = 1
) -> int:
    options = Options(num_replicas=replicas, num_partitions=partitions)
    return compiled(service, what, options)


def sharded(
    service: Session,
    executable: int,
    *arguments: Any,
    output: ShardedOutput = EACH,
    assignment: DeviceAssignment | None = None,
    cancellation: Cancellation | None = None,
) -> list[list[Any]]:
    request = ShardedRequest(executable, assignment, arguments, output)
    result = service.grids.execute_sharded(request, cancellation or Cancellation())
    return [[service.data.get(each) for each in outputs] for outputs in result.outputs]


def arrays(results: Sequence[Sequence[Any]]) -> list[Any]:
    return [each.to_literal().to_numpy() for (each,) in results]


def refused(
    service: Session,
    error: type[XlaError],
    rule: str,
    executable: int,
    *arguments: Any,
    **named: Any,
) -> None:
    """The execution is refused, and leaves nothing behind."""
    before = service.data.used_bytes, len(service.data)
    with pytest.raises(error, match=rule):
        sharded(service, executable, *arguments, **named)
    assert (service.data.used_bytes, len(service.data)) == before
    assert service.data.reserved_bytes == service.running.used == 0


# ExecuteSharded -----------------------------------------------------------------------------


def test_a_value_goes_to_all_or_is_cut_or_is_one_of_each(service: Session) -> None:
    executable = on_grid(service, ADD)
    whole, matrix = kept(service, ONES), kept(service, MATRIX)
    shards = [kept(service, np.full(4, each, np.float32)) for each in range(4)]
    got = arrays(
        sharded(service, executable, WholeArgument(whole, None), WholeArgument(matrix, HALVES))
    )
    np.testing.assert_array_equal(got, MATRIX.reshape(4, 4) + 1)
    got = arrays(
        sharded(service, executable, WholeArgument(whole, REPLICATED), ShardsArgument(shards))
    )
    np.testing.assert_array_equal(got, np.arange(4)[:, None] + ONES)


def test_participants_know_their_numbers_and_run_where_it_is_stated(service: Session) -> None:
    executable, argument = (
        on_grid(service, numbered(), 2, 2),
        WholeArgument(kept(service, ONES), None),
    )
    flat = EACH._replace(flatten=True)
    results = sharded(service, executable, argument, output=flat)
    numbers = [tuple(int(each.to_literal().to_numpy()) for each in one[1:]) for one in results]
    assert numbers == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [one[1].device.ordinal for one in results] == [0, 1, 2, 3]
    stated = DeviceAssignment("the request's", DeviceGrid(2, 2), (4, 2, 0, 1))
    results = sharded(service, executable, argument, assignment=stated)
    assert [one[0].device.ordinal for one in results] == [4, 2, 0, 1]


def test_results_are_put_together(service: Session) -> None:
    executable = on_grid(service, numbered())
    argument = WholeArgument(kept(service, MATRIX), HALVES)
    tuple_of = Sharding.tuple_of([HALVES, REPLICATED, REPLICATED])
    output = ShardedOutput(join=True, sharding=tuple_of, flatten=True)
    ((joined, replica, _),) = sharded(service, executable, argument, output=output)
    np.testing.assert_array_equal(joined.to_literal().to_numpy(), MATRIX)
    assert replica.to_literal().to_numpy() == 0
    first = ShardedOutput(join=True, sharding=None, flatten=True)
    ((part, _, _),) = sharded(service, executable, argument, output=first)
    np.testing.assert_array_equal(part.to_literal().to_numpy(), MATRIX[:4])


def test_what_does_not_fit_is_refused(service: Session) -> None:
    executable, alone = on_grid(service, ADD), compiled(service, DOUBLE)
    one, matrix = WholeArgument(kept(service, ONES), None), kept(service, MATRIX)
    refuse = functools.partial(refused, service)
    refuse(NotFoundError, "99", 99, one)
    refuse(InvalidArgumentError, "one argument per parameter, got 1 for 2 par", executable, one)
    refuse(
        InvalidArgumentError, "^argument 1: an argument must say its source", executable, one, None
    )
    shards = ShardsArgument([one.handle] * 3)
    rule = "^argument 0: there must be a shard for each of 4 participants, got 3$"
    refuse(InvalidArgumentError, rule, executable, shards, one)
    rule = r"^argument 0: shard 2 must have the type .* got f32\[16\]\{0\} for f32\[4\]"
    shards = ShardsArgument([one.handle, one.handle, matrix, one.handle])
    refuse(InvalidArgumentError, rule, executable, shards, one)
    rule = r"^argument 1: it must have the type and .* got f32\[16\]\{0\} for f32\[4\]"
    refuse(InvalidArgumentError, rule, executable, one, WholeArgument(matrix, None))
    rule = r"^argument 1: its shard by \{devices=\[4\]<=\[4\]\} must have .* got f32\[1\]"
    refuse(InvalidArgumentError, rule, executable, one, WholeArgument(one.handle, HALVES))
    rule = r"^argument 1: a sharding must number the 4 participants, got \{devices=\[2\]"
    refuse(InvalidArgumentError, rule, executable, one, WholeArgument(matrix, Sharding.tiled([2])))
    refuse(
        NotFoundError,
        "^argument 0: shard 1: .*99",
        executable,
        ShardsArgument([one.handle, 99] * 2),
        one,
    )
    for output, rule in (
        (ShardedOutput(False, HALVES, False), "a sharding is for results to be joined, got"),
        (
            ShardedOutput(True, Sharding.tiled([2]), False),
            "^the output: a sharding must number the 4",
        ),
    ):
        refuse(InvalidArgumentError, rule, executable, one, one, output=output)
    stated = DeviceAssignment("the request's", DeviceGrid(4, 1), (0, 1, 2, 5))
    rule = "^the request's device_assignment must name devices below 5, got 5 for participant 3$"
    refuse(InvalidArgumentError, rule, executable, one, one, assignment=stated)
    # A program of one device has one participant.
    assert len(sharded(service, alone, one)) == 1


def test_memory_and_places_are_taken_for_all_at_once(service: Session) -> None:
    executable = on_grid(service, "big")
    one = WholeArgument(kept(service, ONES), None)
    rule = "values of a session may take 2000 bytes .*got 6400 bytes more for an execution"
    refused(service, ResourceExhaustedError, rule, executable, one)
    crowded = session(concurrent_executions=3)
    executable = on_grid(crowded, DOUBLE)
    one = WholeArgument(kept(crowded, ONES), None)
    rule = "^replica 3, partition 0: a session may have 3 executions at the same time"
    refused(crowded, ResourceExhaustedError, rule, executable, one)
    crowded.close()


def test_results_are_kept_all_or_none() -> None:
    service = session(handles=4)
    executable, one = on_grid(service, DOUBLE), WholeArgument(kept(service, ONES), None)
    refused(service, ResourceExhaustedError, "handles", executable, one)
    service.close()
    assert service.engine.memory.used_bytes == 0


def test_the_error_of_the_first_to_fail_is_reported_and_the_others_stop(
    service: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable, run = on_grid(service, endless()), service.runner.run
    one = WholeArgument(kept(service, ONES), None)

    def failing(compiled: Any, arguments: Any, device: Any, *rest: Any, **named: Any) -> Any:
        if device.ordinal == 2:
            raise AbortedError("mine")
        return run(compiled, arguments, device, *rest, **named)

    monkeypatch.setattr(service.runner, "run", failing)
    refused(service, AbortedError, "^replica 2, partition 0: mine$", executable, one)


def test_a_call_that_is_cancelled_ends_all(service: Session) -> None:
    executable, one = on_grid(service, endless()), WholeArgument(kept(service, ONES), None)
    cancellation = Cancellation()
    cancelling = threading.Thread(
        target=lambda: until(lambda: service.running.used == 4) or cancellation.cancel()
    )
    cancelling.start()
    refused(service, CancelledError, "gave up", executable, one, cancellation=cancellation)
    cancelling.join()


def test_a_program_of_several_devices_is_not_run_on_one(service: Session) -> None:
    executable, one = on_grid(service, DOUBLE, 2, 2), kept(service, ONES)
    rule = "compiled for one device to be run alone, got 'double' for 2 replicas x 2 partitions"
    with pytest.raises(FailedPreconditionError, match=rule) as caught:
        service.runner.execute(executable, [one], Cancellation())
    assert "ExecuteSharded" in caught.value.hint


def test_execute_runs_on_all_devices_and_gives_the_result_of_the_first(service: Session) -> None:
    builder = Builder("summed")
    total = ops.all_reduce(builder.parameter(0, "f32[4]"), ops.add)
    executable = on_grid(service, builder.build(ops.tuple([total, builder.replica_id()])), 4)
    result = service.grids.execute(executable, [kept(service, ONES)], Cancellation())
    summed, replica = service.data.get(result.output).to_literal().to_numpy()
    np.testing.assert_array_equal(summed, 4 * ONES)
    assert replica == 0
    with pytest.raises(InvalidArgumentError, match="must hold a data handle, got none"):
        service.grids.execute(executable, [None], Cancellation())
    assert service.running.used == 0


def test_a_program_is_compiled_for_devices_that_there_are(service: Session) -> None:
    with pytest.raises(ResourceExhaustedError, match="5 devices, got a program for 6: 3 replic"):
        on_grid(service, DOUBLE, 3, 2)
    assigned = xla_data_pb2.DeviceAssignmentProto(replica_count=1, computation_count=1)
    assigned.computation_devices.add(replica_device_ids=[1])
    with pytest.raises(InvalidArgumentError, match=r"the program runs on, got 1 for device 0$"):
        compiled(service, DOUBLE, Options(device_assignment=assigned))
    assert len(service.executables) == 0


# ExecuteGraphParallel -----------------------------------------------------------------------


def graph(
    what: str | Computation, argument: int, *devices: int, options: Options | None = None
) -> GraphProgram:
    computation = program(what) if isinstance(what, str) else what
    handles = [DeviceHandle(each, each + 1) for each in devices]
    read = functools.partial(read_compile_request, computation.proto, options or Options())
    return GraphProgram(read, [argument], handles)


def numbers(service: Session, *requests: GraphProgram) -> list[tuple[int, ...]]:
    """Replica, partition and device of each result."""
    results = [
        service.data.get(each.output)
        for each in service.grids.execute_graphs(requests, Cancellation())
    ]
    ids = [[int(each.to_literal().to_numpy()) for each in one.elements[1:]] for one in results]
    return [(*pair, one.device.ordinal) for pair, one in zip(ids, results, strict=True)]


def test_each_of_several_requests_is_a_partition(service: Session) -> None:
    one = kept(service, ONES)
    two = Options(num_partitions=2)
    requests = [graph(numbered(), one, 3, options=two), graph(numbered(), one, 1)]
    assert numbers(service, *requests) == [(0, 0, 3), (0, 1, 1)]
    assert numbers(service, graph(numbered(), one, 2)) == [(0, 0, 2)]


def test_one_request_with_several_devices_has_as_many_participants(service: Session) -> None:
    one = kept(service, ONES)
    request = graph(numbered(), one, 3, 1)
    assert numbers(service, request) == [(0, 0, 3), (0, 1, 1)]
    options = Options(num_replicas=2, num_partitions=2)
    request = graph(numbered(), one, 0, 1, 2, 3, options=options)
    assert numbers(service, request) == [(0, 0, 0), (0, 1, 1), (1, 0, 2), (1, 1, 3)]


def test_counts_and_assignments_agree_with_the_device_handles(service: Session) -> None:
    one = kept(service, ONES)

    def refuse(rule: str, *requests: GraphProgram) -> None:
        with pytest.raises(InvalidArgumentError, match=rule):
            service.grids.execute_graphs(requests, Cancellation())
        assert len(service.data) == 1

    two = Options(num_replicas=2)
    rule = "request 0: a program of 2 replicas x 1 partitions must have 2 device handles .* got {}"
    refuse(rule.format("1 in all"), graph(PAIR, one, 0, options=two))
    refuse(rule.format("3 in all"), graph(PAIR, one, 0, 1, 2, options=two))
    refuse(rule.format("2 in all"), graph(PAIR, one, 0, options=two), graph(PAIR, one, 1))
    assigned = xla_data_pb2.DeviceAssignmentProto(replica_count=1, computation_count=2)
    for ordinal in (0, 1):
        assigned.computation_devices.add(replica_device_ids=[ordinal])
    options = Options(device_assignment=assigned)
    rule = r"the options' device_assignment must name the devices .* got \[0, 1\] for \[1, 0\]$"
    refuse(rule, graph(PAIR, one, 1, 0, options=options))
    refuse(rule, graph(PAIR, one, 1), graph(PAIR, one, 0, options=options))
    requests = [graph(numbered(), one, 0, options=options), graph(numbered(), one, 1)]
    assert numbers(service, *requests) == [(0, 0, 0), (0, 1, 1)]
