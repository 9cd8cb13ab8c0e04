"""Lowering of sort and topk: the rows of the sorted dimension one by one, in scratch memory.

Where the comparator compares keys, keys with their elements' numbers are sorted by radix. Others
are asked by a merge sort. Both are stable.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from xla_contract.element_type import ElementType
from xla_contract.opcode import Opcode
from xla_contract.shape import Shape
from xla_server.buffers.code import CANCELLATION, CopyThunk, KernelThunk, Value
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.kernel import SourceKernel
from xla_server.codegen.loops.element_text import load_text
from xla_server.codegen.loops.scalar_text import scalar_text
from xla_server.codegen.loops.stopping import is_long, stop_lines
from xla_server.codegen.lower.loops import array_shapes
from xla_server.codegen.lower.lowering import Lower, Lowering, Tree
from xla_server.codegen.lower.sort_keys import Key, element_key, key_of
from xla_server.codegen.routines.radix_sort import COUNT_WORDS, LOOK
from xla_server.codegen.routines.sorting import sorter_name
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.target.tuning import tuning_of

_COST = 64
"""Operations for each element of a row."""


def lower_sort(lowering: Lowering, i: HloInstruction) -> Tree:
    """Results with the operands' elements in the order the comparator gives."""
    shapes = array_shapes(i.shape)
    results = tuple(lowering.new(shape, f"{i.name}.{n}") for n, shape in enumerate(shapes))
    operands = tuple(lowering.array(operand) for operand in i.operands)
    dimension = i.attributes.dimension
    length = shapes[0].dimensions[dimension]
    if length == 1:
        for result, operand in zip(results, operands, strict=True):
            lowering.add(CopyThunk(result, operand))
    elif shapes[0].element_count:
        types = [shape.element_type for shape in shapes]
        inner = math.prod(shapes[0].dimensions[dimension + 1 :])
        places = f"old = base + {_times('number', inner)}", f"new = base + {_times('i', inner)}"
        moves = [_move(kind, f"r{n}", f"o{n}") for n, kind in enumerate(types)]
        give = [*places, *moves]
        key = key_of(i.called[0], types)
        constants, body, words = (
            _by_comparator(i.called[0], types, length, inner, give)
            if key is None
            else _by_key(key, types, length, inner, length, give)
        )
        rows = shapes[0].element_count // length
        base = (
            f"row * {length}"
            if inner == 1
            else f"whole_div(row, {inner}) * {length * inner} + whole_mod(row, {inner})"
        )
        lines = [f"base = {base}", *body]
        _add(lowering, i, (operands, results), constants, lines, rows, length, words)
    return results if i.shape.is_tuple else results[0]


def lower_topk(lowering: Lowering, i: HloInstruction) -> Tree:
    """The first k of each row in the order of their keys, and their places."""
    shape, k = i.operands[0].shape, i.attributes.k
    results = tuple(
        lowering.new(part, f"{i.name}.{n}") for n, part in enumerate(i.shape.tuple_shapes)
    )
    if not i.shape.tuple_shapes[0].element_count:
        return results
    types, length = [shape.element_type], shape.dimensions[-1]
    key = element_key(shape.element_type, ascending=not i.attributes.largest)
    give = [
        "old = base + number",
        f"new = row * {k} + i",
        _move(shape.element_type, "r0", "o0"),
        "store_i32(r1, new, to_i32(number))",
    ]
    if k <= length // 8:
        constants, body, words = _by_heap(key, types, length, k, give)
    else:
        constants, body, words = _by_key(key, types, length, 1, k, give)
    lines = [f"base = row * {length}", *body]
    rows = shape.element_count // length
    operands = (lowering.array(i.operands[0]),)
    _add(lowering, i, (operands, results), constants, lines, rows, length, words)
    return results


