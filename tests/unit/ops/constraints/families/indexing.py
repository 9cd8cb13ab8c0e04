"""Broken gathers and scatters."""

from collections.abc import Sequence
from typing import Any

from tests.unit.ops.constraints.case import Case
from xla_client import ops
from xla_contract.ops.indexing.gather import GatherAttributes
from xla_contract.ops.indexing.scatter import ScatterAttributes
from xla_contract.types.dimension_numbers import GatherDimensionNumbers, ScatterDimensionNumbers
from xla_contract.types.opcode import Opcode

_COLLAPSED = "collapsed and batching dimensions must be distinct and in range [0, 2), got "
_MAPPED = "start_index_map and batching dimensions must be distinct and in range [0, 2), got "
_MAP_ENTRIES = "start_index_map must have one entry per entry of an index vector, got "
_BATCHING_PAIRS = "batching dimensions must pair up and not be the index vector, got "
_BATCHING_SIZES = "batching dimensions must have equal size, got "
_SLICE_SIZES = "slice_sizes must have one size per operand dimension and fit in it, got "
_OFFSETS = "offset_dims must be sorted and one for each kept slice dimension, got "
_WINDOWS = "update_window_dims must be distinct and in range [0, 2), got "
_SORTED_WINDOWS = (
    "update_window_dims must be sorted and one for each input dimension that is neither "
    "inserted nor batching, got "
)


def _gather(
    message: str,
    operands: Sequence[str] = ("f32[3,4]", "s32[5,1]"),
    sizes: tuple[int, ...] = (1, 4),
    **numbers: Any,
) -> Case:
    rows: dict[str, Any] = {
        "offset_dims": (1,),
        "collapsed_slice_dims": (0,),
        "start_index_map": (0,),
        "index_vector_dim": 1,
    }
    stated = GatherDimensionNumbers(**(rows | numbers))
    return Case(
        Opcode.GATHER,
        operands,
        message,
        GatherAttributes(stated, sizes),
        lambda x, indices: ops.gather(x, indices, stated, sizes),
        declared="f32[5,4]",
    )


_GATHERS = (
    _gather("the operand must be an array, got (f32[3,4])", ("(f32[3,4])", "s32[5,1]")),
    _gather("indices must be integers, got token[]", ("f32[3,4]", "token[]")),
    _gather("index_vector_dim must be in range [0, 2], got -1 for s32[5,1]", index_vector_dim=-1),
    _gather(_COLLAPSED + "{2} for f32[3,4]", collapsed_slice_dims=(2,)),
    _gather(
        "collapsed_slice_dims must be sorted, got {2,0} for f32[3,4,2]",
        ("f32[3,4,2]", "s32[5,1]"),
        (1, 4, 1),
        collapsed_slice_dims=(2, 0),
    ),
    _gather(
        "operand_batching_dims must be sorted, got {1,0} for f32[3,3,4]",
        ("f32[3,3,4]", "s32[3,3,1]"),
        (1, 1, 1),
        offset_dims=(),
        collapsed_slice_dims=(2,),
        start_index_map=(2,),
        index_vector_dim=2,
        operand_batching_dims=(1, 0),
        start_indices_batching_dims=(0, 1),
    ),
    _gather(_MAPPED + "{2} for f32[3,4]", start_index_map=(2,)),
    _gather(
        _MAP_ENTRIES + "{0,1} for vectors of 1 in dim 2 of s32[5,1]",
        start_index_map=(0, 1),
        index_vector_dim=2,
    ),
    _gather(
        "batching dimensions of indices must be distinct and in range [0, 3), got {0,0} for "
        "s32[3,0,0]",
        collapsed_slice_dims=(),
        start_index_map=(),
        operand_batching_dims=(0, 1),
        start_indices_batching_dims=(0, 0),
        index_vector_dim=2,
        operands=("f32[3,3]", "s32[3,0,0]"),
    ),
    _gather(
        _BATCHING_PAIRS + "{0} of f32[3,4] and {1} of s32[5,1]",
        collapsed_slice_dims=(),
        start_index_map=(1,),
        operand_batching_dims=(0,),
        start_indices_batching_dims=(1,),
    ),
    _gather(
        _BATCHING_PAIRS + "{0} of f32[3,4] and {} of s32[5,1]",
        collapsed_slice_dims=(),
        start_index_map=(1,),
        operand_batching_dims=(0,),
    ),
    _gather(
        _BATCHING_SIZES + "operand dim 0 = 3 of f32[3,4] and indices dim 0 = 5 of s32[5,1]",
        collapsed_slice_dims=(),
        start_index_map=(1,),
        operand_batching_dims=(0,),
        start_indices_batching_dims=(0,),
    ),
    _gather(_SLICE_SIZES + "{1} for f32[3,4]", sizes=(1,)),
    _gather(_SLICE_SIZES + "{1,-1} for f32[3,4]", sizes=(1, -1)),
    _gather(
        "slices must have size 1 or 0 in collapsed and batching dimensions, got {2,4} for f32[3,4]",
        sizes=(2, 4),
    ),
    _gather(
        "offset_dims must be distinct and in range [0, 2), got {2} for f32[3,4]", offset_dims=(2,)
    ),
    _gather(_OFFSETS + "{} for 1 kept of f32[3,4]", offset_dims=()),
    _gather(
        _OFFSETS + "{2,1} for 2 kept of f32[3,4]",
        sizes=(1, 4),
        offset_dims=(2, 1),
        collapsed_slice_dims=(),
    ),
)

