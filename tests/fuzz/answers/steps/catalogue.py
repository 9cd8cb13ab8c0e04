"""The modules of the fuzzer by number: random graphs, and the smallest program of each opcode."""

import random
from collections.abc import Mapping
from types import MappingProxyType

from tests.conformance.sweep.draws import drawing
from tests.fuzz.answers.steps import (
    callees,
    combining,
    control,
    dynamic,
    elementwise,
    memory,
    products,
    windows,
)
from tests.fuzz.answers.steps.graph import Case, graph_case, with_all_results
from tests.operations_page.probes import PROBES
from tests.operations_page.probing import Subject
from tests.property.random_programs import control as random_control
from tests.property.random_programs import steps as random_steps
from tests.property.random_programs.graphs import Step
from xla_contract.errors import XlaError
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.opcode import Opcode

PROBE_SHARE = 0.2
"""Share of modules that are the smallest program of an opcode, with values of any kind."""

PROBED_TYPES = (*drawing.EVERY, E.S2, E.U2, E.S1, E.U1, E.F6E2M3FN, E.F6E3M2FN)

UNPROBED: Mapping[Opcode, str] = MappingProxyType(
    {
        Opcode.INFEED: "waits for a client to send",
        Opcode.OUTFEED: "waits for a client to read",
        Opcode.RECV: "waits for a program to send",
        Opcode.RECV_DONE: "waits for a program to send",
        Opcode.RNG: "draws numbers, others on each platform",
        Opcode.RNG_GET_AND_UPDATE_STATE: "draws numbers, others on each platform",
        Opcode.SEND: "waits for a program to receive",
        Opcode.SEND_DONE: "waits for a program to receive",
    }
)
"""Operations that have no answer to compare, and why."""

_COPIES = "gives its operand back where there is one replica"
_ORDERS = "gives its operand back"
_HALVES = "is one of two halves, which only make sense together"

UNMIXED: Mapping[Opcode, str] = MappingProxyType(
    {
        **{opcode: UNPROBED[opcode] for opcode in (Opcode.INFEED, Opcode.OUTFEED)},
        **{opcode: UNPROBED[opcode] for opcode in (Opcode.RNG, Opcode.RNG_GET_AND_UPDATE_STATE)},
        Opcode.ADD_DEPENDENCY: _ORDERS,
        Opcode.ALL_GATHER: _COPIES,
        Opcode.ALL_GATHER_DONE: _HALVES,
        Opcode.ALL_GATHER_START: _HALVES,
        Opcode.ALL_REDUCE: _COPIES,
        Opcode.ALL_REDUCE_DONE: _HALVES,
        Opcode.ALL_REDUCE_START: _HALVES,
        Opcode.ALL_TO_ALL: _COPIES,
        Opcode.ASYNC_DONE: _HALVES,
        Opcode.ASYNC_START: _HALVES,
        Opcode.ASYNC_UPDATE: _HALVES,
        Opcode.COLLECTIVE_BROADCAST: _COPIES,
        Opcode.COLLECTIVE_PERMUTE: _COPIES,
        Opcode.COLLECTIVE_PERMUTE_DONE: _HALVES,
        Opcode.COLLECTIVE_PERMUTE_START: _HALVES,
        Opcode.COLLECTIVE_REDUCE: _COPIES,
        Opcode.COPY_DONE: _HALVES,
        Opcode.COPY_START: _HALVES,
        Opcode.DOMAIN: _ORDERS,
        Opcode.DYNAMIC_RESHAPE: "needs sizes that multiply to those there are",
        Opcode.FUSION: "is a call, which graphs have",
        Opcode.PARTITION_ID: "is 0",
        Opcode.RAGGED_ALL_TO_ALL: _COPIES,
        Opcode.REDUCE_SCATTER: _COPIES,
        Opcode.REPLICA_ID: "is 0",
        Opcode.SCALED_DOT: "is written as a dot, which graphs have",
    }
)
"""Operations that are drawn as the smallest program of an opcode alone, and why."""

STEPS: tuple[Step, ...] = (
    *random_control.MOVES,
    *random_control.ELEMENTWISE,
    *random_control.CONTROL,
    random_steps.integer_dot,
    random_steps.places_of_extremes,
    *elementwise.STEPS,
    *windows.STEPS,
    *products.STEPS,
    *control.STEPS,
    *combining.STEPS,
    *callees.STEPS,
    *memory.STEPS,
    *dynamic.STEPS,
)


def case(seed: int) -> Case:
    """Return the module of a seed, always the same one."""
    chance = random.Random(f"answers {seed}")
    if chance.random() < PROBE_SHARE:
        return probe_case(seed, chance)
    return graph_case(seed, STEPS)


def probe_case(seed: int, chance: random.Random) -> Case:
    """Return the smallest program of a random opcode on a random type that it has."""
    opcodes = [opcode for opcode in PROBES if opcode not in UNPROBED]
    while True:
        opcode, kind = chance.choice(opcodes), chance.choice(PROBED_TYPES)
        subject = Subject(kind)
        try:
            root = PROBES[opcode].program(subject)
        except XlaError:
            continue
        arguments = [
            drawing.array(shape.element_type, shape.dimensions, chance.randrange(1 << 30))
            for shape in subject.parameters
        ]
        proto = with_all_results(subject.build(root).proto)
        return Case(f"seed {seed}, {opcode} of {kind.text}", proto, arguments)
