"""What is measured: transport against a bare echo, execution against jaxlib's CPU backend."""

import functools
from collections.abc import Callable, Iterator

import grpc
import jax
import jax.numpy as jnp
import numpy as np

import xla_client
from tests.benchmarks.harness import Comparison, compare
from xla_contract.literal import Literal
from xla_contract.literal_proto import literal_from_proto, literal_to_proto
from xla_contract.stubs import xla_data_pb2

MEBIBYTE = 1 << 20


def literals() -> Iterator[Comparison]:
    """Encoding and decoding of a literal of 1e6 f32 against the obvious way."""
    array = np.random.default_rng(0).standard_normal(1_000_000).astype(np.float32)
    literal = Literal.from_numpy(array)

    def naive() -> object:
        proto = xla_data_pb2.LiteralProto()
        proto.f32s.extend(array.tolist())
        return proto

    encoded = literal_to_proto(literal)
    yield compare(
        "fill a literal, 1e6 f32", "f32s.extend(tolist())", lambda: literal_to_proto(literal), naive
    )
    yield compare(
        "read a literal, 1e6 f32",
        "np.array(list(f32s))",
        lambda: literal_from_proto(encoded).to_numpy(),
        lambda: np.array(list(encoded.f32s), np.float32),
    )


def transport(client: xla_client.Client, echo: grpc.Channel) -> Iterator[Comparison]:
    """Calls that do no work, and transfers, against a server that moves bare bytes."""
    call = {name: echo.unary_unary(f"/bench.Echo/{name}") for name in ("Echo", "Sink", "Source")}
    builder = xla_client.Builder("null")
    executable = client.compile(builder.build(builder.constant(np.float32(1))))
    yield compare(
        "null Execute", "echo of 64 bytes", executable, lambda: call["Echo"](bytes(64)), calls=200
    )
    array = np.zeros(16 * MEBIBYTE // 4, np.float32)
    payload = array.tobytes()
    yield compare(
        "upload 16 MiB f32",
        "raw bytes to a sink",
        lambda: client.to_device(array),
        lambda: call["Sink"](payload),
    )
    resident = client.to_device(array)
    size = str(array.nbytes).encode()
    yield compare(
        "download 16 MiB f32",
        "raw bytes from a source",
        resident.to_numpy,
        lambda: call["Source"](size),
    )


def run_to_the_end(compiled: Callable[..., object], arguments: list[jax.Array]) -> object:
    """Call a compiled JAX function and wait for its results."""
    return jax.block_until_ready(compiled(*arguments))


def programs(client: xla_client.Client) -> Iterator[Comparison]:
    """Programs lowered by JAX, run here (arguments resident) and by jaxlib on this machine."""
    random = np.random.default_rng(1)

    def matrix(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    def mlp(w1, w2, x, y):  # type: ignore[no-untyped-def]
        def loss(w1, w2):  # type: ignore[no-untyped-def]
            return jnp.mean((jnp.tanh(x @ w1) @ w2 - y) ** 2)

        return jax.grad(loss, (0, 1))(w1, w2)

    cases: dict[str, tuple[Callable[..., object], tuple[np.ndarray, ...]]] = {
        "a*x+y over 1e6": (lambda a, x, y: a * x + y, (matrix(1)[0], matrix(10**6), matrix(10**6))),
        "dot 512x512x512": (jnp.dot, (matrix(512, 512), matrix(512, 512))),
        "MLP gradient, batch 128": (
            mlp,
            (matrix(256, 512), matrix(512, 64), matrix(128, 256), matrix(128, 64)),
        ),
    }
    for name, (function, arrays) in cases.items():
        lowered = jax.jit(function).lower(*arrays)
        hlo = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
        executable = client.compile(xla_client.Computation.from_serialized(hlo))
        ours = [client.to_device(array) for array in arrays]
        theirs = [jnp.asarray(array) for array in arrays]
        yield compare(
            name,
            "jaxlib CPU, in process",
            functools.partial(executable, *ours),
            functools.partial(run_to_the_end, lowered.compile(), theirs),
            calls=5,
        )
