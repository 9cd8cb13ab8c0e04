"""The page: which operation takes which element types, and which platform runs it on them."""

import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.operations_page.placing import Way, places_of
from tests.operations_page.probes import PROBES, Probe
from tests.operations_page.probing import KINDS, Accepted, ProbeError, Runner, accepted
from xla_contract.ops import definitions as contract
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.app.options.platform_names import Platform
from xla_server.app.options.settings import Settings
from xla_server.app.platforms import PLATFORMS
from xla_server.ops import evaluators as server

ROOT = Path(__file__).parents[2]
PATH = ROOT / "docs" / "OPERATIONS.md"

EXECUTED = (Platform.INTERPRETER, Platform.CPU)
"""Platforms that need no device."""

_ALL, _NONE = "●", ""


def _all_of(is_member: Callable[[ElementType], bool]) -> tuple[ElementType, ...]:
    return tuple(sorted(filter(is_member, KINDS), key=lambda kind: (kind.bit_width, kind.text)))


GROUPS: Mapping[str, tuple[ElementType, ...]] = {
    "pred": (ElementType.PRED,),
    "s1-s64": _all_of(lambda kind: kind.is_signed_integer),
    "u1-u64": _all_of(lambda kind: kind.is_unsigned_integer),
    "f16 bf16 f32 f64": (ElementType.F16, ElementType.BF16, ElementType.F32, ElementType.F64),
    "f8": _all_of(lambda kind: kind.is_floating and kind.bit_width == 8),
    "f4 f6": _all_of(lambda kind: kind.is_floating and kind.bit_width < 8),
    "c64 c128": (ElementType.C64, ElementType.C128),
    "tuple": (ElementType.TUPLE,),
    "token": (ElementType.TOKEN,),
}
"""The columns; together every kind once."""

_ROOMS = {
    "Elements, movement, values and effects": contract.ELEMENTARY,
    "Arrays, computations and control": contract.COMPOUND,
    "Communication and halves": contract.COMMUNICATION,
}

_INTRODUCTION = """\
# Operations

Written by `make operations`, which asks the programs themselves; a test fails while this page says
something else. For each operation and each kind of operand a smallest program is stated in the
builder and, where the shape rule lets it pass, compiled and executed on these platforms:
{platforms}. For cuda, which needs a device, it is compiled.

- {mark} in a column: the shape rule takes all of its types. Names: those alone. Empty: none.
- The column of a platform says on which of these it runs: `all`, or the ones it does not run on.
- The column `cuda` says what does it: a {kernel} on the device, a {library} there, or
  {host}: operands are copied to it, and results back. Types that are named are done in another way
  than the others. There is {nothing} for what moves nothing, and for what is known before a program
  runs.
- The type is that of the main operands, or of the result of an operation that has none of a free
  type (constant, iota, infeed, recv, rng-bit-generator). A tuple holds an array of f32. Where an
  operation has no such type, the columns say `-`.
- Links lead from an operation to its shape rule and to its evaluator in numpy, or to the reason
  why it needs none.
- The builder's column names the function of `xla_client.ops`, or method of `Builder`, that writes
  the operation; operations without one are written by compilers, and read here.
- f8 is {eight}; f4 f6 is {four}.
"""


def page(asked: Collection[Platform] = tuple(PLATFORMS)) -> str:
    """The page's text; platforms that are not asked have `?` in their cells.

    Raises ProbeError for an opcode without probe, or a probe that does not ask what it should.
    """
    check_probes(contract.DEFINITION, PROBES)
    runners = {
        platform: Runner(make(Settings(platform=platform))) if platform in asked else None
        for platform, make in PLATFORMS.items()
        if platform in EXECUTED
    }
    lines = [
        _INTRODUCTION.format(
            platforms=", ".join(runners),
            kernel=f"`{Way.KERNEL}`",
            library=f"`{Way.LIBRARY}`",
            host=f"`{Way.HOST}`",
            nothing=f"`{Way.NOTHING}`",
            mark=_ALL,
            eight=", ".join(kind.text for kind in GROUPS["f8"]),
            four=", ".join(kind.text for kind in GROUPS["f4 f6"]),
        )
    ]
    for title, definitions in _ROOMS.items():
        opcodes = sorted(definition.opcode for definition in definitions)
        lines += [f"## {title}", "", *_table(opcodes, runners), ""]
    lines += ["## Opcodes without definition", ""]
    lines += [f"- `{opcode}`: {reason}" for opcode, reason in contract.UNDEFINED.items()]
    return "\n".join(lines) + "\n"


