"""Convolutions by cuDNN.

The engine is the first of the library's heuristic that is deterministic, rounds no more than the
plan allows, and fits into the plan's workspace. It is not chosen by measurement, so results have
the same bits every time. Engines that transform their operands (Winograd, FFT) are excluded: an
infinity would make NaN of results that it does not contribute to.

Semantics: the cuDNN backend's documentation, operations with convolutions and execution plans.
"""

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from xla_contract.types.element_type import ElementType
from xla_server.backends.cuda.worker.libraries.cudnn_backend import (
    CROSS_CORRELATION,
    AttributeName,
    CudnnError,
    CudnnLibrary,
    Descriptor,
    HeuristicMode,
    Kind,
    Note,
    Type,
)
from xla_server.backends.cuda.worker.libraries.library import Libraries, LibraryError
from xla_server.codegen.gpu.plans.convolution_plans import ConvolutionPlan
from xla_server.codegen.gpu.plans.library_plans import ALIGNMENT, WORKSPACE_ALIGNMENT
from xla_server.target.gpu.convolution import Direction

DATA_TYPES: Mapping[ElementType, int] = MappingProxyType(
    {ElementType.F32: 0, ElementType.F64: 1, ElementType.F16: 2, ElementType.BF16: 9}
)
"""Element types by cudnnDataType_t."""

REFUSED = frozenset(Note) - {Note.TENSOR_CORE}
"""Notes of engines that no plan uses: all but tensor cores. So no engine computes f32 in f16, adds
up in no fixed order, or transforms its operands."""

_MAX_REASONS = 8
"""Maximum of reasons that the error of a convolution without an engine lists."""

_IDS = {"X": 1, "W": 2, "Y": 3}
"""Numbers of the arrays of a convolution, for the library's graph."""

_READ = {
    Direction.FORWARD: ("X", "W", "Y"),
    Direction.DATA_GRADIENT: ("W", "Y", "X"),
    Direction.FILTER_GRADIENT: ("X", "Y", "W"),
}
"""The arrays in the order of a plan's buffers."""


def _opened(_: int) -> tuple[CudnnLibrary, threading.Lock]:
    """Return the library, and the lock under which threads use its one handle."""
    try:
        return CudnnLibrary(), threading.Lock()
    except CudnnError as error:
        raise LibraryError(str(error)) from error


