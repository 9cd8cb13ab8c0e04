"""Graphs of the driver, and changes of their nodes, over bindings that use memory of the host."""

import gc
from typing import Any

import pytest

from tests.unit.backends.cuda.worker.fake_bindings import (
    CHILD,
    CONDITION,
    CONTEXT,
    EXECUTABLE,
    FUNCTION,
    GRAPH,
    CUresult,
    FakeBindings,
)
from xla_server.backends.cuda.worker.device.driver import (
    CaseIndex,
    DeviceCopy,
    KernelLaunch,
    LoopCondition,
    PreparedCall,
)
from xla_server.backends.cuda.worker.device.errors import CudaError


def test_a_graph_is_captured_launched_and_destroyed(driver: Any, cuda: FakeBindings) -> None:
    driver.begin_capture(7)
    graph = driver.end_capture(7)
    driver.launch_graph(graph, 7)
    assert cuda.named("cuStreamBeginCapture") == [[7, 2]]
    assert cuda.named("cuGraphInstantiate") == [[GRAPH, 0]]
    assert cuda.named("cuGraphLaunch") == [[EXECUTABLE, 7]]
    # The nodes that are changed are those of its description.
    assert cuda.named("cuGraphDestroy") == []
    del graph
    gc.collect()
    assert cuda.named("cuGraphExecDestroy") == [[EXECUTABLE]]
    assert cuda.named("cuGraphDestroy") == [[GRAPH]]


def test_a_graph_that_is_not_made_leaves_no_description(driver: Any, cuda: FakeBindings) -> None:
    cuda.fails["cuGraphInstantiate"] = CUresult.CUDA_ERROR_OUT_OF_MEMORY
    driver.begin_capture(7)
    with pytest.raises(CudaError, match="cuGraphInstantiate"):
        driver.end_capture(7)
    gc.collect()
    assert cuda.named("cuGraphDestroy") == [[GRAPH]]
    assert cuda.named("cuGraphExecDestroy") == []


def test_a_node_of_a_graph_gets_other_addresses(driver: Any, cuda: FakeBindings) -> None:
    (kernel,) = driver.load(b"ptx", ["k"])
    driver.begin_capture(7)
    node = driver.capture(KernelLaunch(kernel, 2, 3, 0, [1, 2]), 7)
    graph = driver.end_capture(7)
    driver.change_node(graph, node, KernelLaunch(kernel, 2, 3, 64 << 10, [3, 4]), 7)
    ((changed, of, given),) = cuda.named("cuGraphExecKernelNodeSetParams")
    assert (changed, of) == (EXECUTABLE, "before")
    grid, block = (given.gridDimX, given.gridDimY, given.gridDimZ), given.blockDimX
    assert (given.func, grid, block, given.sharedMemBytes) == (FUNCTION, (2, 1, 1), 3, 64 << 10)
    assert cuda.named("cuFuncSetAttribute") == [[FUNCTION, 8, 64 << 10]]
    assert cuda.given == [[3, 4]]


def test_a_copy_in_a_graph_gets_other_addresses(driver: Any, cuda: FakeBindings) -> None:
    first, second = driver.allocate(6, 7), driver.allocate(6, 7)
    driver.begin_capture(7)
    node = driver.capture(DeviceCopy(second, first, 6), 7)
    driver.change_node(driver.end_capture(7), node, DeviceCopy(first, second, 6), 7)
    ((changed, of, given, context),) = cuda.named("cuGraphExecMemcpyNodeSetParams")
    assert (changed, of, context) == (EXECUTABLE, "before", CONTEXT)
    assert vars(given) == {
        **{"dstMemoryType": 2, "dstDevice": first, "srcMemoryType": 2, "srcDevice": second},
        **{"WidthInBytes": 6, "Height": 1, "Depth": 1},
    }


class _Noting:
    """A prepared plan that notes the graph which its call is captured for."""

    def __init__(self, cuda: FakeBindings) -> None:
        self._cuda, self.noted = cuda, list[tuple[Any, ...]]()

    def call(self, addresses: list[int], stream: int) -> None:
        self.noted.append((*addresses, self._cuda.captured[stream], stream == 7))
        if addresses == [0]:
            raise ValueError("no such address")


def test_a_librarys_call_is_a_graph_in_a_graph_and_is_captured_again(
    driver: Any, cuda: FakeBindings
) -> None:
    prepared = _Noting(cuda)
    driver.begin_capture(7)
    node = driver.capture(PreparedCall(prepared, [5]), 7)
    assert cuda.captured == {7: GRAPH}
    (described,) = [rest[-1] for name, *rest in cuda.calls if name == "cuGraphAddNode"]
    assert (described.graph.graph, node) == (CHILD, "child")
    assert cuda.named("cuStreamUpdateCaptureDependencies") == [[7, ["child"], None, 1, 1]]
    graph = driver.end_capture(7)
    # The stream of the run is given nothing.
    driver.change_node(graph, node, PreparedCall(prepared, [6]), 7)
    assert prepared.noted == [(5, CHILD, False), (6, CHILD, True)]
    assert cuda.named("cuGraphExecChildGraphNodeSetParams") == [[EXECUTABLE, "child", CHILD]]
    with pytest.raises(ValueError, match="no such address"):
        driver.change_node(graph, node, PreparedCall(prepared, [0]), 7)
    assert not cuda.captured
    assert cuda.named("cuGraphDestroy") == 3 * [[CHILD]]
    assert len(cuda.named("cuStreamDestroy")) == 1


