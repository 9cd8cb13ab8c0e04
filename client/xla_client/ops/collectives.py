"""Values exchanged between the replicas and partitions that run a program.

Semantics: XLA's AllReduce, AllGather, AllToAll and kin. Replica groups are sequences of ids; an
empty sequence is one group of all. Without `channel_id` the ids are those of replicas, and each
partition has an exchange of its own. With a `channel_id` other than 0 it depends on the operation:

- `all_to_all`, `all_to_all_tuple`, `collective_*` and `ragged_all_to_all`: the ids are those of
  partitions, and each replica has an exchange of its own.
- `all_reduce`, `all_gather` and `reduce_scatter`: a group has all partitions of its replicas. With
  `use_global_device_ids` an id is replica times number of partitions plus partition.
"""

from collections.abc import Sequence

from xla_client.ops import control
from xla_client.programs.arguments.checked import checked
from xla_client.programs.arguments.operands import ComputationLike
from xla_client.programs.builder import (
    Builder,
    Op,
    Operands,
    as_sequence,
    builder_of,
    errors_at,
    integers,
)
from xla_client.programs.functions import scalar_computation
from xla_contract.errors import ShapeError
from xla_contract.ops.collectives.all_gather import AllGatherAttributes
from xla_contract.ops.collectives.all_reduce import AllReduceAttributes
from xla_contract.ops.collectives.all_to_all import AllToAllAttributes
from xla_contract.ops.collectives.collective import Participants
from xla_contract.ops.collectives.collective_broadcast import CollectiveBroadcastAttributes
from xla_contract.ops.collectives.collective_permute import CollectivePermuteAttributes
from xla_contract.ops.collectives.ragged_all_to_all import RaggedAllToAllAttributes
from xla_contract.ops.collectives.reduce_scatter import ReduceScatterAttributes
from xla_contract.ops.shaping.reshape import ReshapeAttributes
from xla_contract.ops.shaping.transpose import TransposeAttributes
from xla_contract.types.devices.replica_groups import ReplicaGroups
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape

Groups = Sequence[Sequence[int]]


@checked
def all_reduce(
    operand: Op,
    computation: ComputationLike,
    replica_groups: Groups = (),
    channel_id: int = 0,
    use_global_device_ids: bool = False,
) -> Op:
    """The operand combined with those of its group; a tuple element by element.

    The computation takes two scalars and is associative and commutative.

    Args:
        operand: An array or a tuple of arrays.
        computation: An associative and commutative function of two scalars.
        replica_groups: Groups of ids, as [[0, 1], [2, 3]]; none is one group of all.
        channel_id: The number of the channel; see the head of this module.
        use_global_device_ids: Whether an id names a partition of a replica; needs a channel.

    Returns:
        The combined array, of the operand's shape, or a tuple of them.

    Raises:
        InvalidArgumentError: The number of the channel has more than 64 bits.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.all_reduce(x, lambda a, b: a + b)
        %all-reduce.2: f32[3]

    See https://openxla.org/xla/operation_semantics#allreduce
    """
    if operand.shape.is_tuple:
        elements = [
            control.get_tuple_element(operand, index)
            for index in range(len(operand.shape.tuple_shapes))
        ]
        return all_reduce_tuple(
            elements, computation, replica_groups, channel_id, use_global_device_ids
        )
    attributes = AllReduceAttributes(
        _participants(replica_groups, channel_id, use_global_device_ids)
    )
    return _all_reduced([operand], computation, attributes)


@checked
def all_reduce_tuple(
    operands: Operands,
    computation: ComputationLike,
    replica_groups: Groups = (),
    channel_id: int = 0,
    use_global_device_ids: bool = False,
) -> Op:
    """The tuple of the operands, each combined with those of its group by one computation.

    Args:
        operands: An Op, or several in a sequence.
        computation: An associative and commutative function of two scalars.
        replica_groups: Groups of ids, as [[0, 1], [2, 3]]; none is one group of all.
        channel_id: The number of the channel; see the head of this module.
        use_global_device_ids: Whether an id names a partition of a replica; needs a channel.

    Returns:
        The tuple of the combined arrays.

    Raises:
        InvalidArgumentError: The number of the channel has more than 64 bits.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.all_reduce_tuple([x, x], ops.max)
        %all-reduce.2: (f32[3], f32[3])

    See https://openxla.org/xla/operation_semantics#allreduce
    """
    attributes = AllReduceAttributes(
        _participants(replica_groups, channel_id, use_global_device_ids)
    )
    arrays = as_sequence(operands)
    result = _all_reduced(arrays, computation, attributes)
    return control.tuple([result]) if len(arrays) == 1 else result


