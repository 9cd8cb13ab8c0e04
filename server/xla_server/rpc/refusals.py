"""Refusals of calls as they arrive: their statuses, and the log of them."""

import collections
import functools
import logging
import time

import grpc

from xla_contract.errors import ERROR_BY_CODE, StatusCode, XlaError
from xla_server.rpc.errors import status_of

_LOG = logging.getLogger(__name__)

_LOG_SECONDS = 1.0
"""Least seconds between two log lines about refused calls, whose rate clients choose."""

_MAX_CACHED_STATUSES = 64
"""Number of cached statuses: repeated refusals are equal, and making a status costs more."""


class Refusals:
    """The refused calls of one server, counted between two lines of the log."""

    def __init__(self) -> None:
        self.by_code: collections.Counter[str] = collections.Counter()
        """Number of all refused calls, by the names of their statuses."""
        self._count = 0
        self._logged_at = -_LOG_SECONDS

    def status(self, error: XlaError, path: str, peer: str) -> grpc.Status:
        """Return the status that refuses a call of the rpc at `path`, after logging it."""
        name = path.rpartition("/")[2]
        self._count += 1
        self.by_code[error.code.name] += 1
        now = time.monotonic()
        if now - self._logged_at >= _LOG_SECONDS:
            facts = {"rpc": name, "code": error.code.name, "peer": peer}
            _LOG.warning("refused %d calls, the last: %s", self._count, error, extra=facts)
            self._count, self._logged_at = 0, now
        return _status(error.code, name, error.message, error.hint)


@functools.lru_cache(_MAX_CACHED_STATUSES)
def _status(code: StatusCode, name: str, message: str, hint: str) -> grpc.Status:
    return status_of(ERROR_BY_CODE[code](message, hint=hint).at(name))
