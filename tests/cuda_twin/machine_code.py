"""Kernels for GPUs as machine code, by ptxas: registers, spills, widths of accesses.

`make test-cuda-machine-code` installs it and nvdisasm (the extra `cuda-test`, 0.3 GB), and runs
this file. No GPU is needed. `make test` needs neither, and does not collect it.
"""

import contextlib
import functools
import importlib.metadata
import math
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.cuda.checks.fault_checks import ENDLESS_KERNEL
from tests.cuda_twin.lowered import compiled, grids
from tests.cuda_twin.programs import kernels_of
from tests.cuda_twin.schedules.test_rows import module_of, numbers
from tests.kernels.corpora import CORPORA
from tests.unit.codegen.compiled import built
from tests.unit.codegen.gpu.test_stopping import REDUCED, SCATTERED
from tests.unit.codegen.trace import elementwise_rows as rows
from tests.unit.codegen.trace.elementwise_rows import SLICE
from xla_client import ops
from xla_contract.types.element_type import ElementType as E
from xla_server.backends.cuda.toolchain import PtxToolchain, find_assembler
from xla_server.backends.cuda.worker.device import conditions
from xla_server.buffers.code import KernelThunk
from xla_server.codegen.gpu.emit.assembler import AssemblyError
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.kernel_ir.expressions import Buffer, Expression, Index, Value
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Barrier, For, Let, Shuffle, Store, While
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.kernel_ir.unrolling import constant_iterations
from xla_server.codegen.kernel_ir.walk import read_by, walk
from xla_server.evaluator.dynamic_shapes import has_dynamic_shapes
from xla_server.ir.text.parser import parse_module
from xla_server.target.gpu.properties import ACCESS_BYTES, GPUS, WARP, Gpu
from xla_server.target.machine import Machine

REGISTERS = 64
"""Bound on registers of a thread: with so many a multiprocessor of 2048 threads is half full."""

REGISTERS_OF_COMPLEX = 128

IN_REGISTERS = (0, 0)
"""Bytes of the stack of a thread, and of spilled registers."""

IN_F64 = r"D(FMA|ADD|MUL|SETP)"

BOUNDS = {"elements": 48, "loops": 48, "warps": 80, "blocks": 40, "tiles": 64}
"""The most registers of each class of kernels in the corpora, in steps that they are given in.

A kernel may have more if that costs nothing: if its multiprocessor has as many blocks with them.
"""

REGISTER_STEP = 8
"""A warp is given registers for its threads in steps of so many."""

SCHEDULERS = 4
"""Parts of a multiprocessor, each with as many registers; a warp has those of one part."""

RESIDENT_BLOCKS = {2048: 32, 1536: 24}
"""Most blocks of a multiprocessor, by its most threads."""

every_gpu = pytest.mark.parametrize("name", GPUS)


def tool(package: str, name: str) -> str:
    """Return the path of a program of an installed package."""
    files = importlib.metadata.files(package) or []
    return str(next(file.locate() for file in files if file.name == name))


class Code:
    """Machine code of a module as servers make it: what a thread takes, and its instructions."""

    def __init__(self, kernels: Mapping[str, GridKernel], name: str, directory: Path) -> None:
        with contextlib.closing(PtxToolchain(Machine.cuda(name))) as toolchain:
            module = toolchain.compile(kernels)
        assert module.compiler.endswith(f"for {name}"), module.compiler
        assert module.resources.keys() == kernels.keys()
        self.registers = {symbol: found.registers for symbol, found in module.resources.items()}
        memory = module.resources.values()
        self.memory = {(found.stack_bytes, found.spilled_bytes) for found in memory}
        code = directory / "kernels.cubin"
        code.write_bytes(module.cubin)
        disassemble = [tool("nvidia-cuda-nvdisasm", "nvdisasm"), "-c", code]
        found = subprocess.run(disassemble, capture_output=True, check=True, text=True).stdout
        parts = re.split(r"^\.text\.(\w+):", found, flags=re.MULTILINE)
        self.instructions = {
            symbol: re.findall(r"\*/\s+(?:@!?U?P\d+\s+)?([A-Z][\w.]+)", part)
            for symbol, part in zip(parts[1::2], parts[2::2], strict=True)
        }

    def count(self, symbol: str, pattern: str) -> int:
        """Return how many instructions of a kernel a pattern describes."""
        return sum(bool(re.match(pattern, each)) for each in self.instructions[symbol])


