"""Tiles of products of matrices: a panel of either side, multiplied with all sums in registers.

A panel is a few rows of the left matrix, or columns of the right one, ordered by k index. The left
one is packed; the right one has a given stride between k indices, so that a matrix may also be read
unpacked.

A step of 16-bit integers is a pair: what is multiplied and added up in one instruction.
"""

import dataclasses
from collections.abc import Sequence

from xla_server.codegen.compiler.llvm_text import FunctionText, TextLoop
from xla_server.codegen.kernel_ir.routine import Routine, Unit, parameters
from xla_server.target.machine import Machine

_VECTORS, _MOST_VECTORS = 2, 3
"""Vectors of a tile's row at most, in tall tiles and in tiles of few rows."""

_MIN_SUMS = 12
"""Sums of a tile with which additions need not wait for each other on any processor."""

_LINE = 64
"""Bytes that are fetched ahead at a time."""


@dataclasses.dataclass(frozen=True, slots=True)
class TileKind:
    """Types of a product: the element type of results, its bytes, and the bytes of a k step.

    `sources` are the types of elements that are laid out for it; with `pairs` there are two of
    them to a step, as 16-bit numbers.
    """

    name: str
    form: str
    width: int
    sources: tuple[str, ...]
    pairs: bool = False


KINDS = {
    kind.name: kind
    for kind in (
        TileKind("f32", "float", 4, ("f32",)),
        TileKind("f64", "double", 8, ("f64",)),
        TileKind("i32", "i32", 4, ("i32",)),
        TileKind("i16", "i32", 4, ("i8", "u8", "i16"), pairs=True),
    )
}
"""The kinds by their names in kernels."""


def heights(machine: Machine) -> tuple[int, ...]:
    """Return the numbers of rows that tiles may have; the tallest fill the registers."""
    return (14, 8, 4) if machine.vector_registers > 16 else (6, 4, 2)


def widths(kind: TileKind, rows: int) -> range:
    """Return the numbers of vectors that the rows of a tile may have.

    Rows of short tiles are longer, as few sums wait for their own last additions. Products of
    integers have registers of their own, and leave none for that.
    """
    is_wide = kind.form in ("float", "double") and rows * _VECTORS < _MIN_SUMS
    return range(1, 1 + (_MOST_VECTORS if is_wide else _VECTORS))


TILE = Routine(
    "gemm_tile",
    (
        # Panels of both sides.
        *parameters(Unit.READ, "left", "right"),
        *parameters(Unit.UPDATE, "result"),
        # Memory for a packed panel of the right matrix, which tiles that pack write.
        *parameters(Unit.WRITE, "room"),
        # Bytes between k indices of the right panel, and the number of k indices, at least one.
        *parameters(Unit.OFFSET, "ahead"),
        *parameters(Unit.COUNT, "steps"),
        # Bytes between rows of the result, and its rows and columns that exist.
        *parameters(Unit.OFFSET, "pitch"),
        *parameters(Unit.COUNT, "rows", "columns"),
        # 1 to add to the result, 0 to set it.
        *parameters(Unit.FLAG, "adds"),
    ),
)
"""Multiplies two panels. Each tile has these parameters."""


def tile_text(
    symbol: str, machine: Machine, kind: TileKind, rows: int, vectors: int, *, packs: bool = False
) -> str:
    """The function of a tile.

    One that `packs` writes what it reads of the right panel to `room`, for the tiles below it.
    """
    f = FunctionText(symbol, TILE.names)
    lanes, form = machine.lanes(kind.width), kind.form
    vector = f"<{lanes} x {form}>"
    # Memory of the stack is taken at the start, or it would be taken anew each time.
    kept = f.let(f"alloca [{rows * vectors} x {vector}], align {lanes * kind.width}")
    zero = "zeroinitializer"
    carried = [("ptr", f.pointer("%left")), ("ptr", f.pointer("%right"))]
    carried += [(vector, zero)] * (rows * vectors)
    carried += [("ptr", f.pointer("%room"))] if packs else []
    loop = TextLoop(f, "0", "%steps", 1, carried)
    left, right, *sums = loop.values
    packed = []
    if packs:
        room = sums.pop()
        packed = [f.behind(room, n * lanes * kind.width) for n in range(vectors)]
    factors = []
    for number in range(vectors):
        pointer = f.behind(right, number * lanes * kind.width)
        # Whole vectors, as masks would take turns with the products.
        factors.append(f.read(vector, pointer, kind.width))
    # Rows of a matrix that is not packed may be pages apart, so that the processor does not fetch
    # them ahead. The panel after the next one is fetched into L2: the next one's would come too
    # late, and L1 may have room for few lines of such rows.
    size = vectors * lanes * kind.width
    for offset in range(2 * size, 3 * size, _LINE):
        operands = [f"ptr {f.behind(right, offset)}", "i32 0", "i32 2", "i32 1"]
        f.call("void", "llvm.prefetch.p0", operands)
    for pointer, factor in zip(packed, factors, strict=packs):
        f.write(vector, factor, pointer, kind.width)
    following = []
    for member in range(rows):
        single = f.read(form, f.behind(left, member * kind.width), kind.width)
        factor = f.splat(form, lanes, single)
        for number, other in enumerate(factors):
            pointer = sums[member * vectors + number]
            following.append(_added(f, machine, kind, factor, other, pointer))
        if not kind.pairs and form not in ("float", "double"):
            # Products have registers of their own, which leaves none to load the next row's factor.
            f.do('call void asm sideeffect "", "~{memory}"()')
    behind = [f.behind(pointer, size) for pointer in packed[:1]]
    loop.end([f.behind(left, rows * kind.width), f.behind(right, "%ahead"), *following, *behind])
    _store(f, lanes, kind, following, rows, kept)
    return f.text()


