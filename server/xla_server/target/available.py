"""The memory and the cores that this process may use.

Containers and services are limited by control groups (Linux's cgroups, version 1 or 2). Each group
that the process is in may have limits, and so may those around it. A container may see its own
group as the root of the mounted tree, whatever path the kernel states.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/")


def available_memory(root: Path = _ROOT) -> int:
    """Return the bytes of physical memory, or the least limit of a control group.

    `root` is the directory that has `proc` and `sys`.
    """
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for group in _groups("memory", root):
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
            # There is no such file, or the limit is "max".
            with contextlib.suppress(OSError, ValueError):
                sizes.append(int((group / name).read_text()))
    return min(sizes)


def available_cores(root: Path = _ROOT) -> int:
    """Return the number of cores of the process's affinity, or the least quota, rounded up.

    More threads than that would use up the quota of a period early, and stand still for its rest.
    """
    cores = len(os.sched_getaffinity(0))
    for group in _groups("cpu", root):
        for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
            # There are no such files, or the quota is "max" (version 1: -1).
            with contextlib.suppress(OSError, ValueError):
                words = " ".join((group / name).read_text() for name in names)
                quota, period = map(int, words.split())
                if quota > 0:
                    cores = min(cores, -(-quota // period))
    return cores


def _groups(controller: str, root: Path) -> Iterator[Path]:
    """Directories that may have a controller's limits: of the process's groups and around them."""
    lines: list[str] = []
    with contextlib.suppress(OSError):  # Not Linux.
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    unified = root / "sys/fs/cgroup"
    for mount, controllers in ((unified, ""), (unified / controller, controller)):
        yield mount
        for line in lines:
            _, named, path = line.split(":", 2)
            if controllers in named.split(","):
                parts = Path(path).parts[1:]
                yield from (mount.joinpath(*parts[:n]) for n in range(1, len(parts) + 1))
