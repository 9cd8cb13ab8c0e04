"""Structured logs: one JSON object a line, on standard error."""

import dataclasses
import json
import logging
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


@dataclasses.dataclass(slots=True)
class _Statement:
    """Lines of one statement that logs."""

    spent_until: float = 0.0
    """Time by which all of its lines so far are within LINES_PER_SECOND."""
    left_out: int = 0
    """Lines left out since the last one that was logged."""


class RateLimit(logging.Filter):
    """A limit of the lines of each statement, because clients choose how often it is executed.

    The first line after some that were left out has their number as `left_out`. Lines below INFO
    are not limited: an operator who turns them on wants all of them. Thread-safe.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._statements: dict[tuple[str, int], _Statement] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a record."""
        if record.levelno < logging.INFO:
            return True
        with self._lock:
            found = self._statements.setdefault((record.pathname, record.lineno), _Statement())
            now = self._clock()
            spent_until = max(found.spent_until, now) + 1 / LINES_PER_SECOND
            if spent_until - now > BURST_LINES / LINES_PER_SECOND:
                found.left_out += 1
                return False
            if found.left_out:
                record.left_out = found.left_out
            found.spent_until, found.left_out = spent_until, 0
            return True


def configure_logs(level: str, stream: TextIO | None = None) -> None:
    """Log to `stream`, by default standard error, from `level` on, within a RateLimit."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter())
    handler.addFilter(RateLimit())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