@checked
def cross_replica_sum(operand: Op, replica_groups: Groups = ()) -> Op:
    """The sum of the operands of a group; for pred, whether any of them is true.

    Args:
        operand: An array, or a tuple of arrays of one element type.
        replica_groups: Groups of ids, as [[0, 1], [2, 3]]; none is one group of all.

    Returns:
        The sum, of the operand's shape; a tuple of sums for a tuple.

    Raises:
        InvalidArgumentError: The operand is neither an array nor a tuple of arrays.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.cross_replica_sum(x)
        %all-reduce.2: f32[3]

    See https://openxla.org/xla/operation_semantics#crossreplicasum
    """
    first = next(operand.shape.leaves(), operand.shape)
    element = first.element_type
    adder = Builder(f"cross_replica_sum_{element}")
    terms = [adder.parameter(number, Shape.scalar(element)) for number in range(2)]
    opcode = Opcode.OR if element is ElementType.PRED else Opcode.ADD
    return all_reduce(operand, adder.build(adder.instruction(opcode, terms)), replica_groups)


@checked
def all_gather(
    operand: Operands,
    all_gather_dimension: int,
    shard_count: int,
    replica_groups: Groups = (),
    channel_id: int = 0,
    use_global_device_ids: bool = False,
) -> Op:
    """The operands of the group, `shard_count` of them, joined along a dimension.

    Args:
        operand: An array, or several in a sequence, each of which is gathered by itself.
        all_gather_dimension: The dimension to join along.
        shard_count: The size of a group.
        replica_groups: Groups of ids, as [[0, 1], [2, 3]]; none is one group of all.
        channel_id: The number of the channel; see the head of this module.
        use_global_device_ids: Whether an id names a partition of a replica; needs a channel.

    Returns:
        The joined array, `shard_count` times as large in that dimension; a tuple of them for
            several operands.

    Raises:
        InvalidArgumentError: A size is negative or too large.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.all_gather(x, 0, 1)
        %all-gather.2: f32[2,3]

    See https://openxla.org/xla/operation_semantics#allgather
    """
    operands = as_sequence(operand)
    sizes = [_size(each, all_gather_dimension) * shard_count for each in operands]
    attributes = AllGatherAttributes(
        all_gather_dimension,
        tuple(sizes),
        _participants(replica_groups, channel_id, use_global_device_ids),
    )
    return builder_of(*operands).instruction(Opcode.ALL_GATHER, operands, attributes)


