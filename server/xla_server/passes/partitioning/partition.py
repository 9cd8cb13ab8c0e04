"""Manually partitioned programs, as the program that each partition runs.

Semantics: what XLA's partitioners make of Shardy's and GSPMD's markers. Operations outside of
regions run on every partition alike, on whole values, as do axes that a region leaves to the
compiler. Where a region begins, a partition takes its part of a whole value; where one ends, an
all-gather assembles the parts. Unreduced values are summed there; where a region begins, one
partition of each group has the value and the others zeros. In the program's own signature they are
sums. The results are exact; the cost is memory and time.
"""

import dataclasses
from collections.abc import Sequence

from xla_contract.errors import UnimplementedError, XlaError
from xla_contract.types.devices.sharding import REPLICATED, Sharding, ShardingKind
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.passes.framework.editor import Editor, rearrange, rewrite, users
from xla_server.passes.partitioning.markers import (
    HINTS,
    Marker,
    check_partitions,
    is_marker,
    read_markers,
    stated_sharding,
    target_of,
)
from xla_server.passes.partitioning.moves import addend_of, gather, part_of, sent_by, summed
from xla_server.passes.partitioning.replicated_work import (
    ReplicatedWork,
    find_regions,
    replicated_values,
)
from xla_server.passes.partitioning.signature import (
    ShardedSignature,
    is_partitioned,
    sharded_signature,
    state_signature,
)

WORK_ATTRIBUTE = "work_on_every_partition"
"""The module's frontend attribute with the notes on replicated work."""

_BINDING = (
    ShardingKind.REPLICATED,
    ShardingKind.TILED,
    ShardingKind.MAXIMAL,
    ShardingKind.UNREDUCED,
)
"""Kinds of shardings that bind a parameter or result of a program."""


@dataclasses.dataclass(frozen=True, slots=True)
class Partitioned:
    """The program of one partition, and the signature of all of them together."""

    module: HloModule
    signature: ShardedSignature
    work: ReplicatedWork


def needs_partitioning(module: HloModule) -> bool:
    """Return whether a module for several partitions is written on whole values."""
    if module.grid.partitions == 1 or is_partitioned(module):
        return False
    if any(map(is_marker, module.instructions())):
        return True
    edges = map(stated_sharding, (*module.entry.parameters, module.entry.root))
    return any(edge.is_split for edge in edges if edge is not None)


def partition(module: HloModule, *, max_replicated_bytes: int | None = None) -> Partitioned:
    """Turn a module into the program that each partition of its grid runs.

    A parameter has the sharding that it states, or that of the first region that reads it. A result
    has the sharding that it states, or that of the region it comes from. A module that is
    partitioned already, or states no shardings, stays as it is. WORK_ATTRIBUTE gets the notes.

    Raises InvalidArgumentError (ShapeError for shapes) for markers and shardings that do not fit,
    UnimplementedError for tuples of tuples in tiles, and ResourceExhaustedError for more than
    `max_replicated_bytes` of values that a partition holds whole.
    """
    if not needs_partitioning(module):
        return Partitioned(module, sharded_signature(module), ReplicatedWork())
    markers = read_markers(module, module.grid.partitions)
    calls, automatic = find_regions(module, markers)
    partitioner = _Partitioner(module, markers)
    signature = partitioner.run()
    sources = {whole: local for whole, (local, _) in partitioner.gathered.items()}
    values = replicated_values(module, calls, sources, partitioner.parts)
    work = ReplicatedWork(values, automatic)
    work.check(max_replicated_bytes)
    if work.notes and module.decoration is not None:
        # Dumps print the attributes of a module.
        module.decoration.frontend_attributes.map[WORK_ATTRIBUTE] = "; ".join(work.notes)
    return Partitioned(module, signature, work)


