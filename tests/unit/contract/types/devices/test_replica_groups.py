import pytest

from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.stubs import hlo_pb2, xla_data_pb2
from xla_contract.types.devices.replica_groups import (
    GroupForm,
    GroupMode,
    ReplicaGroups,
    check_groups,
    group_mode,
)
from xla_contract.wire.replica_groups_proto import read_groups, write_groups


def instruction() -> hlo_pb2.HloInstructionProto:
    return hlo_pb2.HloInstructionProto()


def iota(rows: int, columns: int, dims: list[int], perm: list[int]) -> hlo_pb2.HloInstructionProto:
    proto = instruction()
    proto.iota_collective_device_list.CopyFrom(
        xla_data_pb2.IotaReplicaGroupListProto(
            num_replica_groups=rows,
            num_devices_per_group=columns,
            iota_reshape_dims=dims,
            iota_transpose_perm=perm,
        )
    )
    return proto


def mesh(
    sizes: list[int], *axes: tuple[int, ...], **order: list[int]
) -> hlo_pb2.HloInstructionProto:
    """Axes by number, or by (number, pre_size, size)."""
    proto = instruction()
    stated = proto.mesh_axes_replica_group_list
    for number, size in enumerate(sizes):
        stated.mesh.axes.add(name=f"axis{number}", size=size)
    stated.mesh.device_ids.extend(order.get("devices", []))
    if "reshape" in order:
        stated.mesh.iota_transform.reshape_dims.extend(order["reshape"])
        stated.mesh.iota_transform.transpose_perm.extend(order["transpose"])
    for axis in axes:
        reference = stated.axes.add(mesh_axis_index=axis[0])
        if len(axis) == 3:
            reference.sub_axis_info.pre_size, reference.sub_axis_info.size = axis[1:]
    return proto


def fields(groups: list[list[int]]) -> hlo_pb2.HloInstructionProto:
    proto = instruction()
    for group in groups:
        proto.replica_groups.add(replica_ids=group)
    return proto


def listed(groups: list[list[int]]) -> hlo_pb2.HloInstructionProto:
    proto = instruction()
    proto.collective_device_list.SetInParent()
    for group in groups:
        proto.collective_device_list.replica_groups.add(replica_ids=group)
    return proto


def listed_iota() -> hlo_pb2.HloInstructionProto:
    proto = instruction()
    proto.collective_device_list.iota_replica_group_list.CopyFrom(
        iota(2, 2, [2, 2], [1, 0]).iota_collective_device_list
    )
    return proto


@pytest.mark.parametrize(
    ("proto", "groups", "form"),
    [
        (instruction(), (), GroupForm.FIELD),
        (fields([[1, 0], [2]]), ((1, 0), (2,)), GroupForm.FIELD),
        (listed([]), (), GroupForm.LIST),
        (listed([[3, 1], [0, 2]]), ((3, 1), (0, 2)), GroupForm.LIST),
        (listed_iota(), ((0, 2), (1, 3)), GroupForm.LISTED_IOTA),
        (iota(2, 4, [8], [0]), ((0, 1, 2, 3), (4, 5, 6, 7)), GroupForm.IOTA),
        (iota(4, 2, [2, 4], [1, 0]), ((0, 4), (1, 5), (2, 6), (3, 7)), GroupForm.IOTA),
        (mesh([2, 3], (1,)), ((0, 1, 2), (3, 4, 5)), GroupForm.MESH_AXES),
        (mesh([2, 3], (0,)), ((0, 3), (1, 4), (2, 5)), GroupForm.MESH_AXES),
        (mesh([2, 2], (1,), (0,)), ((0, 2, 1, 3),), GroupForm.MESH_AXES),
        (mesh([2, 2]), ((0,), (1,), (2,), (3,)), GroupForm.MESH_AXES),
        (mesh([2, 2], (1,), devices=[3, 2, 1, 0]), ((3, 2), (1, 0)), GroupForm.MESH_AXES),
        (
            mesh([2, 2], (1,), reshape=[2, 2], transpose=[1, 0]),
            ((0, 2), (1, 3)),
            GroupForm.MESH_AXES,
        ),
        # The middle factor of an axis of 8: ids that differ by 2.
        (mesh([8], (0, 2, 2)), ((0, 2), (1, 3), (4, 6), (5, 7)), GroupForm.MESH_AXES),
        (mesh([8], (0, 4, 2), (0, 1, 2)), ((0, 4, 1, 5), (2, 6, 3, 7)), GroupForm.MESH_AXES),
        (mesh([1] * 90 + [2], (90,)), ((0, 1),), GroupForm.MESH_AXES),
    ],
)
def test_every_form_is_read_and_written_again(
    proto: hlo_pb2.HloInstructionProto, groups: tuple[tuple[int, ...], ...], form: GroupForm
) -> None:
    read = read_groups(proto)
    assert (read.groups, read.form) == (groups, form)
    written = instruction()
    write_groups(read, written)
    assert written == proto
    assert read_groups(written) == read


