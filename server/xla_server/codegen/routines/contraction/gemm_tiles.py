"""Tiles of matrix products: two panels are multiplied, with all sums in registers.

A panel is a few rows of the left matrix, or columns of the right one, ordered by k index. The left
one is packed; the right one has a given stride between k indices, so that a matrix may also be read
unpacked.

A step of 16-bit integers is a pair, which one instruction multiplies and adds up.
"""

import dataclasses
from collections.abc import Sequence

from xla_server.codegen.compiler.llvm_text import Declaration, TextLoop, VectorText
from xla_server.codegen.kernel_ir.routine import Routine, Unit, parameters
from xla_server.target.machine import Machine

_VECTORS, _MAX_VECTORS = 2, 3
"""Vectors of a tile's row at most, in tall tiles and in tiles of few rows."""

_MIN_SUMS = 12
"""Sums of a tile with which additions need not wait for each other on any processor."""

_LINE = 64
"""Bytes that are fetched ahead at a time."""


@dataclasses.dataclass(frozen=True, slots=True)
class TileKind:
    """Types of a product: the element type of results, its bytes, and the bytes of a k step.

    `sources` are the element types that are packed for it; with `pairs` a step has two elements, as
    16-bit numbers.
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
    return range(1, 1 + (_MAX_VECTORS if is_wide else _VECTORS))


TILE = Routine(
    "gemm_tile",
    (
        # Panels of both sides.
        *parameters(Unit.READ, "left", "right"),
        *parameters(Unit.UPDATE, "result"),
        # Memory for a packed panel of the right matrix, which tiles that pack write.
        *parameters(Unit.WRITE, "workspace"),
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


class GemmTileText(VectorText):
    """Writer of the function of a tile of `rows` rows, with `vectors` vectors in each.

    If it `packs`, it stores the right panel's elements that it reads to `workspace`, for tiles
    below.
    """

    def __init__(
        self, declared: Declaration, kind: TileKind, rows: int, vectors: int, *, packs: bool = False
    ) -> None:
        super().__init__(declared, kind.form)
        self._kind, self._rows, self._vectors, self._packs = kind, rows, vectors, packs
        self._has_pairs = has_pairs(declared.machine)

    def multiply(self) -> None:
        """Write all of it."""
        rows, vectors = self._rows, self._vectors
        # Stack memory is allocated at the start, or each iteration would allocate it.
        kept = self.let(f"alloca [{rows * vectors} x {self.vector}], align {self.bytes}")
        carried = [("ptr", self.pointer("%left")), ("ptr", self.pointer("%right"))]
        carried += [(self.vector, "zeroinitializer")] * (rows * vectors)
        carried += [("ptr", self.pointer("%workspace"))] if self._packs else []
        loop = TextLoop(self, "0", "%steps", 1, carried)
        left, right, *values = loop.values
        sums, packed = values[: rows * vectors], values[rows * vectors :]
        # Whole vectors: instructions for masks would compete with the products.
        factors = [self.load(self.behind(right, n * self.bytes)) for n in range(vectors)]
        self._fetch_ahead(right)
        for target in packed:
            for number, factor in enumerate(factors):
                self.store(factor, self.behind(target, number * self.bytes))
        added = []
        for row in range(rows):
            factor = self.broadcast(self.behind(left, row * self.width))
            for total, other in zip(sums[row * vectors :], factors, strict=False):
                added.append(self._added(factor, other, total))
            if not self._kind.pairs and not self.is_float:
                # Products have registers of their own, which leaves none to load the next row's
                # factor.
                self.do('call void asm sideeffect "", "~{memory}"()')
        panels = [self.behind(left, rows * self.width), self.behind(right, "%ahead")]
        ends = (self.behind(each, vectors * self.bytes) for each in packed)
        loop.end([*panels, *added, *ends])
        self._store_all(added, kept)

    def _fetch_ahead(self, right: str) -> None:
        """Fetch the panel after the next one into L2.

        Rows of a matrix that is not packed may be pages apart, so that the processor does not fetch
        them ahead. The next panel would come too late, and L1 may hold only few lines of such
        rows.
        """
        size = self._vectors * self.bytes
        for offset in range(2 * size, 3 * size, _LINE):
            operands = [f"ptr {self.behind(right, offset)}", "i32 0", "i32 2", "i32 1"]
            self.call("void", "llvm.prefetch.p0", operands)

    def _store_all(self, sums: Sequence[str], kept: str) -> None:
        """Store the sums of a tile, or add them to the result, by way of the memory `kept`.

        A loop over the tile's valid rows compiles in less time than unrolled code for all of them.
        Whole vectors are written without masks, which take some processors tens of cycles each.
        """
        vectors, lanes = self._vectors, self.lanes
        for number, value in enumerate(sums):
            self.write(self.vector, value, self.behind(kept, number * self.bytes), self.bytes)
        masks = [self.mask(lanes, number * lanes, "%columns") for number in range(vectors)]
        adds = self.let("trunc i64 %adds to i1")
        is_added = self.splat("i1", lanes, adds)
        reads = [self.let(f"and <{lanes} x i1> {mask}, {is_added}") for mask in masks]
        enough = self.let(f"icmp sge i64 %columns, {vectors * lanes}")
        is_whole = self.let(f"and i1 {enough}, {self.let(f'xor i1 {adds}, true')}")
        whole, partial, end = (self.label() for _ in range(3))
        self.do(f"br i1 {is_whole}, label %{whole}, label %{partial}")
        for label in (whole, partial):
            self.start(label)
            start = [("ptr", kept), ("ptr", self.pointer("%result"))]
            loop = TextLoop(self, "0", "%rows", 1, start)
            source, target = loop.values
            for number, (mask, read) in enumerate(zip(masks, reads, strict=True)):
                pointer = self.behind(source, number * self.bytes)
                total = self.read(self.vector, pointer, self.bytes)
                pointer = self.behind(target, number * self.bytes)
                if label == whole:
                    self.store(total, pointer)
                else:
                    self.store(self.add(self.load(pointer, read), total), pointer, mask)
            loop.end([self.behind(source, vectors * self.bytes), self.behind(target, "%pitch")])
            self.do(f"br label %{end}")
        self.start(end)

    def _added(self, factor: str, other: str, total: str) -> str:
        """The sums with the products of two vectors added."""
        if self.is_float:
            return self.multiply_add(factor, other, total)
        if not self._kind.pairs:
            return self.add(total, self.mul(factor, other))
        lanes, vector = self.lanes, self.vector
        halves = f"<{2 * lanes} x i16>"
        pairs = [self.let(f"bitcast {vector} {name} to {halves}") for name in (factor, other)]
        if self._has_pairs:
            both = self.call(vector, _PAIRS[lanes], [f"{halves} {name}" for name in pairs])
            return self.add(total, both)
        products = []
        for half in (0, 1):
            numbers = range(half, 2 * lanes, 2)
            parts = [self.shuffle(halves, name, "poison", numbers) for name in pairs]
            wide = [self.let(f"sext <{lanes} x i16> {name} to {vector}") for name in parts]
            products.append(self.mul(wide[0], wide[1]))
        return self.add(total, self.add(*products))


_PAIRS = {16: "llvm.x86.avx512.pmaddw.d.512", 8: "llvm.x86.avx2.pmadd.wd"}
"""Instructions that multiply pairs of numbers and add up each pair, by the number of results."""


def has_pairs(machine: Machine) -> bool:
    """Return whether one instruction multiplies pairs of 16-bit numbers and adds up each."""
    return machine.has("avx512bw" if machine.has("avx512f") else "avx2")
