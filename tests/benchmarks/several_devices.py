"""AllReduce and a data-parallel step on several devices, against jaxlib's CPU backend.

The peer is a process of its own, whose XLA has four devices on the host; each round times one call
here and one there. Arguments lie on the devices on both sides, ours run through a session in this
process. `python -m tests.benchmarks.several_devices` prints the rows alone.
"""

import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tests.benchmarks.harness import Comparison
from tests.command_line import command_line
from xla_contract.stubs import hlo_pb2, xla_pb2
from xla_contract.types.literal import Literal
from xla_server.backends.compiled.cpu import Cpu
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.decode.programs import read_compile_request
from xla_server.rpc.threads.thread_pool import ThreadPool
from xla_server.sessions.limits.server_limits import Limits
from xla_server.sessions.runs.requests import ShardedOutput, ShardedRequest, ShardsArgument
from xla_server.sessions.session import Session
from xla_server.sessions.shared_resources import SharedResources

DEVICES = 4
GATE = 0.8
_SIZES = {"1 KiB": 1 << 10, "1 MiB": 1 << 20, "64 MiB": 1 << 26}
_STEP_ROWS, _STEP_WIDTH = 2048, 512
_PEER = "jaxlib CPU, devices of one process"
_SEPARATE = ShardedOutput(join=False, sharding=None, flatten=False)