class PreparedConvolution:
    """A plan with the library's descriptors of it. Raises LibraryError without an engine."""

    def __init__(self, libraries: Libraries, plan: ConvolutionPlan) -> None:
        self._backend: CudnnLibrary
        self._turns: threading.Lock
        self._plan, self._owned = plan, contextlib.ExitStack()
        self._backend, self._turns = libraries.handle(_opened)
        self._refusals: list[str] = []
        try:
            with self._turns:
                self._execution = self._chosen()
        except CudnnError as error:
            raise LibraryError(f"{plan.text}: {error}") from error

    def _descriptor(self, kind: Kind) -> Descriptor:
        return self._backend.descriptor(kind, self._owned)

    def _tensor(self, name: str, sizes: Sequence[int]) -> Descriptor:
        form, tensor = self._plan.convolution, self._descriptor(Kind.TENSOR)
        tensor.set(AttributeName.TENSOR_DATA_TYPE, Type.DATA_TYPE, DATA_TYPES[form.element])
        tensor.set(AttributeName.TENSOR_SIZES, Type.INT64, *sizes)
        tensor.set(AttributeName.TENSOR_STRIDES, Type.INT64, *form.distances(sizes))
        tensor.set(AttributeName.TENSOR_ID, Type.INT64, _IDS[name])
        tensor.set(AttributeName.TENSOR_ALIGNMENT, Type.INT64, ALIGNMENT)
        tensor.finalise()
        return tensor

    def _window(self, sums: ElementType) -> Descriptor:
        form, window = self._plan.convolution, self._descriptor(Kind.CONVOLUTION)
        rank = len(form.window)
        window.set(AttributeName.CONVOLUTION_SPATIAL_DIMENSIONS, Type.INT64, rank)
        window.set(AttributeName.CONVOLUTION_SUMS, Type.DATA_TYPE, DATA_TYPES[sums])
        window.set(AttributeName.CONVOLUTION_MODE, Type.CONVOLUTION_MODE, CROSS_CORRELATION)
        window.set(AttributeName.CONVOLUTION_PRE_PADDINGS, Type.INT64, *form.low)
        window.set(AttributeName.CONVOLUTION_POST_PADDINGS, Type.INT64, *form.high)
        window.set(AttributeName.CONVOLUTION_DILATIONS, Type.INT64, *form.dilations)
        window.set(AttributeName.CONVOLUTION_STRIDES, Type.INT64, *form.strides)
        window.finalise()
        return window

    def _graph(self) -> Descriptor:
        form = self._plan.convolution
        is_double = form.element is ElementType.F64
        sums = ElementType.F64 if is_double else ElementType.F32
        kind = form.direction.name
        operation = self._descriptor(Kind[kind])
        for name, sizes in zip(_IDS, form.sizes, strict=True):
            tensor = self._tensor(name, sizes)
            operation.set(AttributeName[f"{kind}_{name}"], Type.DESCRIPTOR, tensor.address)
        window = self._window(sums)
        operation.set(AttributeName[f"{kind}_CONVOLUTION"], Type.DESCRIPTOR, window.address)
        factor = Type.DOUBLE if is_double else Type.FLOAT
        operation.set(AttributeName[f"{kind}_ALPHA"], factor, 1.0)
        operation.set(AttributeName[f"{kind}_BETA"], factor, 0.0)
        operation.finalise()
        graph = self._descriptor(Kind.GRAPH)
        graph.set(AttributeName.GRAPH_HANDLE, Type.HANDLE, self._backend.handle)
        graph.set(AttributeName.GRAPH_OPERATIONS, Type.DESCRIPTOR, operation.address)
        graph.finalise()
        return graph

    def _configurations(self) -> Iterator[Descriptor]:
        """Yield engine configurations, the heuristic's best first."""
        graph = self._graph()
        for mode in (HeuristicMode.A, HeuristicMode.FALLBACK):
            heuristic = self._descriptor(Kind.HEURISTIC)
            heuristic.set(AttributeName.HEURISTIC_GRAPH, Type.DESCRIPTOR, graph.address)
            heuristic.set(AttributeName.HEURISTIC_MODE, Type.HEURISTIC_MODE, mode)
            try:
                heuristic.finalise()
                count = heuristic.count(AttributeName.HEURISTIC_RESULTS)
                found = [self._descriptor(Kind.ENGINE_CONFIGURATION) for _ in range(count)]
                yield from found[: heuristic.fill(AttributeName.HEURISTIC_RESULTS, found)]
            except CudnnError as error:
                self._refusals.append(str(error))

    def _chosen(self) -> Descriptor:
        """Return the execution plan of the first suitable engine. Raises CudnnError."""
        for configuration in self._configurations():
            with contextlib.suppress(CudnnError):
                if refused := self._refused_notes(configuration):
                    self._refusals.append(", ".join(refused))
                    continue
                plan = self._descriptor(Kind.EXECUTION_PLAN)
                plan.set(AttributeName.PLAN_HANDLE, Type.HANDLE, self._backend.handle)
                plan.set(AttributeName.PLAN_CONFIGURATION, Type.DESCRIPTOR, configuration.address)
                plan.finalise()
                size = plan.integer(AttributeName.PLAN_WORKSPACE_SIZE)
                if size <= self._plan.workspace_bytes:
                    return plan
                self._refusals.append(f"a workspace of {size} bytes")
        version = self._backend.version
        reasons = "; ".join(list(dict.fromkeys(self._refusals))[:_MAX_REASONS]) or "no reason given"
        raise CudnnError(f"cuDNN {version} has no engine that may be taken: {reasons}")

    def _refused_notes(self, configuration: Descriptor) -> list[str]:
        """Return the names of the notes for which an engine must not be used."""
        form = self._plan.convolution
        engine = self._descriptor(Kind.ENGINE)
        configuration.fill(AttributeName.CONFIGURATION_ENGINE, [engine])
        rounds = form.element is ElementType.F32 and not form.rounds_operands
        refused = REFUSED | {Note.TENSOR_CORE} if rounds else REFUSED
        return [note.name for note in sorted(refused) if note in engine.notes()]

    def call(self, addresses: Sequence[int], stream: int) -> None:
        """Enqueue the convolution to a stream. Raises CudnnError."""
        *arrays, memory = addresses
        workspace = -(-memory // WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT
        ids = [_IDS[name] for name in _READ[self._plan.convolution.direction]]
        with self._turns, contextlib.ExitStack() as owner:
            pack = self._backend.descriptor(Kind.VARIANT_PACK, owner)
            pack.set(AttributeName.PACK_IDS, Type.INT64, *ids)
            pack.set(AttributeName.PACK_POINTERS, Type.VOID_PTR, *arrays)
            pack.set(AttributeName.PACK_WORKSPACE, Type.VOID_PTR, workspace)
            pack.finalise()
            handle = self._backend.handle
            self._backend.call("cudnnSetStream", handle, stream)
            self._backend.call("cudnnBackendExecute", handle, self._execution.address, pack.address)

    def __del__(self) -> None:
        self._owned.close()
