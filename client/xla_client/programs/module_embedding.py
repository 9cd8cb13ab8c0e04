"""Copies of called computations in the module that calls them, under new ids and names."""

from collections.abc import Mapping

from xla_client.programs.computation import Computation
from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import hlo_pb2

_LOW_32_BITS = 0xFFFFFFFF
"""Mask of an instruction's own number: the upper half of its id is the computation's."""


class Names:
    """The names taken in one module."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._next: dict[str, int] = {}

    def fresh(self, base: str, number: int) -> str:
        """`base.number`, or the next free number; the name is taken from now on."""
        name = f"{base}.{number}"
        while name in self._used:
            number = max(number, self._next.get(base, 0)) + 1
            self._next[base] = number
            name = f"{base}.{number}"
        self._used.add(name)
        return name

    def keep(self, name: str) -> str:
        """`name` itself if it is free, else the same stem with a free number."""
        if name and name not in self._used:
            self._used.add(name)
            return name
        stem, _, number = name.rpartition(".")
        return self.fresh(stem if stem and number.isdecimal() else name, 1)

    def release(self, name: str) -> None:
        """Give a name back that was not used after all."""
        self._used.discard(name)


class Embedding:
    """The computations a builder's instructions call, each embedded once."""

    def __init__(self, instruction_names: Names, first_id: int) -> None:
        self._instruction_names = instruction_names
        self._next_id = first_id
        self._roots: dict[Computation, int] = {}
        self._computations: list[hlo_pb2.HloComputationProto] = []

    def add(self, computation: Computation) -> int:
        """Embed a computation with everything it calls; return the id of its entry here."""
        if computation not in self._roots:
            self._roots[computation] = self._embed(computation.proto)
        return self._roots[computation]

    def write(self, module: hlo_pb2.HloModuleProto, *, reserved_name: str) -> None:
        """Write the embedded computations, callees first, beside one of `reserved_name`."""
        names = Names()
        names.keep(reserved_name)
        for computation in self._computations:
            written = module.computations.add()
            written.CopyFrom(computation)
            written.name = names.keep(computation.name)

    def _embed(self, module: hlo_pb2.HloModuleProto) -> int:
        ids: dict[int, int] = {}
        for computation in module.computations:
            ids[computation.id] = self._next_id
            self._next_id += 1
            self._renumber(computation, ids)
        # All or none: a module that is refused must leave nothing in modules built later.
        self._computations += module.computations
        return ids[module.entry_computation_id]

    def _renumber(self, computation: hlo_pb2.HloComputationProto, ids: Mapping[int, int]) -> None:
        upper = ids[computation.id] << 32
        computation.id = ids[computation.id]
        computation.root_id = upper | computation.root_id & _LOW_32_BITS
        for instruction in computation.instructions:
            instruction.name = self._instruction_names.keep(instruction.name)
            instruction.id = upper | instruction.id & _LOW_32_BITS
            for field in (instruction.operand_ids, instruction.control_predecessor_ids):
                field[:] = [upper | number & _LOW_32_BITS for number in field]
            called = list(instruction.called_computation_ids)
            if not ids.keys() >= set(called):
                raise InvalidArgumentError(
                    "called computations must be listed before their callers, got "
                    f"{called} at {instruction.opcode} %{instruction.name}"
                )
            instruction.called_computation_ids[:] = [ids[number] for number in called]
