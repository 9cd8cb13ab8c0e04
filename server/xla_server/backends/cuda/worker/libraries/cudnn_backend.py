"""cuDNN's backend API by ctypes: descriptors with attributes.

NVIDIA's Python binding of it needs compilers of kernels besides, which convolutions do without.

Semantics: the cuDNN backend's documentation, cudnn_graph library. Numbers are those of
cudnn_graph.h of release 9.
"""

import contextlib
import ctypes
import enum
import functools
import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

PACKAGE, FILE = "nvidia.cudnn", "lib/libcudnn.so.9"
"""The package that has the library, and the path in it."""

_MESSAGE_BYTES = 1024
"""Bytes of cuDNN's last message that are kept; a longer one is cut."""


class CudnnError(Exception):
    """A call failed; the message has the call, its status and the library's last message."""


class Kind(enum.IntEnum):
    """The kinds of descriptors, cudnnBackendDescriptorType_t."""

    CONVOLUTION = 1
    ENGINE = 2
    ENGINE_CONFIGURATION = 3
    HEURISTIC = 4
    EXECUTION_PLAN = 5
    FORWARD = 10
    FILTER_GRADIENT = 11
    DATA_GRADIENT = 12
    GRAPH = 15
    VARIANT_PACK = 16
    TENSOR = 17


class Type(enum.IntEnum):
    """The types of attributes, cudnnBackendAttributeType_t."""

    HANDLE = 0
    DATA_TYPE = 1
    INT64 = 3
    FLOAT = 4
    DOUBLE = 5
    VOID_PTR = 6
    CONVOLUTION_MODE = 7
    HEURISTIC_MODE = 8
    NUMERICAL_NOTE = 11
    DESCRIPTOR = 15


class AttributeName(enum.IntEnum):
    """The attributes of descriptors, cudnnBackendAttributeName_t."""

    CONVOLUTION_SUMS = 100
    CONVOLUTION_MODE = 101
    CONVOLUTION_DILATIONS = 102
    CONVOLUTION_STRIDES = 103
    CONVOLUTION_POST_PADDINGS = 104
    CONVOLUTION_PRE_PADDINGS = 105
    CONVOLUTION_SPATIAL_DIMENSIONS = 106
    HEURISTIC_MODE = 200
    HEURISTIC_GRAPH = 201
    HEURISTIC_RESULTS = 202
    CONFIGURATION_ENGINE = 300
    PLAN_HANDLE = 400
    PLAN_CONFIGURATION = 401
    PLAN_WORKSPACE_SIZE = 402
    FORWARD_ALPHA = 700
    FORWARD_BETA = 701
    FORWARD_CONVOLUTION = 702
    FORWARD_W = 703
    FORWARD_X = 704
    FORWARD_Y = 705
    DATA_GRADIENT_ALPHA = 706
    DATA_GRADIENT_BETA = 707
    DATA_GRADIENT_CONVOLUTION = 708
    DATA_GRADIENT_W = 709
    DATA_GRADIENT_X = 710
    DATA_GRADIENT_Y = 711
    FILTER_GRADIENT_ALPHA = 712
    FILTER_GRADIENT_BETA = 713
    FILTER_GRADIENT_CONVOLUTION = 714
    FILTER_GRADIENT_W = 715
    FILTER_GRADIENT_X = 716
    FILTER_GRADIENT_Y = 717
    GRAPH_HANDLE = 800
    GRAPH_OPERATIONS = 801
    TENSOR_ALIGNMENT = 900
    TENSOR_DATA_TYPE = 901
    TENSOR_SIZES = 902
    TENSOR_STRIDES = 903
    TENSOR_ID = 906
    PACK_IDS = 1000
    PACK_POINTERS = 1001
    PACK_WORKSPACE = 1003
    ENGINE_NOTES = 1303


class HeuristicMode(enum.IntEnum):
    """Sources of engines, cudnnBackendHeurMode_t."""

    FALLBACK = 2
    A = 3


class Note(enum.IntEnum):
    """Notes on what an engine does to numbers, cudnnBackendNumericalNote_t."""

    TENSOR_CORE = 0
    DOWN_CONVERTS_INPUTS = 1
    REDUCED_PRECISION_SUMS = 2
    FFT = 3
    NONDETERMINISTIC = 4
    WINOGRAD = 5
    WINOGRAD_4 = 6
    WINOGRAD_6 = 7
    WINOGRAD_13 = 8


CROSS_CORRELATION = 1
"""The cudnnConvolutionMode_t of windows that are not read backwards."""

_NOTES = 16
"""Largest number of notes of an engine that is read; release 9 has ten."""

_C_TYPES: Mapping[Type, Any] = MappingProxyType(
    {
        Type.HANDLE: ctypes.c_void_p,
        Type.INT64: ctypes.c_int64,
        Type.FLOAT: ctypes.c_float,
        Type.DOUBLE: ctypes.c_double,
        Type.VOID_PTR: ctypes.c_void_p,
        Type.DESCRIPTOR: ctypes.c_void_p,
    }
)
"""The C types of attributes; others are enumerations."""