class _Partitioner:
    """The rewrite of one module from whole values to those of a partition."""

    def __init__(self, module: HloModule, markers: dict[HloInstruction, Marker]) -> None:
        self._module = module
        self._markers = markers
        self._editor = Editor(module)
        self.gathered: dict[HloInstruction, tuple[HloInstruction, Sharding]] = {}
        """Whole value -> the part that it was gathered from, and the part's sharding."""
        self._sent: dict[HloInstruction, tuple[HloInstruction, Sharding]] = {}
        """Whole value that was summed or sent by one partition -> the value of each partition."""
        self.parts: dict[HloInstruction, HloInstruction] = {}
        """Part that was taken -> the whole value."""
        self._moves: set[HloInstruction] = set()
        self._partition_id: HloInstruction | None = None
        self._local: dict[HloInstruction, Sharding] = {}

    def run(self) -> ShardedSignature:
        """Rewrite the module and return its original signature, with the shardings."""
        module, entry = self._module, self._module.entry
        whole = module.entry_program_shape
        readers = users(entry)
        parameters = [self._sharding_of(parameter, readers) for parameter in entry.parameters]
        self._local = dict(zip(entry.parameters, parameters, strict=True))
        stated = self._stated(entry.root)
        for computation in list(module.computations):
            self._partition_id = None
            rewrite(computation, self._replacement, self._editor)
            if computation is not entry:
                self._drop_unread_moves(computation)
        results = self._share_results(stated)
        self._drop_unread_moves(entry)
        module.computations[:0] = self._editor.shared.values()
        result = Sharding.tuple_of(results) if whole.result.is_tuple else results[0]
        signature = ShardedSignature(whole, tuple(parameters), result)
        pairs = zip(whole.parameters, parameters, strict=True)
        module.entry_program_shape = ProgramShape(
            tuple(sharding.shard_shape(shape) for shape, sharding in pairs),
            result.shard_shape(whole.result),
            whole.parameter_names,
        )
        state_signature(module, signature)
        _drop_aliases(module)
        return signature

    def _sharding_of(
        self, parameter: HloInstruction, readers: dict[HloInstruction, list[HloInstruction]]
    ) -> Sharding:
        """The sharding that an entry parameter states, else that of the region that reads it."""
        stated = self._stated(parameter)
        if parameter.shape.is_tuple:
            return REPLICATED
        if stated[0] is not None:
            return stated[0]
        waiting = [parameter]
        for value in waiting:
            for reader in readers[value]:
                marker = self._markers.get(reader)
                if marker is not None and marker.is_entry:
                    return marker.shardings[reader.operands.index(value)].reduced()
                if target_of(reader) in HINTS and len(reader.operands) == 1:
                    waiting.append(reader)
        return REPLICATED

    def _stated(self, edge: HloInstruction) -> list[Sharding | None]:
        """The sharding that the program states for each leaf of a parameter or of its result."""
        try:
            sharding = stated_sharding(edge) or Sharding(ShardingKind.UNKNOWN)
            sharding.check(edge.shape)
            leaves = [leaf for _, leaf in sharding.leaves(edge.shape)]
            for leaf in leaves:
                check_partitions(leaf, self._module.grid.partitions)
            is_list = edge is self._module.entry.root and not any(
                part.is_tuple for part in edge.shape.tuple_shapes
            )
            if edge.shape.is_tuple and not is_list and any(leaf.is_split for leaf in leaves):
                raise UnimplementedError(
                    "only parameters that are arrays, and results in a tuple of arrays, may be in "
                    f"tiles, got {sharding} for {edge.shape.without_layout()}"
                )
        except XlaError as error:
            raise error.at(edge.opcode, edge.name) from error.__cause__
        return [leaf.reduced() if leaf.kind in _BINDING else None for leaf in leaves]

    def _replacement(self, i: HloInstruction) -> HloInstruction | None:
        if i in self._markers:
            return self._moved(i, self._markers[i])
        if target_of(i) in HINTS and len(i.operands) == 1:
            return i.operands[0]
        if i.opcode is Opcode.GET_TUPLE_ELEMENT and i.operands[0].opcode is Opcode.TUPLE:
            return self._editor.element(i.operands[0], i.attributes.index)
        if i in self._local and self._local[i].is_split:
            return self._local_parameter(i, self._local[i])
        return None

    def _moved(self, i: HloInstruction, marker: Marker) -> HloInstruction:
        """The values at the beginning of a region, or after its end."""
        move = self._part if marker.is_entry else self._whole
        pairs = zip(i.operands, marker.shardings, strict=True)
        return self._editor.results_as(i, [move(value, sharding) for value, sharding in pairs])

    def _whole(self, local: HloInstruction, sharding: Sharding) -> HloInstruction:
        grid, placed = self._module.grid, sharding.reduced()
        known = local
        if sharding.kind is ShardingKind.MAXIMAL:
            known = sent_by(self._editor, local, sharding.devices[0], grid.partitions)
        elif addends := sharding.addends(grid.partitions):
            known = summed(self._editor, local, addends, grid)
        whole = known
        if placed.is_split:
            whole = gather(self._editor, known, placed, grid.replicas)
            self.gathered[whole] = known, placed
        if known is not local:
            self._sent[whole] = local, sharding
        # For a value with two split dimensions, several instructions follow the collective.
        step = whole
        while step is not local:
            self._moves.add(step)
            (step,) = step.operands
        return whole

    def _part(self, whole: HloInstruction, sharding: Sharding) -> HloInstruction:
        sent = self._sent.get(whole)
        if sent is not None and sent[1] == sharding:
            return sent[0]
        part = self._tile(whole, sharding.reduced())
        if addends := sharding.addends(self._module.grid.partitions):
            part = addend_of(self._editor, part, addends, self._own_id())
            self.parts[part] = whole
        return part

    def _tile(self, whole: HloInstruction, sharding: Sharding) -> HloInstruction:
        if not sharding.is_split:
            return whole
        known = self.gathered.get(whole)
        if known is not None and known[1].placement() == sharding.placement():
            return known[0]
        part = part_of(self._editor, whole, sharding, self._own_id())
        self.parts[part] = whole
        return part

    def _own_id(self) -> HloInstruction:
        if self._partition_id is None:
            self._partition_id = self._editor.add(Opcode.PARTITION_ID, ())
        return self._partition_id

    def _drop_unread_moves(self, computation: HloComputation) -> None:
        """Drop collectives for unread whole values, which their side effects would keep."""
        read = {computation.root}
        kept = []
        for i in reversed(computation.instructions):
            if i in read or i not in self._moves:
                kept.append(i)
                read.update(i.operands)
        computation.instructions = kept[::-1]

    def _local_parameter(self, whole: HloInstruction, sharding: Sharding) -> HloInstruction:
        """Replace a parameter by one of a partition's shape; return the whole value."""
        entry = self._module.entry
        local = self._editor.copy(whole, ())
        local.name = whole.name
        local.shape = sharding.shard_shape(whole.shape)
        local.attributes = dataclasses.replace(whole.attributes, shape=local.shape)
        entry.parameters = tuple(local if part is whole else part for part in entry.parameters)
        return self._whole(local, sharding)

    def _share_results(self, stated: Sequence[Sharding | None]) -> list[Sharding]:
        """Make the entry return a partition's parts; return the shardings of the leaves."""
        entry, editor = self._module.entry, self._editor
        root = entry.root
        if any(part.is_tuple for part in root.shape.tuple_shapes):
            return [REPLICATED] * len(stated)
        leaves = editor.elements(root)
        shardings, parts = [], []
        for leaf, wish in zip(leaves, stated, strict=True):
            known = self.gathered.get(leaf)
            sharding = wish or (REPLICATED if known is None else known[1])
            shardings.append(sharding if sharding.is_split else REPLICATED)
            parts.append(self._part(leaf, sharding))
        if parts != leaves:
            entry.root = editor.results_as(root, parts)
        entry.instructions += editor.drain()
        rearrange(entry)
        return shardings


def _drop_aliases(module: HloModule) -> None:
    """Drop aliases between parameters and results whose shapes on a partition differ."""
    proto, signature = module.decoration, module.entry_program_shape
    if proto is None:
        return
    results = signature.result.tuple_shapes or (signature.result,)
    kept = [
        alias
        for alias in proto.input_output_alias.entries
        if len(alias.output_shape_index) > 1
        or alias.parameter_shape_index
        or results[sum(alias.output_shape_index)].compatible(
            signature.parameters[alias.parameter_number]
        )
    ]
    if len(kept) < len(proto.input_output_alias.entries):
        del proto.input_output_alias.entries[:]
        proto.input_output_alias.entries.extend(kept)
