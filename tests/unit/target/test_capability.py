"""Capabilities that passes and fusion ask for agree with what lowering does."""

import itertools

import pytest

from tests.processors import TARGET
from xla_contract.errors import ShapeError
from xla_contract.types.element_type import ElementType
from xla_server.codegen.lower.lowering import kernels_of, lower
from xla_server.codegen.lower.lowerings import LOWERINGS
from xla_server.ir.module import HloModule
from xla_server.ir.text.parser import parse_module
from xla_server.target.target import PROCESSOR

E = ElementType
_TYPES = [E.F32, E.F64, E.BF16, E.C64, E.C128, E.S8, E.U8, E.S16, E.U16, E.S32, E.U32, E.S64]


def _texts(module: HloModule) -> str:
    return "".join(thunk.source for thunk in kernels_of(lower(module, LOWERINGS, TARGET)))


@pytest.mark.parametrize("result", _TYPES, ids=lambda element: element.text)
def test_products_that_pack_operands_are_those_of_tiles_and_of_blas(result: E) -> None:
    for left, right in itertools.combinations_with_replacement(_TYPES, 2):
        try:
            module = parse_module(
                f"HloModule m\nENTRY e {{ a = {left.text}[40,50] parameter(0) "
                f"b = {right.text}[50,60] parameter(1) ROOT d = {result.text}[40,60] dot(a, b), "
                "lhs_contracting_dims={1}, rhs_contracting_dims={0} }"
            )
        except ShapeError:
            continue  # No dot has these types.
        text, types = _texts(module), {left, right}
        tile = PROCESSOR.product_tile(types, result)
        assert (f"gemm_tile_{tile}_" in text) == (tile is not None)
        if not PROCESSOR.is_narrow_product(types, result):
            is_packed = "gemm_" in text or "product_into" in text
            assert PROCESSOR.packs_operands(types, result) == is_packed


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_transposes_that_fusion_leaves_alone_are_done_by_tiles(width: int) -> None:
    element = {1: "s8", 2: "s16", 4: "f32", 8: "f64"}[width]
    for rows, columns in ((8, 4096), (4096, 8), (200, 300)):
        assert PROCESSOR.is_tiled_transpose(rows * columns, rows, columns)
        module = parse_module(
            f"HloModule m\nENTRY e {{ a = {element}[{rows},{columns}] parameter(0) "
            f"ROOT t = {element}[{columns},{rows}] transpose(a), dimensions={{1,0}} }}"
        )
        assert f"transpose_{8 * width}_" in _texts(module)
    least = PROCESSOR.MIN_TILED_TRANSPOSE
    assert not PROCESSOR.is_tiled_transpose(least, 7, least)
    assert not PROCESSOR.is_tiled_transpose(least - 1, 99, 99)
