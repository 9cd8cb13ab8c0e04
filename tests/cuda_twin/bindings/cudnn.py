"""cuDNN's backend API: what is used of it. Arguments are numbers and addresses.

Numbers, and the types of attributes, are those of cudnn_graph.h.
"""

import ctypes
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tests.cuda_twin.bindings.memory import elements
from tests.cuda_twin.libraries.convolutions import convolve
from xla_contract.types.element_type import ElementType
from xla_server.target.gpu.convolution import Convolution, Direction

BAD_PARAM, NOT_SUPPORTED, EXECUTION_FAILED = 2000, 3000, 5000
_NAMES = {BAD_PARAM: "BAD_PARAM", NOT_SUPPORTED: "NOT_SUPPORTED", EXECUTION_FAILED: "FAILED"}

CONVOLUTION, ENGINE, CONFIGURATION, HEURISTIC, PLAN, GRAPH, PACK, TENSOR = 1, 2, 3, 4, 5, 15, 16, 17

_OPERATIONS = {
    10: (Direction.FORWARD, 700),
    12: (Direction.DATA_GRADIENT, 706),
    11: (Direction.FILTER_GRADIENT, 712),
}
"""Operations with the first of their attributes: alpha, beta, convolution, w, x and y."""

_HANDLE, _DATA_TYPE, _INT64, _FLOAT, _DOUBLE, _POINTER, _DESCRIPTOR = 0, 1, 3, 4, 5, 6, 15

_NUMBERS: Mapping[int, Any] = {
    _HANDLE: np.uint64,
    _INT64: np.int64,
    _FLOAT: np.float32,
    _DOUBLE: np.float64,
    _POINTER: np.uint64,
    _DESCRIPTOR: np.uint64,
}

_SET: Mapping[int, Mapping[int, tuple[int, ...]]] = {
    CONVOLUTION: {100: (1,), 101: (7,), **dict.fromkeys(range(102, 107), (_INT64,))},
    HEURISTIC: {200: (8,), 201: (_DESCRIPTOR,)},
    PLAN: {400: (_HANDLE,), 401: (_DESCRIPTOR,)},
    **{
        kind: {
            **dict.fromkeys((first, first + 1), (_FLOAT, _DOUBLE)),
            **dict.fromkeys(range(first + 2, first + 6), (_DESCRIPTOR,)),
        }
        for kind, (_, first) in _OPERATIONS.items()
    },
    GRAPH: {800: (_HANDLE,), 801: (_DESCRIPTOR,)},
    TENSOR: {901: (_DATA_TYPE,), **dict.fromkeys((900, 902, 903, 906), (_INT64,))},
    PACK: {1000: (_INT64,), 1001: (_POINTER,), 1003: (_POINTER,)},
}
"""The attributes that each kind of descriptor must be given, with their types."""

_TYPES = {0: ElementType.F32, 1: ElementType.F64, 2: ElementType.F16, 9: ElementType.BF16}


@dataclasses.dataclass(slots=True)
class Engine:
    """An engine of the heuristic."""

    notes: tuple[int, ...] = ()
    workspace: int = 48
    is_supported: bool = True


@dataclasses.dataclass(slots=True)
class _Descriptor:
    kind: int
    values: dict[int, list[Any]] = dataclasses.field(default_factory=dict)
    is_final: bool = False
    engine: Engine | None = None
    graph: int = 0


