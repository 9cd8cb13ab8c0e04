"""Programs in HLO text run by XLA's CPU backend: the oracle for what JAX does not lower to."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from xla_contract.stubs import hlo_pb2


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
