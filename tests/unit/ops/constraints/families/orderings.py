"""Broken maps, sorts and top-k: the arrays and the computations they call."""

from collections.abc import Sequence
from typing import Any

from tests.unit.ops.constraints.case import Case
from xla_client import ops
from xla_contract.ops.elementwise.map import MapAttributes
from xla_contract.ops.indexing.sort import SortAttributes
from xla_contract.ops.indexing.topk import TopKAttributes
from xla_contract.types.opcode import Opcode

_COMPARATOR = "the comparator must take parameters (f32[], f32[], s32[], s32[]), got "
_SORTED = "the sorted dimension must be in range [0, 2), got "

_SUM = "(f32[], f32[]) -> f32[]"


def _map(
    message: str,
    operands: Sequence[str] = ("f32[2,3]",),
    dimensions: Sequence[int] = (0, 1),
    computation: str = "(f32[]) -> f32[]",
    build: Any = None,
    off_wire: str = "",
) -> Case:
    return Case(
        Opcode.MAP,
        operands,
        message,
        MapAttributes(tuple(dimensions)),
        build or (lambda *given: ops.map(given[:-1], given[-1], dimensions)),
        (computation,) if computation else (),
        "f32[2,3]",
        off_wire=off_wire,
    )


_MAPS = (
    _map(
        "at least one operand must be mapped, got none",
        (),
        (),
        build="the builder is that of the operands, of which there must be one",
    ),
    _map("an operand must be an array, got (f32[2])", ("(f32[2])",), ()),
    _map("operands must have equal dimensions, got (f32[2,3], f32[3,2])", ("f32[2,3]", "f32[3,2]")),
    _map(
        "the mapped dimensions must be all in order, got {0} for f32[2,3]",
        dimensions=(0,),
        off_wire="a message maps all dimensions, whichever it names",
    ),
    _map(
        "the called computations must be the computation, got 0 of them",
        computation="",
        build="the function takes a computation",
    ),
    _map(
        "the computation must take parameters (f32[]), got (p0: s32[]) -> f32[]",
        computation="(s32[]) -> f32[]",
    ),
    _map(
        "the computation must give a scalar, got (p0: f32[]) -> f32[2]",
        computation="(f32[]) -> f32[2]",
    ),
)

_LESS = "(f32[], f32[]) -> pred[]"


def _sort(
    message: str,
    operands: Sequence[str] = ("f32[2,3]",),
    dimension: int = 1,
    comparator: str = _LESS,
    build: Any = None,
    at_call: str = "",
) -> Case:
    return Case(
        Opcode.SORT,
        operands,
        message,
        SortAttributes(dimension),
        build or (lambda *given: ops.sort(given[:-1], given[-1], dimension)),
        (comparator,) if comparator else (),
        "f32[2,3]",
        at_call=at_call,
    )


_NO_DIMENSION = "a dimension of rank"

_SORTS = (
    _sort(
        "at least one operand must be sorted, got none",
        (),
        build="the builder is that of the operands, of which there must be one",
    ),
    _sort("an operand must be an array, got (f32[2])", ("(f32[2])",), 0, at_call=_NO_DIMENSION),
    _sort(
        "operands must have equal dimensions, got (f32[2,3], s32[3,2])", ("f32[2,3]", "s32[3,2]")
    ),
    _sort(_SORTED + "2 for f32[2,3]", dimension=2, at_call=_NO_DIMENSION),
    _sort(
        _SORTED + "-1 for f32[2,3]",
        dimension=-1,
        build="the function counts negative numbers from the end",
    ),
    _sort(
        "the called computations must be the comparator, got 0 of them",
        comparator="",
        build="the function takes a comparator",
    ),
    _sort(
        "the comparator must take parameters (f32[], f32[]), got (p0: s32[], p1: s32[]) -> pred[]",
        comparator="(s32[], s32[]) -> pred[]",
    ),
    _sort("the comparator must give pred[], got (p0: f32[], p1: f32[]) -> f32[]", comparator=_SUM),
    Case(
        Opcode.SORT,
        ("f32[2,3]",),
        "dimensions must hold the sorted dimension alone, got {0,1}",
        SortAttributes(0),
        "the function takes one dimension number",
        (_LESS,),
        "f32[2,3]",
        edit=lambda proto: proto.dimensions.append(1),
    ),
)

_TOPKS = tuple(
    Case(
        Opcode.TOPK,
        (operand,),
        "k must be at most the last dimension of an array that can be ordered, got k = "
        f"{k} and {operand}",
        TopKAttributes(k),
        lambda x, k=k: ops.top_k(x, k),
        declared="(f32[1], s32[1])",
    )
    for operand, k in (
        ("f32[2,3]", 4),
        ("f32[2,3]", -1),
        ("f32[]", 1),
        ("c64[3]", 1),
    )
)

CASES: tuple[Case, ...] = (*_MAPS, *_SORTS, *_TOPKS)
