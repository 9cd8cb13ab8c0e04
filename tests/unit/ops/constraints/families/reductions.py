"""Broken reductions and windows: the arrays and the computations they call."""

from collections.abc import Sequence
from typing import Any

from tests.unit.ops.constraints.case import Case
from xla_client import ops
from xla_contract.ops.reduction.reduce import ReduceAttributes
from xla_contract.ops.reduction.reduce_window import ReduceWindowAttributes
from xla_contract.ops.reduction.select_and_scatter import SelectAndScatterAttributes
from xla_contract.types.dimension_numbers import Window, WindowDimension
from xla_contract.types.opcode import Opcode

_INITIAL_VALUES = "operands must be arrays and as many initial values, got "
_EQUAL = "reduced operands must have equal dimensions, got "
_REDUCED = "reduced dimensions must be distinct and in range [0, 2), got "
_REDUCER = "the reducer must take 2 scalars and give 1, got "
_INITIAL_VALUE = "initial value 0 must be a scalar of the reducer's result type, got "
_SOURCE = (
    "the source must have one value per window position, f32[3] for f32[4] with window "
    "{size=2}, got "
)

_SUM = "(f32[], f32[]) -> f32[]"
_PAIRS = "(f32[], s32[], f32[], s32[]) -> (f32[], s32[])"
_NO_SPLIT = "the function takes arrays and initial values apart"


def _reduce(
    message: str,
    operands: Sequence[str] = ("f32[2,3]", "f32[]"),
    dimensions: Sequence[int] = (0,),
    reducer: str = _SUM,
    build: Any = None,
) -> Case:
    count = len(operands) // 2

    def stated(*given: Any) -> object:
        *arrays, computation = given
        return ops.reduce(arrays[:count], arrays[count:], computation, dimensions)

    return Case(
        Opcode.REDUCE,
        operands,
        message,
        ReduceAttributes(tuple(dimensions)),
        build or stated,
        (reducer,) if reducer else (),
        "f32[3]",
    )


_REDUCES = (
    _reduce(_INITIAL_VALUES + "()", (), (), build=_NO_SPLIT),
    _reduce(_INITIAL_VALUES + "(f32[2], f32[2], f32[])", ("f32[2]", "f32[2]", "f32[]")),
    _reduce("a reduced operand must be an array, got (f32[2])", ("(f32[2])", "f32[]")),
    _reduce(_EQUAL + "(f32[2], s32[3])", ("f32[2]", "s32[3]", "f32[]", "s32[]"), (0,), _PAIRS),
    _reduce(_REDUCED + "{2} for f32[2,3]", dimensions=(2,)),
    _reduce(
        "the called computations must be the reducer, got 0 of them",
        reducer="",
        build="the function takes a reducer",
    ),
    _reduce(_REDUCER + "(p0: f32[], p1: f32[]) -> (f32[])", reducer="(f32[], f32[]) -> (f32[])"),
    _reduce(
        "the reducer must work on scalars, got (p0: f32[2], p1: f32[2]) -> f32[2]",
        reducer="(f32[2], f32[2]) -> f32[2]",
    ),
    _reduce(
        "parameter 0 of the reducer must have the type of its result 0, got bf16[] and f32[] "
        "in (p0: bf16[], p1: f32[]) -> f32[]",
        reducer="(bf16[], f32[]) -> f32[]",
    ),
    _reduce(
        "the reducer must take and give the element type of operand 0, got s32 and (p0: "
        "f32[], p1: f32[]) -> f32[]",
        ("s32[2]", "f32[]"),
    ),
    _reduce(_INITIAL_VALUE + "f32[1] and (p0: f32[], p1: f32[]) -> f32[]", ("f32[2,3]", "f32[1]")),
)

_WIDE = WindowDimension(2)


def _reduce_window(
    message: str,
    operands: Sequence[str] = ("f32[4]", "f32[]"),
    dimensions: Sequence[WindowDimension] = (_WIDE,),
    reducer: str = _SUM,
    build: Any = None,
) -> Case:
    count = len(operands) // 2

    def stated(*given: Any) -> object:
        *arrays, computation = given
        return ops.reduce_window_with_general_padding(
            arrays[:count],
            arrays[count:],
            computation,
            [d.size for d in dimensions],
            [d.stride for d in dimensions],
            [d.base_dilation for d in dimensions],
            [d.window_dilation for d in dimensions],
            [(d.padding_low, d.padding_high) for d in dimensions],
        )

    return Case(
        Opcode.REDUCE_WINDOW,
        operands,
        message,
        ReduceWindowAttributes(Window(tuple(dimensions))),
        build or stated,
        (reducer,) if reducer else (),
    )


