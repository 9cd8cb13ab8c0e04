"""Broken changes of dimensions, sources of values, and tuples."""

from collections.abc import Sequence

from tests.unit.ops.constraints.case import Case
from xla_client import ops
from xla_contract.ops.control.parameter import ParameterAttributes
from xla_contract.ops.control.tuple import GetTupleElementAttributes
from xla_contract.ops.shaping.broadcast import BroadcastAttributes
from xla_contract.ops.shaping.concatenate import ConcatenateAttributes
from xla_contract.ops.shaping.iota import IotaAttributes
from xla_contract.ops.shaping.reshape import ReshapeAttributes
from xla_contract.ops.shaping.reverse import ReverseAttributes
from xla_contract.ops.shaping.transpose import TransposeAttributes
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape

_DISTINCT = "dimensions must be distinct and in [0, 2), got "
_OF_THE_RESULT = "broadcast_dimensions must be dimensions of the result of rank 2, got "
_EQUAL = "operands must have equal dimensions except dimension 0, got "


def _broadcast(
    operand: str,
    mapping: tuple[int, ...],
    sizes: tuple[int, ...],
    message: str,
    at_call: str = "",
    declared: str = "",
) -> Case:
    return Case(
        Opcode.BROADCAST,
        (operand,),
        message,
        BroadcastAttributes(mapping, sizes),
        lambda x: ops.broadcast_in_dim(x, sizes, mapping),
        declared=declared or f"f32[{','.join(map(str, sizes))}]",
        at_call=at_call,
    )


def _reshape(operand: str, sizes: tuple[int, ...], message: str) -> Case:
    return Case(
        Opcode.RESHAPE,
        (operand,),
        message,
        ReshapeAttributes(sizes),
        lambda x: ops.reshape(x, sizes),
        declared=f"f32[{','.join(map(str, sizes))}]",
    )


def _transpose(operand: str, permutation: tuple[int, ...], message: str) -> Case:
    return Case(
        Opcode.TRANSPOSE,
        (operand,),
        message,
        TransposeAttributes(permutation),
        lambda x: ops.transpose(x, permutation),
    )


def _reverse(operand: str, dimensions: tuple[int, ...], message: str) -> Case:
    return Case(
        Opcode.REVERSE,
        (operand,),
        message,
        ReverseAttributes(dimensions),
        lambda x: ops.rev(x, dimensions),
    )


def _concatenate(operands: Sequence[str], dimension: int, message: str) -> Case:
    return Case(
        Opcode.CONCATENATE,
        operands,
        message,
        ConcatenateAttributes(dimension),
        lambda *arrays: ops.concat_in_dim(arrays, dimension),
    )


def _iota(shape: str, dimension: int, message: str) -> Case:
    return Case(
        Opcode.IOTA, (), message, IotaAttributes(Shape.parse(shape), dimension), declared=shape
    )


_BROADCASTS = (
    _broadcast("(f32[2])", (), (2,), "the operand must be an array, got (f32[2])"),
    _broadcast(
        "f32[2]",
        (),
        (2, 3),
        "dimensions must have one entry per dimension, got 0 for f32[2]",
        "broadcast_dimensions must have one entry per dimension of the smaller operand, got {}",
    ),
    _broadcast("f32[2]", (2,), (2, 3), _DISTINCT + "{2} for f32[2,3]", _OF_THE_RESULT + "{2}"),
    _broadcast(
        "f32[2]",
        (1,),
        (2, 3),
        "an operand dimension must have the size of the result dimension it maps to, got "
        "dimension 0 = 2 of f32[2] and dimension 1 = 3 of f32[2,3]",
        "a broadcast dimension must have size 1 or the size of its result dimension, got dim 0 = "
        "2 of f32[2] and dim 1 = 3 of f32[2,3]",
    ),
    Case(
        Opcode.BROADCAST,
        ("f32[]",),
        "a dimension size must not be negative, got dimension 0 = -2 of f32[-2]",
        BroadcastAttributes((), (-2,)),
        lambda x: ops.broadcast(x, [-2]),
        edit=lambda proto: proto.shape.dimensions.__setitem__(0, -2),
    ),
)

