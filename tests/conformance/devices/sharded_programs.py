"""Programs of shard_map and pmap over eight devices, lowered and run by JAX.

`python -m tests.conformance.devices.sharded_programs FILE` writes modules, arguments and results
to a file. It needs a process of its own, in which jaxlib was told to have eight devices.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tests.command_line import command_line

DEVICES = 8
PARTITIONERS = ("shardy", "gspmd")
NAMES = (
    *("psum", "pmean", "pmax", "all_gather", "ppermute", "all_to_all", "psum_scatter"),
    *("device_order", "data_parallel", "tensor_parallel", "work_outside", "two_regions"),
    *("gradient", "loop", "automatic_axes", "one_way_in_another_out", "pmap"),
)
Case = tuple[Callable[..., Any], list[Any]]


def _draw(*sizes: int) -> Any:
    return np.random.default_rng(sum(sizes)).standard_normal(sizes).astype(np.float32)


def _cases() -> dict[str, Case]:
    line = Mesh(np.array(jax.devices()), ("x",))
    grid = Mesh(np.array(jax.devices()).reshape(2, 4), ("a", "b"))
    other = Mesh(np.array(jax.devices())[::-1], ("x",))
    over = partial(jax.shard_map, mesh=line, in_specs=P("x"), out_specs=P("x"))
    x, m = _draw(16, 8), _draw(8, 16)

    def step(w: Any, v: Any, x: Any, y: Any) -> Any:
        def loss(parameters: Any) -> Any:
            hidden = jnp.tanh(x @ parameters[0])
            return lax.pmean(jnp.mean((hidden @ parameters[1] - y) ** 2), "x")

        value, slopes = jax.value_and_grad(loss)((w, v))
        return value, w - 0.1 * slopes[0], v - 0.1 * slopes[1]

    def attention(x: Any, q: Any, k: Any, v: Any, out: Any) -> Any:
        scores = jax.nn.softmax((x @ q) @ (x @ k).T / 4.0)
        return lax.psum((scores @ (x @ v)) @ out, "x")

    def loop(x: Any) -> Any:
        shifted = over(lambda v: lax.ppermute(v, "x", [(n, (n + 1) % 8) for n in range(8)]))
        return lax.fori_loop(0, 3, lambda _, v: shifted(v) * 2, x)

    two = jax.shard_map(
        lambda v: v + lax.axis_index("a"), mesh=grid, in_specs=P("a", "b"), out_specs=P("a", "b")
    )
    three = jax.shard_map(
        lambda v: v * lax.psum(v, "b"), mesh=grid, in_specs=P("b", "a"), out_specs=P("b", "a")
    )
    tensor = jax.shard_map(
        attention,
        mesh=line,
        in_specs=(P(), P(None, "x"), P(None, "x"), P(None, "x"), P("x", None)),
        out_specs=P(),
    )
    data = jax.shard_map(
        step, mesh=line, in_specs=(P(), P(), P("x"), P("x")), out_specs=(P(), P(), P())
    )
    auto = jax.shard_map(
        lambda v: lax.psum(jnp.sin(v) @ v.T, "a"),
        mesh=grid,
        in_specs=P("a", None),
        out_specs=P(),
        axis_names={"a"},
    )
    return {
        "psum": (over(lambda v: lax.psum(v, "x"), out_specs=P()), [x]),
        "pmean": (over(lambda v: v - lax.pmean(v, "x")), [x]),
        "pmax": (over(lambda v: v / lax.pmax(jnp.abs(v), "x")), [x]),
        "all_gather": (over(lambda v: lax.all_gather(v, "x", tiled=True)[::2]), [x]),
        "ppermute": (over(lambda v: lax.ppermute(v, "x", [(0, 3), (3, 1)])), [x]),
        "all_to_all": (over(lambda v: lax.all_to_all(v, "x", 1, 0, tiled=True)), [x]),
        "psum_scatter": (
            over(lambda v: lax.psum_scatter(v, "x", scatter_dimension=1, tiled=True)),
            [x],
        ),
        "device_order": (
            jax.shard_map(
                lambda v: v + lax.axis_index("x"), mesh=other, in_specs=P("x"), out_specs=P("x")
            ),
            [x],
        ),
        "data_parallel": (data, [_draw(8, 5), _draw(5, 3), x, _draw(16, 3)]),
        "tensor_parallel": (
            tensor,
            [_draw(6, 16), *(_draw(16, 32) for _ in range(3)), _draw(32, 16)],
        ),
        "work_outside": (lambda v: jnp.sum(over(jnp.cos)(jnp.sin(v)) * v, axis=0), [x]),
        "two_regions": (lambda v: three(two(v)), [x]),
        "gradient": (jax.grad(lambda v: jnp.sum(jnp.sin(three(two(v))))), [x]),
        "loop": (loop, [x]),
        "automatic_axes": (auto, [x]),
        "one_way_in_another_out": (
            jax.jit(
                lambda v: over(jnp.sin)(v),
                in_shardings=NamedSharding(line, P(None, "x")),
                out_shardings=NamedSharding(line, P(None, "x")),
            ),
            [x],
        ),
        "pmap": (
            jax.pmap(lambda v, w: lax.psum(v, "i") @ w, axis_name="i", in_axes=(0, None)),
            [m, _draw(16)],
        ),
    }


def write(path: str) -> None:
    """Lower and run every case with both partitioners of XLA, and write all of it to a file."""
    assert len(jax.devices()) == DEVICES
    assert tuple(_cases()) == NAMES
    arrays: dict[str, Any] = {}
    for partitioner in PARTITIONERS:
        jax.config.update("jax_use_shardy_partitioner", partitioner == "shardy")
        jax.clear_caches()
        for name, (function, arguments) in _cases().items():
            key = f"{partitioner}/{name}"
            staged = function if hasattr(function, "lower") else jax.jit(function)
            module = staged.lower(*arguments).compiler_ir("hlo").as_serialized_hlo_module_proto()
            arrays[f"{key}/module"] = np.frombuffer(module, np.uint8)
            for number, argument in enumerate(arguments):
                arrays[f"{key}/argument{number}"] = argument
            for number, result in enumerate(jax.tree.leaves(staged(*arguments))):
                arrays[f"{key}/result{number}"] = np.asarray(result)
    np.savez(path, **arrays)


if __name__ == "__main__":
    parser = command_line("tests.conformance.devices.sharded_programs", __doc__)
    parser.add_argument("file")
    write(parser.parse_args().file)
