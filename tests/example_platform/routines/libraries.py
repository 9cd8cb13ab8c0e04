"""BLAS and LAPACK on the memory of the walker: scipy's own, which `cpu` calls too."""

import ctypes

from tests.example_platform.memory import Arrays
from xla_server.codegen.instructions.blas import cython_blas, cython_lapack
from xla_server.custom_calls.linear_algebra.lapack import routine_address

NAMES = frozenset({*cython_blas.__pyx_capi__, *cython_lapack.__pyx_capi__})


def call(name: str, arrays: Arrays, *operands: int) -> None:
    """Call a routine with addresses, 0 for what it does not access."""
    module = cython_blas if name in cython_blas.__pyx_capi__ else cython_lapack
    pointers = [arrays.at(each, 1).ctypes.data if each else None for each in operands]
    form = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(operands))
    form(routine_address(module, name))(*pointers)