def test_the_new_field_counts_where_a_writer_fills_both() -> None:
    proto = listed([[0, 1]])
    proto.replica_groups.add(replica_ids=[5])
    assert read_groups(proto).groups == ((0, 1),)


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (iota(0, 2, [2], [0]), "1 to 1048576 ids, got 0 groups of 2"),
        (iota(2**40, 2**40, [2], [0]), f"got {2**40} groups of {2**40}"),
        (iota(2, 2, [3], [0]), r"reshaped to its 4 ids, got \{3\}"),
        (iota(2, 2, [-2, -2], [0, 1]), r"reshaped to its 4 ids, got \{-2,-2\}"),
        (iota(2, 2, [2, 2], [0, 0]), r"a permutation, got \{0,0\} for \{2,2\}"),
        (mesh([2, 0]), r"axes of at least 1 .* got \{2,0\}"),
        (mesh([2**30, 2**30]), r"1 to 1048576 devices, got"),
        (mesh([2, 2], (2,)), r"range \[0, 2\), got 2 for a mesh of \{2,2\}"),
        (mesh([6], (0, 4, 1)), r"divide it, got \(4\)1 of axis 0 with size 6"),
        (mesh([6], (0, 0, 2)), r"divide it, got \(0\)2"),
        (mesh([8], (0, 1, 4), (0, 2, 2)), r"not overlap, got \(2\)2 of axis 0 after its first 4"),
        (mesh([4], (0,), (0,)), r"not overlap, got \(1\)4 of axis 0 after its first 4"),
        (mesh([4], (0,), devices=[0, 1]), "one device per position, got 2 for 4"),
    ],
)
def test_a_compact_form_must_work_out(proto: hlo_pb2.HloInstructionProto, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        read_groups(proto)


def test_what_the_ids_count() -> None:
    assert group_mode(0, None) is GroupMode.CROSS_REPLICA
    assert group_mode(0, False) is GroupMode.CROSS_REPLICA
    assert group_mode(1, None) is GroupMode.CROSS_PARTITION
    assert group_mode(1, False) is GroupMode.CROSS_REPLICA_AND_PARTITION
    assert group_mode(1, True) is GroupMode.FLATTENED_ID
    with pytest.raises(ShapeError, match="must come with a channel"):
        group_mode(0, True)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([[0], []], r"must not be empty, got \{\{0\},\{\}\}"),
        ([[0, 1], [1, 2]], r"each id from 0 to 3 once, got \{\{0,1\},\{1,2\}\}"),
        ([[1, 2]], r"each id from 0 to 1 once"),
        ([[0, 1], [2]], r"must have one size, got \{\{0,1\},\{2\}\}"),
    ],
)
def test_groups_divide_all_ids(groups: list[list[int]], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        check_groups(ReplicaGroups.of(groups), GroupMode.CROSS_REPLICA)


def test_uneven_groups_where_they_may_be() -> None:
    check_groups(ReplicaGroups.of([[0, 1], [2]]), GroupMode.CROSS_REPLICA, uniform=False)
    check_groups(ReplicaGroups(), GroupMode.CROSS_PARTITION)
    with pytest.raises(ShapeError, match="listed for global device ids"):
        check_groups(ReplicaGroups(), GroupMode.FLATTENED_ID)