_REDUCE_WINDOWS = (
    _reduce_window(_INITIAL_VALUES + "()", (), (), build=_NO_SPLIT),
    _reduce_window("a reduced operand must be an array, got token[]", ("token[]", "f32[]")),
    _reduce_window(
        _EQUAL + "(f32[4], s32[5])", ("f32[4]", "s32[5]", "f32[]", "s32[]"), reducer=_PAIRS
    ),
    _reduce_window(
        "a window must have one dimension for each dimension it slides over, got 1 in "
        "{size=2} for 2",
        ("f32[4,4]", "f32[]"),
    ),
    _reduce_window(
        "a window's size must be positive, got 0 in dimension 0 of {size=0}",
        dimensions=(WindowDimension(0),),
    ),
    _reduce_window(
        "the called computations must be the reducer, got 0 of them",
        reducer="",
        build="the function takes a reducer",
    ),
    _reduce_window(_REDUCER + "(p0: f32[]) -> f32[]", reducer="(f32[]) -> f32[]"),
)


def _select_and_scatter(
    message: str,
    operands: Sequence[str] = ("f32[4]", "f32[3]", "f32[]"),
    dimension: WindowDimension = _WIDE,
    called: Sequence[str] = ("(f32[], f32[]) -> pred[]", _SUM),
    build: Any = None,
) -> Case:
    def stated(operand: Any, source: Any, initial: Any, select: Any, scatter: Any) -> object:
        return ops.select_and_scatter_with_general_padding(
            operand,
            select,
            [dimension.size],
            [dimension.stride],
            [(dimension.padding_low, dimension.padding_high)],
            source,
            initial,
            scatter,
        )

    return Case(
        Opcode.SELECT_AND_SCATTER,
        operands,
        message,
        SelectAndScatterAttributes(Window((dimension,))),
        build or stated,
        called,
        "f32[4]",
    )


_SELECT_AND_SCATTERS = (
    _select_and_scatter(
        "the operand must be an array, got (f32[4])", ("(f32[4])", "f32[3]", "f32[]")
    ),
    _select_and_scatter("the source must be an array, got token[]", ("f32[4]", "token[]", "f32[]")),
    _select_and_scatter(
        "the called computations must be select and scatter, got 1 of them",
        called=(_SUM,),
        build="the function takes both computations",
    ),
    _select_and_scatter(
        "the select computation must take parameters (f32[], f32[]), got (p0: s32[], p1: "
        "s32[]) -> pred[]",
        called=("(s32[], s32[]) -> pred[]", _SUM),
    ),
    _select_and_scatter(
        "the select computation must give pred[], got (p0: f32[], p1: f32[]) -> f32[]",
        called=(_SUM, _SUM),
    ),
    _select_and_scatter(
        "the scatter computation must take 2 scalars and give 1, got (q0: f32[]) -> f32[]",
        called=("(f32[], f32[]) -> pred[]", "(f32[]) -> f32[]"),
    ),
    _select_and_scatter(
        "initial value 0 must be a scalar of the scatter computation's result type, got s32[]"
        " and (q0: f32[], q1: f32[]) -> f32[]",
        ("f32[4]", "f32[3]", "s32[]"),
    ),
    _select_and_scatter(_SOURCE + "f32[2]", ("f32[4]", "f32[2]", "f32[]")),
    _select_and_scatter(_SOURCE + "bf16[3]", ("f32[4]", "bf16[3]", "f32[]")),
    _select_and_scatter(
        "a window's stride must be positive, got 0 in dimension 0 of {size=2 stride=0}",
        dimension=WindowDimension(2, 0),
    ),
    _select_and_scatter(
        "the window must have no dilation, got {size=2 rhs_dilate=2}",
        dimension=WindowDimension(2, window_dilation=2),
        build="the function takes no dilation",
    ),
)


CASES: tuple[Case, ...] = (*_REDUCES, *_REDUCE_WINDOWS, *_SELECT_AND_SCATTERS)
