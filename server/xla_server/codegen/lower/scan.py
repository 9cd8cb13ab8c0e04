"""Lowering of running sums, products, maxima: reduce-windows that one pass computes.

Sums and products of floats are kept in double, as a long sequence adds up many roundings, and sums
of doubles with what their roundings have left out. Along the last dimension each row is a trip.
Along others a block of neighbours is, whose running values are kept in scratch memory, so that
memory is read in its order.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from xla_contract.element_type import ElementType
from xla_contract.opcode import Opcode
from xla_contract.shape import Shape
from xla_server.buffers.code import CANCELLATION, KernelThunk, Value
from xla_server.codegen.functions.elementwise import function_of
from xla_server.codegen.kernel_ir.kernel import SourceKernel
from xla_server.codegen.loops.element_text import load_text, store_text
from xla_server.codegen.loops.scalar_text import Named, ScalarText, ScalarWriter
from xla_server.codegen.loops.stopping import SPAN, is_long, stop_lines
from xla_server.codegen.lower.loops import array_shapes, lower_loop
from xla_server.codegen.lower.lowering import Lower, Lowering, Tree
from xla_server.codegen.trace.elementwise import converted, literal
from xla_server.codegen.trace.graph import Node
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.codegen.trace.rules import RULES
from xla_server.codegen.trace.tracer import Tracer
from xla_server.fusion.running_window import is_backwards, running_axis
from xla_server.ir.module import HloInstruction
from xla_server.ops.scalar_function import recognise

_ZERO = literal(np.float64(0), ElementType.F64)
_NOTHING = literal(np.float64(-0.0), ElementType.F64)
"""What leaves any number as it is."""

_BLOCK = 128
"""Neighbours that one trip takes along together."""


def lower_reduce_window(lowering: Lowering, i: HloInstruction) -> Tree:
    """One pass where the window is a running one, else a loop over each window."""
    axis = running_axis(i)
    if axis is None or not i.operands[0].shape.element_count:
        return lower_loop(lowering, i)
    shapes = array_shapes(i.shape)
    results = tuple(lowering.new(shape, f"{i.name}.{n}") for n, shape in enumerate(shapes))
    values = [lowering.array(operand) for operand in i.operands]
    step = _step_of(i)
    sizes = shapes[0].dimensions
    length, inner = sizes[axis], math.prod(sizes[axis + 1 :])
    outer = shapes[0].element_count // (length * inner)
    kept = [
        lowering.new(Shape.array(kind, (outer * inner,)), f"{i.name}.running.{n}")
        for n, kind in enumerate(step.types)
        if inner > 1
    ]
    read = tuple(dict.fromkeys(values))
    arguments = [*read, *results, *kept]
    place = f"({length - 1} - i)" if is_backwards(i, axis) else "i"
    trips = outer * -(-inner // _BLOCK) if inner > 1 else outer
    work = 4 * shapes[0].element_count // trips
    types = types_of(values)
    if inner > 1:
        body = _columns(step, types, length, inner, place, looks=is_long(work))
    else:
        body = _rows(step, types, length, place, looks=is_long(work))
    count = len(results)
    names = {f"x{n}": values[n] for n in range(count)}
    names |= {f"first{n}": values[count + n] for n in range(count)}
    names |= {f"r{n}": value for n, value in enumerate(results)}
    names |= {f"kept{n}": value for n, value in enumerate(kept)}
    lines = [*step.constants, "def kernel(buffers, start, stop):"]
    lines += [f"    {a} = peek_i64(buffers, {arguments.index(v)})" for a, v in names.items()]
    if is_long(work):
        lines.append(f"    cancelled = peek_i64(buffers, {len(arguments)})")
        arguments.append(CANCELLATION)
    for n, value in enumerate(values[count:]):
        lines.append(f"    given{n} = {load_text(value.shape.element_type, f'first{n}', '0')}")
    lines += ["    " + line for line in step.prepare.lines]
    lines.append("    for t in range(start, stop):")
    kernel = SourceKernel("\n".join([*lines, *body, ""]))
    writes = (*results, *kept)
    lowering.add(KernelThunk(i.name, kernel, trips, work, tuple(arguments), read, writes))
    return results if i.shape.is_tuple else results[0]


def types_of(values: Sequence[Value]) -> list[ElementType]:
    """The element type of each value."""
    return [value.shape.element_type for value in values]


@dataclasses.dataclass(frozen=True, slots=True)
class _Step:
    """How running values `run` of these types go on, as text of kernels.

    `prepare` makes from `given`, the initial values, what runs start from; `begin` makes the
    first running values and `advance` the next ones from `new` elements, `count` of them; `give`
    makes results.
    """

    count: int
    types: tuple[ElementType, ...]
    prepare: ScalarText
    begin: ScalarText
    advance: ScalarText
    give: ScalarText

    @property
    def constants(self) -> tuple[str, ...]:
        """Lines that belong before the kernel."""
        parts = (self.prepare, self.begin, self.advance, self.give)
        return tuple(line for part in parts for line in part.constants)


def _step_of(i: HloInstruction) -> _Step:
    t = Tracer(RULES, {})
    (reducer,) = i.called
    count = len(i.operands) // 2
    own = [operand.shape.element_type for operand in i.operands]
    kinds = [parameter.shape.element_type for parameter in reducer.parameters]
    known = recognise(reducer) is not None
    if known:
        kinds = [_wide(reducer.root.opcode, kinds[0])] * 2

    def given(name: str, n: int, element_type: ElementType) -> Node:
        return Named(f"{name}{n}", KERNEL_TYPE[element_type].computed)

    elements = [
        converted(t, given("new", n, own[n]), own[n], kinds[count + n]) for n in range(count)
    ]
    initial = [
        converted(t, given("given", n, own[count + n]), own[count + n], kinds[n])
        for n in range(count)
    ]
    prepare = ScalarWriter("p").text_of(initial)
    starts = [Named(name, node.type) for name, node in zip(prepare.results, initial, strict=True)]

    def combined(left: Sequence[Node], right: Sequence[Node]) -> Sequence[Node]:
        if not known:
            return t.call(reducer, [*left, *right])
        computed = KERNEL_TYPE[kinds[0]].computed
        function = function_of(reducer.root.opcode, kinds[0], computed)
        return [t.rounded(t.apply(function, [*left, *right], computed), kinds[0])]

    # What is recognised combines the initial value last: a sum is the same from wherever it starts.
    types = tuple(kinds[:count])
    first = elements if known else combined(starts, elements)
    running = [given("run", n, kind) for n, kind in enumerate(types)]
    following, made = combined(running, elements), running
    if known and reducer.root.opcode is Opcode.ADD and _is_double(reducer.root.shape.element_type):
        parts = _parts(t, elements[0])
        types = (ElementType.F64,) * (2 * len(parts))
        first = [node for part in parts for node in (part, _NOTHING)]
        running = [given("run", n, kind) for n, kind in enumerate(types)]
        pairs = list(zip(running[::2], running[1::2], strict=True))
        following = [
            node
            for (total, left_out), part in zip(pairs, parts, strict=True)
            for node in _exact_sum(t, total, left_out, part)
        ]
        sums = [t.apply("add", pair, "f64") for pair in pairs]
        made = sums if len(sums) == 1 else [t.apply("complex_f64", sums, "c128")]
    final = combined(starts, made) if known else made
    wanted = [shape.element_type for shape in array_shapes(i.shape)]
    return _Step(
        count,
        types,
        prepare,
        ScalarWriter("b").text_of(first),
        ScalarWriter("a").text_of(following),
        ScalarWriter("g").text_of(
            [converted(t, *each) for each in zip(final, kinds[:count], wanted, strict=True)]
        ),
    )


def _is_double(element_type: ElementType) -> bool:
    return element_type in (ElementType.F64, ElementType.C128)


def _parts(t: Tracer, element: Node) -> list[Node]:
    """The doubles that a number has."""
    if element.type != "c128":
        return [element]
    return [t.apply(f"{part}_c128", [element], "f64") for part in ("real", "imag")]


def _exact_sum(t: Tracer, total: Node, left_out: Node, part: Node) -> tuple[Node, Node]:
    """The sum of a total and a number, and what all roundings so far have left out."""

    def apply(function: str, *operands: Node) -> Node:
        return t.apply(function, operands, "f64")

    following = apply("add", total, part)
    added = apply("sub", following, total)
    rest = apply(
        "add", apply("sub", total, apply("sub", following, added)), apply("sub", part, added)
    )
    # Not where the sum is infinite; and a rest of 0 leaves the sign of a sum of -0.
    is_left_out = t.apply("gt", [apply("absolute", rest), _ZERO], "b1")
    more = apply("add", left_out, rest)
    return following, t.apply("select", [is_left_out, more, left_out], "f64")


def _wide(opcode: Opcode, element_type: ElementType) -> ElementType:
    if opcode in (Opcode.ADD, Opcode.MULTIPLY):
        if element_type.is_floating:
            return ElementType.F64
        if element_type.is_complex:
            return ElementType.C128
    return element_type


def _element(step: _Step, types: Sequence[ElementType], at: str, text: ScalarText) -> list[str]:
    """Lines that read the elements at a place, go on to new running values and store results."""
    count = step.count
    return [
        f"at = {at}",
        *(f"new{n} = {load_text(types[n], f'x{n}', 'at')}" for n in range(count)),
        *text.lines,
        # One result may be what another running value was.
        *(f"next{n} = {name}" for n, name in enumerate(text.results)),
        *(f"run{n} = next{n}" for n in range(len(step.types))),
        *step.give.lines,
        *(
            store_text(types[count + n], f"r{n}", "at", name)
            for n, name in enumerate(step.give.results)
        ),
    ]


def _rows(
    step: _Step, types: Sequence[ElementType], length: int, place: str, *, looks: bool
) -> list[str]:
    at = f"t * {length} + {place}"
    return [
        "        i = 0",
        *("        " + line for line in _element(step, types, at, step.begin)),
        *_others(length, _element(step, types, at, step.advance), SPAN if looks else length),
    ]


def _columns(
    step: _Step, types: Sequence[ElementType], length: int, inner: int, place: str, *, looks: bool
) -> list[str]:
    blocks = -(-inner // _BLOCK)
    at = f"(row * {length} + {place}) * {inner} + column"
    load = [
        f"run{n} = {load_text(kind, f'kept{n}', 'own', 'reload')}"
        for n, kind in enumerate(step.types)
    ]
    keep = [store_text(kind, f"kept{n}", "own", f"run{n}") for n, kind in enumerate(step.types)]
    own = f"own = row * {inner} + column"
    across = [
        "for column in range(low, high):",
        f"    {own}",
        *("    " + line for line in [*load, *_element(step, types, at, step.advance), *keep]),
    ]
    return [
        f"        row = whole_div(t, {blocks})",
        f"        low = whole_mod(t, {blocks}) * {_BLOCK}",
        f"        high = minimum(low + {_BLOCK}, {inner})",
        "        i = 0",
        "        for column in range(low, high):",
        f"            {own}",
        *("            " + line for line in [*_element(step, types, at, step.begin), *keep]),
        *_others(length, across, SPAN // _BLOCK if looks else length),
    ]


def _others(length: int, lines: Sequence[str], span: int) -> list[str]:
    """The loop over all elements of a line but the first, which looks after a span of them."""
    if span >= length:
        return [f"        for i in range(1, {length}):", *("            " + x for x in lines)]
    return [
        f"        for begin in range(1, {length}, {span}):",
        *stop_lines(3),
        f"            for i in range(begin, minimum(begin + {span}, {length})):",
        *("                " + line for line in lines),
    ]


SCAN_LOWERINGS: Mapping[Opcode, Lower] = MappingProxyType(
    {Opcode.REDUCE_WINDOW: lower_reduce_window}
)