def check_probes(defined: Collection[Opcode], probes: Mapping[Opcode, Probe]) -> None:
    """Raise ProbeError unless exactly the opcodes with a definition have a probe."""
    for opcode in sorted({*defined} ^ {*probes}):
        if opcode in probes:
            raise ProbeError(f"{opcode} has a probe and no definition: strike it from PROBES")
        raise ProbeError(
            f"{opcode} has a definition and no probe: add its smallest program to PROBES in "
            "tests/operations_page/probes.py"
        )


def _table(opcodes: Sequence[Opcode], runners: Mapping[Platform, Runner | None]) -> Iterator[str]:
    yield _row("operation", "builder", *GROUPS, *runners, "cuda", "in numpy")
    yield _row(*["---"] * 2, *[":-:"] * len(GROUPS), *["---"] * (len(runners) + 2))
    for opcode in opcodes:
        probe = PROBES[opcode]
        found = accepted(opcode, probe.program, probe.before)
        if not found.programs:
            raise ProbeError(f"the rule of {opcode} must take something, got a probe it refuses")
        yield _row(
            _link(f"`{opcode}`", contract.DEFINITION[opcode].infer),
            f"`{probe.function}`" if probe.function else "",
            *_types(found),
            *("?" if runner is None else _run(found, runner) for runner in runners.values()),
            _places(opcode, found),
            _evaluator(opcode),
        )


def _types(found: Accepted) -> Iterator[str]:
    taken = {program.kind for program in found.programs}
    for kinds in GROUPS.values():
        inside = [kind for kind in kinds if kind in taken]
        if not found.is_typed:
            yield "-"
        elif len(inside) == len(kinds):
            yield _ALL
        else:
            yield _named(inside, kinds)


def _named(inside: Sequence[ElementType], kinds: Sequence[ElementType]) -> str:
    """The kinds in a few words: runs of neighbours, or all but a few."""
    outside = [kind.text for kind in kinds if kind not in inside]
    if inside and len(inside) > 2 and len(outside) < len(inside) and kinds[0].is_floating:
        return f"all but {' '.join(outside)}"
    if len(inside) > 2 and inside[0].is_integer:
        first = kinds.index(inside[0])
        if list(kinds[first : first + len(inside)]) == list(inside):
            return f"{inside[0].text}-{inside[-1].text}"
    return " ".join(kind.text for kind in inside) or _NONE


def _run(found: Accepted, runner: Runner) -> str:
    failed = [kind.text for kind in runner.refused(found.programs)]
    if not failed:
        return "all"
    return "none" if len(failed) == len(found.programs) else f"not {' '.join(failed)}"


def _places(opcode: Opcode, found: Accepted) -> str:
    """Where most types are done, and where the others are, by name."""
    places = places_of(opcode, found.programs).items()
    most, *others = sorted(places, key=lambda each: -len(each[1]))
    named = (
        f"{place}: {' '.join(kind.text for kind in kinds)}"
        for place, kinds in others
        if place is not Way.NOTHING
    )
    return "; ".join([most[0], *named])


def _evaluator(opcode: Opcode) -> str:
    """A link to what evaluates an opcode, or to the table that says what does it instead."""
    found = server.EVALUATORS.get(opcode)
    return _link("reason", server.evaluator) if found is None else _link("evaluator", found)


def _link(text: str, function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    path = inspect.getsourcefile(inspect.unwrap(function))
    if path is None:
        raise ProbeError(f"what a row links to must have a file, got {function!r}")
    return f"[{text}](../{Path(path).resolve().relative_to(ROOT)})"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
