"""Whole programs on a platform that executes the loop IR by Python, and on `cpu`."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import xla_client
from tests.corpus.grids import BACKENDS, module_of, run_per_device
from tests.corpus.hlo_text import VECTOR_LOOP
from tests.example_platform.formulas import UnsupportedKernelError
from tests.example_platform.platform import Example
from tests.example_platform.program import WalkedProgram
from tests.executing import execute
from tests.golden.kernels import PROGRAMS as GOLDEN
from tests.kernels.corpora import CORPORA
from xla_client import Builder, ops
from xla_contract.errors import CancelledError
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.literal import Literal
from xla_server.app.options.settings import Settings
from xla_server.app.serving.wiring import create_server
from xla_server.backends.compiled.backend import CompiledBackend
from xla_server.backends.compiled.cpu import Cpu
from xla_server.buffers.assignment import assign
from xla_server.buffers.code import Code, KernelThunk
from xla_server.evaluator.dynamic_shapes import has_dynamic_shapes
from xla_server.execution.cancellation import Cancellation
from xla_server.ir.module import HloModule
from xla_server.ir.text.parser import parse_module
from xla_server.runtime.blocks import BlockPool

REDUCTIONS = """HloModule reductions
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
max { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT s = s32[] maximum(a, b) }
ENTRY main {
  x = f32[6,40] parameter(0)
  y = s32[5,7] parameter(1)
  zero = f32[] constant(0)
  low = s32[] constant(-2147483648)
  rows = f32[6] reduce(x, zero), dimensions={1}, to_apply=add
  columns = f32[40] reduce(x, zero), dimensions={0}, to_apply=add
  largest = s32[7] reduce(y, low), dimensions={0}, to_apply=max
  ROOT r = (f32[6], f32[40], s32[7]) tuple(rows, columns, largest) }
"""
ELEMENTWISE = """HloModule elementwise
ENTRY main {
  x = f32[9,5] parameter(0)
  h = f16[9,5] parameter(1)
  n = s8[9,5] parameter(2)
  c = c64[9,5] parameter(3)
  wide = f32[9,5] convert(h)
  t = f32[9,5] tanh(x)
  p = f32[9,5] power(t, wide)
  e = f32[9,5] exponential(p)
  back = f16[9,5] convert(e)
  m = s8[9,5] multiply(n, n)
  d = c64[9,5] multiply(c, c)
  ROOT r = (f32[9,5], f16[9,5], s8[9,5], c64[9,5]) tuple(p, back, m, d) }
"""
BRANCHES = """HloModule branches
double { x = f32[3] parameter(0)
  ROOT r = f32[3] add(x, x) }
negative { x = f32[3] parameter(0)
  ROOT r = f32[3] negate(x) }
ENTRY main {
  which = s32[] parameter(0)
  x = f32[3] parameter(1)
  ROOT r = f32[3] conditional(which, x, x), branch_computations={double, negative} }
"""
DOUBLED = """HloModule doubled
ENTRY e {
  x = f32[8] parameter(0)
  ROOT r = f32[8] add(x, x) }
"""
SIZED = """HloModule sized
ENTRY e {
  x = f32[<=4] parameter(0)
  ROOT r = f32[<=4] negate(x) }
