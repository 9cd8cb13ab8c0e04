"""Workloads that move elements and compute nothing."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.benchmarks.workloads.workload import Draws, Workload


def _cropped(image: Any, corner: Any) -> Any:
    return lax.dynamic_slice(image, (corner[0], corner[1], 0), (32, 32, 3))


def _augmented(x: Any, corners: Any, flipped: Any, partners: Any) -> Any:
    """Return images with mirrored borders, cropped, flipped and mixed with those of partners."""
    padded = jnp.pad(x, ((0, 0), (4, 4), (4, 4), (0, 0)), mode="reflect")
    found = jax.vmap(_cropped)(padded, corners)
    found = jnp.where(flipped, found[:, :, ::-1], found)
    return 0.7 * found + 0.3 * found[partners]


def workloads() -> dict[str, Workload]:
    """Movements of a matrix of a million elements."""
    draws = Draws(3)
    x = draws.f32(1024, 1024)
    rows = draws.s32(1024, 4096)
    places = draws.s32(1 << 20, 1 << 18)
    four = draws.f32(8, 64, 64, 32)
    parts = tuple(draws.f32(25_000) for _ in range(40))
    images = draws.f32(64, 32, 32, 3)
    corners, partners = draws.s32(9, 64, 2), draws.s32(64, 64)
    flipped = draws.s32(2, 64, 1, 1, 1) == 1
    return {
        "transpose": Workload(lambda x: x.T + 0.0, (x,)),
        "transpose s8": Workload(lambda x: x.T, (x.astype(np.int8),)),
        "transpose of heads": Workload(lambda x: x.transpose(0, 2, 1, 3) * 1.0, (four,)),
        "channels first": Workload(lambda x: x.transpose(0, 3, 1, 2) * 1.0, (four,)),
        "concatenate and pad": Workload(lambda x: jnp.pad(jnp.concatenate([x, x]), 1), (x,)),
        "concatenate columns": Workload(lambda x: jnp.concatenate([x, x * 2], 1), (x,)),
        "concatenate 40 arrays": Workload(lambda *each: jnp.concatenate(each), parts),
        "stack 40 formulas": Workload(
            lambda *each: jnp.stack([x * (n + 2) + n for n, x in enumerate(each)]), parts
        ),
        "interleave 40 arrays": Workload(lambda *each: jnp.stack(each, -1), parts),
        "slice with steps": Workload(lambda x: x[1::2, ::3] + 1, (x,)),
        "reverse": Workload(lambda x: x[:, ::-1] * 2, (x,)),
        "broadcast and add": Workload(lambda x: x[:, None, :64] + x[None, :256, :64], (x,)),
        "dynamic slices": Workload(
            lambda x, i: lax.dynamic_slice(x, (i[0] % 8, i[1] % 8), (1000, 1000)) + 0.0, (x, rows)
        ),
        "dynamic update": Workload(
            lambda x, i: lax.dynamic_update_slice(x, x[:8] * 2, (i[0] % 8, 0)), (x, rows)
        ),
        "gather rows": Workload(lambda x, i: x[i], (x, rows)),
        "gather elements": Workload(lambda x, i: x.reshape(-1)[i], (x, places)),
        "scatter-add rows": Workload(lambda x, i: x.at[i].add(1.0), (x, rows)),
        "scatter-add elements": Workload(lambda x, i: x.reshape(-1).at[i].add(1.0), (x, places)),
        "random crops": Workload(_augmented, (images, corners, flipped, partners)),
        "one-hot": Workload(lambda i: jax.nn.one_hot(i, 256), (rows % 256,)),
    }
