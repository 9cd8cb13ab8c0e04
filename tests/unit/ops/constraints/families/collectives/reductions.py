"""Broken collectives that combine: their participants, and the reducers."""

from collections.abc import Sequence
from typing import Any

from tests.unit.ops.constraints.case import Case
from xla_client import ops
from xla_contract.errors import UnimplementedError
from xla_contract.ops.collectives.all_reduce import AllReduceAttributes
from xla_contract.ops.collectives.collective import Participants
from xla_contract.ops.collectives.collective_reduce import CollectiveReduceAttributes
from xla_contract.ops.collectives.reduce_scatter import ReduceScatterAttributes
from xla_contract.types.devices.replica_groups import ReplicaGroups
from xla_contract.types.opcode import Opcode

_REDUCER = "the reducer must take two scalars and give one, got "

_SUM = "(f32[], f32[]) -> f32[]"
_Groups = Sequence[Sequence[int]]
_PAIR: _Groups = ((0, 1),)
_FROM_COUNT = "the function takes the results' sizes from the number of shards"
_ONE_DIMENSION = "the function takes one dimension number"
_ANY_NUMBER = "the builder is that of the operands, of which there must be one"


def _among(groups: _Groups, global_ids: bool = False) -> Participants:
    return Participants(ReplicaGroups.of(groups), 0, global_ids)


def _all_reduce(
    message: str,
    operands: Sequence[str] = ("f32[2]",),
    groups: _Groups = _PAIR,
    reducer: str = _SUM,
    global_ids: bool = False,
    build: Any = None,
) -> Case:
    def built(*given: Any) -> object:
        return ops.all_reduce_tuple(given[:-1], given[-1], groups, use_global_device_ids=global_ids)

    return Case(
        Opcode.ALL_REDUCE,
        operands,
        message,
        AllReduceAttributes(_among(groups, global_ids)),
        build or built,
        (reducer,) if reducer else (),
    )


_ALL_REDUCES = (
    _all_reduce("at least one operand must be given, got none", (), build=_ANY_NUMBER),
    _all_reduce("an operand must be an array, got token[]", ("token[]",)),
    _all_reduce("replica groups must not be empty, got {{0},{}}", groups=((0,), ())),
    _all_reduce("replica groups must name each id from 0 to 1 once, got {{0,2}}", groups=((0, 2),)),
    _all_reduce(
        "global device ids must come with a channel, got use_global_device_ids=true and "
        "channel_id=0",
        global_ids=True,
    ),
    Case(
        Opcode.ALL_REDUCE,
        ("f32[2]",),
        "replica groups must be listed for global device ids, got none",
        AllReduceAttributes(Participants(channel_id=1, use_global_device_ids=True)),
        lambda x, add: ops.all_reduce(x, add, (), 1, True),
        (_SUM,),
    ),
    _all_reduce(
        "the called computations must be the reducer, got 0 of them",
        reducer="",
        build="the function takes a reducer",
    ),
    _all_reduce(
        _REDUCER + "(p0: f32[2], p1: f32[2]) -> f32[2]", reducer="(f32[2], f32[2]) -> f32[2]"
    ),
    _all_reduce(
        "the reducer must work on the operands' element types, got (p0: f32[], p1: f32[]) -> "
        "f32[] for (f32[2], s32[2])",
        ("f32[2]", "s32[2]"),
    ),
)


def _reduce(
    message: str, operands: Sequence[str], groups: _Groups = _PAIR, reducer: str = _SUM
) -> Case:
    return Case(
        Opcode.COLLECTIVE_REDUCE,
        operands,
        message,
        CollectiveReduceAttributes(_among(groups)),
        called=(reducer,),
    )


_REDUCES = (
    _reduce("an operand must be an array, got token[]", ("token[]",)),
    _reduce(
        "replica groups must name each id from 0 to 1 once, got {{0,0}}", ("f32[2]",), ((0, 0),)
    ),
    _reduce(_REDUCER + "(p0: f32[]) -> f32[]", ("f32[2]",), reducer="(f32[]) -> f32[]"),
    Case(
        Opcode.COLLECTIVE_REDUCE,
        ("f32[2]", "s32[]"),
        "the root of a group must be its first participant, got an operand more than results "
        "f32[2], which chooses another",
        CollectiveReduceAttributes(_among(_PAIR)),
        "the builder declares as many results as there are operands",
        (_SUM,),
        edit=lambda proto: proto,
        error=UnimplementedError,
    ),
)


def _reduce_scatter(
    message: str,
    operands: Sequence[str] = ("f32[4]",),
    dimension: int = 0,
    scattered: Sequence[int] = (2,),
    groups: _Groups = _PAIR,
    build: Any = None,
    declared: str = "f32[2]",
    reducer: str = _SUM,
) -> Case:
    return Case(
        Opcode.REDUCE_SCATTER,
        operands,
        message,
        ReduceScatterAttributes(dimension, tuple(scattered), _among(groups)),
        build or (lambda *given: ops.reduce_scatter(given[:-1], given[-1], dimension, 2, groups)),
        (reducer,),
        declared,
    )


_REDUCE_SCATTERS = (
    _reduce_scatter("replica groups must have one size, got {{0,1},{2}}", groups=((0, 1), (2,))),
    _reduce_scatter("an operand must be an array, got (f32[4])", ("(f32[4])",)),
    _reduce_scatter(_REDUCER + "(p0: f32[]) -> f32[]", reducer="(f32[]) -> f32[]"),
    _reduce_scatter(
        "the scattered dimension must be in range [0, 1), got -1 for f32[4]", dimension=-1
    ),
    _reduce_scatter(
        "there must be one result per operand, got 1 for (f32[4], f32[4])",
        ("f32[4]", "f32[4]"),
        build=_FROM_COUNT,
    ),
    _reduce_scatter(
        "dimension 0 of the operand must be that of the result times the group's size 2, got "
        "f32[5] and 2 in the result",
        ("f32[5]",),
    ),
    Case(
        Opcode.REDUCE_SCATTER,
        ("f32[4]",),
        "dimensions must hold the scattered dimension alone, got {0,1}",
        ReduceScatterAttributes(0, (2,), _among(_PAIR)),
        _ONE_DIMENSION,
        (_SUM,),
        edit=lambda proto: proto.dimensions.append(1),
    ),
)


CASES: tuple[Case, ...] = (*_ALL_REDUCES, *_REDUCES, *_REDUCE_SCATTERS)
