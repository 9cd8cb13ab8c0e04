"""Calls back into Python are refused when a program is compiled, by the target's name."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.corpus.jax.programs import lower
from xla_contract.errors import UnimplementedError
from xla_contract.stubs import hlo_pb2
from xla_server.backends.interpreter import Interpreter
from xla_server.ir.importer import import_module

X = np.ones(3, np.float32)


def printing(x: Any) -> Any:
    import jax

    jax.debug.print("{}", x)
    return x


def printing_in_order(x: Any) -> Any:
    import jax

    jax.debug.callback(print, x, ordered=True)
    return x


def pure(x: Any) -> Any:
    import jax

    return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def with_effects(x: Any) -> Any:
    import jax
    from jax.experimental import io_callback

    return io_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def with_effects_in_order(x: Any) -> Any:
    import jax
    from jax.experimental import io_callback

    return io_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x, ordered=True)


@pytest.mark.parametrize(
    "function", [printing, printing_in_order, pure, with_effects, with_effects_in_order]
)
def test_a_callback_is_refused_when_the_program_is_compiled(
    function: Callable[[Any], Any],
) -> None:
    module = import_module(hlo_pb2.HloModuleProto.FromString(lower(function, X)))
    with pytest.raises(
        UnimplementedError,
        match=r'custom-call %\S+: target "xla_\w*python_cpu_callback" calls a Python function',
    ):
        Interpreter().compile(module, module.entry.program_shape)
