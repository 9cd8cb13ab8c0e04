"""Packing of matrices into panels, k index by k index, for the tiles of `gemm_tiles`.

A panel packs some rows of the left matrix or some columns of the right one, here called its rows.
The memory of a panel is followed by that of the next, or by `SLACK`: vectors are stored whole, and
the excess is overwritten by the next panel.
"""

from xla_server.codegen.compiler.llvm_text import Declaration, TextLoop, VectorText, lanes_of
from xla_server.codegen.kernel_ir.routine import Routine, Unit, parameters
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.routines.contraction.gemm_tiles import TileKind

SLACK = 64
"""Bytes behind the last panel: the widest vector, as vectors are stored whole."""

_QUARTER = 16
"""Bytes of a 128-bit lane of a vector: processors shuffle elements fastest within one."""

_CHUNK = 128
"""Number of k indices transposed at a time for all rows: that part of the panel stays in L1."""

PANEL = Routine(
    "gemm_panel",
    (
        # The first row at the first k index, and the distance of stored rows.
        *parameters(Unit.READ, "source"),
        *parameters(Unit.OFFSET, "ahead"),
        *parameters(Unit.WRITE, "panel"),
        # Number of k indices, and of rows that exist.
        *parameters(Unit.COUNT, "steps", "width"),
    ),
)
"""Packs a panel of rows that are contiguous along k or across it."""


class PanelText(VectorText):
    """Writer of the function that packs a panel of `height` rows."""

    def __init__(self, declared: Declaration, kind: TileKind, source: str, height: int) -> None:
        super().__init__(declared, f"i{8 * kind.width}", is_plain=True)
        self.kind, self.height = kind, height
        self.stored_bytes = Type(source).byte_size
        self.stored = f"i{8 * self.stored_bytes}"
        self.extend = "zext" if source[0] == "u" else "sext"
        self.row = height * kind.width

    def widened(self, lanes: int, value: str) -> str:
        """Elements of a pair as 16-bit numbers."""
        if self.stored_bytes == 2:
            return value
        return self.let(f"{self.extend} <{lanes} x {self.stored}> {value} to <{lanes} x i16>")

    def halved(self, number: str) -> str:
        """Return half of a number of k steps, which is the number of pairs."""
        return self.let(f"lshr i64 {number}, 1")


