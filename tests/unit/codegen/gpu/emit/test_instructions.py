"""The instructions that LLVM has exact code for on a GPU, and modules that have others."""

import numpy as np
import pytest
from llvmlite import ir

from tests.cuda_twin.device.twin import DEVICE
from tests.cuda_twin.programs import kernels_of
from tests.unit.codegen.compiled import built
from xla_client import ops
from xla_server.codegen.gpu.emit import instructions
from xla_server.codegen.gpu.emit.emitter import grid_module
from xla_server.codegen.gpu.emit.instructions import check_instructions

FLOAT = ir.FloatType()


def _module_of(name: str) -> ir.Module:
    """A module of a function that calls another one, or has an instruction, of this name."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(FLOAT, [FLOAT]), "k")
    builder = ir.IRBuilder(function.append_basic_block())
    (x,) = function.args
    if name == "frem":
        builder.ret(builder.frem(x, x))
        return module
    called = ir.Function(module, ir.FunctionType(FLOAT, [FLOAT]), name)
    builder.ret(builder.call(called, [x]))
    return module


def test_an_intrinsic_with_exact_code_is_taken() -> None:
    check_instructions(_module_of("llvm.sqrt.f32"))


@pytest.mark.parametrize("name", ["llvm.exp.f32", "llvm.sqrt.f16"])
def test_a_function_without_exact_code_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"must be one of its list, got {name}"):
        check_instructions(_module_of(name))


def test_a_remainder_of_floats_is_refused() -> None:
    with pytest.raises(ValueError, match="computed by a function, got frem"):
        check_instructions(_module_of("frem"))


def test_modules_of_kernels_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = kernels_of(built(lambda x: ops.floor(x), [np.zeros(8, np.float32)]))
    grid_module(kernels, DEVICE)
    monkeypatch.setattr(instructions, "INTRINSICS", frozenset())
    with pytest.raises(ValueError, match=r"must be one of its list, got llvm\."):
        grid_module(kernels, DEVICE)