def test_conditional_nodes_have_what_their_bodies_give_a_stream(
    driver: Any, cuda: FakeBindings
) -> None:
    (kernel,) = driver.load(b"ptx", ["k"])

    def body(stream: int) -> None:
        launched.append((cuda.captured[stream], stream))
        driver.enqueue(KernelLaunch(kernel, 1, 1, 0, [3]), stream)

    def turn(stream: int) -> None:
        driver.capture_case(CaseIndex(8, 4, 2), [body, body], stream)

    launched: list[tuple[int, int]] = []
    driver.begin_capture(7)
    driver.capture_loop(LoopCondition(5, 6), turn, 7)
    assert cuda.captured == {7: GRAPH}
    names = [name for name, *_ in cuda.calls]
    captured = names[names.index("cuStreamBeginCapture") :]
    assert not {"cuModuleLoadData", "cuFuncLoad"} & set(captured)
    # The bodies of a node are graphs of their own, within those of nodes around it.
    turns, cases = GRAPH * 16, [GRAPH * 256, GRAPH * 256 + 1]
    assert [graph for graph, _ in launched] == cases
    nodes = [(graph, each.conditional) for graph, *_, each in cuda.named("cuGraphAddNode")]
    assert [(graph, each.type, each.size) for graph, each in nodes] == [
        (GRAPH, "while", 1),
        (turns, "switch", 2),
    ]
    assert [each.handle for _, each in nodes] == [CONDITION + 1, CONDITION + 2]
    assert cuda.named("cuGraphConditionalHandleCreate") == [
        [GRAPH, CONTEXT, 0, 0],
        [turns, CONTEXT, 0, 0],
    ]
    # A kernel tells the loop before it and at the end of each turn, and one the cases.
    streams = [rest[7] for _, *rest in cuda.named("cuLaunchKernel")]
    (inner,) = {stream for stream in streams if stream not in {7, *dict(launched).values()}}
    assert streams == [7, inner, *(stream for _, stream in launched), inner]
    assert {stream for (stream,) in cuda.named("cuStreamDestroy")} == {
        inner,
        *dict(launched).values(),
    }
    assert [to for to, *_ in cuda.named("cuStreamUpdateCaptureDependencies")] == [7, inner]


def test_what_conditional_nodes_read_gets_other_addresses(driver: Any, cuda: FakeBindings) -> None:
    driver.begin_capture(7)
    loop = driver.capture_loop(LoopCondition(5, 6), lambda stream: None, 7)
    case = driver.capture_case(CaseIndex(8, 4, 1), [lambda stream: None], 7)
    graph = driver.end_capture(7)
    driver.change_node(graph, loop, LoopCondition(50, 6), 7)
    driver.change_node(graph, case, CaseIndex(80, 4, 1), 7)
    # The kernel before a loop, and that in its body.
    assert cuda.given == [*2 * [[CONDITION + 1, 50]], [CONDITION + 2, 80]]
    assert {graph for graph, *_ in cuda.named("cuGraphExecKernelNodeSetParams")} == {EXECUTABLE}


def test_a_driver_that_does_not_load_their_kernels_has_graphs_without_loops(
    driver: Any, cuda: FakeBindings
) -> None:
    cuda.fails["cuModuleLoadData"] = CUresult.CUDA_ERROR_INVALID_PTX
    driver.begin_capture(7)
    with pytest.raises(CudaError, match="CUDA_ERROR_INVALID_PTX"):
        driver.capture_loop(LoopCondition(5, 6), lambda stream: None, 7)
    driver.launch_graph(driver.end_capture(7), 7)


def test_a_body_that_fails_leaves_no_stream_captured(driver: Any, cuda: FakeBindings) -> None:
    def fails(stream: int) -> None:
        raise ValueError("no such thunk")

    driver.begin_capture(7)
    with pytest.raises(ValueError, match="no such thunk"):
        driver.capture_loop(LoopCondition(5, 6), fails, 7)
    assert list(cuda.captured) == [7]
    assert len(cuda.named("cuStreamDestroy")) == 1
    cuda.fails["cuGraphConditionalHandleCreate"] = CUresult.CUDA_ERROR_INVALID_VALUE
    with pytest.raises(CudaError, match="cuGraphConditionalHandleCreate"):
        driver.capture_case(CaseIndex(5, 1, 1), [fails], 7)
