"""The same program through a platform of ours and through jaxlib's CPU backend.

CONFORMANCE_PLATFORM says which of ours: `interpreter`, or one of `tests/platforms.py`.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tests.checked_evaluation import evaluate_checked
from xla_contract.stubs import hlo_pb2
from xla_contract.types.element_type import ElementType
from xla_server.ir.importer import import_module
from xla_server.ir.verification.verifier import verify

PLATFORM = os.environ.get("CONFORMANCE_PLATFORM", "interpreter")

_BITS: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def by_jax(function: Callable[..., Any], arguments: Sequence[Any]) -> list[Any]:
    """The results of the jitted function, 64-bit types kept."""
    import jax

    with jax.enable_x64(True):
        results = jax.jit(function)(*arguments)
        return [np.asarray(leaf) for leaf in jax.tree.leaves(results)]


def run_on_xla(proto: hlo_pb2.HloModuleProto, arguments: Sequence[Any]) -> list[Any]:
    """The results of the entry computation, a tuple taken apart; 64-bit types kept.

    Compiled with the options that jax.jit gives: without them max(1, NaN) is 1.
    """
    import jax
    from jax._src.compiler import get_compile_options
    from jax._src.lib import _jax, xla_client

    devices = tuple(jax.devices("cpu")[:1])
    module = _jax.mlir.hlo_to_stablehlo(proto.SerializeToString())
    executable = devices[0].client.compile_and_load(
        module,
        xla_client.DeviceList(devices),
        get_compile_options(num_replicas=1, num_partitions=1),
    )
    with jax.enable_x64(True):
        placed = [jax.device_put(argument, devices[0]) for argument in arguments]
        return [np.asarray(result) for result in executable.execute(placed)]


def by_both(function: Callable[..., Any], arguments: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return (ours, jaxlib's) for each result of the function, which JAX lowers once for both."""
    import jax

    with jax.enable_x64(True):
        lowered = jax.jit(function).lower(*arguments)
        data = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
        theirs = [np.asarray(leaf) for leaf in jax.tree.leaves(lowered.compile()(*arguments))]
    proto = hlo_pb2.HloModuleProto.FromString(data)
    ours = evaluated(proto, [np.asarray(argument) for argument in arguments])
    return list(zip(ours, theirs, strict=True))


def evaluated(proto: hlo_pb2.HloModuleProto, arguments: Sequence[Any]) -> list[Any]:
    """The results of a module, imported, verified and run by the platform of the run."""
    module = import_module(proto)
    verify(module)
    if PLATFORM != "interpreter":
        # Imported here, as numba takes its time.
        from tests.platforms import compiled_platform
        from tests.unit.codegen.compiled import on_platform

        given = [np.asarray(argument) for argument in arguments]
        return on_platform(compiled_platform(PLATFORM), module, given)
    value: Any = evaluate_checked(module, arguments)
    return list(value) if isinstance(value, tuple) else [value]


def assert_equal_bits(ours: Any, theirs: Any) -> None:
    """Same type, dimensions and bits; any two NaNs are the same."""
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    if ours.dtype.kind in "biu" or ElementType.from_dtype(ours.dtype).is_integer:
        np.testing.assert_array_equal(ours.astype(np.int64), theirs.astype(np.int64))
        return
    if ours.dtype.kind == "c":
        assert_equal_bits(np.ascontiguousarray(ours.real), np.ascontiguousarray(theirs.real))
        assert_equal_bits(np.ascontiguousarray(ours.imag), np.ascontiguousarray(theirs.imag))
        return
    nans = np.isnan(theirs)
    np.testing.assert_array_equal(np.isnan(ours), nans)
    storage = _BITS[ours.dtype.itemsize]
    bits = [np.ascontiguousarray(array).view(storage)[~nans] for array in (ours, theirs)]
    np.testing.assert_array_equal(*bits)


def assert_close(ours: Any, theirs: Any, ulps: float) -> None:
    """Check type, dimensions and special values, and other numbers within `ulps`.

    An ULP of a complex number is one of its magnitude, in both parts.
    """
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    numbers: Any = ml_dtypes
    info = numbers.finfo(ours.dtype)
    wide = np.complex128 if ours.dtype.kind == "c" else np.float64
    # Numbers this small may be flushed to zero by one side.
    tiny = 4 * float(info.smallest_normal)
    np.testing.assert_allclose(
        ours.astype(wide), theirs.astype(wide), rtol=ulps * float(info.eps), atol=tiny
    )
