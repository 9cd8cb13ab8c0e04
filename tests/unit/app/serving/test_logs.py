import io
import json
import logging
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.clock import Clock
from xla_server.app.serving import logs
from xla_server.app.serving.logs import (
    BURST_LINES,
    LINES_PER_SECOND,
    DescriptorHandler,
    JsonFormatter,
    RateLimit,
    configure_logs,
)


def test_a_log_line_is_one_json_object() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.Logger("test")
    logger.addHandler(handler)
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logger.exception("incident %s", "ab", extra={"rpc": "Execute"})
    entry = json.loads(stream.getvalue())
    assert stream.getvalue().count("\n") == 1
    assert (entry["message"], entry["level"], entry["rpc"]) == ("incident ab", "error", "Execute")
    assert "ValueError: two\nlines" in entry["exception"]


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, whose handlers and level are afterwards what they were."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    # A handler that is left to the logger would be closed.
    logger.handlers.clear()
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)


def test_a_statement_logs_so_many_lines_at_once_and_for_each_second(root: logging.Logger) -> None:
    stream, clock = io.StringIO(), Clock()
    configure_logs("debug", stream)
    [handler] = root.handlers
    [limit] = handler.filters
    assert isinstance(limit, RateLimit)
    handler.filters[:] = [RateLimit(clock)]

    def lines(count: int, level: int = logging.INFO) -> list[dict[str, Any]]:
        stream.seek(0)
        stream.truncate()
        for _ in range(count):
            root.log(level, "a client erred")
        return [json.loads(line) for line in stream.getvalue().splitlines()]

    assert len(lines(BURST_LINES + 7)) == BURST_LINES
    # Neither other statements nor lines for debugging have a part in it.
    root.warning("another one")
    assert "another one" in stream.getvalue()
    assert len(lines(BURST_LINES + 1, logging.DEBUG)) == BURST_LINES + 1
    assert not lines(5, logging.ERROR)
    clock.now += 1
    first, *others = lines(2 * LINES_PER_SECOND)
    assert first["left_out"] == 7 + 5
    assert len(others) == LINES_PER_SECOND - 1
    assert not any("left_out" in line for line in others)
    clock.now += 2 * BURST_LINES / LINES_PER_SECOND
    assert len(lines(BURST_LINES + 7)) == BURST_LINES


def test_a_pipe_that_nobody_reads_stops_no_thread_and_lost_lines_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logs, "PATIENCE_SECONDS", 0.01)
    reading, writing = os.pipe()
    handler, logger = DescriptorHandler(writing), logging.Logger("test")
    handler.setFormatter(JsonFormatter())
    logger.addHandler(handler)
    with open(reading, "rb", buffering=0) as reader, open(writing, "wb"):
        # More than pipes buffer.
        for number in range(100):
            logger.info("%d%s", number, "x" * 30_000)
        os.set_blocking(reading, False)
        # Maybe the last line is not whole.
        lines = reader.read(1 << 24).split(b"\n")
        logger.info("and on")
        logger.info("as before")
        after = list(filter(None, reader.read(1 << 24).splitlines()))
    whole = [json.loads(line) for line in lines[:-1]]
    assert len(whole) > 0
    assert all("lost" not in entry for entry in whole)
    again, last = map(json.loads, after)
    assert (again["message"], again["lost"]) == ("and on", 100 - len(whole))
    assert (last["message"], last.get("lost")) == ("as before", None)


def test_a_long_line_waits_no_longer_for_a_slow_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may wait for its lock, however long the line is."""
    clock = Clock()
    monkeypatch.setattr(logs, "time", SimpleNamespace(monotonic=clock))

    def poll(milliseconds: float) -> bool:
        """Wait for less than a line may, but again for each part of it."""
        clock.now += 0.4 * logs.PATIENCE_SECONDS
        return milliseconds > 0

    reading, writing = os.pipe()
    with open(reading, "rb"), open(writing, "wb"):
        handler = DescriptorHandler(writing)
        monkeypatch.setattr(handler, "_poll", SimpleNamespace(poll=poll))
        handler.handle(logging.makeLogRecord({"msg": "x" * 30_000}))
    assert handler._lost == 1
