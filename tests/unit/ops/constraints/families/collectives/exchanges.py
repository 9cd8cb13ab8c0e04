"""Broken collectives that move values: their participants, and what is exchanged."""

from collections.abc import Sequence
from typing import Any

from tests.unit.ops.constraints.case import Case
from xla_client import ops
from xla_contract.errors import UnimplementedError
from xla_contract.ops.collectives.all_gather import AllGatherAttributes
from xla_contract.ops.collectives.all_to_all import AllToAllAttributes
from xla_contract.ops.collectives.collective import Participants
from xla_contract.ops.collectives.collective_broadcast import CollectiveBroadcastAttributes
from xla_contract.ops.collectives.collective_permute import CollectivePermuteAttributes
from xla_contract.ops.collectives.ragged_all_to_all import RaggedAllToAllAttributes
from xla_contract.types.devices.replica_groups import ReplicaGroups
from xla_contract.types.opcode import Opcode

_FIRST_HALF = "the operand must be the first half's tuple of at least 2, got "
_ROWS = "input and output must have rows of the same shape, got "

_Groups = Sequence[Sequence[int]]
_PAIR: _Groups = ((0, 1),)
_FROM_COUNT = "the function takes the results' sizes from the number of shards"
_ONE_DIMENSION = "the function takes one dimension number"
_ANY_NUMBER = "the builder is that of the operands, of which there must be one"


def _among(groups: _Groups) -> Participants:
    return Participants(ReplicaGroups.of(groups))


def _all_gather(
    message: str,
    operands: Sequence[str] = ("f32[2,3]",),
    dimension: int = 0,
    gathered: Sequence[int] = (4,),
    groups: _Groups = _PAIR,
    build: Any = None,
    declared: str = "f32[4,3]",
) -> Case:
    return Case(
        Opcode.ALL_GATHER,
        operands,
        message,
        AllGatherAttributes(dimension, tuple(gathered), _among(groups)),
        build or (lambda *given: ops.all_gather(given, dimension, 2, groups)),
        declared=declared,
    )


_ALL_GATHERS = (
    _all_gather("replica groups must have one size, got {{0,1},{2}}", groups=((0, 1), (2,))),
    _all_gather("an operand must be an array, got (f32[2,3])", ("(f32[2,3])",)),
    _all_gather(
        "the gathered dimension must be in range [0, 2), got 2 for f32[2,3]",
        dimension=2,
        declared="f32[2,3]",
    ),
    _all_gather(
        "there must be one result per operand, got 1 for (f32[2,3], f32[2,3])",
        ("f32[2,3]", "f32[2,3]"),
        build=_FROM_COUNT,
    ),
    _all_gather(
        "dimension 0 of the result must be that of the operand times the group's size 4, got "
        "6 for f32[2,3]",
        gathered=(6,),
        groups=((0, 1, 2, 3),),
        build=lambda x: ops.all_gather(x, 0, 3, ((0, 1, 2, 3),)),
        declared="f32[6,3]",
    ),
    _all_gather(
        "dimension 0 of the result must be that of the operand times the group's size 2, got "
        "5 for f32[2,3]",
        gathered=(5,),
        groups=(),
        build=_FROM_COUNT,
        declared="f32[5,3]",
    ),
    Case(
        Opcode.ALL_GATHER,
        ("f32[2,3]",),
        "dimensions must hold the gathered dimension alone, got {0,1}",
        AllGatherAttributes(0, (4,), _among(_PAIR)),
        _ONE_DIMENSION,
        declared="f32[4,3]",
        edit=lambda proto: proto.dimensions.append(1),
    ),
    Case(
        Opcode.ALL_GATHER_START,
        ("f32[2,3]",),
        "the result must be a pair of operands and result, got f32[4,3]",
        AllGatherAttributes(0, (4,), _among(_PAIR)),
        "the builder declares the pair itself",
        declared="f32[4,3]",
        edit=lambda proto: proto,
    ),
    Case(
        Opcode.ALL_GATHER_START,
        ("f32[2,3]",),
        "dimension 0 of the result must be that of the operand times the group's size 2, got "
        "6 for f32[2,3]",
        AllGatherAttributes(0, (6,), _among(_PAIR)),
        declared="(f32[2,3], f32[6,3])",
    ),
    Case(Opcode.ALL_GATHER_DONE, ("f32[2,3]",), _FIRST_HALF + "f32[2,3]"),
)


def _all_to_all(
    message: str,
    operands: Sequence[str] = ("f32[4,2]",),
    dimension: int | None = 0,
    groups: _Groups = _PAIR,
    build: Any = None,
) -> Case:
    def built(*given: Any) -> object:
        if dimension is None:
            return ops.all_to_all_tuple(given, groups)
        return ops.all_to_all(given[0], dimension, 0, 2, groups)

    return Case(
        Opcode.ALL_TO_ALL,
        operands,
        message,
        AllToAllAttributes(dimension, _among(groups)),
        build or built,
        declared=operands[0] if operands else "()",
    )


