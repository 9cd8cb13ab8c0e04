import os
from pathlib import Path

import pytest

from xla_server.target.available import available_cores, available_memory

GROUPS = "sys/fs/cgroup"
V1 = "5:memory:/docker/7f\n4:cpu,cpuacct:/docker/7f\n1:name=systemd:/docker/7f\n"


@pytest.mark.parametrize(
    ("of_process", "files", "memory", "cores"),
    [
        # A container of version 2 sees its group as the root.
        ("0::/", {"memory.max": "12345\n", "cpu.max": "250000 100000\n"}, 12345, 3),
        ("0::/", {"memory.max": "max\n", "cpu.max": "max 100000\n"}, None, None),
        # A service is in a group of its own, inside of others.
        (
            "0::/a.slice/b.service",
            {
                "a.slice/memory.max": "20000",
                "a.slice/b.service/memory.max": "30000",
                "a.slice/cpu.max": "400000 100000",
                "a.slice/b.service/cpu.max": "50000 100000",
                "c.slice/memory.max": "1",
                "c.slice/cpu.max": "1 100000",
            },
            20000,
            1,
        ),
        ("0::/a", {"a/memory.max": "max", "a/memory.high": "10000"}, 10000, None),
        # Version 1 mounts the groups by controller: whole, or the container's own.
        (
            V1,
            {
                "memory/docker/7f/memory.limit_in_bytes": "12345",
                "cpu/docker/7f/cpu.cfs_quota_us": "200000",
                "cpu/docker/7f/cpu.cfs_period_us": "100000",
            },
            12345,
            2,
        ),
        (V1, {"memory/memory.limit_in_bytes": "12345"}, 12345, None),
        (
            V1,
            {
                "memory/memory.limit_in_bytes": "9223372036854771712",
                "cpu/cpu.cfs_quota_us": "-1",
                "cpu/cpu.cfs_period_us": "100000",
            },
            None,
            None,
        ),
        (None, {"memory.max": "12345"}, 12345, None),
        (None, {}, None, None),
    ],
)
def test_control_groups_limit_memory_and_cores(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    of_process: str | None,
    files: dict[str, str],
    memory: int | None,
    cores: int | None,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    if of_process is not None:
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/cgroup").write_text(of_process)
    for name, text in files.items():
        path = tmp_path / GROUPS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    unlimited = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert available_memory(tmp_path) == (memory or unlimited)
    assert available_cores(tmp_path) == (cores or 64)