_RESHAPES = (
    _reshape("token[]", (1,), "the operand must be an array, got token[]"),
    _reshape(
        "f32[2,3]",
        (5,),
        "operand and result must have the same number of elements, got 6 of f32[2,3] and 5 of "
        "f32[5]",
    ),
    _transpose("(f32[2])", (), "the operand must be an array, got (f32[2])"),
    _transpose(
        "f32[2,3]", (0,), "the permutation must have one entry per dimension, got 1 for f32[2,3]"
    ),
    _transpose(
        "f32[2,3]", (0, 2), "the permutation must be distinct and in [0, 2), got {0,2} for f32[2,3]"
    ),
    _reverse("(f32[2])", (), "the operand must be an array, got (f32[2])"),
    _reverse("f32[2,3]", (0, 0), _DISTINCT + "{0,0} for f32[2,3]"),
    _reverse("f32[2,3]", (-1,), _DISTINCT + "{-1} for f32[2,3]"),
)

_CONCATENATES = (
    Case(Opcode.CONCATENATE, (), "at least one operand is needed, got 0", ConcatenateAttributes(0)),
    _concatenate(["(f32[2])"], 0, "operand 0 must be an array, got (f32[2])"),
    _concatenate(["f32[2]", "token[]"], 0, "operand 1 must be an array, got token[]"),
    _concatenate(["f32[]"], 0, "the dimension must be in [0, 0), got 0 for f32[]"),
    _concatenate(
        ["f32[2]", "f32[2]", "s32[2]"],
        0,
        "operands 0 and 2 must have the same element type, got f32[2] and s32[2]",
    ),
    _concatenate(["f32[2,3]", "f32[2,4]"], 0, _EQUAL + "operand 0 f32[2,3] and operand 1 f32[2,4]"),
    Case(
        Opcode.CONCATENATE,
        ("f32[2,2]",),
        "dimensions must hold the concatenated dimension alone, got {0,1}",
        ConcatenateAttributes(0),
        "the function takes one dimension number",
        edit=lambda proto: proto.dimensions.append(1),
    ),
)

_SOURCES = (
    _iota(
        "pred[2]",
        0,
        "the element type of the result must be integral, floating or complex, got pred[2]",
    ),
    _iota("(f32[2])", 0, "the result must be an array, got (f32[2])"),
    _iota("s32[]", 0, "iota_dimension must be in [0, 0), got 0 for s32[]"),
    _iota("s32[2]", -1, "iota_dimension must be in [0, 1), got -1 for s32[2]"),
    Case(
        Opcode.IOTA,
        (),
        "dimensions must hold the iota dimension alone, got {}",
        IotaAttributes(Shape.parse("s32[2]"), 0),
        "the function takes one dimension number",
        declared="s32[2]",
        edit=lambda proto: proto.ClearField("dimensions"),
    ),
    Case(
        Opcode.CONSTANT,
        (),
        "a constant must have a literal, got none for f32[2]",
        build="the function makes the literal itself",
        edit=lambda proto: proto.ClearField("literal"),
    ),
    Case(
        Opcode.PARAMETER,
        (),
        "the parameter number must not be negative, got -1",
        ParameterAttributes(-1, Shape.parse("f32[2]")),
        at_call="the parameter number must not be negative, got -1",
        off_wire="parameters are counted before their rule is asked",
    ),
)

_TUPLES = (
    Case(
        Opcode.GET_TUPLE_ELEMENT,
        ("f32[2]",),
        "the operand must be a tuple, got f32[2]",
        GetTupleElementAttributes(0),
        lambda x: ops.get_tuple_element(x, 0),
    ),
    *(
        Case(
            Opcode.GET_TUPLE_ELEMENT,
            ("(f32[2], s32[])",),
            f"the index must be in [0, 2), got {index} for (f32[2], s32[])",
            GetTupleElementAttributes(index),
            lambda x, index=index: ops.get_tuple_element(x, index),
        )
        for index in (2, -1)
    ),
)

CASES: tuple[Case, ...] = (*_BROADCASTS, *_RESHAPES, *_CONCATENATES, *_SOURCES, *_TUPLES)