def _programs() -> dict[str, tuple[int, Callable[[], Any], list[Any]]]:
    """Name -> devices, what makes the jitted function, and its arguments. In the peer."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    def on(count: int) -> Any:
        mesh = Mesh(np.array(jax.devices()[:count]), ("d",))
        map_over = functools.partial(jax.shard_map, mesh=mesh)
        return mesh, map_over

    def placed(mesh: Any, array: np.ndarray, spec: Any) -> Any:
        return jax.device_put(array, NamedSharding(mesh, spec))

    found: dict[str, tuple[int, Callable[[], Any], list[Any]]] = {}
    rows, whole = PartitionSpec("d"), PartitionSpec()
    random = np.random.default_rng(0)
    for count in (2, DEVICES):
        mesh, map_over = on(count)
        total = map_over(lambda x: jax.lax.psum(x, "d"), in_specs=rows, out_specs=rows)
        for name, size in _SIZES.items():
            # Rows of their own, so that the result is a shard on each device, too.
            x = random.standard_normal((count, size // 4)).astype(np.float32)
            arguments = [placed(mesh, x, rows)]
            found[f"AllReduce {name} over {count}"] = (
                count,
                functools.partial(jax.jit, total),
                arguments,
            )

    def loss(w1: Any, w2: Any, x: Any) -> Any:
        return jnp.mean((jnp.tanh(x @ w1) @ w2) ** 2)

    def step(w1: Any, w2: Any, x: Any) -> Any:
        own = jax.grad(loss, (0, 1))(w1, w2, x)
        return [w - 0.1 * jax.lax.pmean(g, "d") for w, g in zip((w1, w2), own, strict=True)]

    shape = (_STEP_WIDTH, _STEP_WIDTH)
    weights = [random.standard_normal(shape).astype(np.float32) / 32 for _ in range(2)]
    images = random.standard_normal((_STEP_ROWS, _STEP_WIDTH)).astype(np.float32)
    for count in (1, 2):
        mesh, map_over = on(count)
        mapped = map_over(step, in_specs=(whole, whole, rows), out_specs=whole, check_vma=False)
        arguments = [placed(mesh, w, whole) for w in weights] + [placed(mesh, images, rows)]
        found[f"step on {count}"] = count, functools.partial(jax.jit, mapped), arguments
    return found


def _serve() -> None:
    """Be the peer: tell of each program, then time a call of the one that a line names."""
    import base64

    import jax

    ready = {}
    for name, (count, jitted, arguments) in _programs().items():
        lowered = jitted().lower(*arguments)
        hlo = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
        told = {
            "name": name,
            "devices": count,
            "hlo": base64.b64encode(hlo).decode(),
            "arguments": [
                [list(shard.data.shape) for shard in argument.addressable_shards]
                for argument in arguments
            ],
        }
        print(json.dumps(told), flush=True)
        ready[name] = lowered.compile(), arguments
    print(flush=True)
    for line in sys.stdin:
        compiled, arguments = ready[line.strip()]
        started = time.perf_counter()
        jax.block_until_ready(compiled(*arguments))
        print(time.perf_counter() - started, flush=True)


class _Peer:
    """The process of the peer."""

    def __init__(self) -> None:
        flags = f"--xla_force_host_platform_device_count={DEVICES}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.several_devices", "--peer"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        )

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def programs(self) -> Iterator[dict[str, Any]]:
        """The programs that it has."""
        while line := self._line():
            yield json.loads(line)

    def seconds(self, name: str) -> float:
        """The seconds of one call."""
        assert self._process.stdin is not None
        print(name, file=self._process.stdin, flush=True)
        return float(self._line())

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


class _Ours:
    """A program of the peer, compiled here, with arguments of the same shapes on each device."""

    def __init__(self, session: Session, told: dict[str, Any]) -> None:
        import base64

        self._session = session
        proto = hlo_pb2.HloModuleProto.FromString(base64.b64decode(told["hlo"]))
        options = xla_pb2.ExecutionOptions(num_replicas=1, num_partitions=told["devices"])
        wanted = read_compile_request(proto, options)
        executable = session.runner.compile(wanted, (), Cancellation())
        arguments = [
            ShardsArgument([self._kept(*each) for each in enumerate(shards)])
            for shards in told["arguments"]
        ]
        self._request = ShardedRequest(executable, None, arguments, _SEPARATE)

    def _kept(self, number: int, shape: Sequence[int]) -> int:
        array = np.random.default_rng(1).standard_normal(shape).astype(np.float32) / 32
        literal = Literal.from_numpy(array)
        backend = self._session.engine.backend
        buffer = backend.to_device(literal, backend.devices[number])
        with self._session.data.reserve(literal.shape.byte_size, "a benchmark") as reservation:
            return reservation.keep(buffer)

    def seconds(self) -> float:
        """The seconds of one call; its results are freed after that."""
        started = time.perf_counter()
        result = self._session.grids.execute_sharded(self._request, Cancellation())
        spent = time.perf_counter() - started
        self._session.unregister([each for outputs in result.outputs for each in outputs])
        return spent


def several_devices(rounds: int = 15) -> Iterator[Comparison]:
    """The rows: AllReduce by size and devices, and the time of a step on two devices by one's."""
    peer = _Peer()
    session = Session(
        SharedResources(Cpu(DEVICES), Limits(max_device_bytes=2**33), ThreadPool(1, "execution"))
    )
    try:
        medians: dict[str, tuple[float, float]] = {}
        for told in list(peer.programs()):
            name, ours = told["name"], _Ours(session, told)
            medians[name] = _medians(ours.seconds, functools.partial(peer.seconds, name), rounds)
            if not name.startswith("step"):
                yield Comparison(name, _PEER, *medians[name], GATE)
            else:
                yield Comparison(name, _PEER, *medians[name])
        ours_one, peer_one = medians["step on 1"]
        ours_two, peer_two = medians["step on 2"]
        name = "data-parallel step, time on 2 devices by that on 1"
        yield Comparison(name, _PEER, ours_two / ours_one, peer_two / peer_one)
    finally:
        session.close()
        peer.close()


def _medians(
    ours: Callable[[], float], theirs: Callable[[], float], rounds: int
) -> tuple[float, float]:
    """The median seconds of both sides, which time themselves, in turn, after a warm-up."""
    for _ in range(2):
        ours()
        theirs()
    samples = [(ours(), theirs()) for _ in range(rounds)]
    columns = np.median(np.array(samples), axis=0)
    return float(columns[0]), float(columns[1])


if __name__ == "__main__":
    parser = command_line("tests.benchmarks.several_devices", __doc__)
    parser.add_argument("--peer", action="store_true", help="serve as the peer")
    if parser.parse_args().peer:
        _serve()
    else:
        for row in several_devices():
            print(f"{row.name:55} {row.speed:6.2f}  {row.ours_seconds:.6f} {row.peer_seconds:.6f}")