@every_gpu
@pytest.mark.parametrize("kind", SLICE, ids=lambda kind: kind.text)
def test_elementwise_kernels_fit_in_registers(kind: E, name: str, tmp_path: Path) -> None:
    program = rows.every_operation(kind)
    module = built(
        lambda *p: ops.tuple([row(*p) for row in program.rows.values()], p[0].builder),
        program.arrays,
    )
    code = Code(kernels_of(module), name, tmp_path)
    assert len(code.registers) == len(program.rows)
    assert max(code.registers.values()) <= (REGISTERS_OF_COMPLEX if kind.is_complex else REGISTERS)
    assert code.memory == {IN_REGISTERS}
    for number, opcode in enumerate(program.rows):
        if kind is E.F32:
            assert code.count(f"k{number}", IN_F64) == 0, opcode


@every_gpu
def test_a_look_at_the_flag_is_a_load_that_the_host_may_change(name: str, tmp_path: Path) -> None:
    texts = {"reduced": REDUCED, "scattered": SCATTERED, "endless": ENDLESS_KERNEL}
    kernels = {each: grids(compiled(parse_module(text)))[-1] for each, text in texts.items()}
    code = Code(kernels, name, tmp_path)
    assert all(code.count(each, r"LDG\.E\.64\.STRONG\.SYS") for each in kernels)
    assert code.memory == {IN_REGISTERS}


@every_gpu
def test_a_sort_has_more_operands_than_old_versions_of_ptx_have_arguments(
    name: str, tmp_path: Path
) -> None:
    count = 300
    pairs = (
        f"a{n} = f32[] parameter({2 * n})\nb{n} = f32[] parameter({2 * n + 1})\n"
        for n in range(count)
    )
    arrays = (f"p{n} = f32[64] parameter({n})\n" for n in range(count))
    names, shapes = (
        ", ".join(each) for each in ((f"p{n}" for n in range(count)), ["f32[64]"] * count)
    )
    text = f"""HloModule many
before {{
{"".join(pairs)}ROOT less = pred[] compare(a0, b0), direction=LT }}
ENTRY e {{
{"".join(arrays)}ROOT s = ({shapes}) sort({names}), dimensions={{0}}, to_apply=before }}
"""
    kernels = {f"k{n}": grid for n, grid in enumerate(grids(compiled(parse_module(text))))}
    assert max(len(grid.kernel.buffers) for grid in kernels.values()) == 2 * count + 1
    assert Code(kernels, name, tmp_path).memory == {IN_REGISTERS}


Row = Callable[..., Any]


@every_gpu
@pytest.mark.parametrize(
    ("function", "shapes", "loads", "stores"),
    [
        (lambda x, y: x + y, [(1 << 20,)] * 2, 2, 1),
        (lambda x, y: jnp.exp(x) * y, [(512, 2048)] * 2, 2, 1),
        (lambda x, y: x + y, [(512, 2048), (2048,)], 2, 1),
        (lambda x: jnp.sum(x, axis=1), [(64, 1024)], 8, 0),
        # The row stays in registers between its three loops.
        (lambda x: jax.nn.softmax(x, axis=1), [(64, 128)], 1, 1),
        (lambda x: jnp.sum(x, axis=1), [(64, 4096)], 4, 0),
        (lambda x: jax.nn.softmax(x, axis=1), [(64, 4096)], 4, 4),
        (lambda x: jax.nn.softmax(x, axis=1), [(64, 16384)], 8, 8),
    ],
)
def test_threads_move_sixteen_bytes(
    function: Row, shapes: Any, loads: int, stores: int, name: str, tmp_path: Path
) -> None:
    arguments = [numbers("float32", *shape) for shape in shapes]
    code = Code(kernels_of(module_of(function, *arguments)), name, tmp_path)
    (symbol,) = code.instructions
    assert code.count(symbol, r"LDG\.E\.128") == loads
    assert code.count(symbol, r"STG\.E\.128") == stores
    assert code.count(symbol, r"(LDL|STL|D(FMA|ADD|MUL))") == 0
    assert max(code.registers.values()) <= REGISTERS
    assert code.memory == {IN_REGISTERS}