def _by_key(
    key: Key,
    types: Sequence[ElementType],
    length: int,
    inner: int,
    count: int,
    give: Sequence[str],
) -> tuple[tuple[str, ...], list[str], int]:
    """Constants, the body of the loop over rows, words of scratch memory.

    `give` are lines that store at place `i` the element of a `number`. A key of at most four
    bytes shares a word with the number.
    """
    words = 1 if key.bytes <= 4 else 2
    name = key.text.results[0]
    keep = [
        *_loads(types, key.uses, "a", f"base + {_times('i', inner)}"),
        *key.text.lines,
        f"poke_i64(order, i, {name} * {2**32} + i)"
        if words == 1
        else f"poke_i64(order, 2 * i, {name})",
        *([] if words == 1 else ["poke_i64(order, 2 * i + 1, i)"]),
    ]
    room, counts = 8 * words * length, 16 * words * length
    sort = f"{sorter_name(words, key.bytes)}(order, scratch + {room}, scratch + {counts}"
    number = (
        f"bit_and(peek_i64(order, i), {2**32 - 1})" if words == 1 else "peek_i64(order, 2 * i + 1)"
    )
    body = [
        "order = scratch",
        *_each(length, keep),
        f"order = {sort}, {length}, cancelled)",
        # What is not sorted has numbers of no elements.
        *stop_lines(0),
        *_each(count, [f"number = {number}", *give]),
    ]
    return key.text.constants, body, 2 * words * length + COUNT_WORDS


def _by_heap(
    key: Key, types: Sequence[ElementType], length: int, count: int, give: Sequence[str]
) -> tuple[tuple[str, ...], list[str], int]:
    """As `_by_key`, for so few places that a heap of them is all that is kept."""
    name = key.text.results[0]
    element = [*_loads(types, (0,), "a", "base + i"), *key.text.lines]
    keep = [
        f"if i < {count} or {name} < limit:",
        f"    keep_entry(scratch, {count}, i, {name})",
        "    limit = peek_i64(scratch, 0)",
    ]
    body = [
        "limit = 0",
        *_in_order(length, [*element, *keep]),
        f"sort_heap(scratch, {count}, cancelled)",
        *_each(count, ["number = peek_i64(scratch, 2 * i + 1)", *give]),
    ]
    return key.text.constants, body, 2 * count


_MERGE = """order = scratch
other = scratch + {second}
for i in range({length}):
    poke_i64(order, i, i)
width = 1
while width < {length}:
    begin = 0
    while begin < {length}:
        left = begin
        middle = minimum(begin + width, {length})
        right = middle
        high = minimum(begin + 2 * width, {length})
        to = begin
        while left < middle and right < high:
{look}            left_number = peek_i64(order, left)
            right_number = peek_i64(order, right)
            left_at = base + {left_place}
            right_at = base + {right_place}
{loads}{compare}            if {answer}:
                poke_i64(other, to, right_number)
                right += 1
            else:
                poke_i64(other, to, left_number)
                left += 1
            to += 1
        while left < middle:
            poke_i64(other, to, peek_i64(order, left))
            left += 1
            to += 1
        while right < high:
            poke_i64(other, to, peek_i64(order, right))
            right += 1
            to += 1
        begin += 2 * width
    width *= 2
    order, other = other, order
"""


def _by_comparator(
    comparator: HloComputation,
    types: Sequence[ElementType],
    length: int,
    inner: int,
    give: Sequence[str],
) -> tuple[tuple[str, ...], list[str], int]:
    """As `_by_key`; of two runs the right one's element goes first only if it comes before."""
    names = [
        (f"{side}{n}", KERNEL_TYPE[kind].computed) for n, kind in enumerate(types) for side in "ab"
    ]
    compare = scalar_text(comparator, names)
    everything = range(len(types))
    # Each pass puts an entry at every place, so it looks once for as many of them.
    look = [f"if bit_and(to, {LOOK - 1}) == 0:", *("    " + line for line in stop_lines(0))]
    merge = _MERGE.format(
        length=length,
        second=8 * length,
        left_place=_times("left_number", inner),
        right_place=_times("right_number", inner),
        look=_lines(3, look) if length > LOOK else "",
        loads=_lines(
            3,
            [
                *_loads(types, everything, "a", "right_at"),
                *_loads(types, everything, "b", "left_at"),
            ],
        ),
        compare=compare.indented(3),
        answer=compare.results[0],
    )
    body = [*merge.splitlines(), *_each(length, ["number = peek_i64(order, i)", *give])]
    return compare.constants, body, 2 * length


