"""Checks of a device through its platform, in groups. The interpreter says what is right.

Kernels have one order of sums, so their results have the bits of the twin's.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from tests.cuda import programs
from tests.cuda.checks.outcomes import Check, assert_bits, assert_near
from tests.cuda_twin.lowered import compiled
from tests.cuda_twin.rows import plans
from tests.platforms import compiled_platform
from tests.property.random_programs.graphs import Program, assert_alike
from tests.unit.codegen.compiled import built, interpreted, on_platform
from tests.unit.codegen.trace import elementwise_rows as rows
from tests.unit.codegen.trace.elementwise_rows import EVERY, UNSIGNED
from xla_client.programs.builder import Op
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.opcode import Opcode
from xla_server.backends.compiled.backend import CompiledBackend
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule

PRODUCTS = frozenset({Opcode.DOT, Opcode.CONVOLUTION})

OF_LIBRARIES = PRODUCTS | {Opcode.FFT, Opcode.CHOLESKY, Opcode.TRIANGULAR_SOLVE}

HIGHEST = 2
"""Precision of an operand, by xla_data.proto."""


def in_full_precision(module: HloModule) -> HloModule:
    """Let the products of a program round no operand; return the program."""
    for computation in module.computations:
        for i in computation.instructions:
            if i.opcode in PRODUCTS:
                i.attributes = dataclasses.replace(i.attributes, precision=(HIGHEST, HIGHEST))
    return module


def opcodes_of(module: HloModule) -> set[Opcode]:
    """Return the opcodes of a program's instructions."""
    return {i.opcode for computation in module.computations for i in computation.instructions}


@dataclasses.dataclass(frozen=True, slots=True)
class Sides:
    """The platform that is checked and, if bits are compared, the twin."""

    device: CompiledBackend
    twin: CompiledBackend | None = None

    @classmethod
    def of(cls, name: str) -> "Sides":
        """Return the sides of a platform by its name."""
        twin = None if name == "cuda-twin" else compiled_platform("cuda-twin")
        return cls(compiled_platform(name), twin)

    def results(self, module: HloModule, arguments: list[Any]) -> list[Any]:
        """Return the device's results, of products that round no operand to TF32."""
        return on_platform(self.device, in_full_precision(module), arguments)

    def assert_bits(self, module: HloModule, arguments: list[Any], ours: list[Any]) -> None:
        """Check that results have the twin's bits, where no library has an order of its own."""
        has_plans = opcodes_of(module) & OF_LIBRARIES and plans(compiled(module))
        if self.twin is not None and not has_plans:
            assert_bits(ours, on_platform(self.twin, module, arguments))


def elements(sides: Sides, part: int, parts: int) -> Iterator[Check]:
    """Every elementwise operation, comparison and conversion of a part of the element types."""
    for kind in EVERY[part::parts]:
        made = {
            "operations": rows.every_operation,
            "comparisons": rows.compare_select_and_clamp,
            "conversions": rows.converted_to_every_type,
            "bitcasts": rows.bitcast_to_every_type,
        }
        if kind.is_floating:
            made["precisions"] = rows.reduced_precision
            if kind.bit_width in UNSIGNED:
                made["stochastic conversions"] = rows.stochastically_converted
        for name, make in made.items():
            yield f"{kind.text} {name}", functools.partial(_rows, sides, make, kind)


def _rows(sides: Sides, make: Callable[[E], rows.Rows], kind: E) -> None:
    def both(function: Callable[..., Op], *arguments: Any) -> list[tuple[Any, Any]]:
        module, given = built(function, arguments), list(map(np.asarray, arguments))
        found.append((module, given, sides.results(module, given)))
        return list(zip(found[0][2], interpreted(module, given), strict=True))

    found: list[tuple[HloModule, list[Any], list[Any]]] = []
    make(kind).of_normal_numbers.check(both)
    sides.assert_bits(*found[0])


def near(sides: Sides, made: Iterable[programs.Program], *, bits: bool = True) -> Iterator[Check]:
    """Programs whose results differ from the interpreter's by roundings of sums."""
    for name, make in made:
        yield name, functools.partial(_near, sides, make, bits)


def _near(sides: Sides, make: Callable[[], tuple[HloModule, list[Any]]], bits: bool) -> None:
    module, arguments = make()
    ours = sides.results(module, arguments)
    assert_near(ours, interpreted(module, arguments))
    if bits:
        sides.assert_bits(module, arguments, ours)


def drawn(sides: Sides, first: int) -> Iterator[Check]:
    """Random programs, with a bound on each result's error."""
    for name, program in programs.drawn(first, programs.RANDOM_PROGRAMS):
        yield name, functools.partial(_drawn, sides, program)


def _drawn(sides: Sides, program: Program) -> None:
    module = import_module(program.proto)
    ours = sides.results(module, program.arguments)
    theirs = interpreted(module, program.arguments)
    for mine, other, error in zip(ours, theirs, program.errors, strict=True):
        assert_alike(mine, other, error)
    sides.assert_bits(module, program.arguments, ours)


def kernels(sides: Sides, part: int) -> Iterator[Check]:
    """Programs of every class of kernels, every other one."""
    return near(sides, itertools.islice(programs.kernels(), part, None, 2))


def again(sides: Sides) -> Iterator[Check]:
    """Programs with sums, whose results have the same bits in every run."""
    for name, make in (*programs.kernels(), *programs.libraries()):
        if any(
            word in name for word in ("sum", "softmax", "norm", "scatter", "dot", "convolution")
        ):
            yield name, functools.partial(_again, sides, make)


def _again(sides: Sides, make: Callable[[], tuple[HloModule, list[Any]]]) -> None:
    module, arguments = make()
    first = sides.results(module, arguments)
    for _ in range(4):
        assert_bits(sides.results(module, arguments), first)


def _corpus(name: str) -> Callable[[Sides], Iterator[Check]]:
    return lambda sides: near(sides, programs.of_corpus(name))


_PARTS = 4

GROUPS: Mapping[str, Callable[[Sides], Iterator[Check]]] = MappingProxyType(
    {
        **{
            f"elements {part}": functools.partial(elements, part=part, parts=_PARTS)
            for part in range(_PARTS)
        },
        **{f"kernels {part}": functools.partial(kernels, part=part) for part in range(2)},
        "libraries": lambda sides: near(sides, programs.libraries(), bits=False),
        "golden": _corpus("golden"),
        "hlo": _corpus("hlo"),
        "jax": _corpus("jax"),
        "random 0": functools.partial(drawn, first=0),
        "random 1": functools.partial(drawn, first=programs.RANDOM_PROGRAMS),
        "again": again,
    }
)
"""Checks by the names of their groups."""
