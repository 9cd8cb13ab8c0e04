"""LAPACK's routines, and one of BLAS, as kernels call them: by name, with an address for each
argument.

They count columns first: what is row-major here is transposed to them.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from xla_server.codegen.instructions.blas import (
    cython_lapack,
    room_i32,
    routine,
    routine_address,
)
from xla_server.custom_calls.linear_algebra.lapack import asked

LETTER = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}
"""The first letter of the routines of each type."""

_FOR_ALL = (
    *("geev", "gees", "gehrd", "geqp3", "geqrf", "gesdd", "gesvd", "getrf", "gtsv", "potrf"),
    "trsm",
)
_FOR_REALS = ("orgqr", "ormqr", "syevd", "sytrd")
_FOR_COMPLEX = ("heevd", "hetrd", "ungqr", "unmqr")

LAPACK: dict[str, Any] = {
    "room_i32": room_i32,
    **{
        name: routine(name)
        for computed, letter in LETTER.items()
        for family in (_FOR_ALL, _FOR_COMPLEX if computed[0] == "c" else _FOR_REALS)
        for name in (letter + rest for rest in family)
    },
}
"""Every routine by LAPACK's name, which kernels use, and the slots of its numbers."""


def workspace(name: str, arguments: Sequence[int | np.dtype[Any] | None]) -> list[int]:
    """How many elements each working array of a routine needs, by asking it.

    `arguments` are numbers and options, None for an array, and for a working array its type, after
    which comes the argument with its size.
    """
    sizes = list[Any]()
    given = list[Any]()
    for argument in arguments:
        if isinstance(argument, np.dtype):
            sizes.append(np.zeros(1, argument))
            given += [sizes[-1], np.array([-1], np.int32)]
        else:
            given.append(np.array([argument or 0, 0, 0, 0], np.int32))
    if not sizes:
        return []
    signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(given))
    ask = signature(routine_address(cython_lapack, name))
    ask(*(array.ctypes.data for array in given))
    return [asked((size[0], 0))[0] for size in sizes]