@checked
def reduce_scatter(
    operand: Operands,
    computation: ComputationLike,
    scatter_dimension: int,
    shard_count: int,
    replica_groups: Groups = (),
    channel_id: int = 0,
    use_global_device_ids: bool = False,
) -> Op:
    """The operands of a group combined as by `all_reduce`; each member gets one part of the result.

    A dimension is divided into `shard_count` parts, the n-th for the n-th member.

    Args:
        operand: An array, or several in a sequence.
        computation: An associative and commutative function of two scalars.
        scatter_dimension: The dimension to divide.
        shard_count: The size of a group.
        replica_groups: Groups of ids, as [[0, 1], [2, 3]]; none is one group of all.
        channel_id: The number of the channel; see the head of this module.
        use_global_device_ids: Whether an id names a partition of a replica; needs a channel.

    Returns:
        The part of this member, `shard_count` times smaller in that dimension; a tuple of them for
            several operands.

    Raises:
        ShapeError: The operands do not fit the operation.
        InvalidArgumentError: The number of the channel has more than 64 bits.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.reduce_scatter(x, ops.add, 0, 1)
        %reduce-scatter.2: f32[2,3]

    See https://openxla.org/xla/operation_semantics#reducescatter
    """
    operands = as_sequence(operand)
    if shard_count < 1:
        raise ShapeError(f"shard_count must be at least 1, got {shard_count}")
    sizes = [_size(each, scatter_dimension) // shard_count for each in operands]
    attributes = ReduceScatterAttributes(
        scatter_dimension,
        tuple(sizes),
        _participants(replica_groups, channel_id, use_global_device_ids),
    )
    builder = builder_of(*operands)
    with errors_at(Opcode.REDUCE_SCATTER):
        shapes = [operands[0].shape] * 2
        reducer = scalar_computation(computation, builder, shapes, "computation")
    return builder.instruction(Opcode.REDUCE_SCATTER, operands, attributes, [reducer])


@checked
def all_to_all(
    operand: Op,
    split_dimension: int,
    concat_dimension: int,
    split_count: int,
    replica_groups: Groups = (),
    channel_id: int = 0,
) -> Op:
    """The operand split along one dimension, its n-th part sent to the n-th member of the group.

    The received parts are joined along `concat_dimension`, in the order of their senders.

    Args:
        operand: An array.
        split_dimension: The dimension to divide.
        concat_dimension: The dimension to join along.
        split_count: The size of a group.
        replica_groups: Groups of ids, as [[0, 1], [2, 3]]; none is one group of all.
        channel_id: The number of the channel; see the head of this module.

    Returns:
        The parts received, joined.

    Raises:
        ShapeError: The operands do not fit the operation.
        InvalidArgumentError: The number of the channel has more than 64 bits.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.all_to_all(x, 0, 1, 1)
        %reshape.5: f32[2,3]

    See https://openxla.org/xla/operation_semantics#alltoall
    """
    builder = operand.builder
    shape = operand.shape
    attributes = AllToAllAttributes(split_dimension, _participants(replica_groups, channel_id))
    exchanged = builder.instruction(Opcode.ALL_TO_ALL, [operand], attributes)
    if not 0 <= concat_dimension < shape.rank:
        raise ShapeError(
            f"the concat dimension must be in range [0, {shape.rank}), got {concat_dimension} "
            f"for {shape}"
        ).at(Opcode.ALL_TO_ALL)
    if split_count < 1 or shape.dimensions[split_dimension] % split_count:
        raise ShapeError(
            f"the split dimension must be divisible by the split count {split_count}, got dim "
            f"{split_dimension} = {shape.dimensions[split_dimension]} of {shape}"
        ).at(Opcode.ALL_TO_ALL)
    if split_dimension == concat_dimension:
        return exchanged
    # The number of the part becomes a dimension, which moves in front of the joined one.
    parts = list(shape.dimensions)
    parts[split_dimension : split_dimension + 1] = [
        split_count,
        shape.dimensions[split_dimension] // split_count,
    ]
    order: list[int] = []
    for number in range(shape.rank):
        if number == concat_dimension:
            order.append(split_dimension)
        order.append(number + 1 if number >= split_dimension else number)
    result = list(shape.dimensions)
    result[split_dimension] //= split_count
    result[concat_dimension] *= split_count
    apart = builder.instruction(Opcode.RESHAPE, [exchanged], ReshapeAttributes(tuple(parts)))
    moved = builder.instruction(Opcode.TRANSPOSE, [apart], TransposeAttributes(tuple(order)))
    return builder.instruction(Opcode.RESHAPE, [moved], ReshapeAttributes(tuple(result)))


@checked
def all_to_all_tuple(operands: Operands, replica_groups: Groups = (), channel_id: int = 0) -> Op:
    """The tuple of values received, when the n-th operand is sent to the n-th member of the group.

    Args:
        operands: One array for each member of the group.
        replica_groups: Groups of ids, as [[0, 1], [2, 3]]; none is one group of all.
        channel_id: The number of the channel; see the head of this module.

    Returns:
        The tuple of the arrays received, in the order of their senders.

    Raises:
        InvalidArgumentError: The number of the channel has more than 64 bits.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> ops.all_to_all_tuple(x)
        %all-to-all.2: (f32[2,3])

    See https://openxla.org/xla/operation_semantics#alltoall
    """
    attributes = AllToAllAttributes(None, _participants(replica_groups, channel_id))
    arrays = as_sequence(operands)
    return builder_of(*arrays).instruction(Opcode.ALL_TO_ALL, arrays, attributes)


@checked
def ragged_all_to_all(
    operand: Op,
    output: Op,
    input_offsets: Op,
    send_sizes: Op,
    output_offsets: Op,
    recv_sizes: Op,
    replica_groups: Groups = (),
    channel_id: int = 0,
) -> Op:
    """`output` with slices of rows written into it, which the members of the group send.

    Entry n of the offsets and sizes is about the n-th member. The order of the operands is HLO's.

    Args:
        operand: The rows to send.
        output: The array to write into.
        input_offsets: The index of the first row to send to each member, integers.
        send_sizes: The number of rows to send to each member.
        output_offsets: The index of the row in each member's `output` where they go.
        recv_sizes: The number of rows that each member sends here.
        replica_groups: Groups of ids, as [[0, 1], [2, 3]]; none is one group of all.
        channel_id: The number of the channel; see the head of this module.

    Returns:
        `output` with the received slices in it.

    Raises:
        InvalidArgumentError: The number of the channel has more than 64 bits.

    Example:
        >>> b = Builder("example")
        >>> x, n = b.parameter(0, "f32[8]"), b.parameter(1, "s32[1]")
        >>> ops.ragged_all_to_all(x, x, n, n, n, n)
        %ragged-all-to-all.3: f32[8]
    """
    attributes = RaggedAllToAllAttributes(_participants(replica_groups, channel_id))
    operands = [operand, output, input_offsets, send_sizes, output_offsets, recv_sizes]
    return operand.builder.instruction(Opcode.RAGGED_ALL_TO_ALL, operands, attributes)


@checked
def collective_broadcast(operand: Operands, replica_groups: Groups = (), channel_id: int = 0) -> Op:
    """The operand of the first member of the group; zeros on a replica that is in no group.

    Args:
        operand: An array, or several in a sequence.
        replica_groups: Groups of ids, as [[0, 1], [2, 3]]; none is one group of all.
        channel_id: The number of the channel; see the head of this module.

    Returns:
        The operand of the group's first member, or zeros; a tuple of them for several operands.

    Raises:
        InvalidArgumentError: The number of the channel has more than 64 bits.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.collective_broadcast(x)
        %collective-broadcast.2: f32[3]
    """
    operands = as_sequence(operand)
    attributes = CollectiveBroadcastAttributes(_participants(replica_groups, channel_id))
    return builder_of(*operands).instruction(Opcode.COLLECTIVE_BROADCAST, operands, attributes)


@checked
def collective_permute(
    operand: Operands,
    source_target_pairs: Sequence[tuple[int, int]],
    channel_id: int = 0,
) -> Op:
    """The operand of the source that is paired with this target; zeros for a target without one.

    Args:
        operand: An array, or several in a sequence.
        source_target_pairs: (source, target) ids, each source and each target at most once.
        channel_id: The number of the channel; see the head of this module.

    Returns:
        The operand of the source, or zeros; a tuple of them for several operands.

    Raises:
        ShapeError: A source or a target is named twice, or an operand is no array.
        InvalidArgumentError: The number of the channel has more than 64 bits.

    Example:
        >>> x = Builder("example").parameter(0, "f32[3]")
        >>> ops.collective_permute(x, [(0, 0)])
        %collective-permute.2: f32[3]

    See https://openxla.org/xla/operation_semantics#collectivepermute
    """
    operands = as_sequence(operand)
    pairs = tuple((int(source), int(target)) for source, target in source_target_pairs)
    attributes = CollectivePermuteAttributes(pairs, channel_id)
    return builder_of(*operands).instruction(Opcode.COLLECTIVE_PERMUTE, operands, attributes)


def _all_reduced(
    operands: Sequence[Op], computation: ComputationLike, attributes: AllReduceAttributes
) -> Op:
    builder = builder_of(*operands)
    with errors_at(Opcode.ALL_REDUCE):
        shapes = [operands[0].shape] * 2
        reducer = scalar_computation(computation, builder, shapes, "computation")
    return builder.instruction(Opcode.ALL_REDUCE, operands, attributes, [reducer])


def _participants(
    groups: Groups, channel_id: int, use_global_device_ids: bool = False
) -> Participants:
    stated = ReplicaGroups.of(integers(group, "replica_groups") for group in groups)
    return Participants(stated, channel_id, use_global_device_ids)


def _size(operand: Op, dimension: int) -> int:
    shape = operand.shape
    # A dimension that does not exist is refused by the rule.
    return shape.dimensions[dimension] if 0 <= dimension < shape.rank else 0
