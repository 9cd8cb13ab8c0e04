"""Transforms M X M' of squares in assembly, for processors with 32 registers of 64 bytes.

They do what `winograd_transforms` says, which LLVM takes four times as long to find the
instructions for. A line of a square is in the first registers, what becomes of it in those from
`_TOTALS` on, and the numbers of the matrix in those from `_NUMBERS` on.
"""

import struct
from collections.abc import Sequence
from fractions import Fraction

from xla_server.codegen.routines.contraction.assembly_tiles import naked_function

_TOTALS, _NUMBERS = 6, 12
_EXPONENTS, _SEEN = "zmm30", "zmm31"
_LANES = 16
_KEPT = ("rbx", "r12", "r13", "r14", "r15")
_COUNT = "qword ptr [rbp + 16]"
_SOURCE = ("", " + rsi", " + 2*rsi", " + rbx", " + 4*rsi", " + r12")
_TARGET = ("", " + r9", " + 2*r9", " + r13", " + 4*r9", " + r14")
"""Elements from a pointer on, by their distance, three times and five times that."""


def fits(matrix: Sequence[Sequence[Fraction]]) -> bool:
    """Return whether the registers suffice for a matrix."""
    size = max(len(matrix), len(matrix[0]))
    return size <= len(_SOURCE) and _NUMBERS + len(_numbers(matrix)) <= 30


def transform(
    symbol: str, matrix: Sequence[Sequence[Fraction]], *, is_partial: bool, looks: bool
) -> str:
    """The module of a transform, with the operands of `winograd_transforms`."""
    high, wide = len(matrix), len(matrix[0])
    numbers = _numbers(matrix)
    mask = " {k1}" if is_partial else ""
    zeroed = f"{mask}{{z}}" if mask else ""
    lines = ["push rbp", "mov rbp, rsp", *(f"push {name}" for name in _KEPT)]
    lines += [f"sub rsp, {64 * (high * wide + 1)}", "and rsp, -64"]
    lines += ["lea rbx, [rsi + 2*rsi]", "lea r12, [rsi + 4*rsi]"]
    lines += ["lea r13, [r9 + 2*r9]", "lea r14, [r9 + 4*r9]"]
    for bits, register in numbers.items():
        lines += [f"mov eax, {bits}", f"vpbroadcastd {register}, eax"]
    lines += ["mov eax, 0x7f800000", f"vpbroadcastd {_EXPONENTS}, eax"]
    lines += [f"vpxord {_SEEN}, {_SEEN}, {_SEEN}", "xor r10d, r10d", "2:"]
    if is_partial:
        lines += [f"mov r11, {_COUNT}", "sub r11, r10", f"mov eax, {_LANES}", "cmp r11, rax"]
        lines += ["cmovg r11, rax", "mov rax, -1", "bzhi rax, rax, r11", "kmovw k1, eax"]
    first = [*_feature(is_partial), "lea r11, [rdi + 4*r11]", "mov rax, rsp", f"mov r15, {wide}"]
    read = [
        f"vmovups zmm{number}{zeroed}, zmmword ptr [r11{address}]"
        for number, address in enumerate(_SOURCE[:wide])
    ]
    keep = [
        f"vmovaps zmmword ptr [rax + {64 * wide * number}], zmm{_TOTALS + number}"
        for number in range(high)
    ]
    lines += [*first, "3:", *read, *_sums(matrix, numbers), *keep]
    lines += ["add r11, rdx", "add rax, 64", "dec r15", "jne 3b"]
    then = [*_feature(is_partial), "lea r11, [rcx + 4*r11]", "mov rax, rsp", f"mov r15, {high}"]
    read = [f"vmovaps zmm{number}, zmmword ptr [rax + {64 * number}]" for number in range(wide)]
    write = [
        f"vmovups zmmword ptr [r11{address}]{mask}, zmm{_TOTALS + number}"
        for number, address in enumerate(_TARGET[:high])
    ]
    lines += [*then, "4:", *read, *_sums(matrix, numbers), *write]
    for number in range(high if looks else 0):
        lines += [f"vpandd zmm0, zmm{_TOTALS + number}, {_EXPONENTS}"]
        lines += [f"vpmaxud {_SEEN}, {_SEEN}, zmm0"]
    lines += ["add r11, r8", f"add rax, {64 * wide}", "dec r15", "jne 4b"]
    lines += [f"add r10, {_LANES}", f"cmp r10, {_COUNT}", "jl 2b"]
    if looks:
        lines += [f"vpcmpeqd k2, {_SEEN}, {_EXPONENTS}", "xor eax, eax", "kortestw k2, k2"]
        lines += ["setne al"]
    lines += [f"lea rsp, [rbp - {8 * len(_KEPT)}]", *(f"pop {name}" for name in reversed(_KEPT))]
    return naked_function(symbol, 7, [*lines, "pop rbp"], returns=looks)


def _feature(is_partial: bool) -> list[str]:
    """The first feature of a vector: the last one begins earlier, and does some once more."""
    if is_partial:
        return ["mov r11, r10"]
    return [f"mov r11, {_COUNT}", f"sub r11, {_LANES}", "cmp r10, r11", "cmovl r11, r10"]


def _bits(factor: Fraction) -> int:
    (bits,) = struct.unpack("<I", struct.pack("<f", float(factor)))
    return int(bits)


def _numbers(matrix: Sequence[Sequence[Fraction]]) -> dict[int, str]:
    """The registers of the numbers to multiply by, by their bits."""
    found = dict.fromkeys(_bits(factor) for row in matrix for factor in row if factor != 1)
    found.pop(0, None)
    return {bits: f"zmm{_NUMBERS + address}" for address, bits in enumerate(found)}


def _sums(matrix: Sequence[Sequence[Fraction]], numbers: dict[int, str]) -> list[str]:
    """The matrix times the line that is in registers, each sum from left to right."""
    lines = []
    for address, row in enumerate(matrix):
        total, is_begun = f"zmm{_TOTALS + address}", False
        for column, factor in enumerate(row):
            value, number = f"zmm{column}", numbers.get(_bits(factor))
            if not factor:
                continue
            if not is_begun:
                begin = f"vmovaps {total}, {value}"
                lines.append(f"vmulps {total}, {value}, {number}" if number else begin)
            elif abs(factor) != 1:
                lines.append(f"vfmadd231ps {total}, {value}, {number}")
            else:
                lines.append(f"v{'add' if factor > 0 else 'sub'}ps {total}, {total}, {value}")
            is_begun = True
    return lines
