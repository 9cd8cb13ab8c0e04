"""Metrics of a server in Prometheus' text format: its state, and how calls ended.

Calls have the names and labels of go-grpc-prometheus, which dashboards for gRPC servers read.
"""

import bisect
import collections
import threading
import time
from collections.abc import Iterable, Iterator

from xla_contract.descriptors import EXTENSION_RPCS, RPCS, Rpc
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_server.rpc.refusals import Refusals

_BUCKETS = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0)
"""Bounds of the histogram of durations, in seconds: from a small run to a long compilation."""

_SECONDS = "grpc_server_handling_seconds"


class CallMetrics:
    """Numbers and durations of the calls that have ended, by rpc and status. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._codes: collections.Counter[tuple[str, str]] = collections.Counter()
        self._buckets: collections.Counter[tuple[str, int]] = collections.Counter()
        self._seconds: dict[str, float] = collections.defaultdict(float)

    def ended(self, rpc: Rpc, started: float, code: str = "OK") -> None:
        """Count a call that began at `started`, by the monotonic clock."""
        seconds = time.monotonic() - started
        with self._lock:
            self._codes[rpc.path, code] += 1
            self._buckets[rpc.path, bisect.bisect_left(_BUCKETS, seconds)] += 1
            self._seconds[rpc.path] += seconds

    def lines(self, refusals: Iterable[Refusals] = ()) -> Iterator[str]:
        """Return the lines of the counters, also of refused calls, and of the histogram."""
        with self._lock:
            codes, buckets, total = dict(self._codes), self._buckets.copy(), dict(self._seconds)
        yield "# TYPE xla_server_refused_calls_total counter"
        for code, count in sum((each.by_code for each in refusals), collections.Counter()).items():
            yield f'xla_server_refused_calls_total{{grpc_code="{code}"}} {count}'
        yield "# TYPE grpc_server_handled_total counter"
        for (path, code), count in codes.items():
            yield f'grpc_server_handled_total{{{_LABELS[path]},grpc_code="{code}"}} {count}'
        yield f"# TYPE {_SECONDS} histogram"
        for path, seconds in total.items():
            count = 0
            for number, bound in enumerate((*_BUCKETS, "+Inf")):
                count += buckets[path, number]
                yield f'{_SECONDS}_bucket{{{_LABELS[path]},le="{bound}"}} {count}'
            yield f"{_SECONDS}_sum{{{_LABELS[path]}}} {seconds}"
            yield f"{_SECONDS}_count{{{_LABELS[path]}}} {count}"


def state_lines(state: extension_pb2.DescribeServerResponse) -> Iterator[str]:
    """Return the lines of a server's state, nothing of its sessions and their owners among it.

    Every Usage of the message is a gauge of its name, and a second one of its limit.
    """
    yield from _metric("info", 1, f'{{server="{state.server}",platform="{state.platform}"}}')
    yield from _metric("uptime_seconds", state.seconds)
    yield from _metric("devices", len(state.devices))
    for field, value in state.ListFields():
        if isinstance(value, extension_pb2.Usage):
            yield from _metric(field.name, value.used)
            yield from _metric(f"{field.name}_limit", value.limit)
    yield from _metric("waiting_executions", state.waiting_executions)
    yield from _metric("waiting_calls", sum(pool.waiting for pool in state.pools))
    yield from _metric("fusion_faults", state.fusion_faults)


def _metric(name: str, value: float, labels: str = "") -> tuple[str, str]:
    return f"# TYPE xla_server_{name} gauge", f"xla_server_{name}{labels} {value}"


def _labels(rpc: Rpc) -> str:
    service, method = rpc.path[1:].split("/")
    sides = 2 * rpc.request_streaming + rpc.response_streaming
    kind = ("unary", "server_stream", "client_stream", "bidi_stream")[sides]
    return f'grpc_type="{kind}",grpc_service="{service}",grpc_method="{method}"'


_LABELS = {rpc.path: _labels(rpc) for rpc in (*RPCS, *EXTENSION_RPCS)}
