"""Programs that JAX writes, through the cpu platform, the interpreter and jaxlib."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from tests.conformance.oracle import assert_equal_bits
from tests.corpus.jax.programs import lower
from tests.unit.codegen.compiled import imported, interpreted, on_cpu, pairs, texts_of


def assert_same_as_jax(function: Callable[..., Any], *arguments: Any) -> None:
    """Compiled, interpreted and jaxlib's results have the same bits; 64-bit types are kept."""
    with jax.enable_x64(True):
        lowered = jax.jit(function).lower(*arguments)
        expected = [np.asarray(leaf) for leaf in jax.tree.leaves(lowered.compile()(*arguments))]
    for compiled, theirs in zip(_compiled(lowered, arguments), expected, strict=True):
        assert_equal_bits(compiled, theirs)


def near_texts(function: Callable[..., Any], *arguments: Any, atol: float = 1e-5) -> list[str]:
    """The texts of a program's kernels, whose results are near the interpreter's."""
    module = imported(lower(function, *arguments))
    for compiled, expected in pairs(module, arguments):
        np.testing.assert_allclose(compiled, expected, rtol=1e-5, atol=atol)
    return texts_of(module)


def assert_same_as_interpreted(function: Callable[..., Any], *arguments: Any) -> None:
    """Compiled and interpreted results have the same bits; 64-bit types are kept."""
    with jax.enable_x64(True):
        lowered = jax.jit(function).lower(*arguments)
    _compiled(lowered, arguments)


def _compiled(lowered: Any, arguments: Sequence[Any]) -> list[Any]:
    """Return the compiled results, which have the bits of the interpreted ones."""
    data = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
    module = imported(data)
    results = [np.asarray(each) for each in on_cpu(module, arguments)]
    for compiled, evaluated in zip(results, interpreted(module, arguments), strict=True):
        assert_equal_bits(compiled, np.asarray(evaluated))
    return results
