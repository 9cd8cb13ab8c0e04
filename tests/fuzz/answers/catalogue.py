"""The modules of the fuzzer by number: random graphs, and the smallest program of each opcode."""

import random

from tests.conformance.sweep import drawing
from tests.fuzz.answers import steps_control, steps_elementwise, steps_products, steps_windows
from tests.fuzz.answers.graph import Case, graph_case, with_all_results
from tests.operations_page.probes import PROBES
from tests.operations_page.probing import Subject
from tests.property import random_control, random_steps
from tests.property.random_graphs import Step
from xla_contract.element_type import ElementType as E
from xla_contract.errors import XlaError
from xla_contract.opcode import Opcode

PROBE_SHARE = 0.2
"""Share of modules that are the smallest program of an opcode, with values of any kind."""

_PROBED_TYPES = (*drawing.EVERY, E.S2, E.U2, E.S1, E.U1, E.F6E2M3FN, E.F6E3M2FN)

UNPROBED = frozenset(
    {
        Opcode.INFEED,
        Opcode.OUTFEED,
        Opcode.RECV,
        Opcode.RECV_DONE,
        Opcode.RNG,
        Opcode.RNG_GET_AND_UPDATE_STATE,
        Opcode.SEND,
        Opcode.SEND_DONE,
    }
)
"""Operations that have no answer to compare: they wait for other parties, or draw numbers."""

STEPS: tuple[Step, ...] = (
    *random_control.MOVES,
    *random_control.ELEMENTWISE,
    *random_control.CONTROL,
    random_steps.integer_dot,
    random_steps.places_of_extremes,
    *steps_elementwise.STEPS,
    *steps_windows.STEPS,
    *steps_products.STEPS,
    *steps_control.STEPS,
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
        opcode, kind = chance.choice(opcodes), chance.choice(_PROBED_TYPES)
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
