"""Transfers between computations that wait for each other in a circle.

Semantics: XLA's Send and Recv. On each channel recv comes before send, and send before recv-done;
with the operands and control predecessors of all programs that run together there must be no
cycle. Considered are instructions that each run executes exactly once: in the entry computation
and in computations that one call has. Loops and conditionals may never run theirs; such a wait is
explained at run time.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from typing import TypeAlias

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.opcode import Opcode
from xla_server.ir.analysis.participants import transfers_of
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.ir.traversal import reached

_ENDS = (Opcode.SEND, Opcode.RECV, Opcode.RECV_DONE)
_TRANSFERS = frozenset({*_ENDS, Opcode.SEND_DONE})
_MAX_NAMED = 8
"""Largest number of transfers that an error names."""

_Node: TypeAlias = tuple[int, HloInstruction]
"""A participant and an instruction of its program."""

_Wire: TypeAlias = tuple[int, int, int]
"""A channel with its sender and its receiver; -1 for any participant."""


def check_transfer_cycles(modules: Sequence[HloModule], grid: DeviceGrid) -> None:
    """Raise InvalidArgumentError, naming the instructions, for transfers that wait in a circle.

    Each participant of the grid has a module of its own, or all have the same one.
    """
    programs = [_Program(module) for module in modules]
    if not any(program.transfers for program in programs):
        return
    cycle = _Graph(programs * (grid.size // len(programs)), grid).cycle()
    if not cycle:
        return
    ends = [node for node in cycle if node[1].opcode in _TRANSFERS][:_MAX_NAMED]
    shown = " waits for ".join(
        f"{i.opcode} %{i.name}" + (f" of participant {number}" if grid.size > 1 else "")
        for number, i in (*ends, ends[0])
    )
    raise InvalidArgumentError(
        "sends and receives must not wait for each other in a circle, as recv comes before send "
        f"and send before recv-done on each channel, got {shown}"
    ).at(ends[0][1].opcode, ends[0][1].name)


class _Program:
    """The dependencies of a program between instructions that each run executes exactly once.

    `transfers` are all transfers between devices, each with a flag that it is executed exactly
    once; `own_channels` are those that the program both sends and receives on.
    """

    def __init__(self, module: HloModule) -> None:
        reachable = module.entry.reachable()
        self.transfers: list[tuple[HloInstruction, bool]] = []
        self.own_channels: set[int] = set()
        self._bodies: dict[HloInstruction, HloInstruction] = {}
        self._arguments: dict[HloInstruction, HloInstruction] = {}
        ends = [
            (computation, i)
            for computation in reachable
            for i in computation.instructions
            if i.opcode in _ENDS and not i.attributes.is_host_transfer
        ]
        if not ends:
            return
        once = self._once(module.entry, reachable)
        self.transfers = [(i, computation in once) for computation, i in ends]
        sent, received = (
            {i.attributes.channel_id for _, i in ends if (i.opcode is Opcode.SEND) is is_sent}
            for is_sent in (True, False)
        )
        self.own_channels = sent & received

    def _once(
        self, entry: HloComputation, reachable: Sequence[HloComputation]
    ) -> set[HloComputation]:
        """Follow the calls; return the computations that run once."""
        instructions = (i for computation in reachable for i in computation.instructions)
        callers = Counter(called for i in instructions for called in i.called)
        once, left = {entry}, [entry]
        while left:
            for i in left.pop().instructions:
                if i.opcode is Opcode.CALL and callers[i.called[0]] == 1:
                    (called,) = i.called
                    self._bodies[i] = called.root
                    self._arguments.update(zip(called.parameters, i.operands, strict=True))
                    once.add(called)
                    left.append(called)
        return once

    def before(self, i: HloInstruction) -> Sequence[HloInstruction]:
        """The instructions that must have been executed before this one."""
        if i in self._bodies:
            return (self._bodies[i], *i.control_predecessors)
        if i in self._arguments:
            return (self._arguments[i],)
        return (*i.operands, *i.control_predecessors)


class _Graph:
    """The instructions of all participants, with the order that channels add."""

    def __init__(self, programs: Sequence[_Program], grid: DeviceGrid) -> None:
        self._programs = programs
        self._channel: dict[_Node, list[_Node]] = {}
        wires: defaultdict[_Wire, defaultdict[Opcode, list[tuple[_Node, bool]]]]
        wires = defaultdict(lambda: defaultdict(list))
        named = {i: _wires(i, grid) for program in set(programs) for i, _ in program.transfers}
        for number, program in enumerate(programs):
            for i, is_once in program.transfers:
                pairs, channel = named[i], i.attributes.channel_id
                own = number if channel in program.own_channels else -1
                ends = [(channel, own, own)] if pairs is None else pairs.get(number, ())
                for wire in ends:
                    wires[wire][i.opcode].append(((number, i), is_once))
        for by_opcode in wires.values():
            found = [by_opcode[opcode] for opcode in _ENDS]
            if all(len(each) == 1 and each[0][1] for each in found):
                send, recv, done = (each[0][0] for each in found)
                self._channel.setdefault(send, []).append(recv)
                self._channel.setdefault(done, []).append(send)

    def cycle(self) -> list[_Node]:
        """Return the nodes of a cycle, each waiting for the next; an empty list without any."""
        waiting = {node: self._before(node) for node in reached(self._channel, self._before)}
        try:
            TopologicalSorter(waiting).prepare()
        except CycleError as error:
            cycle: list[_Node] = error.args[1]
            return cycle[-2::-1]
        return []

    def _before(self, node: _Node) -> list[_Node]:
        number, i = node
        own = [(number, part) for part in self._programs[number].before(i)]
        return [*own, *self._channel.get(node, ())]


def _wires(i: HloInstruction, grid: DeviceGrid) -> dict[int, list[_Wire]] | None:
    """Return the wires that a transfer is an end of, by participant; None if it states no pairs."""
    pairs = transfers_of(i, grid) if grid.size > 1 else None
    if pairs is None:
        return None
    wires: defaultdict[int, list[_Wire]] = defaultdict(list)
    for pair in pairs:
        wires[pair[i.opcode is not Opcode.SEND]].append((i.attributes.channel_id, *pair))
    return wires
