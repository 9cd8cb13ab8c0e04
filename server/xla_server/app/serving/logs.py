"""Structured logs: one JSON object a line, on standard error."""

import collections
import json
import logging
import os
import select
import sys
import threading
import time
from collections.abc import Callable
from typing import TextIO

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """A record with its extra fields as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON, without a line break."""
        entry: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry.update((name, value) for name, value in vars(record).items() if name not in _STANDARD)
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str, ensure_ascii=False)


BURST_LINES = 500
LINES_PER_SECOND = 10
"""Lines that one statement of the source may log at once, and then for each second. A client that
errs a thousand times a second would otherwise fill a disk in hours."""


class RateLimit(logging.Filter):
    """A limit of the lines of each statement, because clients choose how often it is executed.

    The first line after some that were left out has their number as `left_out`. Lines below INFO
    are not limited: an operator who turns them on wants all of them. Thread-safe.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._spent_until: dict[tuple[str, int], float] = {}
        """When all lines of a statement so far will be within LINES_PER_SECOND."""
        self._left_out: collections.Counter[tuple[str, int]] = collections.Counter()
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a record."""
        if record.levelno < logging.INFO:
            return True
        statement = (record.pathname, record.lineno)
        with self._lock:
            now = self._clock()
            spent_until = max(self._spent_until.get(statement, now), now) + 1 / LINES_PER_SECOND
            if spent_until - now > BURST_LINES / LINES_PER_SECOND:
                self._left_out[statement] += 1
                return False
            self._spent_until[statement] = spent_until
            if left_out := self._left_out.pop(statement, 0):
                record.left_out = left_out
            return True


PATIENCE_SECONDS = 1.0
"""Seconds that a line waits for a reader of standard error, while none was lost before it."""


class DescriptorHandler(logging.Handler):
    """Writes lines to a file descriptor, and drops those that a full pipe does not accept.

    A reader that stops would otherwise stop every thread that logs. The first line that is written
    after that has the number of those that were lost, at least in part, as `lost`.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._lost = 0
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or count it as lost."""
        try:
            if lost := self._lost:
                record.lost = lost
            # The beginning of a lost line may be there.
            text = "\n" * bool(lost) + self.format(record) + "\n"
            data = text.encode(errors="backslashreplace")
            deadline = time.monotonic() + (0 if lost else PATIENCE_SECONDS)
            while data:
                if not self._poll.poll(max(0, deadline - time.monotonic()) * 1000):
                    self._lost += 1
                    return
                # A descriptor that is ready takes so many bytes at once.
                written = os.write(self._descriptor, data[: select.PIPE_BUF])
                data = data[written:]
            self._lost = 0
        except Exception:  # As logging's own handlers: a line that fails must not fail its caller.
            self.handleError(record)


def configure_logs(level: str, stream: TextIO | None = None) -> None:
    """Log to `stream`, by default standard error, from `level` on, within a RateLimit."""
    handler: logging.Handler = logging.StreamHandler(stream)
    if stream is None and sys.stderr is not None:
        handler = DescriptorHandler(sys.stderr.fileno())
    handler.setFormatter(JsonFormatter())
    handler.addFilter(RateLimit())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
