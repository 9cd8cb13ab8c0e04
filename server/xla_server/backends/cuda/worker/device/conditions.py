"""Loops and branches of graphs, by conditional nodes of NVIDIA's driver.

A kernel before a conditional node reads a value of the device and sets the node's condition; at the
end of a loop's body another one sets it again. So the host reads nothing. The driver's compiler
provides the function that the kernels call. The nodes of bodies are changed by the executable graph
around them, as XLA does (`gpu_command_buffer.h`).

Semantics: the CUDA programming guide, Conditional Graph Nodes; the CUDA driver API, Graph
Management.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xla_server.backends.cuda.worker.device.captures import Captures
from xla_server.backends.cuda.worker.device.driver import CaseIndex, LoopCondition
from xla_server.backends.cuda.worker.device.errors import checked

KERNELS = b"""\
.version 8.0
.target sm_80
.address_size 64

.extern .func cudaGraphSetConditional (.param .b64 condition, .param .b32 value);

.visible .entry set_loop (.param .u64 condition, .param .u64 predicate, .param .u64 stop)
{
    .reg .pred %goes, %stops;
    .reg .b32 %value;
    .reg .b64 %condition, %address, %word;
    .param .b64 given;
    .param .b32 chosen;

    ld.param.u64 %condition, [condition];
    ld.param.u64 %address, [predicate];
    cvta.to.global.u64 %address, %address;
    ld.global.u8 %value, [%address];
    ld.param.u64 %address, [stop];
    ld.volatile.u64 %word, [%address];
    setp.ne.u64 %stops, %word, 0;
    setp.ne.and.u32 %goes, %value, 0, !%stops;
    selp.u32 %value, 1, 0, %goes;
    st.param.b64 [given], %condition;
    st.param.b32 [chosen], %value;
    call.uni cudaGraphSetConditional, (given, chosen);
    ret;
}

.visible .entry set_case (
    .param .u64 condition, .param .u64 index, .param .u64 bytes, .param .u64 cases)
{
    .reg .pred %narrow;
    .reg .b32 %value, %most;
    .reg .b64 %condition, %address, %bytes;
    .param .b64 given;
    .param .b32 chosen;

    ld.param.u64 %condition, [condition];
    ld.param.u64 %address, [index];
    cvta.to.global.u64 %address, %address;
    ld.param.u64 %bytes, [bytes];
    setp.eq.u64 %narrow, %bytes, 1;
    @%narrow ld.global.u8 %value, [%address];
    @!%narrow ld.global.u32 %value, [%address];
    ld.param.u32 %most, [cases];
    sub.u32 %most, %most, 1;
    min.u32 %value, %value, %most;
    st.param.b64 [given], %condition;
    st.param.b32 [chosen], %value;
    call.uni cudaGraphSetConditional, (given, chosen);
    ret;
}
"""
"""PTX of the kernels. `set_loop` sets whether a loop has another iteration: the predicate holds and
the cancellation flag is zero. `set_case` selects the case of an index, the last one for an index
out of range."""

SYMBOLS = ("set_loop", "set_case")


class ConditionNode(NamedTuple):
    """A condition of a graph, and the nodes of the kernels that set it, all of the same form."""

    condition: int
    setters: Sequence[Any]


LaunchSetter = Callable[[str, Sequence[int], int], None]
"""Launch a kernel of SYMBOLS, of one thread, with 64-bit values in a stream."""


class Conditions:
    """Adds conditional nodes to graphs under stream capture.

    `cuda` are the driver's bindings, and `launch` launches a kernel. A driver without such nodes
    refuses them with CudaError.
    """

    def __init__(self, cuda: Any, captures: Captures, context: Any, launch: LaunchSetter) -> None:
        self._cuda, self._captures, self._context, self._launch = cuda, captures, context, launch

    def loop(self, read: LoopCondition, body: Callable[[int], None], stream: int) -> ConditionNode:
        """Add a loop that executes `body` while the predicate holds and `stop` is zero."""
        condition = self._new(stream)
        setters = [self._set("set_loop", condition, read, stream)]

        def iteration(inner: int) -> None:
            body(inner)
            setters.append(self._set("set_loop", condition, read, inner))

        kind = self._cuda.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_WHILE
        self._add(kind, condition, [iteration], stream)
        return ConditionNode(condition, setters)

    def case(
        self, read: CaseIndex, cases: Sequence[Callable[[int], None]], stream: int
    ) -> ConditionNode:
        """Add a switch on an index of 1 or 4 bytes; the last case for an index out of range."""
        condition = self._new(stream)
        setter = self._set("set_case", condition, read, stream)
        kind = self._cuda.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_SWITCH
        self._add(kind, condition, cases, stream)
        return ConditionNode(condition, [setter])

    def _set(self, symbol: str, condition: int, read: Sequence[int], stream: int) -> Any:
        """Add the kernel that sets a condition by what it reads, and return its node."""
        self._launch(symbol, (condition, *read), stream)
        return self._captures.last_node(stream)

    def _new(self, stream: int) -> int:
        """Return a new condition handle of the graph of a stream under capture."""
        graph = self._captures.graph_of(stream)
        made = self._cuda.cuGraphConditionalHandleCreate(graph, self._context, 0, 0)
        return int(checked("cuGraphConditionalHandleCreate", made)[0])

    def _add(
        self, kind: Any, condition: int, bodies: Sequence[Callable[[int], None]], stream: int
    ) -> None:
        """Add a conditional node to a stream under capture; bodies enqueue its graphs' work."""
        described = self._cuda.CUgraphNodeParams()
        described.type = self._cuda.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
        described.conditional.handle = condition
        described.conditional.type = kind
        described.conditional.size = len(bodies)
        described.conditional.ctx = self._context
        self._captures.add(described, stream)
        for body, inside in zip(bodies, described.conditional.phGraph_out, strict=True):
            self._captures.capture(body, inside)
