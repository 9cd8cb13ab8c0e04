"""Messages of replica groups: a list of groups and XLA's compact forms."""

import dataclasses
from collections.abc import Iterable

import numpy as np
from google.protobuf.message import Message
from numpy.typing import NDArray

from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import hlo_pb2, xla_data_pb2
from xla_contract.types.devices.mesh import MAX_PARTICIPANTS, AxisPart, Mesh, iota
from xla_contract.types.devices.replica_groups import GroupForm, Groups, ReplicaGroups


def read_groups(proto: hlo_pb2.HloInstructionProto) -> ReplicaGroups:
    """Return the groups of an instruction, whichever field has them.

    Raises:
        InvalidArgumentError: A compact form is inconsistent, or has more than MAX_PARTICIPANTS ids.
    """
    field = proto.WhichOneof("replica_group_list")
    if field == "collective_device_list":
        listed = proto.collective_device_list
        if listed.HasField("iota_replica_group_list"):
            rows = listed.iota_replica_group_list
            return ReplicaGroups(iota_groups(rows), GroupForm.LISTED_IOTA, _bytes(listed))
        return ReplicaGroups(_listed(listed.replica_groups), GroupForm.LIST)
    if field == "iota_collective_device_list":
        rows = proto.iota_collective_device_list
        return ReplicaGroups(iota_groups(rows), GroupForm.IOTA, _bytes(rows))
    if field == "mesh_axes_replica_group_list":
        axes = proto.mesh_axes_replica_group_list
        return ReplicaGroups(mesh_axes_groups(axes), GroupForm.MESH_AXES, _bytes(axes))
    return ReplicaGroups(_listed(proto.replica_groups))


def write_groups(groups: ReplicaGroups, proto: hlo_pb2.HloInstructionProto) -> None:
    """State the groups in their form."""
    match groups.form:
        case GroupForm.FIELD:
            for group in groups.groups:
                proto.replica_groups.add(replica_ids=group)
        case GroupForm.LIST:
            proto.collective_device_list.SetInParent()
            for group in groups.groups:
                proto.collective_device_list.replica_groups.add(replica_ids=group)
        case GroupForm.LISTED_IOTA:
            proto.collective_device_list.MergeFromString(groups.statement)
        case GroupForm.IOTA:
            proto.iota_collective_device_list.MergeFromString(groups.statement)
        case GroupForm.MESH_AXES:
            proto.mesh_axes_replica_group_list.MergeFromString(groups.statement)


def iota_groups(stated: xla_data_pb2.IotaReplicaGroupListProto) -> Groups:
    """The rows of a transposed iota. Raises InvalidArgumentError."""
    rows, columns = stated.num_replica_groups, stated.num_devices_per_group
    if rows < 1 or columns < 1 or rows * columns > MAX_PARTICIPANTS:
        raise InvalidArgumentError(
            f"an iota of replica groups must have 1 to {MAX_PARTICIPANTS} ids, got {rows} groups "
            f"of {columns}"
        )
    order = iota(stated.iota_reshape_dims, stated.iota_transpose_perm, rows * columns)
    return _rows(order.reshape(rows, columns))


def mesh_axes_groups(stated: xla_data_pb2.MeshAxesReplicaGroupListProto) -> Groups:
    """Return groups of the devices that differ only along the axes, the first axis most major.

    Raises:
        InvalidArgumentError: The mesh does not have the axes, or they overlap.
    """
    return _rows(mesh_from_proto(stated.mesh).along(parts_from_proto(stated.axes)))


def mesh_from_proto(mesh: xla_data_pb2.MeshProto) -> Mesh:
    """The mesh that a message states. Raises InvalidArgumentError."""
    names = tuple(axis.name for axis in mesh.axes)
    plain = Mesh(tuple(axis.size for axis in mesh.axes), names, tuple(mesh.device_ids))
    if mesh.device_ids or not mesh.HasField("iota_transform"):
        return plain
    transform = mesh.iota_transform
    order = iota(transform.reshape_dims, transform.transpose_perm, plain.size)
    return dataclasses.replace(plain, devices=tuple(order.tolist()))


def parts_from_proto(axes: Iterable[xla_data_pb2.AxisRefProto]) -> list[AxisPart]:
    """The parts of mesh axes that messages name."""
    return [
        AxisPart(axis.mesh_axis_index, axis.sub_axis_info.pre_size, axis.sub_axis_info.size)
        if axis.HasField("sub_axis_info")
        else AxisPart(axis.mesh_axis_index)
        for axis in axes
    ]


def _listed(groups: Iterable[xla_data_pb2.ReplicaGroup]) -> Groups:
    return tuple(tuple(group.replica_ids) for group in groups)


def _rows(table: NDArray[np.int64]) -> Groups:
    return tuple(tuple(row) for row in table.tolist())


def _bytes(message: Message) -> bytes:
    return message.SerializeToString(deterministic=True)