def _each(count: int, lines: Iterable[str]) -> list[str]:
    """A loop over `i` that looks every so often whether to stop if it is long.

    What is done for some `i` may be done again: the last span is as long as the others, which
    LLVM has less to do for than for one that ends earlier.
    """
    if count <= LOOK:
        return [f"for i in range({count}):", *("    " + line for line in lines)]
    return [
        f"for begin in range(0, {count}, {LOOK}):",
        *stop_lines(1),
        f"    first = minimum(begin, {count - LOOK})",
        f"    for n in range({LOOK}):",
        "        i = first + n",
        *("        " + line for line in lines),
    ]


def _in_order(count: int, lines: Iterable[str]) -> list[str]:
    """As `_each`, each time once."""
    look = [f"    if bit_and(i, {LOOK - 1}) == 0:", *stop_lines(2)] if count > LOOK else []
    return [f"for i in range({count}):", *look, *("    " + line for line in lines)]


def _add(
    lowering: Lowering,
    i: HloInstruction,
    values: tuple[tuple[Value, ...], tuple[Value, ...]],
    constants: Sequence[str],
    body: Sequence[str],
    rows: int,
    length: int,
    words: int,
) -> None:
    """A kernel that does `body` for each `row`, with `words` of scratch memory.

    It may look at the word `cancelled`.
    """
    operands, results = values
    each = -(-rows // tuning_of(lowering.machine).row_slots)
    slots = -(-rows // each)
    scratch = lowering.new(Shape.array(ElementType.S64, (slots * words,)), f"{i.name}.scratch")
    read = tuple(dict.fromkeys(operands))
    arguments = (*read, *results, scratch, CANCELLATION)
    lines = [*constants, "def kernel(buffers, start, stop):"]
    for n, value in enumerate(operands):
        lines.append(f"    o{n} = peek_i64(buffers, {arguments.index(value)})")
    for n, value in enumerate(results):
        lines.append(f"    r{n} = peek_i64(buffers, {arguments.index(value)})")
    lines += [
        f"    memory = peek_i64(buffers, {len(arguments) - 2})",
        f"    cancelled = peek_i64(buffers, {len(arguments) - 1})",
        "    for t in range(start, stop):",
        f"        scratch = memory + {_times('t', 8 * words)}",
    ]
    work = _COST * length * each
    if each == 1:
        lines.append("        row = t")
    else:
        lines.append(f"        for row in range(t * {each}, minimum(t * {each} + {each}, {rows})):")
        if is_long(work):
            lines += stop_lines(3)
    text = "\n".join(lines) + "\n" + _lines(2 if each == 1 else 3, body)
    # Vectors would gain nothing.
    kernel = SourceKernel(text, Effort.PLAIN)
    lowering.add(KernelThunk(i.name, kernel, slots, work, arguments, read, (*results, scratch)))


def _loads(types: Sequence[ElementType], which: Iterable[int], side: str, at: str) -> list[str]:
    """Lines that define `a0`, `b2`, ... as elements of the operands."""
    return [f"{side}{n} = {load_text(types[n], f'o{n}', at)}" for n in which]


def _move(element_type: ElementType, result: str, operand: str) -> str:
    storage = KERNEL_TYPE[element_type].storage
    return f"store_{storage}({result}, new, load_{storage}({operand}, old))"


def _times(number: str, count: int) -> str:
    return number if count == 1 else f"{number} * {count}"


def _lines(depth: int, lines: Iterable[str]) -> str:
    return "".join("    " * depth + line + "\n" for line in lines)


SORT_LOWERINGS: Mapping[Opcode, Lower] = MappingProxyType(
    {Opcode.SORT: lower_sort, Opcode.TOPK: lower_topk}
)