class CudnnLibrary:
    """The library with a handle of it. Raises CudnnError if it is missing."""

    def __init__(self) -> None:
        self._library = library()
        self.version = int(self._library.cudnnGetVersion())
        handle = ctypes.c_void_p()
        self.call("cudnnCreate", ctypes.addressof(handle))
        self.handle: int = handle.value or 0

    def call(self, function: str, *arguments: int) -> None:
        """Call a function. Raises CudnnError for a status other than success."""
        status = int(getattr(self._library, function)(*arguments))
        if not status:
            return
        said = ctypes.create_string_buffer(_MESSAGE_BYTES)
        self._library.cudnnGetLastErrorString(ctypes.addressof(said), _MESSAGE_BYTES)
        name = self._library.cudnnGetErrorString(status).decode(errors="replace")
        words = said.value.decode(errors="replace").strip()
        raise CudnnError(f"{function}: {name} ({status}){': ' * bool(words)}{words}")

    def descriptor(self, kind: Kind, owner: contextlib.ExitStack) -> "Descriptor":
        """Return a new descriptor, destroyed with its owner."""
        made = ctypes.c_void_p()
        self.call("cudnnBackendCreateDescriptor", kind, ctypes.addressof(made))
        address = made.value or 0
        owner.callback(self._library.cudnnBackendDestroyDescriptor, address)
        return Descriptor(self, address)


class Descriptor:
    """A descriptor. Its attributes are set, then it is finalised, then they are read."""

    def __init__(self, backend: CudnnLibrary, address: int) -> None:
        self._backend, self.address = backend, address

    def set(self, attribute: AttributeName, kind: Type, *values: float) -> None:
        """Set the elements of an attribute: numbers, or addresses of descriptors."""
        array = (_C_TYPES.get(kind, ctypes.c_int) * len(values))(*values)
        address = ctypes.addressof(array)
        call = self._backend.call
        call("cudnnBackendSetAttribute", self.address, attribute, kind, len(values), address)

    def finalise(self) -> None:
        """Finalise the descriptor. Raises CudnnError if the library does not support it."""
        self._backend.call("cudnnBackendFinalize", self.address)

    def integer(self, attribute: AttributeName) -> int:
        """Return an attribute of one INT64."""
        (found,) = self._read(attribute, Type.INT64, (0,))
        return found

    def notes(self) -> frozenset[int]:
        """Return the numerical notes of an engine."""
        return frozenset(self._read(AttributeName.ENGINE_NOTES, Type.NUMERICAL_NOTE, (0,) * _NOTES))

    def fill(self, attribute: AttributeName, others: "Sequence[Descriptor]") -> int:
        """Let others be the descriptors of an attribute; return how many of them it has."""
        pointers = tuple(each.address for each in others)
        return len(self._read(attribute, Type.DESCRIPTOR, pointers))

    def count(self, attribute: AttributeName) -> int:
        """Return the number of descriptors that an attribute has."""
        count = ctypes.c_int64()
        found = ctypes.addressof(count)
        kind = Type.DESCRIPTOR
        self._backend.call("cudnnBackendGetAttribute", self.address, attribute, kind, 0, found, 0)
        return count.value

    def _read(self, attribute: AttributeName, kind: Type, initial: Sequence[int]) -> Sequence[int]:
        """Return the elements of an attribute, at most as many as there are in `initial`."""
        array = (_C_TYPES.get(kind, ctypes.c_int) * len(initial))(*initial)
        count = ctypes.c_int64()
        pointers = ctypes.addressof(count), ctypes.addressof(array)
        call = self._backend.call
        call("cudnnBackendGetAttribute", self.address, attribute, kind, len(initial), *pointers)
        return list(array)[: count.value]


def is_installed() -> bool:
    """Return whether the library is installed, without loading it."""
    return _path() is not None


def _path() -> Path | None:
    try:
        found = importlib.util.find_spec(PACKAGE)
    except ModuleNotFoundError:
        return None
    directories = [] if found is None else found.submodule_search_locations or []
    return next(
        (path for directory in directories if (path := Path(directory) / FILE).exists()), None
    )


@functools.cache
def library() -> Any:
    """Return the library, whose functions take numbers and addresses.

    Raises CudnnError if it is not installed or does not load.
    """
    path = _path()
    if path is None:
        raise CudnnError("cuDNN must be installed: pip install nvidia-cudnn-cu13")
    try:
        found = ctypes.CDLL(str(path))
    except OSError as error:
        raise CudnnError(f"cuDNN must load, got {error}") from error
    word, address, number = ctypes.c_int, ctypes.c_void_p, ctypes.c_int64
    signatures: Mapping[str, Sequence[Any]] = {
        "cudnnCreate": (address,),
        "cudnnSetStream": (address, address),
        "cudnnGetErrorString": (word,),
        "cudnnGetLastErrorString": (address, ctypes.c_size_t),
        "cudnnBackendCreateDescriptor": (word, address),
        "cudnnBackendDestroyDescriptor": (address,),
        "cudnnBackendSetAttribute": (address, word, word, number, address),
        "cudnnBackendGetAttribute": (address, word, word, number, address, address),
        "cudnnBackendFinalize": (address,),
        "cudnnBackendExecute": (address, address, address),
    }
    for name, arguments in signatures.items():
        getattr(found, name).argtypes = arguments
    found.cudnnGetVersion.restype = ctypes.c_size_t
    found.cudnnGetErrorString.restype = ctypes.c_char_p
    found.cudnnGetLastErrorString.restype = None
    return found
