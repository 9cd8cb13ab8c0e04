"""Limits YNNPACK, XLA's library of matrix products, to AVX2.

The library asks the processor which instructions it has, so that `--xla_cpu_max_isa` alone leaves
products on AVX-512. It keeps the answer in a variable, which is written here.
"""

import ctypes
import functools
import mmap
import pathlib
import struct

import jaxlib
import numpy as np

_LIBRARY = "libjax_common.so"
_FUNCTION = b"_ZN3ynn24get_supported_arch_flagsEv"
_FLAGS = b"_ZZN3ynn24get_supported_arch_flagsEvE5flags"
_AVX2 = (1 << 7) - 1
"""The flags of SSE2 to AVX2 and FMA, by `ynnpack/base/arch.h`; those of AVX-512 come behind."""

_SYMBOL_TABLE = 2
_SECTION, _SYMBOL = struct.Struct("<IIQQQQIIQQ"), np.dtype("<u4,u1,u1,<u2,<u8,<u8")


def supported() -> ctypes.c_uint64:
    """Return the variable with the flags of instructions that YNNPACK uses, as it computes them.

    Raises RuntimeError where jaxlib has no such variable.
    """
    path = pathlib.Path(jaxlib.__file__).with_name(_LIBRARY)
    function, flags = _addresses(path, _FUNCTION, _FLAGS)
    start = _start(path)
    computed = ctypes.CFUNCTYPE(ctypes.c_uint64)(start + function)()
    variable = ctypes.c_uint64.from_address(start + flags)
    if variable.value != computed:
        raise RuntimeError(f"YNNPACK answers {computed:#x}, its variable has {variable.value:#x}")
    return variable


def limit() -> None:
    """Have YNNPACK do without AVX-512. Raises RuntimeError where it cannot be limited."""
    supported().value &= _AVX2


@functools.cache
def _addresses(path: pathlib.Path, *names: bytes) -> list[int]:
    """Return the addresses of symbols in a library, which are not exported."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
        (place,) = struct.unpack_from("<Q", image, 40)
        (count,) = struct.unpack_from("<H", image, 60)
        sections = [_SECTION.unpack_from(image, place + n * _SECTION.size) for n in range(count)]
        tables = [section for section in sections if section[1] == _SYMBOL_TABLE]
        if not tables:
            raise RuntimeError(f"{path.name} must have a symbol table, got none")
        _, _, _, _, offset, size, link, *_ = tables[0]
        symbols = np.frombuffer(image[offset : offset + size], _SYMBOL)
        strings, length = sections[link][4:6]
        return [_address(image, symbols, strings, length, name) for name in names]


def _address(image: mmap.mmap, symbols: np.ndarray, strings: int, length: int, name: bytes) -> int:
    place = image.find(b"\0" + name + b"\0", strings, strings + length) + 1 - strings
    found = symbols[symbols["f0"] == place]
    if place <= 0 or len(found) != 1:
        raise RuntimeError(f"{_LIBRARY} must have one symbol {name.decode()}, got {len(found)}")
    return int(found[0]["f4"])


def _start(path: pathlib.Path) -> int:
    """Return the address at which the library is loaded in this process."""
    ctypes.CDLL(str(path))
    lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
    return min(int(line.split("-")[0], 16) for line in lines if line.endswith(f"/{path.name}"))
