"""Tiles of products in assembly, for processors with 32 registers of 64 bytes.

They, and panels that are only copied, do what `gemm_tiles`, `product_tiles` and `gemm_panels` say,
which LLVM takes six times as long to find the instructions for. Sums are in the first registers,
row by row, and what the right side has in those from `_FACTORS` on.
"""

import dataclasses
from collections.abc import Sequence

from xla_server.target.machine import Machine

_FACTORS = 28
_LEFT, _PRODUCT = "zmm30", "zmm31"


@dataclasses.dataclass(frozen=True, slots=True)
class _Words:
    """Instructions and registers for one type of elements."""

    lanes: int
    move: str
    broadcast: str
    add: str
    multiply: str

    def added(self, total: str, factor: str) -> list[str]:
        """A product added to a sum."""
        if self.multiply.startswith(("vfmadd", "vpdp")):
            return [f"{self.multiply} {total}, {_LEFT}, {factor}"]
        return [
            f"{self.multiply} {_PRODUCT}, {_LEFT}, {factor}",
            f"{self.add} {total}, {total}, {_PRODUCT}",
        ]


def _words(machine: Machine, kind: str) -> _Words:
    pairs = "vpdpwssd" if machine.has("avx512vnni") else "vpmaddwd"
    return {
        "f32": _Words(16, "vmovups", "vbroadcastss", "vaddps", "vfmadd231ps"),
        "f64": _Words(8, "vmovupd", "vbroadcastsd", "vaddpd", "vfmadd231pd"),
        "i32": _Words(16, "vmovdqu32", "vpbroadcastd", "vpaddd", "vpmulld"),
        "i16": _Words(16, "vmovdqu32", "vpbroadcastd", "vpaddd", pairs),
    }[kind]


def has_assembly(machine: Machine) -> bool:
    """Return whether a machine has the instructions of these tiles."""
    return machine.has("avx512f", "avx512bw", "bmi2", "64bit")


def gemm_tile(symbol: str, machine: Machine, kind: str, rows: int, vectors: int) -> str:
    """The module of a tile with the operands of `gemm_tiles.tile_text`."""
    words = _words(machine, kind)
    width = 64 // words.lanes
    left, right, result, ahead, steps, pitch = "rdi", "rsi", "rdx", "rcx", "r8", "r9"
    there, columns, adds = (f"qword ptr [rsp + {8 * number}]" for number in (1, 2, 3))
    lines = [*_zeros(rows * vectors), "4:", *_loads(words, right, [""] * vectors)]
    # The left panel is in reach of the processor's own prefetching, both together are not.
    lines += [f"prefetcht0 byte ptr [{right} + 8*{ahead} + {64 * n}]" for n in range(vectors)]
    for row in range(rows):
        lines += _products(words, f"{left} + {row * width}", row, vectors)
    lines += [f"add {left}, {rows * width}", f"add {right}, {ahead}", f"dec {steps}", "jne 4b"]
    lines += _masks(words, columns, vectors)
    masks = [f"{{k{number + 1}}}" for number in range(vectors)]
    old, new = [], []
    for row in range(rows):
        for number, mask in enumerate(masks):
            total, address = _sum(row, vectors, number), f"zmmword ptr [r10 + {64 * number}]"
            old.append(f"{words.add} {total} {mask}, {total}, {address}")
            new.append(f"{words.move} {address} {mask}, {total}")
        for rest, end in ((old, 2), (new, 3)):
            rest += ["dec r11", f"je {end}f", f"add r10, {pitch}"] if row < rows - 1 else []
    start = [f"mov r10, {result}", f"mov r11, {there}"]
    lines += [f"cmp {adds}, 0", "je 2f", *start, *old, "2:", *start, *new, "3:"]
    return naked_function(symbol, 9, lines)


