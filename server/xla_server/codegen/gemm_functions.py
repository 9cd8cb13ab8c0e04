"""The functions of panels and tiles under the names that kernels call them by."""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types

from xla_server.codegen.gemm_loops import BAND_OPERANDS, LAYOUT_OPERANDS, band_text, layout_text
from xla_server.codegen.gemm_panels import across_text, along_text
from xla_server.codegen.gemm_tiles import KINDS, VECTORS, Kind, heights, tile_text
from xla_server.codegen.instruction import instruction
from xla_server.codegen.kernel_compiler import object_of_module
from xla_server.codegen.llvm_text import ModuleText
from xla_server.codegen.shared_functions import SharedFunction


class _TextFunction(SharedFunction):
    """A shared function whose code is LLVM's text: text(symbol) is a module's."""

    def __init__(self, name: str, argument_count: int, text: Callable[[str], str]) -> None:
        super().__init__(name, argument_count, lambda function: None)
        self._text = text

    @functools.cached_property
    def _object_code(self) -> bytes:
        return object_of_module(ModuleText(self._text(self.symbol)), optimised=False)


def tile_name(kind: Kind, rows: int, vectors: int) -> str:
    """What kernels call a tile; `tile_text` says what its operands are."""
    return f"gemm_tile_{kind.name}_{rows}x{vectors}"


def panel_name(kind: Kind, source: str, height: int, *, is_across: bool) -> str:
    """What kernels call the layout of a panel of members of a type, stored across or along.

    `across_text` and `along_text` say what its operands are.
    """
    return f"gemm_{'across' if is_across else 'along'}_{kind.name}_{source}_{height}"


def _address_of(function: SharedFunction) -> Any:
    """An instruction that gives a function's address, for those that call it as an operand."""

    def generate(context: Any, b: Any, signature: Any, args: Sequence[Any]) -> Any:
        return b.ptrtoint(function.declared(b.module), ir.IntType(64))

    def define(typing_context):  # type: ignore[no-untyped-def]
        return types.int64(), generate

    define.__name__ = f"{function.__name__}_address"
    return instruction(define)


def _functions() -> dict[str, Any]:
    found: list[SharedFunction] = []
    for kind in KINDS.values():
        sizes = range(1, VECTORS + 1)
        for rows, vectors in itertools.product(heights(), sizes):
            text = functools.partial(tile_text, kind=kind, rows=rows, vectors=vectors)
            found.append(_TextFunction(tile_name(kind, rows, vectors), 9, text))
        for source, is_across in itertools.product(kind.sources, (True, False)):
            for height in {*heights(), *(vectors * kind.lanes for vectors in sizes)}:
                write = across_text if is_across else along_text
                text = functools.partial(write, kind=kind, source=source, height=height)
                name = panel_name(kind, source, height, is_across=is_across)
                found.append(_TextFunction(name, 5, text))
    called = {function.__name__: function for function in found}
    return {
        **called,
        **{f"{name}_address": _address_of(function) for name, function in called.items()},
        "gemm_layout": _TextFunction("gemm_layout", len(LAYOUT_OPERANDS), layout_text),
        "gemm_band": _TextFunction("gemm_band", len(BAND_OPERANDS), band_text),
    }


GEMM_FUNCTIONS = _functions()
"""Every function of panels and tiles, the instructions for their addresses, and the loops."""
