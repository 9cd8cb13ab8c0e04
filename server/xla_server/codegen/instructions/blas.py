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

from xla_server.codegen.instructions.instruction import Define, Instruction, instruction_of
from xla_server.custom_calls.linear_algebra.lapack import declaration, routine_address


def _extension(name: str) -> Any:
    """Return an extension module of scipy.linalg, without its package if possible.

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
            # Cython enters the module there. A later import of the package returns the same module
            # and makes it an attribute of the package, which needs that it has no entry yet.
            sys.modules.pop(qualified, None)
            return module
    return importlib.import_module(qualified)


cython_blas = _extension("cython_blas")
cython_lapack = _extension("cython_lapack")


_FORMS = {
    "gemm": "nnnnnsanansan",
    "geqrf": "nnanaana",
    "getrf": "nnanaa",
    "herk": "nnnnsansan",
    "laswp": "nannnan",
    "orgqr": "nnnanaana",
    "ormqr": "nnnnnanaanana",
    "potrf": "nnana",
    "syrk": "nnnnsansan",
    "trsm": "nnnnnnsanan",
    "ungqr": "nnnanaana",
    "unmqr": "nnnnnanaanana",
}
"""A letter for each argument of a routine, by its name without the letter of the type: "n" for a
number and "s" for a scalar, which are spilled to the stack, "a" for an address."""


def routine(name: str, *, by_value: bool = False) -> Any:
    """Return the instruction that calls a routine with addresses.

    If `by_value`, it takes numbers and scalars and spills them.
    """
    module = cython_blas if name in cython_blas.__pyx_capi__ else cython_lapack
    symbol = f"xla_{name}"
    llvm.add_symbol(symbol, routine_address(module, name))
    count = declaration(module.__pyx_capi__[name]).count(b",") + 1
    form = _FORMS[name[1:]] if by_value else "a" * count
    word = ir.IntType(64)

    def generate(context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [word] * count)
        known = builder.module.globals.get(symbol)
        arguments = [_argument(builder, *each) for each in zip(form, args, strict=True)]
        builder.call(known or ir.Function(builder.module, kind, symbol), arguments)
        return context.get_dummy_value()

    def typed(typing_context, *operands):  # type: ignore[no-untyped-def]
        pairs = zip(form, operands, strict=True)
        return types.void(*(each if way == "s" else types.int64 for way, each in pairs)), generate

    typed.__name__ = name
    return LibraryRoutine(typed, form)


class LibraryRoutine(Instruction):
    """The call of a routine, whose arguments go as `form` says."""

    def __init__(self, define: Define, form: str) -> None:
        super().__init__(define)
        self.form = form


def _argument(builder: Any, way: str, value: Any) -> Any:
    """The argument, or the address of the stack memory that it is spilled to."""
    if way == "a":
        return value
    value = builder.trunc(value, ir.IntType(32)) if way == "n" else value
    with builder.goto_entry_block():
        pointer = builder.alloca(value.type)
    builder.store(value, pointer)
    return builder.ptrtoint(pointer, ir.IntType(64))


@instruction_of(types.int64(types.int64))
def alloca_i32(builder: Any, value: Any) -> Any:
    """The address of an int32 on the stack that holds a value."""
    return _argument(builder, "n", value)


def _use_calling_threads_only() -> None:
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


_use_calling_threads_only()
