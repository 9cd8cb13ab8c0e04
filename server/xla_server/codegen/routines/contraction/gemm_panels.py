"""Packing of matrices into panels, k index by k index, for the tiles of `gemm_tiles`.

A panel packs some rows of the left matrix or some columns of the right one, here called its rows.
The memory of a panel is followed by that of the next, or by `SLACK`: vectors are stored whole, and
the excess is overwritten by the next panel.
"""

from collections.abc import Sequence

from xla_server.codegen.compiler.llvm_text import FunctionText, TextLoop, lanes_of
from xla_server.codegen.kernel_ir.routine import Routine, Unit, parameters
from xla_server.codegen.routines.contraction.gemm_tiles import TileKind
from xla_server.target.machine import Machine

SLACK = 64
"""Bytes behind the last panel."""

_QUARTER = 16
"""Bytes within which the processor exchanges elements in least time."""

_CHUNK = 128
"""Number of k indices transposed at a time for all rows: that part of the panel stays in L1."""

SOURCES = {
    "f32": ("i32", 4),
    "i32": ("i32", 4),
    "f64": ("i64", 8),
    "i8": ("i8", 1),
    "u8": ("i8", 1),
    "i16": ("i16", 2),
}
"""The form and the bytes of elements as they are stored, by the names of their types."""

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


class _Panel:
    """The function that packs a panel of `height` rows, while it is written."""

    def __init__(
        self, symbol: str, machine: Machine, kind: TileKind, source: str, height: int
    ) -> None:
        self.f = FunctionText(symbol, PANEL.names, is_plain=True)
        self.kind, self.height, self.lanes = kind, height, machine.lanes(kind.width)
        self.stored, self.bytes = SOURCES[source]
        self.extend = "zext" if source[0] == "u" else "sext"
        self.form = f"i{8 * kind.width}"
        self.vector = f"<{self.lanes} x {self.form}>"
        self.row = height * kind.width

    def widened(self, lanes: int, value: str) -> str:
        """Elements of a pair as 16-bit numbers."""
        if self.bytes == 2:
            return value
        return self.f.let(f"{self.extend} <{lanes} x {self.stored}> {value} to <{lanes} x i16>")

    def halved(self, number: str) -> str:
        """Return half of a number of k steps, which is the number of pairs."""
        return self.f.let(f"lshr i64 {number}, 1")


