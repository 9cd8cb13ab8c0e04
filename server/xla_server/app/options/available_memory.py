"""The memory that this process may use."""

import os
from collections.abc import Sequence
from pathlib import Path

CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def available_memory(limit_files: Sequence[Path] = CGROUP_LIMITS) -> int:
    """Bytes of physical memory, or of the container's limit where that is less."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in limit_files:
        try:
            sizes.append(int(path.read_text()))
        except (OSError, ValueError):  # No such file, or the limit is "max".
            continue
    return min(sizes)
