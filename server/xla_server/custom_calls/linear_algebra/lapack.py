"""LAPACK's routines by name and type, with the workspace they ask for."""

import ctypes
from typing import Any

import numpy as np

from xla_contract.types.element_type import ElementType

PREFIX = {
    ElementType.F32: "s",
    ElementType.F64: "d",
    ElementType.C64: "c",
    ElementType.C128: "z",
}


def routine(element: ElementType, name: str, complex_name: str | None = None) -> Any:
    """LAPACK's routine for matrices of this type; some have another name for complex ones."""
    # The server listens before scipy is loaded.
    from scipy.linalg import lapack

    chosen = complex_name if complex_name and element.is_complex else name
    return getattr(lapack, PREFIX[element] + chosen)


def blas_routine(element: ElementType, name: str) -> Any:
    """BLAS's routine for matrices of this type."""
    from scipy.linalg import blas

    return getattr(blas, PREFIX[element] + name)


def declaration(capsule: Any) -> bytes:
    """A routine's C declaration, in which no type has a comma: its capsule's name."""
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, (ctypes.py_object,)
    return bytes(name_of(capsule))


def routine_address(module: Any, name: str) -> int:
    """The C address of a routine that a Cython module exports."""
    capsule = module.__pyx_capi__[name]
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return int(pointer_of(capsule, declaration(capsule)))


def asked(sizes: Any) -> list[int]:
    """Workspace sizes as a routine's query gives them, among its status at the end.

    They come as floats: a single one is rounded up past what its 24 bits can tell.
    """
    counts = []
    for size in np.atleast_1d(np.asarray(sizes[:-1]).real):
        number = np.nextafter(np.float32(size), np.float32(np.inf)) if size >= 2**24 else size
        counts.append(max(1, int(number)))
    return counts


def work(results: Any) -> int:
    """The workspace size from the results of a call with lwork=-1: work and info come last."""
    size: int = asked((np.atleast_1d(results[-2])[0], 0))[0]
    return size
