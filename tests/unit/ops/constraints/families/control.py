"""Broken calls and control flow, and what orders side effects."""

from collections.abc import Sequence
from typing import Any

from tests.unit.ops.constraints.case import Case
from xla_client import ops
from xla_contract.ops.control.asynchronous import AsyncAttributes
from xla_contract.ops.control.custom_call import CustomCallAttributes
from xla_contract.ops.control.fusion import FusionAttributes, FusionKind
from xla_contract.ops.feeds.infeed import InfeedAttributes
from xla_contract.ops.feeds.outfeed import OutfeedAttributes
from xla_contract.ops.reduction.scan import ScanAttributes
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape

_CHOICE = "the operands must be a choice and one input per branch, got "
_ARRAYS_FIRST = "a scan must have an array or more before its carried values, got "
_CARRIED_LAST = "the step must give its carried values (f32[]) last, got "
_TAKES_THREE = "the computation must take parameters (f32[3]), got "

_TAKES_ONE = "the function takes one computation"


def _call(message: str, operands: Sequence[str], called: Sequence[str]) -> Case:
    build: Any = _TAKES_ONE
    if len(called) == 1:
        build = lambda *given: ops.call(given[-1], given[:-1])  # noqa: E731
    return Case(Opcode.CALL, operands, message, build=build, called=called)


def _while(message: str, carried: str, body: str, condition: str) -> Case:
    return Case(
        Opcode.WHILE,
        (carried,),
        message,
        build=lambda init, inside, test: ops.while_(test, inside, init),
        called=(body, condition),
        declared=carried,
    )


def _conditional(
    message: str, operands: Sequence[str], branches: Sequence[str], build: Any = None
) -> Case:
    count = len(operands)
    return Case(
        Opcode.CONDITIONAL,
        operands,
        message,
        build=build or (lambda *given: ops.conditional(given[0], given[count:], given[1:count])),
        called=branches,
    )


_VECTOR = "(f32[2]) -> f32[2]"
_TEST = "(f32[2]) -> pred[]"

_CALLS = (
    _call(
        "the called computations must be the computation, got 2 of them",
        ("f32[2]",),
        (_VECTOR, _VECTOR),
    ),
    _call(_TAKES_THREE + "(p0: f32[2]) -> f32[2]", ("f32[3]",), (_VECTOR,)),
    Case(
        Opcode.FUSION,
        ("s32[2]",),
        "the computation must take parameters (s32[2]), got (p0: f32[2]) -> f32[2]",
        FusionAttributes(FusionKind.LOOP),
        called=(_VECTOR,),
    ),
    Case(
        Opcode.FUSION,
        ("f32[2]",),
        "fusion_kind must be one of kLoop, kInput, kOutput, kCustom, got 'kStrange'",
        FusionAttributes(FusionKind.LOOP),
        "the kind is an enumeration in Python",
        (_VECTOR,),
        edit=lambda proto: setattr(proto, "fusion_kind", "kStrange"),
    ),
    Case(
        Opcode.CUSTOM_CALL,
        ("f32[2]",),
        "custom_call_target must name a function, got '' for f32[2]",
        CustomCallAttributes("", Shape.parse("f32[2]")),
        lambda x: ops.custom_call([x], "", Shape.parse("f32[2]")),
    ),
    Case(
        Opcode.WHILE,
        ("f32[2]",),
        "the called computations must be the body and the condition, got 1 of them",
        build="the function takes condition and body",
        called=(_TEST,),
    ),
    _while(
        "the body must take parameters (f32[2]), got (p0: f32[2], p1: f32[2]) -> f32[2]",
        "f32[2]",
        "(f32[2], f32[2]) -> f32[2]",
        _TEST,
    ),
    _while(
        "the body must give the shape it is given, got body (p0: f32[2]) -> f32[3] for f32[2]",
        "f32[2]",
        "(f32[2]) -> f32[3]",
        _TEST,
    ),
    _while(
        "the condition must take parameters (f32[2]), got (q0: s32[2]) -> pred[]",
        "f32[2]",
        _VECTOR,
        "(s32[2]) -> pred[]",
    ),
    _while(
        "the condition must give pred[], got (q0: f32[2]) -> pred[1]",
        "f32[2]",
        _VECTOR,
        "(f32[2]) -> pred[1]",
    ),
)

