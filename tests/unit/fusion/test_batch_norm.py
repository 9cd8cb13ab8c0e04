"""Normalisations of batches read their operand as seldom as can be."""

import pytest

from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.code import KernelThunk
from xla_server.ir.text.parser import parse_module

PASSES = {
    # The mean, the distances from it, and what is made of both.
    "(f32[{0}], f32[64], f32[64]) batch-norm-training(x, a, b), ": 3,
    "f32[{0}] batch-norm-inference(x, a, b, c, d), ": 1,
    # Both sums at once, and the gradient.
    "(f32[{0}], f32[64], f32[64]) batch-norm-grad(x, a, b, c, g), ": 2,
}


@pytest.mark.parametrize("stated", PASSES, ids=["training", "inference", "gradient"])
@pytest.mark.parametrize(("sizes", "feature"), [("32,16,16,64", 3), ("32,64,16,16", 1)])
def test_passes_over_memory(stated: str, sizes: str, feature: int) -> None:
    vectors = "\n".join(f"{name} = f32[64] parameter({n})" for n, name in enumerate("abcd", 2))
    module = parse_module(f"""HloModule m
ENTRY e {{ x = f32[{sizes}] parameter(0)
g = f32[{sizes}] parameter(1)
{vectors}
ROOT r = {stated.format(sizes)}epsilon=0.001, feature_index={feature} }}""")
    code = compile_module(module).code
    x = code.parameters[0]
    kernels = [thunk for thunk in code.thunks if isinstance(thunk, KernelThunk)]
    assert sum(x in row.reads for row in kernels) == PASSES[stated]
    # No other array as large is written and read again.
    wide = [value for row in kernels for value in row.writes if value.byte_size == x.byte_size]
    assert len(wide) == 1
