"""Programs after all passes: softmax and normalisations are one loop over rows."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.corpus.jax.programs import lower
from tests.processors import TARGET
from tests.unit.passes.passing import assert_kept, opcodes
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_server.fusion.loop_fusion import LoopFusion
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule
from xla_server.ir.verification.verifier import verify
from xla_server.passes.framework.editor import copy_module
from xla_server.passes.framework.fixpoint import run_once
from xla_server.passes.pipeline import pipeline

_RANDOM = np.random.default_rng(0)
X = _RANDOM.standard_normal((64, 128)).astype(np.float32)
BATCH = _RANDOM.standard_normal((2, 64, 128)).astype(np.float32)
ONE = BATCH[:1]
GAIN, SHIFT = X[0], X[1]


def _layer_norm(x: Any, gain: Any, shift: Any) -> Any:
    mean, variance = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-5) * gain + shift


def _root_mean_square(x: Any, gain: Any) -> Any:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * gain


def _in_half(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: function(x.astype(jnp.bfloat16)).astype(jnp.float32)


def _attention(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bqd,bkd->bqk", q, k) / 8
    return jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(scores), v)


def _jax() -> Any:
    return jax


ROWS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "softmax": lambda: (_jax().nn.softmax, X),
    "softmax_of_a_batch_of_one": lambda: (_jax().nn.softmax, ONE),
    "softmax_in_half": lambda: (_in_half(_jax().nn.softmax), X),
    "log_softmax": lambda: (_jax().nn.log_softmax, X),
    "logsumexp": lambda: (lambda x: _jax().nn.logsumexp(x, -1), X),
    "logsumexp_kept": lambda: (lambda x: _jax().nn.logsumexp(x, -1, keepdims=True), X),
    "standardize": lambda: (_jax().nn.standardize, X),
    "layer_norm": lambda: (_layer_norm, X, GAIN, SHIFT),
    "layer_norm_of_a_batch": lambda: (_layer_norm, BATCH, GAIN, SHIFT),
    "layer_norm_of_a_batch_of_one": lambda: (_layer_norm, ONE, GAIN, SHIFT),
    "rms_norm": lambda: (_root_mean_square, BATCH, GAIN),
    "attention": lambda: (_attention, BATCH, BATCH, BATCH),
    "cross_entropy": lambda: (
        lambda x, y: -(_jax().nn.log_softmax(x) * y).sum(-1),
        X,
        np.abs(X),
    ),
}


def _optimised(name: str) -> tuple[HloModule, HloModule, list[Any]]:
    function, *arguments = ROWS[name]()
    module = import_module(hlo_pb2.HloModuleProto.FromString(lower(function, *arguments)))
    optimised = copy_module(module)
    run_once(pipeline(TARGET), optimised)
    return module, optimised, [np.asarray(argument) for argument in arguments]


@pytest.mark.parametrize("name", ROWS)
def test_one_fusion(name: str) -> None:
    module, optimised, arguments = _optimised(name)
    LoopFusion(TARGET).apply(optimised)
    verify(optimised)
    counts = opcodes(optimised)
    assert counts.pop("fusion") == 1
    # A reshape moves nothing.
    assert set(counts) <= {"reshape", "dot"}
    assert_kept(module, optimised, arguments, relative=1e-5)


def test_reduced_rows_are_broadcast_directly() -> None:
    _, optimised, _ = _optimised("layer_norm")
    for i in optimised.entry.instructions:
        assert i.opcode is not Opcode.RESHAPE
        assert 1 not in i.shape.dimensions