_SUM = "(f32[], f32[]) -> f32[]"


def _scatter(
    message: str,
    operands: Sequence[str] = ("f32[3,4]", "s32[5,1]", "f32[5,4]"),
    computation: str = _SUM,
    build: Any = None,
    **numbers: Any,
) -> Case:
    rows: dict[str, Any] = {
        "update_window_dims": (1,),
        "inserted_window_dims": (0,),
        "scatter_dims_to_operand_dims": (0,),
        "index_vector_dim": 1,
    }
    stated = ScatterDimensionNumbers(**(rows | numbers))
    count = len(operands) // 2

    def built(*given: Any) -> object:
        return ops.scatter(given[:count], given[count], given[count + 1 : -1], given[-1], stated)

    return Case(
        Opcode.SCATTER,
        operands,
        message,
        ScatterAttributes(stated),
        build or built,
        (computation,) if computation else (),
        "f32[3,4]",
    )


_SCATTERS = (
    _scatter(
        "operands must be inputs, indices and as many updates, got (f32[3,4], s32[5,1])",
        ("f32[3,4]", "s32[5,1]"),
    ),
    _scatter("an operand must be an array, got (f32[3,4])", ("(f32[3,4])", "s32[5,1]", "f32[5,4]")),
    _scatter(
        "inputs and updates must have equal dimensions each, got (f32[3,4], f32[4,4], "
        "s32[5,1], f32[5,4], f32[5,4])",
        ("f32[3,4]", "f32[4,4]", "s32[5,1]", "f32[5,4]", "f32[5,4]"),
    ),
    _scatter("indices must be integers, got f32[5,1]", ("f32[3,4]", "f32[5,1]", "f32[5,4]")),
    _scatter("index_vector_dim must be in range [0, 2], got 3 for s32[5,1]", index_vector_dim=3),
    _scatter(
        "inserted and batching dimensions must be distinct and in range [0, 2), got {0,0} for"
        " f32[3,4]",
        inserted_window_dims=(0, 0),
    ),
    _scatter(
        "inserted_window_dims must be sorted, got {2,0} for f32[3,4,2]",
        ("f32[3,4,2]", "s32[5,1]", "f32[5,4]"),
        inserted_window_dims=(2, 0),
    ),
    _scatter(
        "input_batching_dims must be sorted, got {1,0} for f32[3,3,4]",
        ("f32[3,3,4]", "s32[3,3,1]", "f32[3,3]"),
        update_window_dims=(),
        inserted_window_dims=(2,),
        scatter_dims_to_operand_dims=(2,),
        index_vector_dim=2,
        input_batching_dims=(1, 0),
        scatter_indices_batching_dims=(0, 1),
    ),
    _scatter(
        "scatter_dims_to_operand_dims and batching dimensions must be distinct and in range "
        "[0, 2), got {2} for f32[3,4]",
        scatter_dims_to_operand_dims=(2,),
    ),
    _scatter(
        "scatter_dims_to_operand_dims must have one entry per entry of an index vector, got "
        "{0} for vectors of 2 in dim 1 of s32[5,2]",
        ("f32[3,4]", "s32[5,2]", "f32[5,4]"),
    ),
    _scatter(
        _BATCHING_SIZES + "operand dim 0 = 3 of f32[3,4] and indices dim 0 = 5 of s32[5,1]",
        inserted_window_dims=(),
        scatter_dims_to_operand_dims=(1,),
        input_batching_dims=(0,),
        scatter_indices_batching_dims=(0,),
    ),
    _scatter(_WINDOWS + "{2} for f32[5,4]", update_window_dims=(2,)),
    _scatter(_SORTED_WINDOWS + "{} for f32[3,4]", update_window_dims=()),
    _scatter(
        _SORTED_WINDOWS + "{2,1} for f32[3,4]",
        ("f32[3,4]", "s32[5,1]", "f32[5,1,4]"),
        update_window_dims=(2, 1),
        inserted_window_dims=(),
    ),
    _scatter(
        "an update window must fit the input, got updates dim 1 = 5 of f32[5,5] and 4 of f32[3,4]",
        ("f32[3,4]", "s32[5,1]", "f32[5,5]"),
    ),
    _scatter(
        "updates must have the sizes of the indices outside the window, got f32[6,4] with "
        "window dims {1} and s32[5,1] with index_vector_dim 1",
        ("f32[3,4]", "s32[5,1]", "f32[6,4]"),
    ),
    _scatter(
        "the called computations must be the update computation, got 0 of them",
        computation="",
        build="the function takes a computation",
    ),
    _scatter(
        "the update computation must take 2 scalars and give 1, got (p0: f32[]) -> f32[]",
        computation="(f32[]) -> f32[]",
    ),
    _scatter(
        "the update computation must take and give the element type of operand 0, got s32 and"
        " (p0: f32[], p1: f32[]) -> f32[]",
        ("f32[3,4]", "s32[5,1]", "s32[5,4]"),
    ),
)

CASES: tuple[Case, ...] = (*_GATHERS, *_SCATTERS)