def along(f: PanelText) -> None:
    """Pack a panel of a matrix in which the rows at one k index are contiguous.

    `ahead` is the distance of k indices. Rows beyond `width` become zeros.
    """
    kind, lanes = f.kind, f.lanes
    count = -(-f.height // lanes)
    masks = [f.mask(lanes, number * lanes, "%width") for number in range(count)]
    elements = f"<{lanes} x {f.stored}>"
    steps = "%steps"
    if kind.pairs:
        steps = f.halved(f.let("add i64 %steps, 1"))
    loop = TextLoop(f, "0", steps, 1, [("ptr", f.pointer("%panel"))])
    (to,) = loop.values
    first = f.let(f"mul i64 {loop.number}, 2") if kind.pairs else loop.number
    start = f.pointer(f.address("%source", (first, "%ahead")))
    if kind.pairs:
        second = f.let(f"add i64 {first}, 1")
        there = f.splat("i1", lanes, f.let(f"icmp slt i64 {second}, %steps"))
        other = f.behind(start, "%ahead")
    for number, mask in enumerate(masks):
        ahead = number * lanes * f.stored_bytes
        value = f.read(elements, f.behind(start, ahead), f.stored_bytes, mask)
        if kind.pairs:
            seen = f.let(f"and <{lanes} x i1> {mask}, {there}")
            after = f.read(elements, f.behind(other, ahead), f.stored_bytes, seen)
            one, two = (f.widened(lanes, half) for half in (value, after))
            numbers = [half * lanes + lane for lane in range(lanes) for half in (0, 1)]
            mixed = f.shuffle(f"<{lanes} x i16>", one, two, numbers)
            value = f.let(f"bitcast <{2 * lanes} x i16> {mixed} to {f.vector}")
        f.store(value, f.behind(to, number * f.bytes))
    loop.end([f.behind(to, f.row)])


def across(f: PanelText) -> None:
    """Pack a panel of a matrix in which the k indices of a row are contiguous.

    `ahead` is the distance of rows. Rows beyond `width` are copies of the last one.
    """
    whole, steps = "%steps", "%steps"
    if f.kind.pairs:
        whole, steps = f.halved("%steps"), f.halved(f.let("add i64 %steps, 1"))
    last = f.let("sub i64 %width, 1")
    few = _QUARTER // f.width
    is_wide = f.let(f"icmp sge i64 {whole}, {f.lanes}")
    has_squares = f.let(f"icmp sge i64 {whole}, {few}")
    with f.when(is_wide):
        _squares(f, f.lanes, whole, last)
    with f.when(f.let(f"xor i1 {is_wide}, {has_squares}")):
        _squares(f, few, whole, last)
    start = f.let(f"select i1 {has_squares}, i64 {whole}, i64 0")
    with f.when(f.let(f"icmp slt i64 {start}, {steps}")):
        _one_by_one(f, start, steps, last)


def _squares(f: PanelText, lanes: int, whole: str, last: str) -> None:
    """Transpose few rows at a time, `lanes` k indices of each, the last rows first.

    Rows and k indices are exchanged within a vector's quarters, of sixteen bytes each. Then each
    quarter of a result has one k index of all these rows. Panels of fewer k indices than a vector
    has take vectors of one quarter.
    """
    width, vector = f.width, f"<{lanes} x {f.form}>"
    unit = width if not f.kind.pairs else 2 * f.stored_bytes
    few = _QUARTER // width
    groups = -(-f.height // few)
    chunk = TextLoop(f, "0", whole, _CHUNK, [])
    end = f.smaller(f.let(f"add i64 {chunk.number}, {_CHUNK}"), whole)
    group = TextLoop(f, "0", str(groups), 1, [])
    first = f.let(f"mul i64 {f.let(f'sub i64 {groups - 1}, {group.number}')}, {few}")
    rows = []
    for member in range(few):
        number = f.smaller(f.let(f"add i64 {first}, {member}"), last)
        rows.append(f.pointer(f.address("%source", (number, "%ahead"))))
    into = f.pointer(f.address("%panel", (first, width)))
    latest = f.let(f"sub i64 {whole}, {lanes}")
    block = TextLoop(f, chunk.number, end, lanes, [])
    # The last block begins earlier, and packs some k indices again.
    step = f.smaller(block.number, latest)
    offset = f.let(f"mul i64 {step}, {unit}")
    vectors = [_loaded(f, vector, f.behind(row, offset)) for row in rows]
    for _ in range(few.bit_length() - 1):
        vectors = f.merged(vector, vectors, few)
    to = f.behind(into, f.let(f"mul i64 {step}, {f.row}"))
    quarter = f"<{few} x {f.form}>"
    for later in range(lanes):
        chosen = [later // few * few + lane for lane in range(few)]
        value = f.shuffle(vector, vectors[later % few], "poison", chosen)
        f.write(quarter, value, f.behind(to, later * f.row), width)
    block.end()
    group.end()
    chunk.end()


def _loaded(f: PanelText, vector: str, pointer: str) -> str:
    """Load a vector of k indices of a row."""
    if not f.kind.pairs:
        return f.read(vector, pointer, f.width)
    count = 2 * lanes_of(vector)
    wide = f.widened(count, f.read(f"<{count} x {f.stored}>", pointer, f.stored_bytes))
    return f.let(f"bitcast <{count} x i16> {wide} to {vector}")


def _one_by_one(f: PanelText, start: str, steps: str, last: str) -> None:
    """Pack the k indices from `start` on, which are too few for squares."""
    step = TextLoop(f, start, steps, 1, [])
    row = TextLoop(f, "0", str(f.height), 1, [])
    base = f.address("%source", (f.smaller(row.number, last), "%ahead"))

    def element(number: str) -> str:
        pointer = f.pointer(f.address(base, (number, f.stored_bytes)))
        return f.read(f.stored, pointer, f.stored_bytes)

    if f.kind.pairs:
        first = f.let(f"mul i64 {step.number}, 2")
        second = f.let(f"add i64 {first}, 1")
        there = f.let(f"icmp slt i64 {second}, %steps")
        # With an odd number of k indices the last one has no partner.
        halves = [element(first), element(f.let(f"select i1 {there}, i64 {second}, i64 {first}"))]
        if f.stored_bytes == 1:
            halves = [f.let(f"{f.extend} i8 {half} to i16") for half in halves]
        low, high = (f.let(f"zext i16 {half} to i32") for half in halves)
        high = f.let(f"select i1 {there}, i32 {f.let(f'shl i32 {high}, 16')}, i32 0")
        value = f.let(f"or i32 {low}, {high}")
    else:
        value = element(step.number)
    pointer = f.address("%panel", (step.number, f.row), (row.number, f.width))
    f.write(f.form, value, f.pointer(pointer), f.width)
    row.end()
    step.end()
