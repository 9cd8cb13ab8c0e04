"""Groups of collectives on a device grid: which are refused when a program is compiled."""

import re
from typing import Any

import pytest

from tests.corpus.grids import BACKENDS, module_of
from tests.corpus.hlo_programs import program
from xla_contract.errors import ShapeError
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_server.ir.analysis.participants import groups_of
from xla_server.ir.fingerprint import fingerprint
from xla_server.ir.verification.verifier import verify

GRID = DeviceGrid(2, 2)
ADD = "dimensions={0}, to_apply=add"
TABLES = ["s32[4]"] * 4

REFUSED = (
    (["f32[4]"], "f32[4] all-reduce(x0), replica_groups={{0}}, to_apply=add"),
    (
        ["f32[4]"],
        "f32[4] all-reduce(x0), channel_id=1, use_global_device_ids=true, "
        "replica_groups={{0,1,2,3,4}}, to_apply=add",
    ),
    (["f32[4]"], "f32[12] all-gather(x0), replica_groups={}, dimensions={0}"),
    (["f32[12]"], f"f32[4] reduce-scatter(x0), replica_groups={{}}, {ADD}"),
    (["f32[3]"], "f32[3] all-to-all(x0), replica_groups={}, dimensions={0}"),
    (["f32[3]"], "(f32[3]) all-to-all(x0), replica_groups={}"),
    (["f32[3]"], "f32[3] collective-permute(x0), source_target_pairs={{0,2}}"),
    (["f32[3]"], "f32[3] collective-broadcast(x0), replica_groups={{2}}"),
    (
        ["f32[4]", "f32[4]", *["s32[3]"] * 4],
        "f32[4] ragged-all-to-all(x0, x1, x2, x3, x4, x5), replica_groups={}",
    ),
)


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_what_does_not_fit_the_grid_is_refused_at_compile(case: Any) -> None:
    parameters, root = case
    text = program(parameters, root)
    verify(module_of(text, DeviceGrid()))
    opcode = re.split(r"[ (]", root.replace("(f32[3]) ", "x "))[1]
    for backend in BACKENDS.values():
        module = module_of(text, GRID)
        with pytest.raises(
            ShapeError, match=rf"^{opcode} %\S+: .*(2 x|2 replicas x|group of|size 2)"
        ):
            backend.compile(module, module.entry_program_shape)


def test_unequal_groups_of_all_reduce_and_absent_ones_of_broadcast_fit() -> None:
    flat = "channel_id=1, use_global_device_ids=true, replica_groups={{3},{0,2,1}}"
    for root, groups in (
        (f"f32[3] all-reduce(x0), {flat}, to_apply=add", ((3,), (0, 2, 1))),
        ("f32[3] collective-broadcast(x0), replica_groups={{1}}", ((2,), (3,))),
        ("f32[3] collective-permute(x0), source_target_pairs={{0,1}}", ((0, 2), (1, 3))),
    ):
        module = module_of(program(["f32[3]"], root), GRID)
        verify(module)
        assert groups_of(module.entry.root, GRID) == groups


def test_the_grid_is_part_of_the_fingerprint() -> None:
    text = program(["f32[3]"], "f32[3] add(x0, x0)")
    found = {
        fingerprint(module, module.entry_program_shape)
        for grid in (DeviceGrid(), DeviceGrid(2), DeviceGrid(1, 2))
        for module in [module_of(text, grid)]
    }
    assert len(found) == 3