class Cudnn:
    """The library, with engines by the modes of its heuristic."""

    def __init__(self, engines: Mapping[int, Sequence[Engine]] | None = None) -> None:
        self.engines = engines or {3: [Engine()], 2: []}
        self.descriptors: dict[int, _Descriptor] = {}
        self.fails: dict[str, int] = {}
        self.used: list[Engine] = []
        self.streams: list[int] = []
        self._count = 0

    def cudnnGetVersion(self) -> int:  # noqa: N802
        return 92801

    def cudnnGetErrorString(self, status: int) -> bytes:  # noqa: N802
        return f"CUDNN_STATUS_{_NAMES[status]}".encode()

    def cudnnGetLastErrorString(self, message: int, capacity: int) -> None:  # noqa: N802
        said = b"the last words"[: capacity - 1] + b"\0"
        ctypes.memmove(message, said, len(said))

    def cudnnCreate(self, handle: int) -> int:  # noqa: N802
        elements(handle, np.uint64, 1)[0] = 77
        return self.fails.get("cudnnCreate", 0)

    def cudnnSetStream(self, handle: int, stream: int) -> int:  # noqa: N802
        self.streams.append(stream)
        return 0 if handle == 77 else BAD_PARAM

    def cudnnBackendCreateDescriptor(self, kind: int, made: int) -> int:  # noqa: N802
        self._count += 1
        self.descriptors[self._count] = _Descriptor(int(kind))
        elements(made, np.uint64, 1)[0] = self._count
        return 0

    def cudnnBackendDestroyDescriptor(self, descriptor: int) -> int:  # noqa: N802
        del self.descriptors[descriptor]
        return 0

    def cudnnBackendSetAttribute(  # noqa: N802
        self, descriptor: int, name: int, kind: int, count: int, values: int
    ) -> int:
        found = self.descriptors[descriptor]
        if found.is_final or kind not in _SET[found.kind].get(name, ()):
            return BAD_PARAM
        numbers = elements(values, _NUMBERS.get(kind, np.int32), count).tolist()
        if kind == _DESCRIPTOR and not all(self.descriptors[each].is_final for each in numbers):
            return BAD_PARAM
        found.values[int(name)] = numbers
        return 0

    def cudnnBackendFinalize(self, descriptor: int) -> int:  # noqa: N802
        found = self.descriptors[descriptor]
        if set(found.values) != set(_SET[found.kind]):
            return BAD_PARAM
        found.is_final = True
        if found.kind in _OPERATIONS:
            return BAD_PARAM if self._convolution(found).problem else 0
        if found.kind == PLAN:
            configuration = self.descriptors[found.values[401][0]]
            found.engine, found.graph = configuration.engine, configuration.graph
            assert found.engine is not None
            return 0 if found.engine.is_supported else NOT_SUPPORTED
        return 0

    def cudnnBackendGetAttribute(  # noqa: N802
        self, descriptor: int, name: int, kind: int, capacity: int, count: int, values: int
    ) -> int:
        found, numbers = self.descriptors[descriptor], elements(count, np.int64, 1)
        assert found.is_final
        match found.kind, int(name), int(kind):
            case (4, 202, 15):
                engines = self.engines[found.values[200][0]]
                numbers[0] = len(engines)
                for engine, target in zip(engines, self._given(values, capacity), strict=False):
                    assert target.kind == CONFIGURATION
                    target.engine, target.graph, target.is_final = (
                        engine,
                        found.values[201][0],
                        True,
                    )
            case (3, 300, 15):
                (target,) = self._given(values, capacity)
                assert target.kind == ENGINE
                target.engine, target.is_final, numbers[0] = found.engine, True, 1
            case (2, 1303, 11) if found.engine:
                numbers[0] = len(found.engine.notes)
                assert capacity >= numbers[0]
                elements(values, np.int32, capacity)[: numbers[0]] = found.engine.notes
            case (5, 402, 3) if found.engine:
                numbers[0] = 1
                elements(values, np.int64, 1)[0] = found.engine.workspace
            case _:
                return BAD_PARAM
        return 0

    def _given(self, values: int, capacity: int) -> list[_Descriptor]:
        return [self.descriptors[each] for each in elements(values, np.uint64, capacity).tolist()]

    def cudnnBackendExecute(self, handle: int, plan: int, pack: int) -> int:  # noqa: N802
        found, given = self.descriptors[plan], self.descriptors[pack]
        if status := self.fails.get("cudnnBackendExecute"):
            return status
        assert handle == 77
        assert found.is_final
        assert given.is_final
        assert found.engine is not None
        elements(given.values[1003][0], np.uint8, found.engine.workspace)[:] = 0xFF
        operation = self.descriptors[self.descriptors[found.graph].values[801][0]]
        places = dict(zip(given.values[1000], given.values[1001], strict=True))
        arrays = {}
        for name, tensor in self._tensors(operation).items():
            (number,), (alignment,) = tensor.values[906], tensor.values[900]
            assert places[number] % alignment == 0
            sizes, steps = tensor.values[902], tensor.values[903]
            dtype = _TYPES[tensor.values[901][0]].dtype
            width = np.dtype(dtype).itemsize
            reach = 1 + sum((s - 1) * d for s, d in zip(sizes, steps, strict=True))
            flat = elements(places[number], dtype, reach)
            arrays[name] = as_strided(flat, sizes, [step * width for step in steps])
        with np.errstate(all="ignore"):
            convolve(self._convolution(operation), (arrays["x"], arrays["w"], arrays["y"]))
        self.used.append(found.engine)
        return 0

    def _tensors(self, operation: _Descriptor) -> dict[str, _Descriptor]:
        _, first = _OPERATIONS[operation.kind]
        return {
            name: self.descriptors[operation.values[first + 3 + at][0]]
            for at, name in enumerate("wxy")
        }

    def _convolution(self, operation: _Descriptor) -> Convolution:
        """Return what an operation computes, by its descriptors."""
        direction, first = _OPERATIONS[operation.kind]
        assert operation.values[first] == [1.0]
        assert operation.values[first + 1] == [0.0]
        window = self.descriptors[operation.values[first + 2][0]].values
        assert window[101] == [1]
        tensors = self._tensors(operation)
        x, w, y = (tuple(tensors[name].values[902]) for name in "xwy")
        (kind,) = {each.values[901][0] for each in tensors.values()}
        assert window[100] == [1 if kind == 1 else 0]
        assert window[106] == [len(x) - 2]
        strides, dilations, high, low = (tuple(window[n]) for n in (103, 102, 104, 105))
        return Convolution(
            *(direction, _TYPES[kind], x[0], x[1], y[1], x[1] // w[1], x[2:], w[2:], y[2:]),
            *(strides, dilations, low, high),
            is_channels_last=True,
        )
