"""Replica groups and meshes in HLO text: `{{0,1},{2,3}}`, `[2,2]<=[4]`, `mesh['x'=2] {'x'}`."""

import re
from collections.abc import Iterable, Sequence

from xla_contract.stubs import xla_data_pb2
from xla_contract.types.devices.replica_groups import GroupForm, ReplicaGroups
from xla_contract.wire.replica_groups_proto import iota_groups, mesh_axes_groups
from xla_server.ir.text.attribute_kinds import INTEGER_PAIRS, AttributeKind
from xla_server.ir.text.scanner import HloReader

_AXIS_NAME = re.compile(r"'([^'\n]*)'|\"([^\"\n]*)\"")


def _write_groups(groups: ReplicaGroups) -> str:
    if groups.form is GroupForm.IOTA:
        return _iota_text(xla_data_pb2.IotaReplicaGroupListProto.FromString(groups.statement))
    if groups.form is GroupForm.MESH_AXES:
        axes = xla_data_pb2.MeshAxesReplicaGroupListProto.FromString(groups.statement)
        return f"{mesh_text(axes.mesh)} {axes_text(axes.axes, axes.mesh)}"
    return INTEGER_PAIRS.write(groups.groups)


def _read_groups(reader: HloReader) -> ReplicaGroups:
    reader.space()
    start = reader.at
    if reader.peek("["):
        iota = _read_iota(reader)
        statement = iota.SerializeToString(deterministic=True)
        with reader.locating(start):
            return ReplicaGroups(iota_groups(iota), GroupForm.IOTA, statement)
    if reader.peek("mesh["):
        axes = xla_data_pb2.MeshAxesReplicaGroupListProto()
        read_mesh(reader, axes.mesh)
        reader.skip(",")
        axes.axes.extend(read_axes(reader, axes.mesh))
        statement = axes.SerializeToString(deterministic=True)
        with reader.locating(start):
            return ReplicaGroups(mesh_axes_groups(axes), GroupForm.MESH_AXES, statement)
    return ReplicaGroups(INTEGER_PAIRS.read(reader), GroupForm.LIST)


def iota_text(dimensions: Sequence[int], permutation: Sequence[int]) -> str:
    """`[2,4]T(1,0)`: an iota of this shape, transposed where that changes anything."""
    text = _sizes(dimensions)
    if list(permutation) not in ([], list(range(len(dimensions)))):
        text += "T(" + ",".join(map(str, permutation)) + ")"
    return text


def read_iota(reader: HloReader) -> tuple[list[int], list[int]]:
    """Read the text of `iota_text`: the shape and the permutation."""
    dimensions = reader.listed("[", reader.signed, "]")
    if not reader.skip("T"):
        return dimensions, list(range(len(dimensions)))
    return dimensions, reader.listed("(", reader.narrow, ")")


def mesh_text(mesh: xla_data_pb2.MeshProto) -> str:
    """`mesh['x'=2,'y'=4]`, with its devices if they are not in order."""
    text = "mesh[" + ",".join(f"'{axis.name}'={axis.size}" for axis in mesh.axes) + "]"
    if mesh.device_ids:
        return f"{text}, device_ids=({','.join(map(str, mesh.device_ids))})"
    if mesh.HasField("iota_transform"):
        transform = mesh.iota_transform
        return f"{text}, device_ids=({iota_text(transform.reshape_dims, transform.transpose_perm)})"
    return text


def read_mesh(reader: HloReader, mesh: xla_data_pb2.MeshProto) -> None:
    """Read what `mesh_text` wrote into `mesh`."""
    reader.expect("mesh")

    def read_axis() -> None:
        name = _axis_name(reader)
        reader.expect("=")
        mesh.axes.add(name=name, size=reader.signed("the size of an axis"))

    reader.listed("[", read_axis, "]")
    before = reader.at
    if not (reader.skip(",") and reader.skip("device_ids=(")):
        reader.at = before
        return
    if reader.peek("["):
        mesh.iota_transform.reshape_dims[:], mesh.iota_transform.transpose_perm[:] = read_iota(
            reader
        )
        reader.expect(")")
        return
    reader.at -= 1
    mesh.device_ids.extend(reader.listed("(", reader.signed, ")"))


def axes_text(axes: Iterable[xla_data_pb2.AxisRefProto], mesh: xla_data_pb2.MeshProto) -> str:
    """`{'x','y':(1)2}`: axes of a mesh or parts of them."""
    return "{" + ",".join(_axis_text(axis, mesh) for axis in axes) + "}"


def read_axes(reader: HloReader, mesh: xla_data_pb2.MeshProto) -> list[xla_data_pb2.AxisRefProto]:
    """Read the text of `axes_text`."""
    return reader.braced(lambda: read_axis(reader, mesh))


def read_axis(reader: HloReader, mesh: xla_data_pb2.MeshProto) -> xla_data_pb2.AxisRefProto:
    """One axis of the mesh, or a part of one."""
    numbers = {axis.name: number for number, axis in enumerate(mesh.axes)}
    rule = "an axis must be one of the mesh's"
    number = reader.known(lambda _: _axis_name(reader), "", numbers, rule)
    found = xla_data_pb2.AxisRefProto(mesh_axis_index=number)
    if reader.skip(":("):
        found.sub_axis_info.pre_size = reader.signed()
        reader.expect(")")
        found.sub_axis_info.size = reader.signed()
    return found


def _axis_text(axis: xla_data_pb2.AxisRefProto, mesh: xla_data_pb2.MeshProto) -> str:
    text = f"'{mesh.axes[axis.mesh_axis_index].name}'"
    if axis.HasField("sub_axis_info"):
        text += f":({axis.sub_axis_info.pre_size}){axis.sub_axis_info.size}"
    return text


def _axis_name(reader: HloReader) -> str:
    found = reader.match(_AXIS_NAME, "the name of an axis in quotes")
    return found[1] if found[1] is not None else found[2]


def _iota_text(iota: xla_data_pb2.IotaReplicaGroupListProto) -> str:
    groups = _sizes((iota.num_replica_groups, iota.num_devices_per_group))
    dimensions = list(iota.iota_reshape_dims) or [
        iota.num_replica_groups * iota.num_devices_per_group
    ]
    return f"{groups}<={iota_text(dimensions, iota.iota_transpose_perm)}"


def _read_iota(reader: HloReader) -> xla_data_pb2.IotaReplicaGroupListProto:
    start = reader.at
    sizes = reader.listed("[", reader.signed, "]")
    if len(sizes) != 2:
        reader.refuse("groups must be stated as [groups,size]", str(sizes), start)
    reader.expect("<=")
    dimensions, permutation = read_iota(reader)
    return xla_data_pb2.IotaReplicaGroupListProto(
        num_replica_groups=sizes[0],
        num_devices_per_group=sizes[1],
        iota_reshape_dims=dimensions,
        iota_transpose_perm=permutation,
    )


def _sizes(sizes: Sequence[int]) -> str:
    return "[" + ",".join(map(str, sizes)) + "]"


GROUPS = AttributeKind(_write_groups, _read_groups)
