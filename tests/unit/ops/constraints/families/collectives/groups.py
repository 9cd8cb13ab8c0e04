"""Compact forms of replica groups that do not work out."""

from collections.abc import Sequence
from typing import Any

from tests.unit.ops.constraints.case import Case
from xla_contract.ops.collectives.all_gather import AllGatherAttributes
from xla_contract.ops.collectives.all_reduce import AllReduceAttributes
from xla_contract.ops.collectives.all_to_all import AllToAllAttributes
from xla_contract.ops.collectives.collective_broadcast import CollectiveBroadcastAttributes
from xla_contract.ops.collectives.collective_reduce import CollectiveReduceAttributes
from xla_contract.ops.collectives.ragged_all_to_all import RaggedAllToAllAttributes
from xla_contract.ops.collectives.reduce_scatter import ReduceScatterAttributes
from xla_contract.stubs import hlo_pb2, xla_data_pb2
from xla_contract.types.opcode import Opcode

_IOTA_IDS = "an iota of replica groups must have 1 to 1048576 ids, got "

_LISTS = "the functions take groups as lists, which the rule itself checks"


def _groups(message: str, **fields: Any) -> Case:
    def edit(proto: hlo_pb2.HloInstructionProto) -> None:
        proto.MergeFrom(hlo_pb2.HloInstructionProto(**fields))

    return Case(
        Opcode.ALL_REDUCE,
        ("f32[2]",),
        message,
        AllReduceAttributes(),
        _LISTS,
        ("(f32[], f32[]) -> f32[]",),
        edit=edit,
    )


def _iota(
    rows: int, columns: int, sizes: Sequence[int], order: Sequence[int]
) -> xla_data_pb2.IotaReplicaGroupListProto:
    return xla_data_pb2.IotaReplicaGroupListProto(
        num_replica_groups=rows,
        num_devices_per_group=columns,
        iota_reshape_dims=sizes,
        iota_transpose_perm=order,
    )


def _mesh(
    sizes: Sequence[int],
    *axes: tuple[int, int, int],
    devices: Sequence[int] = (),
    reshaped: int = 0,
) -> xla_data_pb2.MeshAxesReplicaGroupListProto:
    stated = xla_data_pb2.MeshAxesReplicaGroupListProto()
    for number, size in enumerate(sizes):
        stated.mesh.axes.add(name=f"a{number}", size=size)
    stated.mesh.device_ids.extend(devices)
    if reshaped:
        stated.mesh.iota_transform.reshape_dims.append(reshaped)
    for number, before, size in axes:
        axis = stated.axes.add(mesh_axis_index=number)
        if size:
            axis.sub_axis_info.pre_size = before
            axis.sub_axis_info.size = size
    return stated


_FORMS = (
    _groups(_IOTA_IDS + "0 groups of 2", iota_collective_device_list=_iota(0, 2, [], [])),
    _groups(
        "an iota must be reshaped to its 4 ids, got {3}",
        iota_collective_device_list=_iota(2, 2, [3], [0]),
    ),
    _groups(
        "an iota must be transposed by a permutation, got {1,1} for {2,2}",
        iota_collective_device_list=_iota(2, 2, [2, 2], [1, 1]),
    ),
    _groups(
        "an iota must be reshaped to its 4 ids, got {5}",
        collective_device_list=xla_data_pb2.CollectiveDeviceListProto(
            iota_replica_group_list=_iota(2, 2, [5], [0])
        ),
    ),
    _groups(
        "a mesh must have axes of at least 1 and 1 to 1048576 devices, got {0}",
        mesh_axes_replica_group_list=_mesh([0], (0, 1, 0)),
    ),
    _groups(
        "mesh axes must be in range [0, 1), got 1 for a mesh of {2}",
        mesh_axes_replica_group_list=_mesh([2], (1, 1, 0)),
    ),
    _groups(
        "a part of a mesh axis must divide it, got (1)3 of axis 0 with size 4",
        mesh_axes_replica_group_list=_mesh([4], (0, 1, 3)),
    ),
    _groups(
        "the parts of a mesh axis must not overlap, got (2)4 of axis 0 after its first 4",
        mesh_axes_replica_group_list=_mesh([8], (0, 1, 4), (0, 2, 4)),
    ),
    _groups(
        "an iota must be reshaped to its 4 ids, got {3}",
        mesh_axes_replica_group_list=_mesh([4], (0, 1, 0), reshaped=3),
    ),
    _groups(
        "a mesh must have one device per position, got 2 for 4",
        mesh_axes_replica_group_list=_mesh([4], (0, 1, 0), devices=[0, 1]),
    ),
)

_SUM = ("(f32[], f32[]) -> f32[]",)
_ROWS = ("f32[4,2]", "f32[6,2]", "s32[2]", "s32[2]", "s32[2]", "s32[2]")


def _empty_iota(proto: hlo_pb2.HloInstructionProto) -> None:
    proto.iota_collective_device_list.CopyFrom(_iota(0, 0, [], []))


_READERS = tuple(
    Case(
        opcode, operands, _IOTA_IDS + "0 groups of 0", attributes, _LISTS, called, edit=_empty_iota
    )
    for opcode, operands, attributes, called in (
        (Opcode.ALL_REDUCE_START, ("f32[2]",), AllReduceAttributes(), _SUM),
        (Opcode.ALL_GATHER, ("f32[2]",), AllGatherAttributes(0, (2,)), ()),
        (Opcode.ALL_TO_ALL, ("f32[2]",), AllToAllAttributes(0), ()),
        (Opcode.COLLECTIVE_BROADCAST, ("f32[2]",), CollectiveBroadcastAttributes(), ()),
        (Opcode.COLLECTIVE_REDUCE, ("f32[2]",), CollectiveReduceAttributes(), _SUM),
        (Opcode.RAGGED_ALL_TO_ALL, _ROWS, RaggedAllToAllAttributes(), ()),
        (Opcode.REDUCE_SCATTER, ("f32[2]",), ReduceScatterAttributes(0, (2,)), _SUM),
    )
)

CASES: tuple[Case, ...] = (*_FORMS, *_READERS)
