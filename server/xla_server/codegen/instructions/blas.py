"""BLAS and LAPACK of scipy, called from kernels by name.

scipy exposes the routines to Cython as C addresses. They are given to LLVM as symbols, so that
machine code that calls them can be kept on disk: addresses change from process to process.
"""

import ctypes
import importlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import scipy
from llvmlite import ir
from numba import types

from xla_server.codegen.instructions.instruction import instruction


def _extension(name: str) -> Any:
    """Return an extension module of scipy.linalg, without its package where that is possible.

    `scipy.linalg` imports array libraries, f2py and tests of numpy, which take fifteen times as
    long as the two extension modules that kernels need, and delay the first program of a server.
    """
    qualified = f"scipy.linalg.{name}"
    if qualified in sys.modules:
        return sys.modules[qualified]
    directory = Path(scipy.__file__).parent / "linalg"
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = directory / (name + suffix)
        if path.is_file():
            spec = importlib.util.spec_from_file_location(qualified, path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            # Cython enters it there. Importing the package later gives the same module and makes
            # it an attribute of the package, which happens only where it is not known yet.
            sys.modules.pop(qualified, None)
            return module
    return importlib.import_module(qualified)


cython_blas = _extension("cython_blas")
cython_lapack = _extension("cython_lapack")


def routine_address(module: Any, name: str) -> int:
    """The C address of a routine that a Cython module exports."""
    capsule = module.__pyx_capi__[name]
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    address = pointer_of(capsule, _name_of(capsule))
    assert address is not None
    return int(address)


def _name_of(capsule: Any) -> bytes:
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, (ctypes.py_object,)
    return bytes(name_of(capsule))


def routine(name: str) -> Any:
    """A function of kernels that calls a routine on addresses, as many as it takes."""
    module = cython_blas if name in cython_blas.__pyx_capi__ else cython_lapack
    symbol = f"xla_{name}"
    llvm.add_symbol(symbol, routine_address(module, name))
    # The capsule's name is the routine's C declaration, in which no type has a comma.
    count = _name_of(module.__pyx_capi__[name]).count(b",") + 1
    word = ir.IntType(64)

    def generate(context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [word] * count)
        known = builder.module.globals.get(symbol)
        builder.call(known or ir.Function(builder.module, kind, symbol), args)
        return context.get_dummy_value()

    def typed(typing_context, *operands):  # type: ignore[no-untyped-def]
        return types.void(*[types.int64] * count), generate

    typed.__name__ = name
    return instruction(typed)


@instruction
def room_i32(typing_context, value):  # type: ignore[no-untyped-def]
    """The address of an int32 on the stack that holds a value."""

    def generate(context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        narrow = builder.trunc(args[0], ir.IntType(32))
        with builder.goto_entry_block():
            pointer = builder.alloca(ir.IntType(32))
        builder.store(narrow, pointer)
        return builder.ptrtoint(pointer, ir.IntType(64))

    return types.int64(types.int64), generate


@instruction
def room(typing_context, value):  # type: ignore[no-untyped-def]
    """Spill a value to the stack and return its address."""

    def generate(context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        with builder.goto_entry_block():
            pointer = builder.alloca(args[0].type)
        builder.store(args[0], pointer)
        return builder.ptrtoint(pointer, ir.IntType(64))

    return types.int64(value), generate


def _keep_to_calling_threads() -> None:
    """Stop OpenBLAS from dividing products among threads of its own.

    Kernels divide them already, and calls from several threads that each want all of OpenBLAS's
    wait for each other: convolutions took ten times as long.
    """
    library = ctypes.CDLL(cython_blas.__file__)
    for name in ("scipy_openblas_set_num_threads", "openblas_set_num_threads"):
        set_threads = getattr(library, name, None)
        if set_threads is not None:
            set_threads(1)
            return


_keep_to_calling_threads()