"""
LEFT_OUT: Mapping[str, str] = {
    **dict.fromkeys(
        ("fourier_lines", "fourier_real", "fourier_transform", "large_lines"),
        "The walker has routines of Fourier transforms for vectors of the host alone.",
    ),
    **dict.fromkeys(
        ("joined_results", "large_matrices", "windows", "winograd"),
        "A walk takes seconds; test_walker.py walks the kernels of the small ones.",
    ),
    "native_collectives": "It has two replicas; the last test here is of such a program.",
}
"""Golden programs that are not walked whole, and why."""

EXACT_GOLDEN = (
    *("concatenate", "gather", "interleaved", "loop", "moves", "narrow_transpose", "pieces"),
    *("random_bits", "sort_pairs", "sparse_product", "top_k", "transpose"),
)
"""Golden programs without sums in any order, and without functions that round."""

PROGRAMS = {
    **{name: path.read_text() for name, path in GOLDEN.items() if name not in LEFT_OUT},
    "loop of branches": GOLDEN["branches"].read_text(),
    "reductions": REDUCTIONS,
    "elementwise": ELEMENTWISE,
    "branches": BRANCHES,
    "vector_loop": VECTOR_LOOP,
    "sized": SIZED,
}
"""Programs with sums in any order among them, which are equal within some roundings."""

EXACT = {*EXACT_GOLDEN, "loop of branches", "elementwise", "branches", "vector_loop", "sized"}


def _arguments(module: HloModule) -> list[Literal]:
    random = np.random.default_rng(1)
    return [
        Literal.from_numpy(random.integers(0, 3, s.dimensions).astype(s.element_type.dtype))
        for s in module.entry_program_shape.parameters
    ]


def _run(platform: CompiledBackend, module: HloModule, **options: Any) -> Iterator[Any]:
    device = platform.devices[0]
    arguments = [platform.to_device(each, device) for each in _arguments(module)]
    executable = platform.compile(module, module.entry_program_shape)
    output: Any = execute(executable, device, arguments, **options).output
    for buffer in output.elements or (output,):
        assert isinstance(buffer, platform.buffers.kind)
        yield buffer.to_literal().value


@pytest.mark.parametrize("name", PROGRAMS)
def test_whole_programs_give_what_cpu_gives(name: str) -> None:
    module = parse_module(PROGRAMS[name])
    walked = list(_run(Example(), module))
    for ours, theirs in zip(walked, _run(Cpu(), module), strict=True):
        if name in EXACT:
            assert ours.tobytes() == theirs.tobytes()
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_what_is_left_out_is_a_golden_program() -> None:
    assert GOLDEN.keys() >= {*LEFT_OUT, *EXACT_GOLDEN}


def test_a_client_runs_programs_on_it(tmp_path: Path) -> None:
    b = Builder("scaled")
    x = b.parameter(0, "f32[4]")
    program = b.build(ops.exp(x) * 2)
    with (
        create_server(Settings(listen=f"unix:{tmp_path}/socket"), Example()) as server,
        xla_client.connect(server.address) as client,
    ):
        assert client.devices()
        np.testing.assert_allclose(client.compile(program).run(np.zeros(4, np.float32)), 2)


def test_a_refusal_names_the_instruction_and_the_class_of_its_kernel() -> None:
    kernel = SimpleNamespace(text="", key="")
    code = Code([KernelThunk("r.1", kernel, 1, 1, (), (), ())], [], {}, [])
    rule = r"^%r.1: a walked kernel must be of the loop IR \(Kernel\), got SimpleNamespace$"
    with pytest.raises(UnsupportedKernelError, match=rule):
        WalkedProgram(code, assign(code), BlockPool(), None)


@pytest.mark.parametrize("corpus", ["golden", "hlo"])
def test_every_program_of_a_corpus_can_be_walked(corpus: str) -> None:
    modules = [m for _, m in CORPORA[corpus]() if not has_dynamic_shapes(m)]
    assert modules
    for module in modules:
        Example().compile(module, module.entry_program_shape)


def test_an_execution_that_is_cancelled_ends() -> None:
    cancellation = Cancellation()
    cancellation.cancel(CancelledError("enough"))
    with pytest.raises(CancelledError, match="enough"):
        list(_run(Example(), parse_module(VECTOR_LOOP), cancellation=cancellation))


def test_a_result_is_written_where_a_donated_argument_was() -> None:
    platform = Example()
    device = platform.devices[0]
    module = parse_module(DOUBLED)
    executable = platform.compile(module, module.entry_program_shape)

    def step(argument: Any, *donated: int) -> Any:
        return execute(executable, device, [argument], donated=donated).output

    first = step(platform.to_device(Literal.from_numpy(np.ones(8, np.float32)), device))
    address = first.address
    second = step(first, 0)
    assert second.address == address
    np.testing.assert_array_equal(second.to_literal().value, 4)


def test_participants_meet_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """HloModule collective
add { a = u32[] parameter(0)
  b = u32[] parameter(1)
  ROOT s = u32[] add(a, b) }
ENTRY main {
  x = u32[] parameter(0)
  n = u32[] replica-id()
  y = u32[] add(n, x)
  ROOT r = u32[] all-reduce(y), replica_groups={{0,1}}, to_apply=add }
"""
    monkeypatch.setitem(BACKENDS, "example", Example())
    module = module_of(text, DeviceGrid(2, 1))
    assert run_per_device("example", module, [[np.uint32(3)]] * 2) == [[7], [7]]
