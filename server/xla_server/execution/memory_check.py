"""Check of free memory before a large value is allocated.

The operating system grants memory that it does not have, and then kills the process that uses it,
with all clients' data. A program that needs too much is stopped here instead.
"""

import contextlib
from pathlib import Path

from xla_contract.errors import ResourceExhaustedError
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape

LARGE = 32 * 2**20
"""Smallest value, in bytes, for which free memory is checked; a check takes as long as copying some
KiB."""

RESERVE = 128 * 2**20
"""Bytes that must stay free for the rest of the process and the system."""

NO_MEMORY_OF_THEIR_OWN = frozenset(
    {
        Opcode.ADD_DEPENDENCY,
        Opcode.BITCAST,
        Opcode.BROADCAST,
        Opcode.CALL,
        Opcode.CONDITIONAL,
        Opcode.CONSTANT,
        Opcode.DOMAIN,
        Opcode.FUSION,
        Opcode.GET_TUPLE_ELEMENT,
        Opcode.OPT_BARRIER,
        Opcode.PARAMETER,
        Opcode.REVERSE,
        Opcode.SLICE,
        Opcode.TRANSPOSE,
        Opcode.TUPLE,
        Opcode.WHILE,
    }
)
"""Operations whose value is a view of an operand, or made by the instructions they call."""

_MEMINFO = Path("/proc/meminfo")
_CGROUPS = (
    (Path("/sys/fs/cgroup"), "memory.max", "memory.current", "inactive_file"),
    (
        Path("/sys/fs/cgroup/memory"),
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ),
)
"""Files of cgroup versions 2 and 1: folder, limit, use, and the reclaimable part of the use."""


def is_large(opcode: Opcode, shape: Shape) -> bool:
    """Return whether an instruction's own value is large enough to ask for free memory."""
    return opcode not in NO_MEMORY_OF_THEIR_OWN and shape.byte_size >= LARGE


def require_memory(shape: Shape) -> None:
    """Raise ResourceExhaustedError if a value of `shape` would leave less than RESERVE free."""
    require_bytes(shape.byte_size, shape)


def require_bytes(byte_size: int, purpose: object) -> None:
    """Raise ResourceExhaustedError unless `byte_size` bytes are free, for str(purpose)."""
    free = free_memory()
    if free is not None and byte_size + RESERVE > free:
        raise ResourceExhaustedError(
            f"memory must suffice for every value, got {free} bytes free of which {RESERVE} are "
            f"kept, and {byte_size} for {purpose}"
        )


def free_memory() -> int | None:
    """Return the bytes that can be used without swapping, in the machine and in its container.

    The result is None if the system does not report them.
    """
    sizes = []
    with contextlib.suppress(OSError, ValueError):  # No such file outside Linux.
        sizes.append(_figure(_MEMINFO, "MemAvailable:") * 1024)
    for folder, limit, used, cached in _CGROUPS:
        try:
            available = int((folder / limit).read_text()) - int((folder / used).read_text())
            sizes.append(available + _figure(folder / "memory.stat", cached))
        except (OSError, ValueError):  # Not there, or no limit ("max").
            continue
    return min(sizes, default=None)


def _figure(path: Path, name: str) -> int:
    for line in path.read_text().splitlines():
        words = line.split()
        if words[0] == name:
            return int(words[1])
    return 0
