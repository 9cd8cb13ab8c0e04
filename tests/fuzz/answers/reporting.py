"""The text about a difference: the module, its arguments, and the three answers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.fuzz.answers.checking import Reference
from tests.fuzz.answers.shrinking.shrinking import Shrunk
from tests.fuzz.answers.sides import Side, SideError
from xla_server.ir.text.printer import print_module

MAX_ELEMENTS_SHOWN = 8
"""Elements of an answer that are printed, of those that differ."""


def report(found: Shrunk, sides: Sequence[Side]) -> str:
    """Return the text about a difference."""
    reference = Reference(found.case.proto)
    judged = found.difference.judged
    expected, actual = np.asarray(judged.expected), np.asarray(judged.actual)
    places = _differing(expected, actual)
    lines = [
        f"{found.case.origin}: {judged.side} differs from the interpreter at "
        f"{judged.instruction.opcode} %{judged.instruction.name}: {found.difference.words}",
        print_module(reference.module),
    ]
    with np.printoptions(threshold=64, linewidth=120):
        for number, argument in enumerate(found.case.arguments):
            lines.append(f"argument {number} {argument.dtype}{list(argument.shape)} = {argument}")
    position = _position(reference, found)
    for name, results in (
        ("interpreter", reference.results(found.case.arguments)),
        *((side.name, _results(side, found)) for side in sides),
    ):
        answer = results if isinstance(results, str) else results[position].reshape(-1)[places]
        lines.append(f"{name}: {answer}")
    lines.append(f"at elements {places} of {expected.dtype}{list(expected.shape)}")
    return "\n".join(lines)


def _results(side: Side, found: Shrunk) -> Any:
    try:
        return side.run(found.case.proto, found.case.arguments)
    except SideError as error:
        return f"no answer: {error}"[:300]


def _position(reference: Reference, found: Shrunk) -> int:
    names = [operand.name for operand in reference.module.entry.root.operands]
    name = found.difference.name
    if name in names:
        return names.index(name)
    elements = [
        number
        for number, operand in enumerate(reference.module.entry.root.operands)
        if operand.operands and operand.operands[0].name == name
    ]
    return elements[min(found.difference.judged.element, len(elements) - 1)]


def _differing(expected: Any, actual: Any) -> list[int]:
    if expected.shape != actual.shape:
        return []
    ours, theirs = expected.reshape(-1), actual.reshape(-1)
    with np.errstate(all="ignore"):
        unlike = (ours != theirs) & ~((ours != ours) & (theirs != theirs))
        if expected.dtype.kind in "fc":
            unlike |= (
                (ours == 0) & (theirs == 0) & (np.signbit(ours.real) != np.signbit(theirs.real))
            )
    return [int(place) for place in np.flatnonzero(unlike)[:MAX_ELEMENTS_SHOWN]]
