"""Programs of shard_map and pmap, freshly lowered, against jaxlib on as many devices.

The module that JAX lowers becomes the program of one partition. All partitions run it together, on
the interpreter and on the cpu platform.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conformance.devices import sharded_programs
from tests.corpus.grids import BACKENDS
from tests.unit.passes.partitioning.grids import run_whole
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_server.ir.importer import import_serialized_module
from xla_server.ir.verification.verifier import verify
from xla_server.passes.partitioning.partition import partition

ROOT = Path(__file__).resolve().parents[3]
CASES = [
    f"{partitioner}/{name}"
    for partitioner in sharded_programs.PARTITIONERS
    for name in sharded_programs.NAMES
]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("programs") / "programs.npz"
    devices = f"--xla_force_host_platform_device_count={sharded_programs.DEVICES}"
    subprocess.run(
        [sys.executable, "-m", "tests.conformance.devices.sharded_programs", str(path)],
        cwd=ROOT,
        env=os.environ | {"XLA_FLAGS": devices, "JAX_PLATFORMS": "cpu"},
        check=True,
    )
    with np.load(path) as arrays:
        return {name: arrays[name] for name in arrays.files}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("platform", sorted(BACKENDS))
def test_partitions_compute_what_jaxlib_does(
    stored: dict[str, Any], platform: str, case: str
) -> None:
    def values(what: str) -> list[Any]:
        found = [name for name in stored if name.startswith(f"{case}/{what}")]
        return [stored[f"{case}/{what}{number}"] for number in range(len(found))]

    module = import_serialized_module(stored[f"{case}/module"].tobytes())
    module.grid = DeviceGrid(1, sharded_programs.DEVICES)
    verify(module)
    signature = partition(module).signature
    verify(module)
    results = run_whole(module, signature, values("argument"), platform)
    for got, want in zip(results, values("result"), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