_ALL_TO_ALLS = (
    _all_to_all("at least one operand must be given, got none", (), None, build=_ANY_NUMBER),
    _all_to_all("replica groups must have one size, got {{0,1},{2}}", groups=((0, 1), (2,))),
    _all_to_all(
        "operands must have equal shapes, got (f32[2], f32[3])", ("f32[2]", "f32[3]"), None
    ),
    _all_to_all(
        "there must be one operand for each of a group, got 1 for groups {{0,1}}", ("f32[2]",), None
    ),
    _all_to_all(
        "a split all-to-all must have one operand, got (f32[2], f32[2])",
        ("f32[2]", "f32[2]"),
        build="the function takes one operand",
    ),
    _all_to_all("the split dimension must be in range [0, 2), got 2 for f32[4,2]", dimension=2),
    _all_to_all("a split all-to-all must be of static size, got f32[<=4,2]", ("f32[<=4,2]",)),
    _all_to_all(
        "the split dimension must be divisible by the group's size 2, got dim 0 = 3 of f32[3,2]",
        ("f32[3,2]",),
    ),
    Case(
        Opcode.ALL_TO_ALL,
        ("f32[4,2]",),
        "an all-to-all may name one dimension, got [0, 1] for f32[4,2]",
        AllToAllAttributes(0, _among(_PAIR)),
        _ONE_DIMENSION,
        declared="f32[4,2]",
        edit=lambda proto: proto.dimensions.append(1),
    ),
)


def _broadcast(message: str, groups: _Groups, operands: Sequence[str] = ("f32[2]",)) -> Case:
    return Case(
        Opcode.COLLECTIVE_BROADCAST,
        operands,
        message,
        CollectiveBroadcastAttributes(_among(groups)),
        (lambda x: ops.collective_broadcast(x, groups)) if operands else _ANY_NUMBER,
    )


def _permute(
    message: str,
    pairs: tuple[tuple[int, int], ...],
    operands: Sequence[str] = ("f32[2]",),
    build: Any = None,
) -> Case:
    return Case(
        Opcode.COLLECTIVE_PERMUTE,
        operands,
        message,
        CollectivePermuteAttributes(pairs),
        build or (lambda *given: ops.collective_permute(given, pairs)),
    )


_MOVES = (
    _broadcast("groups must not be empty, and name an id from 0 at most once, got {{}}", ((),)),
    _broadcast(
        "groups must not be empty, and name an id from 0 at most once, got {{0,1},{1,2}}",
        ((0, 1), (1, 2)),
    ),
    _broadcast(
        "groups must not be empty, and name an id from 0 at most once, got {{-1,0}}", ((-1, 0),)
    ),
    _broadcast("at least one operand must be given, got none", _PAIR, ()),
    _broadcast("an operand must be an array, got (f32[2])", _PAIR, ("(f32[2])",)),
    _permute(
        "targets must be distinct and not negative, got pairs {{0,1},{2,1}}", ((0, 1), (2, 1))
    ),
    _permute("sources must be distinct and not negative, got pairs {{-1,1}}", ((-1, 1),)),
    _permute("at least one operand must be given, got none", ((0, 1),), (), _ANY_NUMBER),
    _permute("an operand must be an array, got token[]", ((0, 1),), ("token[]",)),
    Case(
        Opcode.COLLECTIVE_PERMUTE_START,
        ("token[]",),
        "an operand must be an array, got token[]",
        CollectivePermuteAttributes(((0, 1),)),
        declared="(token[], token[])",
    ),
    Case(
        Opcode.COLLECTIVE_PERMUTE_START,
        ("f32[2]",),
        "the result must be a tuple of operands and result, got f32[2]",
        CollectivePermuteAttributes(((0, 1),)),
        "the builder declares the tuple itself",
        edit=lambda proto: proto,
    ),
    Case(
        Opcode.COLLECTIVE_PERMUTE,
        ("f32[2]",),
        "values are permuted whole, got slice sizes [1]",
        CollectivePermuteAttributes(((0, 1),)),
        "the function has no slices",
        edit=lambda proto: proto.dynamic_slice_sizes.append(1),
        error=UnimplementedError,
    ),
    Case(Opcode.COLLECTIVE_PERMUTE_DONE, ("f32[2]",), _FIRST_HALF + "f32[2]"),
)


def _ragged(message: str, operands: str, groups: _Groups = _PAIR) -> Case:
    return Case(
        Opcode.RAGGED_ALL_TO_ALL,
        operands.split(),
        message,
        RaggedAllToAllAttributes(_among(groups)),
        lambda *given: ops.ragged_all_to_all(*given, groups),
        declared="f32[6,2]",
    )


_TABLES = "s32[2] s32[2] s32[2] s32[2]"

_RAGGED = (
    _ragged(
        "replica groups must have one size, got {{0,1},{2}}",
        f"f32[4,2] f32[6,2] {_TABLES}",
        ((0, 1), (2,)),
    ),
    _ragged("an operand must be an array, got token[]", f"token[] f32[6,2] {_TABLES}"),
    _ragged(_ROWS + "f32[4,3] and f32[6,2]", f"f32[4,3] f32[6,2] {_TABLES}"),
    _ragged(_ROWS + "s32[4,2] and f32[6,2]", f"s32[4,2] f32[6,2] {_TABLES}"),
    _ragged(
        "offsets and sizes must be integers of rank 1 or 2, got f32[2]",
        "f32[4,2] f32[6,2] f32[2] f32[2] f32[2] f32[2]",
    ),
    _ragged(
        "offsets and sizes must have one shape, got (s32[2], s32[2], s32[2], s32[4])",
        "f32[4,2] f32[6,2] s32[2] s32[2] s32[2] s32[4]",
    ),
    _ragged(
        "offsets and sizes must have rows for each of a group of 2, got s32[3]",
        "f32[4,2] f32[6,2] s32[3] s32[3] s32[3] s32[3]",
    ),
)

CASES: tuple[Case, ...] = (*_ALL_GATHERS, *_ALL_TO_ALLS, *_MOVES, *_RAGGED)