@every_gpu
@pytest.mark.parametrize(
    ("dtype", "opcodes"),
    [
        ("float32", [4, 4, 1, 4, 4]),
        # Two neighbours are one access but where tiles are turned.
        ("bfloat16", [8, 8, 1, 16, 8]),
        ("complex64", [4, 4, 1, 4, 4]),
    ],
)
def test_tiles_pass_shared_memory(
    dtype: str, opcodes: list[int], name: str, tmp_path: Path
) -> None:
    code = Code(kernels_of(module_of(lambda x: x.T, numbers(dtype, 256, 512))), name, tmp_path)
    (symbol,) = code.instructions
    found = [code.count(symbol, opcode) for opcode in (r"LDG", r"STS", r"BAR", r"LDS", r"STG")]
    assert found == opcodes
    assert code.count(symbol, r"(LDL|STL)") == 0
    assert max(code.registers.values()) <= REGISTERS


@every_gpu
@pytest.mark.parametrize(
    ("dtype", "loads", "registers"),
    [("float32", 8, REGISTERS), ("bfloat16", 4, REGISTERS), ("complex64", 4, REGISTERS_OF_COMPLEX)],
)
def test_products_move_sixteen_bytes(
    dtype: str, loads: int, registers: int, name: str, tmp_path: Path
) -> None:
    x, y = numbers(dtype, 64, 128), numbers(dtype, 128, 128)
    code = Code(kernels_of(module_of(lambda x, y: x @ y, x, y)), name, tmp_path)
    (symbol,) = code.instructions
    found = [code.count(symbol, opcode) for opcode in (r"LDG", r"LDG\.E\.128", r"STG")]
    assert found == [loads, loads, 4]
    assert code.count(symbol, r"LDS\.128") == code.count(symbol, r"LDS")
    if dtype != "complex64":
        # Four results of each thread have sixteen products of four terms, which are five loads.
        assert 5 * code.count(symbol, r"FFMA") == 16 * code.count(symbol, r"LDS") > 0
    assert code.count(symbol, r"(LDL|STL|D(FMA|ADD|MUL))") == 0
    assert max(code.registers.values()) <= registers


@every_gpu
def test_columns_are_read_by_neighbours(name: str, tmp_path: Path) -> None:
    x = np.zeros((512, 8000), np.float32)
    code = Code(kernels_of(module_of(lambda x: jnp.sum(x, axis=0), x)), name, tmp_path)
    (symbol,) = code.instructions
    assert code.count(symbol, r"LDG") >= 1
    assert code.count(symbol, r"BAR") == 1
    assert code.count(symbol, r"(LDL|STL|SHFL|D(FMA|ADD|MUL))") == 0
    assert max(code.registers.values()) <= REGISTERS


@every_gpu
def test_kernels_of_conditional_nodes_are_machine_code(name: str) -> None:
    module = find_assembler([name]).module(conditions.KERNELS)
    for symbol in conditions.SYMBOLS:
        assert symbol.encode() in module.cubin


def test_ptx_that_is_wrong_is_refused_with_the_line() -> None:
    with pytest.raises(AssemblyError, match=r"for sm_90, got .*line 1; .*Unsupported \.version 99"):
        find_assembler(["sm_90"]).module(conditions.KERNELS.replace(b".version 8", b".version 99"))


def test_a_gpu_newer_than_ptxas_has_ptx() -> None:
    module = find_assembler(["sm_990"]).module(conditions.KERNELS)
    assert module.code == conditions.KERNELS
    assert module.compiler.endswith("does not know sm_990")


@functools.cache
def kernels_of_programs() -> tuple[Mapping[str, GridKernel], frozenset[str]]:
    """Return the kernels of the corpora, each once, and the symbols of shared launches.

    Kernels that share a launch are among them by themselves, too.
    """
    found: dict[str, GridKernel] = {}
    shared: set[str] = set()
    for corpus in ("golden", "hlo", "jax", "benchmark"):
        for _, module in CORPORA[corpus]():
            if has_dynamic_shapes(module):
                continue
            code = compiled(module)
            for thunk in code.thunks:
                for part in (thunk, *code.joined.get(thunk, ())):
                    if isinstance(part, KernelThunk) and isinstance(part.kernel, GridKernel):
                        found[part.kernel.key] = part.kernel
                        if part in code.joined:
                            shared.add(part.kernel.key)
    symbols = {key: f"k{number}" for number, key in enumerate(found)}
    kernels = {symbols[key]: grid for key, grid in found.items()}
    return kernels, frozenset(symbols[key] for key in shared)