def gemm_along(symbol: str, machine: Machine, kind: str, height: int) -> str:
    """The module of a panel with the operands of `gemm_panels.along_text`, of the tile's type."""
    words = _words(machine, kind)
    source, ahead, panel, steps, width = "rdi", "rsi", "rdx", "rcx", "r8"
    vectors = -(-height // words.lanes)
    numbers = range(vectors)
    lines = [*_masks(words, width, vectors), "4:"]
    lines += [
        f"{words.move} zmm{n} {{k{n + 1}}}{{z}}, zmmword ptr [{source} + {64 * n}]" for n in numbers
    ]
    # Those too many in the last vector are overwritten by the next step.
    lines += [f"{words.move} zmmword ptr [{panel} + {64 * n}], zmm{n}" for n in numbers]
    step = height * 64 // words.lanes
    lines += [f"add {source}, {ahead}", f"add {panel}, {step}", f"dec {steps}", "jne 4b"]
    return naked_function(symbol, 5, lines)


@dataclasses.dataclass(frozen=True, slots=True)
class ProductTile:
    """A tile of `product_tiles`: rows and vectors of columns; a last one `is_partial` has fewer."""

    kind: str
    rows: int
    vectors: int
    is_partial: bool = False
    is_depthwise: bool = False

    @property
    def name(self) -> str:
        """The name by which kernels call it."""
        form = "depthwise" if self.is_depthwise else "product"
        partial = "_partial" if self.is_partial else ""
        return f"{form}_tile_{self.kind}_{self.rows}x{self.vectors}{partial}"


def product_tile(symbol: str, machine: Machine, tile: ProductTile) -> str:
    """The module of a tile with the operands of `product_tiles.TILE`, of any loops."""
    words = _words(machine, tile.kind)
    rows, vectors = tile.rows, tile.vectors
    masks = [""] * (vectors - 1) + ["{k1}" if tile.is_partial else ""]
    kept = 16 + 8 * 9
    # The stack holds, per loop, the iterations and the strides of both sides; six operands are in
    # registers.
    loops = [
        [f"qword ptr [rsp + {kept + 8 + 8 * (3 * n + m)}]" for m in range(3)] for n in range(4)
    ]
    lines = ["push rbx", "push rbp", "sub rsp, 72", *_zeros(rows * vectors)]
    if tile.is_partial:
        lines += [f"sub r9, {(vectors - 1) * words.lanes}", *_masks(words, "r9", 1)]
    lines += ["lea rbx, [rcx + 2*rcx]", "lea rbp, [rcx + 4*rcx]"]
    body = ["mov r10, rdi", "mov r11, rsi", f"mov rax, {loops[-1][0]}", "test rax, rax", "jle 9f"]
    body += ["8:", *_loads(words, "r11", masks)]
    bases = ["r10", "r9"]
    if rows > _ROWS_OF_A_POINTER:
        body += ["lea r9, [r10 + 8*rcx]", "sub r9, rcx"]
    for row in range(rows):
        base, row_of_base = divmod(row, _ROWS_OF_A_POINTER)
        start = f"{bases[base]}{_BEHIND[row_of_base]}"
        if tile.is_depthwise:
            body += _column_products(words, start, row, masks)
        else:
            body += _products(words, start, row, vectors)
    body += [f"add r10, {loops[-1][1]}", f"add r11, {loops[-1][2]}", "dec rax", "jne 8b", "9:"]
    for level in (2, 1, 0):
        iterations, *steps = loops[level]
        count, *starts = (f"qword ptr [rsp + {8 * (3 * level + n)}]" for n in range(3))
        begin, end = 2 * level + 2, 2 * level + 3
        moves = [f"mov {start}, {side}" for start, side in zip(starts, ("rdi", "rsi"), strict=True)]
        body = [
            *(
                f"mov rax, {iterations}",
                "test rax, rax",
                f"jle {end}f",
                f"mov {count}, rax",
                *moves,
            ),
            *(f"{begin}:", *body),
            *(f"mov {side}, {start}" for start, side in zip(starts, ("rdi", "rsi"), strict=True)),
            *(f"add {side}, {step}" for side, step in zip(("rdi", "rsi"), steps, strict=True)),
            *(*moves, f"dec {count}", f"jne {begin}b", f"{end}:"),
        ]
    lines += body
    for row in range(rows):
        for number, mask in enumerate(masks):
            where = f"zmmword ptr [rdx + {64 * number}]"
            lines.append(f"{words.move} {where} {mask}, {_sum(row, vectors, number)}")
        lines.append("add rdx, r8")
    lines += ["add rsp, 72", "pop rbp", "pop rbx"]
    return naked_function(symbol, 18, lines)


_BEHIND = ("", " + rcx", " + 2*rcx", " + rbx", " + 4*rcx", " + rbp", " + 2*rbx")
"""Rows from a pointer on, by their distance, three times and five times that."""
_ROWS_OF_A_POINTER = len(_BEHIND)


def _sum(row: int, vectors: int, number: int) -> str:
    return f"zmm{row * vectors + number}"


def _zeros(count: int) -> list[str]:
    return [f"vpxord zmm{number}, zmm{number}, zmm{number}" for number in range(count)]


def _masks(words: _Words, columns: str, vectors: int) -> list[str]:
    """Registers of masks: which lanes of each vector are below a number of columns."""
    lines = [f"mov r10, {columns}", "mov rax, -1", "bzhi rax, rax, r10"]
    for number in range(vectors):
        lines += [f"shr rax, {words.lanes}"] * (number > 0) + [f"kmovw k{number + 1}, eax"]
    return lines


def _loads(words: _Words, address: str, masks: Sequence[str]) -> list[str]:
    """Return the loads of the right side at this k index."""
    return [
        f"{words.move} zmm{_FACTORS + number}{f' {mask}{{z}}' if mask else ''}, "
        f"zmmword ptr [{address} + {64 * number}]"
        for number, mask in enumerate(masks)
    ]


def _products(words: _Words, address: str, row: int, vectors: int) -> list[str]:
    """The products of a row's element added to its sums."""
    size = "qword" if words.lanes == 8 else "dword"
    lines = [f"{words.broadcast} {_LEFT}, {size} ptr [{address}]"]
    for number in range(vectors):
        lines += words.added(_sum(row, vectors, number), f"zmm{_FACTORS + number}")
    return lines


def _column_products(words: _Words, address: str, row: int, masks: Sequence[str]) -> list[str]:
    """The products of a row's elements, each in its column, added to its sums."""
    return [
        f"{words.multiply} {_sum(row, len(masks), number)} {mask}, zmm{_FACTORS + number}, "
        f"zmmword ptr [{address} + {64 * number}]"
        for number, mask in enumerate(masks)
    ]


def naked_function(
    symbol: str, parameters: int, lines: Sequence[str], *, returns: bool = False
) -> str:
    """The module of a function of int64 by the lines of its assembly."""
    text = "\\0A".join([*lines, "vzeroupper", "ret"])
    result = "i64" if returns else "void"
    return (
        f"define {result} @{symbol}({', '.join(['i64'] * parameters)}) naked {{\n"
        f'  call void asm sideeffect inteldialect "{text}", ""()\n'
        "  unreachable\n}\n"
    )
