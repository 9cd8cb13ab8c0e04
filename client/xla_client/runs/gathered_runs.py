"""Runs of one executable that coroutines begin in one iteration of the event loop, in one message.

A message of RunBatch costs little more than one of Run, so `asyncio.gather` of many runs is as fast
as `run_batch`. Each run has its own outcome; all that were sent together are answered together.
"""

import asyncio
import contextlib
import copy
import weakref
from typing import Any, TypeAlias

from xla_client.session.session import Session
from xla_client.transport.errors import error_of_status
from xla_contract.errors import XlaError
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.wire.varint import encode_varint

MAX_RUNS = 64
"""Largest number of runs in one message, as their responses arrive together."""

_RUNS_TAG = encode_varint(extension_pb2.RunBatchRequest.RUNS_FIELD_NUMBER << 3 | 2)
"""The tag of each run in a serialized RunBatchRequest: its field number, with a length."""

_Waiting: TypeAlias = "list[tuple[bytes, asyncio.Future[Any]]]"


class GatheredRuns:
    """The runs of one executable that wait to be sent, for each event loop."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Waiting] = (
            weakref.WeakKeyDictionary()
        )

    async def run(self, request: bytes) -> extension_pb2.RunResult:
        """Run a serialized RunRequest of one step; return its result. Raises XlaError."""
        loop = asyncio.get_running_loop()
        waiting = self._waiting.setdefault(loop, [])
        future: asyncio.Future[Any] = loop.create_future()
        waiting.append((request, future))
        if len(waiting) == 1:
            loop.call_soon(self._send, loop)
        elif len(waiting) == MAX_RUNS:
            self._send(loop)
        result: extension_pb2.RunResult = await future
        return result

    def _send(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send the waiting runs, if there are any left."""
        waiting = self._waiting.pop(loop, [])
        runs = [each for each in waiting if not each[1].done()]
        if not runs:
            return
        futures = [future for _, future in runs]
        try:
            if len(runs) == 1:
                pending = self._session.start("Run", runs[0][0])
            else:
                parts = (_RUNS_TAG + encode_varint(len(data)) + data for data, _ in runs)
                pending = self._session.start("RunBatch", b"".join(parts))
        except XlaError as error:
            _fail(futures, error)
            return

        def tell() -> None:
            # The loop of an abandoned coroutine may be closed.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, futures, pending)

        def stop_if_alone(_: object) -> None:
            if all(future.cancelled() for future in futures):
                pending.cancel()

        for future in futures:
            future.add_done_callback(stop_if_alone)
        pending.add_done_callback(tell)


def _settle(futures: "list[asyncio.Future[Any]]", pending: Any) -> None:
    """Set the outcome of each run."""
    try:
        response = pending.result()
    except XlaError as error:
        _fail(futures, error)
        return
    if isinstance(response, extension_pb2.RunResponse):
        _give(futures[0], response.results[0])
        return
    for future, outcome in zip(futures, response.outcomes, strict=True):
        if outcome.WhichOneof("outcome") == "status":
            _fail([future], error_of_status("RunBatch", outcome.status))
        else:
            _give(future, outcome.response.results[0])


def _give(future: "asyncio.Future[Any]", result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _fail(futures: "list[asyncio.Future[Any]]", error: XlaError) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(copy.copy(error))