_CONDITIONALS = (
    _conditional(_CHOICE + "() for 0 branches", (), (), build="the builder is that of the choice"),
    _conditional(_CHOICE + "(s32[]) for 0 branches", ("s32[]",), ()),
    _conditional(
        _CHOICE + "(pred[], f32[2]) for 2 branches", ("pred[]", "f32[2]"), (_VECTOR, _VECTOR)
    ),
    _conditional(
        "the choice must be pred[] or s32[], got pred[1]",
        ("pred[1]", "f32[2]", "f32[2]"),
        (_VECTOR, _VECTOR),
    ),
    _conditional(
        "the choice must be pred[] or s32[], got s64[]",
        ("s64[]", "f32[2]", "f32[2]"),
        (_VECTOR, _VECTOR),
    ),
    _conditional("a pred[] chooses between 2 branches, got 1", ("pred[]", "f32[2]"), (_VECTOR,)),
    _conditional(
        "the computation of branch 0 must take parameters (f32[3]), got (p0: f32[2]) -> f32[2]",
        ("s32[]", "f32[3]"),
        (_VECTOR,),
    ),
    _conditional(
        "the computation of branch 1 must take parameters (f32[3]), got (q0: f32[2]) -> f32[2]",
        ("pred[]", "f32[2]", "f32[3]"),
        (_VECTOR, _VECTOR),
    ),
    _conditional(
        "all branches must give one shape, got branch 0 (p0: f32[2]) -> f32[2] and branch 1 "
        "(q0: f32[2]) -> s32[2]",
        ("s32[]", "f32[2]", "f32[2]"),
        (_VECTOR, "(f32[2]) -> s32[2]"),
    ),
)


def _scan(
    message: str,
    operands: Sequence[str] = ("f32[4,2]", "f32[]"),
    step: str = "(f32[2], f32[]) -> (f32[2], f32[])",
    dimension: int = 0,
    carries: int = 1,
    build: Any = None,
) -> Case:
    count = len(operands) - carries
    return Case(
        Opcode.SCAN,
        operands,
        message,
        ScanAttributes(dimension, carries),
        build or (lambda *given: ops.scan(given[:count], given[count:-1], given[-1], dimension)),
        (step,) if step else (),
        "(f32[4,2], f32[])",
    )


_COUNTED = "the function counts the carried values itself"

_SCANS = (
    _scan(
        "the called computations must be the step, got 0 of them",
        step="",
        build="the function takes a step",
    ),
    _scan(_ARRAYS_FIRST + "num_carries 1 of 1 operands", ("f32[]",), build=_COUNTED),
    _scan(_ARRAYS_FIRST + "num_carries -1 of 2 operands", carries=-1, build=_COUNTED),
    _scan("a scanned operand must be an array, got (f32[4,2])", ("(f32[4,2])", "f32[]")),
    _scan("scanned operands must have dimension 2 in one fixed size, got (f32[4,2])", dimension=2),
    _scan(
        "scanned operands must have dimension 0 in one fixed size, got (f32[4,2], f32[5,2])",
        ("f32[4,2]", "f32[5,2]", "f32[]"),
    ),
    _scan(
        "scanned operands must have dimension 0 in one fixed size, got (f32[<=4,2])",
        ("f32[<=4,2]", "f32[]"),
    ),
    _scan(
        "the step must take parameters (f32[2], f32[]), got (p0: f32[4,2], p1: f32[]) -> "
        "(f32[2], f32[])",
        step="(f32[4,2], f32[]) -> (f32[2], f32[])",
    ),
    _scan(
        _CARRIED_LAST + "(p0: f32[2], p1: f32[]) -> (f32[2], s32[])",
        step="(f32[2], f32[]) -> (f32[2], s32[])",
    ),
    _scan(_CARRIED_LAST + "(p0: f32[2], p1: f32[]) -> ()", step="(f32[2], f32[]) -> ()"),
    _scan(
        "what the step gives for a slice must be an array, got token[]",
        step="(f32[2], f32[]) -> (token[], f32[])",
    ),
    _scan(
        "a slice of a result must have rank 1 or more, got f32[]",
        step="(f32[4], f32[]) -> (f32[], f32[])",
        dimension=1,
    ),
    Case(
        Opcode.SCAN,
        ("f32[4,2]", "f32[]"),
        "dimensions must hold the scanned dimension alone, got {0,1}",
        ScanAttributes(0, 1),
        "the function takes one dimension number",
        ("(f32[2], f32[]) -> (f32[2], f32[])",),
        "(f32[4,2], f32[])",
        edit=lambda proto: proto.dimensions.append(1),
    ),
)