def registers_that_cost_nothing(grid: GridKernel, gpu: Gpu, *, is_small: bool) -> int:
    """Return the registers of a thread with which a multiprocessor still has as many blocks.

    It has at most as many as fit without registers; of a launch that all GPUs execute at once, no
    more than its share.
    """
    blocks = min(RESIDENT_BLOCKS[gpu.threads], gpu.threads // grid.threads)
    if is_small:
        blocks = min(blocks, -(-grid.blocks // gpu.multiprocessors))
    return registers_for(blocks, grid.threads, gpu)


def registers_for(blocks: int, threads: int, gpu: Gpu) -> int:
    """Return the most registers of a thread with which so many blocks are resident."""
    warps = -(-blocks * -(-threads // WARP) // SCHEDULERS)
    return gpu.registers // SCHEDULERS // (warps * WARP) // REGISTER_STEP * REGISTER_STEP


@every_gpu
def test_resident_blocks_have_the_registers_of_their_schedulers(name: str) -> None:
    gpu = GPUS[name]

    def resident(threads: int, registers: int) -> int:
        warps = gpu.registers // SCHEDULERS // (WARP * registers) * SCHEDULERS
        return warps // (threads // WARP)

    for threads in range(WARP, 1025, WARP):
        for blocks in range(1, gpu.threads // threads + 1):
            most = registers_for(blocks, threads, gpu)
            assert resident(threads, most) >= blocks > resident(threads, most + REGISTER_STEP)


def class_of(kernel: Kernel) -> str:
    """Return how the threads of a kernel work together, or what each of them does alone."""
    statements = [statement for statement, _ in walk(kernel.body)]
    exchanges = any(isinstance(each, Shuffle) for each in statements)
    if any(isinstance(each, Barrier) for each in statements):
        return "blocks" if exchanges else "tiles"
    if exchanges:
        return "warps"
    loops = [each for each in statements if isinstance(each, For | While)]
    is_straight = all(isinstance(each, For) and each.unrolled for each in loops)
    return "elements" if is_straight else "loops"


def is_real_single(kernel: Kernel) -> bool:
    """Return whether no expression of a kernel has f64."""
    read = [part for statement, _ in walk(kernel.body) for part in read_by(statement)]
    return not any(part.type in (Type.F64, Type.C128) for part in read)


def stored_widely(kernel: Kernel) -> int:
    """Return the buffers to which copies of a loop store 16 bytes that begin at a multiple of 16.

    LLVM makes one store of those that end several branches.
    """
    bound: dict[Value, Expression] = {}

    def factors(expression: Expression, times: int) -> Iterator[tuple[Expression | None, int]]:
        expression = bound.get(expression, expression)  # type: ignore[call-overload]
        if not isinstance(expression, Index):
            yield expression, times
            return
        yield None, expression.constant * times
        for term, factor in expression.terms:
            yield from factors(term, factor * times)

    found: set[Buffer] = set()
    for statement, path in walk(kernel.body):
        match statement:
            case Let(value=value, expression=Index() as expression):
                bound[value] = expression
            case Store(memory=Buffer() as buffer, guard=None) if path and isinstance(path[-1], For):
                loop, parts = path[-1], list(factors(statement.index, 1))
                count = constant_iterations(loop) or 0
                rest = [factor for part, factor in parts if part is not loop.axis]
                is_run = loop.unrolled and count * statement.type.byte_size == ACCESS_BYTES
                is_aligned = (loop.axis, 1) in parts and not math.gcd(*rest) % max(count, 1)
                if is_run and is_aligned and not statement.type.name.startswith("C"):
                    found.add(buffer)
    return len(found)


@every_gpu
def test_kernels_of_programs_are_as_good_as_they_were(name: str, tmp_path: Path) -> None:
    kernels, shared = kernels_of_programs()
    code = Code(kernels, name, tmp_path)
    assert code.registers.keys() == kernels.keys()
    assert code.memory == {IN_REGISTERS}
    assert {class_of(grid.kernel) for grid in kernels.values()} == BOUNDS.keys()
    for symbol, grid in kernels.items():
        free = registers_that_cost_nothing(grid, GPUS[name], is_small=symbol in shared)
        bound = max(BOUNDS[class_of(grid.kernel)], free)
        assert code.registers[symbol] <= bound, grid.text
        assert code.count(symbol, r"STG\.E\.128") >= stored_widely(grid.kernel), grid.text
        if is_real_single(grid.kernel):
            assert code.count(symbol, IN_F64) == 0, grid.text
