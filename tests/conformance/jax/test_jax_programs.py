"""Programs as JAX lowers them, with every value checked, against jaxlib's numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.checked_evaluation import evaluate_checked
from tests.conformance.oracle import evaluated, run_on_xla
from tests.corpus.jax.cases import CASES, Case
from tests.corpus.jax.programs import lower
from xla_contract.stubs import hlo_pb2
from xla_server.ir.exporter import export_module
from xla_server.ir.importer import import_module
from xla_server.ir.verification.verifier import verify

OFFERED = (
    *("batch_norm", "cond", "convolution", "converts", "cumulative", "dot", "dot_highest"),
    *("elementwise", "gather", "random_bits", "random_threefry", "reduce", "reduce_window"),
    *("scatter", "slices", "sort", "while_loop", "scan", "mlp_train_step", "cnn_train_step"),
)
X = np.arange(4, dtype=np.float32)
PROGRAMS: dict[str, Callable[[], Case]] = {name: CASES[name] for name in OFFERED}


def outputs_of(proto: hlo_pb2.HloModuleProto, arguments: list[Any]) -> list[Any]:
    module = import_module(proto)
    verify(module)
    result = evaluate_checked(module, arguments)
    return list(result) if isinstance(result, tuple) else [result]


def filled(x: Any) -> Any:
    import jax

    return jax.lax.dynamic_update_slice(jax.lax.empty((4,), x.dtype), x, (0,))


@pytest.mark.parametrize("platform", ["cpu", "cuda", "tpu"])
def test_an_empty_array_is_filled_whatever_platform_a_program_is_for(platform: str) -> None:
    proto = hlo_pb2.HloModuleProto.FromString(lower(filled, X, platform=platform))
    for found in (evaluated(proto, [X]), run_on_xla(proto, [X])):
        np.testing.assert_array_equal(found, [X])


@pytest.mark.parametrize("name", PROGRAMS)
def test_gives_jaxlib_s_numbers(name: str) -> None:
    import jax

    function, arguments = PROGRAMS[name]()
    # Arguments that the function does not use are no parameters of the lowered program.
    proto = hlo_pb2.HloModuleProto.FromString(lower(function, *arguments))
    flat = [np.asarray(leaf) for leaf in jax.tree.leaves(arguments)]
    wanted = jax.tree.leaves(jax.jit(function)(*arguments))
    for form in (proto, export_module(import_module(proto))):
        found = outputs_of(form, flat)
        for ours, theirs in zip(found, wanted, strict=True):
            expected = np.asarray(theirs)
            assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
            np.testing.assert_allclose(
                ours.astype(np.float64), expected.astype(np.float64), rtol=2e-5, atol=2e-6
            )
