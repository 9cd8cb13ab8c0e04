"""Collectives of one replica, in every form of groups, against XLA's CPU."""

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.building import scalars
from tests.conformance.oracle import assert_equal_bits, evaluated, run_on_xla
from tests.conformance.sweep.draws import drawing
from tests.conformance.sweep.draws.depth import drawn
from tests.conformance.sweep.draws.moving import PACKED
from tests.conformance.sweep.draws.program import built
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.stubs import hlo_pb2
from xla_contract.types.element_type import ElementType as E

Draw = st.DataObject
TYPES = tuple(t for t in (*drawing.INTEGERS, *drawing.FLOATS, *drawing.COMPLEX) if t not in PACKED)
FORMS = ("none", "one group", "listed", "iota")


def regrouped(proto: hlo_pb2.HloModuleProto, form: str) -> hlo_pb2.HloModuleProto:
    """The program with the groups of its collectives written in another form."""
    for computation in proto.computations:
        for instruction in computation.instructions:
            if not instruction.replica_groups:
                continue
            del instruction.replica_groups[:]
            instruction.ClearField("collective_device_list")
            if form == "one group":
                instruction.replica_groups.add(replica_ids=[0])
            elif form == "listed":
                instruction.collective_device_list.replica_groups.add(replica_ids=[0])
            elif form == "iota":
                listing = instruction.iota_collective_device_list
                listing.num_replica_groups = 1
                listing.num_devices_per_group = 1
                listing.iota_reshape_dims.append(1)
                listing.iota_transpose_perm.append(0)
    return proto


def collectives(element_type: E, rank: int, dimension: int) -> dict[str, Callable[[Op], Op]]:
    """The collectives that an array of this type and rank can go through."""
    groups = [[0]]
    along = {
        "all-gather": lambda x: ops.all_gather(x, dimension, 1, groups),
        "all-to-all": lambda x: ops.all_to_all(x, dimension, dimension, 1, groups),
        "reduce-scatter": lambda x: ops.reduce_scatter(
            x, scalars(ops.add, element_type, element_type, name="add"), dimension, 1, groups
        ),
    }
    return {
        "all-reduce": lambda x: ops.all_reduce(
            x, scalars(ops.add, element_type, element_type, name="add"), groups
        ),
        "permute to itself": lambda x: ops.collective_permute(x, [(0, 0)]),
        "permute to nobody": lambda x: ops.collective_permute(x, []),
        **(along if rank else {}),
    }


@drawn(8, 300)
@given(st.data())
def test_one_replica_exchanges_with_itself(data: Draw) -> None:
    element_type = data.draw(st.sampled_from(TYPES))
    sizes = data.draw(drawing.dimensions(max_rank=3, zero=False))
    dimension = data.draw(st.integers(0, max(0, len(sizes) - 1)))
    programs = collectives(element_type, len(sizes), dimension)
    name = data.draw(st.sampled_from(list(programs)))
    array: Any = drawing.array(element_type, sizes, data.draw(drawing.seeds()))
    if name == "reduce-scatter":
        # XLA adds to a zero: negative zeros turn positive, and denormals of bf16 are lost.
        array = (np.arange(array.size) + 1).astype(array.dtype).reshape(sizes)
    # XLA reads no all-to-all of an array without groups.
    forms = FORMS[1:] if name == "all-to-all" else FORMS
    proto = regrouped(built(programs[name], [array]).proto, data.draw(st.sampled_from(forms)))
    for ours, theirs in zip(evaluated(proto, [array]), run_on_xla(proto, [array]), strict=True):
        assert_equal_bits(ours, theirs)


@drawn(3, 60)
@given(st.data())
def test_several_arrays_are_reduced_together(data: Draw) -> None:
    element_type = data.draw(st.sampled_from(TYPES))
    arrays = [
        drawing.array(element_type, sizes, data.draw(drawing.seeds()))
        for sizes in data.draw(
            st.lists(drawing.dimensions(max_rank=2, zero=False), min_size=1, max_size=3)
        )
    ]
    add = scalars(ops.add, element_type, element_type, name="add")
    proto = built(lambda *parts: ops.all_reduce_tuple(parts, add, [[0]]), arrays).proto
    proto = regrouped(proto, data.draw(st.sampled_from(FORMS)))
    for ours, theirs in zip(evaluated(proto, arrays), run_on_xla(proto, arrays), strict=True):
        assert_equal_bits(ours, theirs)


@drawn(2, 60)
@given(st.data())
def test_a_broadcast_from_itself_gives_the_operand(data: Draw) -> None:
    # XLA's CPU backend has no collective-broadcast.
    sizes = data.draw(drawing.dimensions(max_rank=3))
    array = drawing.array(data.draw(st.sampled_from(TYPES)), sizes, data.draw(drawing.seeds()))
    proto = built(lambda x: ops.collective_broadcast(x, [[0]]), [array]).proto
    (ours,) = evaluated(regrouped(proto, data.draw(st.sampled_from(FORMS))), [array])
    assert_equal_bits(ours, array)


def test_the_replica_has_number_zero() -> None:
    def program(x: Op) -> Op:
        return ops.tuple([x.builder.replica_id(), x.builder.partition_id()])

    proto = built(program, [np.float32(0)]).proto
    arguments = [np.float32(0)]
    for ours, theirs in zip(evaluated(proto, arguments), run_on_xla(proto, arguments), strict=True):
        assert_equal_bits(ours, theirs)
