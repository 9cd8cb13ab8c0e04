"""Metrics of a server for Prometheus: its state, and how calls ended.

Calls have the names and labels of go-grpc-prometheus, which dashboards for gRPC servers read.
"""

import collections
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from xla_contract.descriptors import EXTENSION_RPCS, RPCS, Rpc
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_server.rpc.refusals import Refusals

_BUCKETS = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0)
"""Bounds of the histogram of durations, in seconds: from a small run to a long compilation."""

_RPC = ("grpc_type", "grpc_service", "grpc_method")
"""Names of the labels that say which rpc a call is of."""


class CallMetrics:
    """Numbers and durations of the calls that have ended, by rpc and status. Thread-safe."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        """All metrics of the server; others are registered besides."""
        # Processor time of all threads, descriptors, memory, by the names of Prometheus's clients.
        ProcessCollector(registry=self.registry)
        self._ended = Counter(
            "grpc_server_handled",
            "Calls that have ended",
            (*_RPC, "grpc_code"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "grpc_server_handling_seconds",
            "Durations of calls",
            _RPC,
            registry=self.registry,
            buckets=_BUCKETS,
        )
        self._children: dict[tuple[str, str], tuple[Histogram, Counter]] = {}
        """The metrics of an rpc's path and a status: finding these takes longer than counting."""

    def ended(self, rpc: Rpc, started: float, code: str = "OK") -> None:
        """Count a call that began at `started`, by the monotonic clock."""
        found = self._children.get((rpc.path, code))
        if found is None:
            labels = _LABELS[rpc.path]
            found = self._seconds.labels(*labels), self._ended.labels(*labels, code)
            self._children[rpc.path, code] = found
        seconds, ended = found
        seconds.observe(time.monotonic() - started)
        ended.inc()


class StateCollector(Collector):
    """Collects the state of a server and its refused calls, nothing of sessions and owners.

    Every Usage of the message is a gauge of its name, and a second one of its limit; each of the
    totals is a counter.
    """

    def __init__(
        self,
        state: Callable[[], extension_pb2.DescribeServerResponse],
        totals: Callable[[], Mapping[str, float]],
        is_draining: Callable[[], bool],
        refusals: Sequence[Refusals],
    ) -> None:
        self._state = state
        self._totals = totals
        self._is_draining = is_draining
        self._refusals = refusals

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of this moment."""
        yield _refused(self._refusals)
        state = self._state()
        info = GaugeMetricFamily(
            "xla_server_info", "Name, version and platform", labels=("server", "platform")
        )
        info.add_metric((state.server, state.platform), 1)
        yield info
        for name, value in _values(state):
            yield GaugeMetricFamily(f"xla_server_{name}", "As in DescribeServer", value)
        draining = float(self._is_draining())
        yield GaugeMetricFamily("xla_server_draining", "1 from SIGTERM on", draining)
        for name, value in self._totals().items():
            yield CounterMetricFamily(f"xla_server_{name}", "Total since the start", value)


def _refused(refusals: Iterable[Refusals]) -> CounterMetricFamily:
    family = CounterMetricFamily(
        "xla_server_refused_calls", "Calls refused as they arrived", labels=("grpc_code",)
    )
    # Copies, which are made at once: another thread adds statuses meanwhile.
    counts = (each.by_code.copy() for each in refusals)
    for code, count in sum(counts, collections.Counter[str]()).items():
        family.add_metric((code,), count)
    return family


def _values(state: extension_pb2.DescribeServerResponse) -> Iterator[tuple[str, float]]:
    yield "uptime_seconds", state.seconds
    yield "devices", len(state.devices)
    for field, value in state.ListFields():
        if isinstance(value, extension_pb2.Usage):
            yield field.name, value.used
            yield f"{field.name}_limit", value.limit
    yield "waiting_executions", state.waiting_executions
    yield "waiting_calls", sum(pool.waiting for pool in state.pools)
    yield "fusion_faults", state.fusion_faults


def _labels(rpc: Rpc) -> tuple[str, str, str]:
    service, method = rpc.path[1:].split("/")
    sides = 2 * rpc.request_streaming + rpc.response_streaming
    return ("unary", "server_stream", "client_stream", "bidi_stream")[sides], service, method


_LABELS = {rpc.path: _labels(rpc) for rpc in (*RPCS, *EXTENSION_RPCS)}
