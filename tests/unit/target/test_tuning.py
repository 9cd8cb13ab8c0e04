import dataclasses
import itertools

import pytest

from tests.processors import MACHINES
from xla_server.target.machine import Machine
from xla_server.target.tuning import Tuning, cache_share, scratch_items, tuning_of, work_items

CORES = (1, 2, 4, 16, 64, 128)


def _counts(tuning: Tuning) -> list[int]:
    """Every number of work items."""
    return [
        *(tuning.products.work_items, tuning.blas.pieces, tuning.thin_products.work_items),
        *(tuning.thin_products.even_items, tuning.convolutions.min_blocks),
        *(tuning.convolutions.min_im2col_blocks, tuning.convolutions.work_items),
        *(tuning.linear_algebra.row_slots, tuning.scatters.max_ranges),
        tuning.scatters.column_items,
        *(tuning.loops.min_items, tuning.loops.pieces.blocks, tuning.loops.pieces.min_rows),
    ]


@pytest.mark.parametrize("name", MACHINES)
def test_loops_have_work_items_for_every_core(name: str) -> None:
    machines = [dataclasses.replace(MACHINES[name], cores=cores) for cores in CORES]
    counts = [_counts(tuning_of(machine)) for machine in machines]
    for machine, those in zip(machines, counts, strict=True):
        assert all(count >= 2 * machine.cores for count in those)
    for fewer, more in itertools.pairwise(counts):
        assert all(one <= other for one, other in zip(fewer, more, strict=True))


def test_work_items_with_scratch_memory_are_few_for_each_core() -> None:
    for cores in CORES:
        machine = Machine.avx2(cores=cores)
        assert scratch_items(machine, 16) <= max(16, 2 * cores)
        assert work_items(machine, 4) == 4 * max(cores, 2)


def test_blocks_stay_in_a_core_s_second_cache() -> None:
    for l2_bytes in (128 << 10, 256 << 10, 512 << 10, 2 << 20):
        machine = dataclasses.replace(Machine.avx2(), l2_bytes=l2_bytes)
        assert cache_share(machine) == min(l2_bytes // 2, 256 << 10)
        assert tuning_of(machine).products.block_bytes == cache_share(machine)
        assert tuning_of(machine).convolutions.input_block_bytes == cache_share(machine)


def test_the_tuning_of_a_machine_is_made_once() -> None:
    assert tuning_of(Machine.avx2()) is tuning_of(Machine.avx2())


@pytest.mark.parametrize("machine", [*MACHINES.values(), Machine.neon()], ids=lambda m: m.name)
def test_partial_sums_are_of_as_many_elements_on_every_processor(machine: Machine) -> None:
    sums = tuning_of(machine).free_sums
    assert sums.run_elements == 16 * machine.partial_sums
    assert sums.long_run_elements == 2 * machine.partial_sums
    # The bits of a sum are those of any processor with AVX.
    if machine.has("avx"):
        assert (sums.run_elements, sums.long_run_elements) == (512, 64)