def along_text(symbol: str, machine: Machine, kind: TileKind, source: str, height: int) -> str:
    """Return the function for a matrix in which the rows at one k index are contiguous.

    `ahead` is the distance of k indices. Rows beyond `width` become zeros.
    """
    panel = _Panel(symbol, machine, kind, source, height)
    f, lanes = panel.f, panel.lanes
    count = -(-height // lanes)
    masks = [f.mask(lanes, number * lanes, "%width") for number in range(count)]
    elements = f"<{lanes} x {panel.stored}>"
    steps = "%steps"
    if kind.pairs:
        steps = panel.halved(f.let("add i64 %steps, 1"))
    loop = TextLoop(f, "0", steps, 1, [("ptr", f.pointer("%panel"))])
    (to,) = loop.values
    first = f.let(f"mul i64 {loop.number}, 2") if kind.pairs else loop.number
    start = f.pointer(f.address("%source", (first, "%ahead")))
    if kind.pairs:
        second = f.let(f"add i64 {first}, 1")
        there = f.splat("i1", lanes, f.let(f"icmp slt i64 {second}, %steps"))
        other = f.behind(start, "%ahead")
    for number, mask in enumerate(masks):
        value = f.read(elements, f.behind(start, number * lanes * panel.bytes), panel.bytes, mask)
        if kind.pairs:
            seen = f.let(f"and <{lanes} x i1> {mask}, {there}")
            pointer = f.behind(other, number * lanes * panel.bytes)
            after = f.read(elements, pointer, panel.bytes, seen)
            one, two = (panel.widened(lanes, half) for half in (value, after))
            numbers = [half * lanes + lane for lane in range(lanes) for half in (0, 1)]
            mixed = f.shuffle(f"<{lanes} x i16>", one, two, numbers)
            value = f.let(f"bitcast <{2 * lanes} x i16> {mixed} to {panel.vector}")
        pointer = f.behind(to, number * lanes * kind.width)
        f.write(panel.vector, value, pointer, kind.width)
    loop.end([f.behind(to, panel.row)])
    return f.text()


def across_text(symbol: str, machine: Machine, kind: TileKind, source: str, height: int) -> str:
    """Return the function for a matrix in which the k indices of a row are contiguous.

    `ahead` is the distance of rows. Rows beyond `width` are copies of the last one.
    """
    panel = _Panel(symbol, machine, kind, source, height)
    f, lanes = panel.f, panel.lanes
    whole, steps = "%steps", "%steps"
    if kind.pairs:
        whole, steps = panel.halved("%steps"), panel.halved(f.let("add i64 %steps, 1"))
    last = f.let("sub i64 %width, 1")
    squares, few, rest = f.label(), f.label(), f.label()
    enough = f.let(f"icmp sge i64 {whole}, {lanes}")
    before = f.block
    f.do(f"br i1 {enough}, label %{squares}, label %{few}")
    f.start(squares)
    _squares(panel, whole, last)
    behind = f.block
    f.do(f"br label %{few}")
    f.start(few)
    start = f.let(f"phi i64 [0, %{before}], [{whole}, %{behind}]")
    more, end = f.let(f"icmp slt i64 {start}, {steps}"), f.label()
    f.do(f"br i1 {more}, label %{rest}, label %{end}")
    f.start(rest)
    _one_by_one(panel, start, steps, last)
    f.do(f"br label %{end}")
    f.start(end)
    return f.text()


def _squares(panel: _Panel, whole: str, last: str) -> None:
    """Transpose few rows at a time, a vector of k indices of each, the last rows first.

    Rows and k indices are exchanged within a vector's quarters, of sixteen bytes each. Then each
    quarter of a result has one k index of all these rows.
    """
    f, lanes, width = panel.f, panel.lanes, panel.kind.width
    unit = width if not panel.kind.pairs else 2 * panel.bytes
    few = _QUARTER // width
    groups = -(-panel.height // few)
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
    # The last block begins earlier, and lays out some steps once more.
    step = f.smaller(block.number, latest)
    offset = f.let(f"mul i64 {step}, {unit}")
    vectors = [_loaded(panel, f.behind(row, offset)) for row in rows]
    half = few
    while half > 1:
        half //= 2
        vectors = _merged(f, panel.vector, vectors, few)
    to = f.behind(into, f.let(f"mul i64 {step}, {panel.row}"))
    quarter = f"<{few} x {panel.form}>"
    for later in range(lanes):
        chosen = [later // few * few + lane for lane in range(few)]
        value = f.shuffle(panel.vector, vectors[later % few], "poison", chosen)
        f.write(quarter, value, f.behind(to, later * panel.row), width)
    block.end()
    group.end()
    chunk.end()


def _loaded(panel: _Panel, pointer: str) -> str:
    """Load a vector of k indices of a row."""
    f, lanes = panel.f, panel.lanes
    if not panel.kind.pairs:
        return f.read(panel.vector, pointer, panel.bytes)
    value = f.read(f"<{2 * lanes} x {panel.stored}>", pointer, panel.bytes)
    wide = panel.widened(2 * lanes, value)
    return f.let(f"bitcast <{2 * lanes} x i16> {wide} to {panel.vector}")


def _merged(f: FunctionText, vector: str, rows: Sequence[str], few: int) -> list[str]:
    """Interleave each row of the upper half with its row of the lower half.

    Elements within a quarter of `few` elements keep their position.
    """
    lanes, half = lanes_of(vector), len(rows) // 2
    result = []
    for both in zip(rows[:half], rows[half:], strict=True):
        for begin in (0, few // 2):
            numbers = [
                quarter + begin + lane // 2 + lane % 2 * lanes
                for quarter in range(0, lanes, few)
                for lane in range(few)
            ]
            result.append(f.shuffle(vector, *both, numbers))
    return result


def _one_by_one(panel: _Panel, start: str, steps: str, last: str) -> None:
    """Pack the k indices from `start` on, which are too few for squares."""
    f = panel.f
    step = TextLoop(f, start, steps, 1, [])
    row = TextLoop(f, "0", str(panel.height), 1, [])
    base = f.address("%source", (f.smaller(row.number, last), "%ahead"))

    def element(number: str) -> str:
        pointer = f.pointer(f.address(base, (number, panel.bytes)))
        return f.read(panel.stored, pointer, panel.bytes)

    if panel.kind.pairs:
        first = f.let(f"mul i64 {step.number}, 2")
        second = f.let(f"add i64 {first}, 1")
        there = f.let(f"icmp slt i64 {second}, %steps")
        # With an odd number of k indices the last one has no partner.
        halves = [element(first), element(f.let(f"select i1 {there}, i64 {second}, i64 {first}"))]
        if panel.bytes == 1:
            halves = [f.let(f"{panel.extend} i8 {half} to i16") for half in halves]
        low, high = (f.let(f"zext i16 {half} to i32") for half in halves)
        high = f.let(f"select i1 {there}, i32 {f.let(f'shl i32 {high}, 16')}, i32 0")
        value = f.let(f"or i32 {low}, {high}")
    else:
        value = element(step.number)
    pointer = f.address("%panel", (step.number, panel.row), (row.number, panel.kind.width))
    f.write(panel.form, value, f.pointer(pointer), panel.kind.width)
    row.end()
    step.end()
