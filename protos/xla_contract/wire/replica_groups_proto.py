"""Messages of replica groups: a list of groups and XLA's compact forms."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from google.protobuf.message import Message
from numpy.typing import NDArray

from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import hlo_pb2, xla_data_pb2
from xla_contract.types.replica_groups import GroupForm, Groups, ReplicaGroups, braced

MAX_PARTICIPANTS = 2**20
"""A compact form may state more ids than memory holds; this many is enough for any machine."""


def read_groups(proto: hlo_pb2.HloInstructionProto) -> ReplicaGroups:
    """Return the groups of an instruction, whichever field has them.

    Raises:
        InvalidArgumentError: A compact form is inconsistent, or has more than MAX_PARTICIPANTS ids.
    """
    field = proto.WhichOneof("replica_group_list")
    if field == "collective_device_list":
        listed = proto.collective_device_list
        if listed.HasField("iota_replica_group_list"):
            iota = listed.iota_replica_group_list
            return ReplicaGroups(iota_groups(iota), GroupForm.LISTED_IOTA, _bytes(listed))
        return ReplicaGroups(_listed(listed.replica_groups), GroupForm.LIST)
    if field == "iota_collective_device_list":
        iota = proto.iota_collective_device_list
        return ReplicaGroups(iota_groups(iota), GroupForm.IOTA, _bytes(iota))
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


def iota_groups(iota: xla_data_pb2.IotaReplicaGroupListProto) -> Groups:
    """The rows of a transposed iota. Raises InvalidArgumentError."""
    rows, columns = iota.num_replica_groups, iota.num_devices_per_group
    if rows < 1 or columns < 1 or rows * columns > MAX_PARTICIPANTS:
        raise InvalidArgumentError(
            f"an iota of replica groups must have 1 to {MAX_PARTICIPANTS} ids, got {rows} groups "
            f"of {columns}"
        )
    order = _iota(iota.iota_reshape_dims, iota.iota_transpose_perm, rows * columns)
    return _rows(order.reshape(rows, columns))


def mesh_axes_groups(stated: xla_data_pb2.MeshAxesReplicaGroupListProto) -> Groups:
    """Return groups of the devices that differ only along the axes, the first axis most major.

    Raises:
        InvalidArgumentError: The mesh does not have the axes, or they overlap.
    """
    mesh = stated.mesh
    sizes = [axis.size for axis in mesh.axes]
    count = math.prod(sizes)
    if any(size < 1 for size in sizes) or count > MAX_PARTICIPANTS:
        raise InvalidArgumentError(
            f"a mesh must have axes of at least 1 and 1 to {MAX_PARTICIPANTS} devices, got "
            f"{braced(sizes)}"
        )
    devices = _mesh_devices(mesh, count)
    parts = [_axis_part(axis, sizes) for axis in stated.axes]
    factors, places = _split_axes(sizes, parts)
    others = [number for number in range(len(factors)) if number not in places]
    moved = _transposed(devices, factors, [*others, *places])
    return _rows(moved.reshape(-1, math.prod(factors[place] for place in places)))


_Part = tuple[int, int, int]
"""Part of a mesh axis: the axis's number, the product of the more major parts' sizes, its size."""


def _axis_part(axis: xla_data_pb2.AxisRefProto, sizes: Sequence[int]) -> _Part:
    number = axis.mesh_axis_index
    if not 0 <= number < len(sizes):
        raise InvalidArgumentError(
            f"mesh axes must be in range [0, {len(sizes)}), got {number} for a mesh of "
            f"{braced(sizes)}"
        )
    if not axis.HasField("sub_axis_info"):
        return number, 1, sizes[number]
    before, size = axis.sub_axis_info.pre_size, axis.sub_axis_info.size
    if before < 1 or size < 1 or sizes[number] % (before * size):
        raise InvalidArgumentError(
            f"a part of a mesh axis must divide it, got ({before}){size} of axis {number} with "
            f"size {sizes[number]}"
        )
    return number, before, size


def _split_axes(sizes: Sequence[int], parts: Sequence[_Part]) -> tuple[list[int], list[int]]:
    """The sizes of the mesh with the parts as axes of their own, and where each part is."""
    factors: list[int] = []
    places: dict[int, int] = {}
    for number, size in enumerate(sizes):
        done = 1
        mine = [index for index, part in enumerate(parts) if part[0] == number]
        for index in sorted(mine, key=lambda index: parts[index][1]):
            _, before, length = parts[index]
            if before % done:
                raise InvalidArgumentError(
                    f"the parts of a mesh axis must not overlap, got ({before}){length} of axis "
                    f"{number} after its first {done}"
                )
            factors.append(before // done)
            places[index] = len(factors)
            factors.append(length)
            done = before * length
        factors.append(size // done)
    return factors, [places[index] for index in range(len(parts))]


def _mesh_devices(mesh: xla_data_pb2.MeshProto, count: int) -> NDArray[np.int64]:
    if mesh.device_ids:
        if len(mesh.device_ids) != count:
            raise InvalidArgumentError(
                f"a mesh must have one device per position, got {len(mesh.device_ids)} for {count}"
            )
        return np.array(mesh.device_ids, np.int64)
    if mesh.HasField("iota_transform"):
        transform = mesh.iota_transform
        return _iota(transform.reshape_dims, transform.transpose_perm, count)
    return np.arange(count)


def _iota(dimensions: Sequence[int], permutation: Sequence[int], count: int) -> NDArray[np.int64]:
    sizes = list(dimensions) or [count]
    order = list(permutation) or list(range(len(sizes)))
    if any(size < 1 for size in sizes) or math.prod(sizes) != count:
        raise InvalidArgumentError(
            f"an iota must be reshaped to its {count} ids, got {braced(sizes)}"
        )
    if sorted(order) != list(range(len(sizes))):
        raise InvalidArgumentError(
            f"an iota must be transposed by a permutation, got {braced(order)} for {braced(sizes)}"
        )
    return _transposed(np.arange(count), sizes, order)


def _transposed(
    numbers: NDArray[np.int64], sizes: Sequence[int], order: Sequence[int]
) -> NDArray[np.int64]:
    """The flat numbers reshaped to `sizes`, transposed, and flat again."""
    # numpy stops at 64 dimensions; those of size 1 do not move anything.
    kept = {number: place for place, number in enumerate(n for n, s in enumerate(sizes) if s > 1)}
    moved = [kept[number] for number in order if number in kept]
    return numbers.reshape([sizes[number] for number in kept]).transpose(moved).reshape(-1)


def _listed(groups: Iterable[xla_data_pb2.ReplicaGroup]) -> Groups:
    return tuple(tuple(group.replica_ids) for group in groups)


def _rows(table: NDArray[np.int64]) -> Groups:
    return tuple(tuple(row) for row in table.tolist())


def _bytes(message: Message) -> bytes:
    return message.SerializeToString(deterministic=True)
