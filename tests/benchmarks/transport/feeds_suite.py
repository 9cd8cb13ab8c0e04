"""Feeds as streams against as many bare messages on a stream."""

import itertools
from collections import deque
from collections.abc import Iterator

import grpc
import numpy as np

import xla_client
from tests.benchmarks.harness import Comparison, compare
from tests.e2e.feed_programs import sink, source
from xla_client import Shape

ITEMS = 10_000
BATCH = Shape.parse("f32[1024]")
NUMBER = Shape.parse("s32[]")
GATE = 0.6
"""Least speed that passes, relative to bare messages."""


def feeds(client: xla_client.Client, echo: grpc.Channel) -> Iterator[Comparison]:
    """Items into a program that takes them one by one, and out of one that puts them."""
    device = client.device()
    array = np.zeros(BATCH.dimensions, np.float32)
    message = array.tobytes()
    taking, putting = client.compile(sink(ITEMS, BATCH)), client.compile(source(ITEMS))
    into = echo.stream_unary("/bench.Echo/StreamSink")
    out_of = echo.unary_stream("/bench.Echo/StreamSource")

    def infeed() -> None:
        run = taking.submit()
        with device.infeed(BATCH) as feed:
            feed.send(itertools.repeat(array, ITEMS))
        run.result()

    def outfeed() -> None:
        run = putting.submit()
        deque(device.outfeed(NUMBER, ITEMS), maxlen=0)
        run.result()

    yield compare(
        f"infeed, {ITEMS:,} items of 4 KiB",
        "as many messages on a stream",
        infeed,
        lambda: into(itertools.repeat(message, ITEMS)),
        rounds=5,
        gate=GATE,
    )
    yield compare(
        f"outfeed, {ITEMS:,} items of 4 bytes",
        "as many messages on a stream",
        outfeed,
        lambda: deque(out_of(f"{ITEMS} 4".encode()), maxlen=0),
        rounds=5,
    )
