"""Programs of one instruction, lowered for a GPU, and their results on the host."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.conformance.oracle import assert_equal_bits
from tests.cuda_twin.lowered import lowered, results_of, through_host
from tests.unit.codegen.compiled import built, interpreted
from xla_client.programs.builder import Op
from xla_server.buffers.code import KernelThunk
from xla_server.ir.module import HloModule


def launches(module: HloModule) -> list[KernelThunk]:
    """Return the kernels of a program, none of which the host executes."""
    code = lowered(module)
    assert through_host(code) == []
    return [thunk for thunk in code.thunks if isinstance(thunk, KernelThunk)]


def names(function: Callable[..., Op], *arguments: Any) -> list[str]:
    """Return the names of the kernels of a program behind that of its instruction."""
    thunks = launches(built(function, arguments))
    return [thunk.name.partition(".")[2].partition(".")[2] for thunk in thunks]


def run(module: HloModule, *arguments: Any) -> list[Any]:
    """Return the results of a program by kernels for a GPU."""
    return results_of(module, lowered(module), list(map(np.asarray, arguments)))


def both(function: Callable[..., Op], *arguments: Any) -> list[tuple[Any, Any]]:
    """Return (on the twin, interpreted) for each result of a program that `function` states."""
    module = built(function, arguments)
    return list(zip(run(module, *arguments), interpreted(module, arguments), strict=True))


def assert_same(function: Callable[..., Op], *arguments: Any) -> None:
    """Results on the twin have the interpreter's bits."""
    for ours, expected in both(function, *arguments):
        assert_equal_bits(ours, expected)
