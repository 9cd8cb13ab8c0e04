"""Where participants on one machine meet, and what earlier executions left there."""

import itertools
import subprocess
import sys
import textwrap
from pathlib import Path
from random import Random

import pytest

from tests.e2e.process import mpirun
from xla_server.distributed.transport import shared_regions
from xla_server.distributed.transport.shared_regions import (
    PARTS,
    SLOTS,
    RegionPart,
    RegionParts,
    SharedRegions,
    SharedSlots,
)
from xla_server.runtime.collective_records import SLOT_BYTES

SIZE = 1 << 20
RANKS = (0, 0, 1, 0, 2, 1)
"""Rank 2 is on another machine."""


def regions() -> SharedRegions:
    return SharedRegions({0: 1 << 40, 1: 1 << 41}, SIZE)


def test_slots_and_areas_of_parts_do_not_overlap() -> None:
    random = Random(0)
    ranges = []
    for part in range(PARTS):
        sizes = [random.choice((0, 1, 64, 1000, SIZE)) for _ in range(40)]
        slots = SharedSlots(regions(), RegionPart(part, 2), RANKS, sizes)
        found = 0
        for (collective, size), (number, rank) in itertools.product(
            enumerate(sizes), enumerate(RANKS)
        ):
            member = slots.member(number, collective)
            if member is None:
                assert rank == 2 or slots.member(0, collective) is None
                continue
            found += 1
            start = regions().addresses[rank]
            assert not member.slot % SLOT_BYTES
            assert start <= member.slot
            assert max(member.slot + SLOT_BYTES, member.data + 2 * member.stride) <= start + SIZE
            assert member.stride >= size
            ranges += [(member.slot, member.slot + SLOT_BYTES)]
            ranges += [(member.data, member.data + 2 * member.stride)]
        assert found >= 5
    ranges = sorted(each for each in ranges if each[0] < each[1])
    assert all(stop <= start for (_, stop), (start, _) in itertools.pairwise(ranges))
    # Operands are nowhere where another part may have a slot.
    assert shared_regions._SLOT_BYTES == PARTS * SLOTS * SLOT_BYTES


def test_a_collective_for_which_there_is_no_memory_is_left_out() -> None:
    sizes = [100, SIZE, 200, 0, *[1] * SLOTS]
    slots = SharedSlots(regions(), RegionPart(1, 2), RANKS, sizes)
    assert slots.member(0, 1) is None
    assert slots.member(0, 2) is not None
    most = SLOTS // RANKS.count(0)
    assert [n for n in range(len(sizes)) if slots.member(0, n)] == [0, 2, *range(4, most + 2)]


def test_parts_are_given_while_there_are_any() -> None:
    parts = RegionParts()
    taken = [parts.acquire() for _ in range(PARTS + 1)]
    assert [each and each.number for each in taken] == [*range(PARTS), None]
    parts.release(taken[3])
    parts.release(None)
    again = parts.acquire()
    assert again is not None
    assert again.number == 3
    stamps = [each.first_stamp for each in (*taken, again) if each]
    assert all(second - first >= 2 for first, second in itertools.pairwise(stamps))


def test_the_first_part_that_is_given_back_is_given_again() -> None:
    """Its stamps are above all that were left: none there is taken for a visit."""
    parts = RegionParts()
    first = parts.acquire()
    assert first is not None
    parts.release(first)
    second = parts.acquire()
    assert second is not None
    assert second.number == first.number
    assert second.first_stamp >= first.first_stamp + 2


SHARED = """
    import sys
    import mpi4py.MPI as MPI
    import numpy as np
    from xla_server.distributed.transport.shared_regions import shared_regions

    everyone = MPI.COMM_WORLD
    regions = shared_regions(everyone, 3 << 20)
    if regions is None:
        print("none")
    else:
        region = np.frombuffer((np.ctypeslib.ctypes.c_char * regions.size).from_address(
            regions.addresses[1 - everyone.rank]), np.uint8)
        everyone.Barrier()
        own = regions.addresses[everyone.rank]
        np.ctypeslib.ctypes.memset(own, everyone.rank + 1, regions.size)
        everyone.Barrier()
        assert (region == 2 - everyone.rank).all()
        print("shared", regions.size, sorted(regions.addresses))
    MPI.Finalize()
"""


@pytest.mark.parametrize(
    ("parameter", "said"),
    [
        ((), ""),
        (("osc_sm_backing_directory", "/nowhere"), "/nowhere must have 8388608 bytes, got 0"),
        (("osc", "rdma"), "MPI shares no memory, MPI_ERR_"),
    ],
    ids=["shared", "no room", "no such windows"],
)
def test_ranks_of_a_machine_share_memory_where_they_can(
    tmp_path: Path, parameter: tuple[str, ...], said: str
) -> None:
    program = tmp_path / "shared.py"
    program.write_text(textwrap.dedent(SHARED))
    options = ["--mca", *parameter] if parameter else []
    command = [*mpirun(2), *options, sys.executable, str(program)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.splitlines() == 2 * ["none" if said else "shared 3145728 [0, 1]"]
    assert said in ended.stderr
    assert ("ranks exchange messages" in ended.stderr) == bool(said)
