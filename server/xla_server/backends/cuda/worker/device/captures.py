"""Nodes of CUDA graphs under stream capture.

Semantics: the CUDA driver API, Graph Management and Stream Management.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xla_server.backends.cuda.worker.device.errors import checked


class Captures:
    """Adds nodes to graphs under stream capture, by the driver's bindings."""

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda

    def graph_of(self, stream: int) -> Any:
        """Return the graph that a stream is captured into."""
        return self._end_of(stream)[0]

    def last_node(self, stream: int) -> Any:
        """Return the last node of a stream under capture."""
        _, (node, *_), *_ = self._end_of(stream)
        return node

    def add(self, described: Any, stream: int) -> Any:
        """Add a node after the last one of a stream under capture, and return it."""
        graph, *before = self._end_of(stream)
        (node,) = checked("cuGraphAddNode", self._cuda.cuGraphAddNode(graph, *before, described))
        behind = (
            self._cuda.CUstreamUpdateCaptureDependencies_flags.CU_STREAM_SET_CAPTURE_DEPENDENCIES
        )
        moved = self._cuda.cuStreamUpdateCaptureDependencies(stream, [node], None, 1, int(behind))
        checked("cuStreamUpdateCaptureDependencies", moved)
        return node

    def add_child(self, body: Callable[[int], None], stream: int) -> Any:
        """Add the work that `body` enqueues as one child-graph node, and return the node."""
        with self._graph() as child:
            self.capture(body, child)
            described = self._cuda.CUgraphNodeParams()
            described.type = self._cuda.CUgraphNodeType.CU_GRAPH_NODE_TYPE_GRAPH
            # The node copies the child graph.
            described.graph.graph = child
            return self.add(described, stream)

    def change_child(
        self, executable: Any, node: Any, body: Callable[[int], None], stream: int
    ) -> None:
        """Replace the work of an `add_child` node by the work that `body` enqueues.

        It is captured in `stream`, which must be free.
        """
        with self._graph() as child:
            self._capture(body, child, stream)
            changed = self._cuda.cuGraphExecChildGraphNodeSetParams(executable, node, child)
            checked("cuGraphExecChildGraphNodeSetParams", changed)

    def capture(self, body: Callable[[int], None], graph: Any) -> None:
        """Capture the work that `body` enqueues to a new stream into a graph."""
        flags = int(self._cuda.CUstream_flags.CU_STREAM_NON_BLOCKING)
        stream = int(checked("cuStreamCreate", self._cuda.cuStreamCreate(flags))[0])
        try:
            self._capture(body, graph, stream)
        finally:
            self._cuda.cuStreamDestroy(stream)

    def _capture(self, body: Callable[[int], None], graph: Any, stream: int) -> None:
        mode = self._cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        begun = self._cuda.cuStreamBeginCaptureToGraph(stream, graph, None, None, 0, mode)
        checked("cuStreamBeginCaptureToGraph", begun)
        try:
            body(stream)
        finally:
            ended = self._cuda.cuStreamEndCapture(stream)
        checked("cuStreamEndCapture", ended)

    @contextlib.contextmanager
    def _graph(self) -> Iterator[Any]:
        (graph,) = checked("cuGraphCreate", self._cuda.cuGraphCreate(0))
        try:
            yield graph
        finally:
            self._cuda.cuGraphDestroy(graph)

    def _end_of(self, stream: int) -> Sequence[Any]:
        """Return the graph of a stream under capture, and the dependencies of its next node."""
        _, _, graph, nodes, edges, count = checked(
            "cuStreamGetCaptureInfo", self._cuda.cuStreamGetCaptureInfo(stream)
        )
        return graph, nodes, edges, count
