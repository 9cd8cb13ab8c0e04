"""Programs over several devices, with the values of every device before and after.

A file of `tests/data/devices` has the module as JAX lowered it, the one that XLA's partitioner made
of it (`spmd`), and values with the device first. A `raw` module is for one device already. The
answers are jaxlib's, or numpy's where the index says so. Bfloat16 is stored as its bits.
"""

import dataclasses
import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.devices.sharding import REPLICATED, Sharding
from xla_contract.types.shape import Shape
from xla_contract.wire.sharding_proto import sharding_from_proto
from xla_server.ir.text.scanner import HloReader
from xla_server.ir.text.shardings import SHARDING

_FOLDER = Path(__file__).parent / "data" / "devices"


@dataclasses.dataclass(frozen=True)
class DeviceValue:
    """A parameter or a result: what each device has of it, and how these parts make the whole."""

    shards: NDArray[Any]
    dimensions: tuple[int, ...]
    sharding: Sharding
    tolerance: tuple[float, float] = (0.0, 0.0)

    @property
    def whole(self) -> NDArray[Any]:
        """The value of all parts together."""
        array: NDArray[Any] = self.sharding.join(
            Shape.array("f32", self.dimensions), list(self.shards)
        )
        return array

    def check(self, shards: Sequence[Any]) -> None:
        """Assert that these are the parts: exact but for floating point numbers."""
        got, want = np.stack([np.asarray(shard) for shard in shards]), self.shards
        assert got.shape == want.shape
        assert got.dtype == want.dtype
        if not np.issubdtype(want.dtype, np.inexact) and want.dtype != ml_dtypes.bfloat16:
            np.testing.assert_array_equal(got, want)
            return
        relative, absolute = self.tolerance
        wide = want.astype(np.float64)
        largest = np.max(np.abs(wide), initial=1, where=np.isfinite(wide))
        np.testing.assert_allclose(
            got.astype(np.float64), wide, rtol=relative, atol=absolute * largest, equal_nan=True
        )


@dataclasses.dataclass(frozen=True)
class DeviceProgram:
    """One program of the collection; `spmd` is what a device runs, where XLA can partition it."""

    name: str
    group: str
    grid: DeviceGrid
    device_assignment: tuple[int, ...]
    lowered: bytes
    spmd: bytes | None
    arguments: tuple[DeviceValue, ...]
    results: tuple[DeviceValue, ...]


@functools.cache
def _index() -> dict[str, Any]:
    return {entry["name"]: entry for entry in json.loads((_FOLDER / "index.json").read_text())}


def names(*groups: str) -> list[str]:
    """The names of all programs, or of those of some groups."""
    return [name for name, entry in _index().items() if not groups or entry["group"] in groups]


@functools.cache
def device_program(name: str) -> DeviceProgram:
    """The program of this name."""
    entry = _index()[name]
    with np.load(_FOLDER / f"{name}.npz") as stored:
        arrays = {key: stored[key] for key in stored.files}
    tolerances = entry.get("tol") or [(0.0, 0.0)] * len(entry["outs"])
    lowered = arrays["lowered"].tobytes()
    spmd = arrays["spmd"].tobytes() if "spmd" in arrays else None
    return DeviceProgram(
        name,
        entry["group"],
        DeviceGrid(entry["num_replicas"], entry["num_partitions"]),
        tuple(entry["device_assignment"]),
        lowered,
        lowered if entry["group"] == "raw" else spmd,
        tuple(_value(arrays[f"arg{n}"], given) for n, given in enumerate(entry["args"])),
        tuple(
            _value(arrays[f"out{n}"], given, tuple(tolerance))
            for n, (given, tolerance) in enumerate(zip(entry["outs"], tolerances, strict=True))
        ),
    )


def _value(array: NDArray[Any], entry: dict[str, Any], tolerance: Any = (0.0, 0.0)) -> DeviceValue:
    if entry["dtype"] == "bfloat16":
        array = array.view(ml_dtypes.bfloat16)
    sharding = REPLICATED
    if "sharding" in entry:
        sharding = sharding_from_proto(SHARDING.read(HloReader(entry["sharding"])))
    dimensions = tuple(entry.get("global_shape", array.shape[1:]))
    return DeviceValue(array, dimensions, sharding, tolerance)
