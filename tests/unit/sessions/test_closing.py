"""Sessions that end while calls of every kind are under way: all that they had comes back."""

import contextlib
import random
import threading

import numpy as np
import pytest

from tests.fault.plain import until
from tests.unit.sessions.engines import shared_resources
from tests.unit.sessions.sample_runs import (
    DOUBLE,
    argument_of,
    compiled,
    endless,
    keep,
    kept,
    run_request,
    start_batch,
    step,
    value,
)
from tests.unit.waiting import Rest
from xla_contract.errors import XlaError
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.chunk_codec import ChunkView
from xla_contract.wire.literals.decoding import UndecodedLiteral
from xla_server.backends.interpreter import Interpreter
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.feed_protocol import FeedUse
from xla_server.rpc.decode.runs import read_run
from xla_server.rpc.threads.thread_pool import ThreadPool
from xla_server.sessions.feeds.infeed_stream import Credit, ReceivedItem
from xla_server.sessions.limits.server_limits import Limits, Quotas
from xla_server.sessions.runs.planner import plan_run
from xla_server.sessions.session import Session
from xla_server.sessions.shared_resources import SharedResources
from xla_server.sessions.transfers.download import downloading
from xla_server.sessions.values.futures import ValuePendingError

VALUE = np.arange(4, dtype=np.float32)
SHAPE = Shape.parse("f32[4]{0}")
LIMITS = Limits(1 << 20, shared_memory_bytes=1 << 20, session_shared_memory_bytes=1 << 16)
QUOTAS = Quotas(device_bytes=1 << 20, queued_items=2, concurrent_executions=3)


class Caller:
    """A client that repeats its calls until its session has ended."""

    def __init__(self, service: Session, choose: random.Random) -> None:
        self._service = service
        self._choose = choose
        self._double = compiled(service, DOUBLE)
        self._loop = compiled(service, endless())
        self.made = 0
        """Calls that have been begun."""

    def __call__(self) -> None:
        calls = [self._upload, self._download, self._run, self._launch, self._batch]
        calls += [self._infeed, self._transfers, self._outfeed, self._arena, self._unregister]
        while True:
            call = self._choose.choice(calls)
            cancellation = Cancellation()
            self.made += 1
            try:
                with self._service.calling(cancellation):
                    call(cancellation)
            except XlaError:
                if self._service.is_closed:
                    return
            except ValuePendingError:
                continue

    def _upload(self, cancellation: Cancellation) -> None:
        key = bytes([self._choose.randrange(3)])
        table = self._service.uploads
        stream = table.begin(key, SHAPE, None, 0, cancellation.cancel)
        try:
            stream.write(ChunkView(0, VALUE.data.cast("B")[: self._choose.choice([8, 16])]))
            stream.finish()
        finally:
            stream.leave()

    def _download(self, cancellation: Cancellation) -> None:
        handle = kept(self._service, VALUE)
        with downloading(self._service.data, handle, None, 0, 1 << 20) as download:
            for _ in download.chunks(cancellation):
                self._service.unregister([handle])

    def _run(self, cancellation: Cancellation) -> None:
        donated = argument_of(kept(self._service, VALUE), donate=True)
        request = run_request(step(self._double, donated, output=keep()))
        with (
            contextlib.closing(plan_run(self._service.grids, read_run(request))) as run,
            run.executing(cancellation) as outcomes,
        ):
            self._service.data.keep_all(outcomes[0].kept)

    def _launch(self, _: Cancellation) -> None:
        table = self._service.executions
        program = self._choose.choice([self._double, self._double, self._loop])
        first = table.launch(read_run(run_request(step(program, value(VALUE), output=keep()))))
        output = first.outputs[0][0]
        donated = argument_of(output, donate=self._choose.random() < 0.5)
        second = table.launch(read_run(run_request(step(self._double, donated, output=keep()))))
        if self._choose.random() < 0.8:
            table.cancel(first.handle)
        table.wait(second.handle)

    def _batch(self, cancellation: Cancellation) -> None:
        done = threading.Event()
        runs = [run_request(step(self._double, value(VALUE), output=keep()))] * 3
        start_batch(self._service, runs, cancellation, lambda _: done.set())
        assert done.wait(100)

    def _infeed(self, cancellation: Cancellation) -> None:
        feeds = self._service.devices.feeds_of_replica(None, 0)
        stream = feeds.infeed.attach(SHAPE, cancellation)
        literal = Literal.from_numpy(VALUE)
        stream.accept([ReceivedItem(stream.next_sequence, literal, 1, VALUE.nbytes)])
        feeds.bound_to("test").take_infeed(SHAPE, cancellation, FeedUse("infeed"))
        stream.end()

    def _transfers(self, cancellation: Cancellation) -> None:
        """More than the queue holds."""
        ended: list[XlaError | None] = []
        for _ in range(4):
            literal = UndecodedLiteral(Literal.from_numpy(VALUE))
            self._service.transfer_to_infeed(literal, 0, None, cancellation, ended.append)
        if self._choose.random() < 0.5:
            self._service.reset_device()

    def _outfeed(self, cancellation: Cancellation) -> None:
        feeds = self._service.devices.feeds_of_replica(None, 0)
        feeds.bound_to("test").put_outfeed(VALUE, SHAPE, cancellation, FeedUse("outfeed"))
        stream = feeds.outfeed.attach(None, 0, Credit(5, 100), cancellation)
        cancellation.add_callback(stream.end)
        for number, _ in stream.next_batch() or ():
            stream.acknowledge(number)
        stream.end()

    def _arena(self, _: Cancellation) -> None:
        memory = self._service.shared_memory
        arena = memory.connect()
        try:
            offset, _size = memory.allocate(16)
            handle = memory.upload(offset, SHAPE, None)
            memory.download(handle, offset, None)
        finally:
            memory.disconnect(arena)

    def _unregister(self, _: Cancellation) -> None:
        self._service.unregister(self._service.data.handles.handles_after(0)[:4])


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_left_of_a_session_that_ends_amid_calls(seed: int) -> None:
    choose = random.Random(seed)
    engine = SharedResources(Interpreter(), LIMITS, ThreadPool(64, "execution"), QUOTAS)
    service = Session(engine)
    errors: list[BaseException] = []

    def call(caller: Caller) -> None:
        try:
            caller()
        except BaseException as error:
            errors.append(error)

    callers = [Caller(service, random.Random(choose.random())) for _ in range(4)]
    threads = [threading.Thread(target=call, args=(each,), daemon=True) for each in callers]
    for thread in threads:
        thread.start()
    made, are_waiting = choose.randint(1, 60), Rest(*threads)
    until(lambda: sum(each.made for each in callers) >= made or are_waiting())
    service.close()
    for thread in threads:
        thread.join(100)
    assert not any(thread.is_alive() for thread in threads)
    assert errors == []
    until(lambda: not (engine.launched or engine.memory.used_bytes or service.running.used))
    assert service.data.reserved_bytes == 0
    assert engine.arenas.lent_bytes == 0
    assert engine.close(10)
    assert engine.arenas.used_bytes == 0


def test_a_service_is_empty_until_it_has_something() -> None:
    engine = shared_resources()
    service = Session(engine)
    assert service.is_empty
    service.use()  # Asks for executions, of which there are none.
    assert service.is_empty
    handle = kept(service, np.ones(4, np.float32))
    assert not service.is_empty
    service.unregister([handle])
    assert service.is_empty
    compiled(service, DOUBLE)
    assert not service.is_empty
    another = Session(engine)
    another.channels.create(1)
    assert not another.is_empty