def _store(
    f: FunctionText, lanes: int, kind: TileKind, sums: Sequence[str], rows: int, kept: str
) -> None:
    """Write the sums of a tile, or add them to what is there, by way of the memory `kept`.

    A loop over the rows that are there is compiled in less time than all after each other. Whole
    vectors are written without masks, which take some processors tens of cycles each.
    """
    vectors = len(sums) // rows
    form = kind.form
    vector, size = f"<{lanes} x {form}>", lanes * kind.width
    for number, value in enumerate(sums):
        f.write(vector, value, f.behind(kept, number * size), size)
    masks = [f.mask(lanes, number * lanes, "%columns") for number in range(vectors)]
    adds = f.let("trunc i64 %adds to i1")
    is_added = f.splat("i1", lanes, adds)
    reads = [f.let(f"and <{lanes} x i1> {mask}, {is_added}") for mask in masks]
    enough = f.let(f"icmp sge i64 %columns, {vectors * lanes}")
    is_whole = f.let(f"and i1 {enough}, {f.let(f'xor i1 {adds}, true')}")
    whole, partial, end = (f.label() for _ in range(3))
    f.do(f"br i1 {is_whole}, label %{whole}, label %{partial}")
    add = "fadd" if form in ("float", "double") else "add"
    for label in (whole, partial):
        f.start(label)
        start = [("ptr", kept), ("ptr", f.pointer("%result"))]
        loop = TextLoop(f, "0", "%rows", 1, start)
        source, target = loop.values
        for number, (mask, read) in enumerate(zip(masks, reads, strict=True)):
            total = f.read(vector, f.behind(source, number * size), size)
            pointer = f.behind(target, number * size)
            if label == whole:
                f.write(vector, total, pointer, kind.width)
            else:
                before = f.read(vector, pointer, kind.width, read)
                total = f.let(f"{add} {vector} {before}, {total}")
                f.write(vector, total, pointer, kind.width, mask)
        loop.end([f.behind(source, vectors * size), f.behind(target, "%pitch")])
        f.do(f"br label %{end}")
    f.start(end)


def _added(
    f: FunctionText, machine: Machine, kind: TileKind, factor: str, other: str, total: str
) -> str:
    """The sums with the products of two vectors added."""
    lanes = machine.lanes(kind.width)
    vector = f"<{lanes} x {kind.form}>"
    if kind.form in ("float", "double"):
        return f.fma(vector, factor, other, total)
    if not kind.pairs:
        product = f.let(f"mul {vector} {factor}, {other}")
        return f.let(f"add {vector} {total}, {product}")
    halves = f"<{2 * lanes} x i16>"
    pairs = [f.let(f"bitcast {vector} {name} to {halves}") for name in (factor, other)]
    if has_pairs(machine):
        both = f.call(vector, _PAIRS[lanes], [f"{halves} {name}" for name in pairs])
        return f.let(f"add {vector} {total}, {both}")
    products = []
    for half in (0, 1):
        numbers = range(half, 2 * lanes, 2)
        parts = [f.shuffle(halves, name, "poison", numbers) for name in pairs]
        wide = [f.let(f"sext <{lanes} x i16> {name} to {vector}") for name in parts]
        products.append(f.let(f"mul {vector} {wide[0]}, {wide[1]}"))
    both = f.let(f"add {vector} {products[0]}, {products[1]}")
    return f.let(f"add {vector} {total}, {both}")


_PAIRS = {16: "llvm.x86.avx512.pmaddw.d.512", 8: "llvm.x86.avx2.pmadd.wd"}
"""Instructions that multiply pairs of numbers and add up each pair, by the number of results."""


def has_pairs(machine: Machine) -> bool:
    """Return whether one instruction multiplies pairs of 16-bit numbers and adds up each."""
    return machine.has("avx512bw" if machine.has("avx512f") else "avx2")
