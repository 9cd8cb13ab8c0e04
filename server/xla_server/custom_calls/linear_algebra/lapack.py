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


def queried(sizes: Any) -> list[int]:
    """Return the workspace sizes in the results of a routine's query, whose last one is the status.

    LAPACK returns them as floats; one of 2^24 or more is rounded up, as single precision may have
    lost digits.
    """
    counts = []
    for size in np.atleast_1d(np.asarray(sizes[:-1]).real):
        number = np.nextafter(np.float32(size), np.float32(np.inf)) if size >= 2**24 else size
        counts.append(max(1, int(number)))
    return counts


def work(results: Any) -> int:
    """Return the workspace size from a call with lwork=-1, whose last results are work and info."""
    size: int = queried((np.atleast_1d(results[-2])[0], 0))[0]
    return size