def _feed_in(message: str, operand: str, data: str) -> Case:
    shape = Shape.parse(data)
    return Case(
        Opcode.INFEED,
        (operand,),
        message,
        InfeedAttributes(shape),
        lambda token: ops.infeed_with_token(token, shape),
        declared=f"({data}, token[])",
    )


def _feed_out(message: str, operands: tuple[str, str], data: str) -> Case:
    shape = Shape.parse(data)
    return Case(
        Opcode.OUTFEED,
        operands,
        message,
        OutfeedAttributes(shape),
        lambda value, token: ops.outfeed_with_token(value, token, shape),
        declared="token[]",
    )


_FEEDS = (
    _feed_in("the operand must be a token, got f32[2]", "f32[2]", "f32[2]"),
    _feed_in("only arrays can be fed, got (f32[2], token[])", "token[]", "(f32[2], token[])"),
    Case(
        Opcode.INFEED,
        ("token[]",),
        "the result must be a pair of data and token, got f32[2]",
        InfeedAttributes(Shape.parse("f32[2]")),
        "the builder declares the pair itself",
        edit=lambda proto: proto,
    ),
    _feed_out("the second operand must be a token, got f32[2]", ("f32[2]", "f32[2]"), "f32[2]"),
    _feed_out(
        "the data must have the shape that is sent, got f32[2] and f32[3]",
        ("f32[2]", "token[]"),
        "f32[3]",
    ),
    _feed_out("only arrays can be sent, got token[]", ("token[]", "token[]"), "token[]"),
    Case(
        Opcode.OUTFEED,
        ("f32[2]", "token[]"),
        "outfeed_shape must be present, got none",
        OutfeedAttributes(Shape.parse("f32[2]")),
        "the function takes the operand's shape where none is given",
        declared="token[]",
        edit=lambda proto: proto.ClearField("outfeed_shape"),
    ),
    Case(
        Opcode.AFTER_ALL,
        ("token[]", "f32[2]"),
        "operand 1 must be a token, got f32[2]",
        declared="token[]",
        build=lambda *tokens: tokens[0].builder.after_all(tokens),
    ),
    Case(
        Opcode.ADD_DEPENDENCY,
        ("f32[2]", "f32[2]"),
        "the second operand must be a token, got f32[2]",
    ),
)

_START = "((f32[2]), f32[2], u32[])"

_ASYNC = (
    Case(
        Opcode.ASYNC_START,
        ("f32[2]",),
        "the called computations must be the computation, got 0 of them",
        AsyncAttributes(),
        declared=_START,
    ),
    Case(
        Opcode.ASYNC_START,
        ("f32[3]",),
        _TAKES_THREE + "(p0: f32[2]) -> f32[2]",
        AsyncAttributes(),
        called=(_VECTOR,),
        declared=_START,
    ),
    Case(
        Opcode.ASYNC_START,
        ("f32[2]",),
        "the result must be a tuple ((operands), result, ...), got f32[2]",
        AsyncAttributes(),
        "the builder declares the tuple itself",
        (_VECTOR,),
        edit=lambda proto: proto,
    ),
    Case(
        Opcode.ASYNC_UPDATE,
        (_START, _START),
        "there must be one operand, got (((f32[2]), f32[2], u32[]), ((f32[2]), f32[2], u32[]))",
        AsyncAttributes(),
    ),
    *(
        case
        for opcode in (Opcode.ASYNC_UPDATE, Opcode.ASYNC_DONE)
        for case in (
            Case(
                opcode,
                ("f32[2]",),
                "the operand must be a tuple ((operands), result, ...), got f32[2]",
                AsyncAttributes(),
            ),
            Case(
                opcode,
                (_START,),
                "the computation must take parameters (f32[2]), got (p0: f32[3]) -> f32[2]",
                AsyncAttributes(),
                called=("(f32[3]) -> f32[2]",),
            ),
            Case(
                opcode,
                (_START,),
                "the computation must give the operand's result, got (p0: f32[2]) -> f32[3] and "
                "((f32[2]), f32[2], u32[])",
                AsyncAttributes(),
                called=("(f32[2]) -> f32[3]",),
            ),
        )
    ),
    Case(
        Opcode.COPY_DONE,
        ("f32[2]",),
        "the operand must be the first half's tuple of at least 2, got f32[2]",
    ),
    Case(
        Opcode.COPY_DONE,
        ("(f32[2], f32[3], u32[])",),
        "copy and original must have one shape, got f32[2] and f32[3]",
    ),
)

CASES: tuple[Case, ...] = (*_CALLS, *_CONDITIONALS, *_SCANS, *_FEEDS, *_ASYNC)
