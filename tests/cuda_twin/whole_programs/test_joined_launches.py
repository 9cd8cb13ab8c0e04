"""Small independent kernels share a launch, and give what they give in launches of their own."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.oracle import assert_equal_bits
from tests.conformance.sweep.draws.depth import drawn
from tests.cuda_twin.lowered import grids, lowered, results_of
from tests.unit.codegen.compiled import built, interpreted
from xla_client import Op, ops
from xla_server.backends.cuda.listing import place_listing
from xla_server.buffers.code import Code, KernelThunk
from xla_server.buffers.work import work_of
from xla_server.codegen.gpu.emit.device_module import DeviceModule
from xla_server.codegen.gpu.emit.emitter import grid_module
from xla_server.codegen.gpu.emit.ptx import PtxCompiler
from xla_server.codegen.gpu.lower.joined_launches import with_joined_launches
from xla_server.codegen.kernel_ir.analysis.verify import verify
from xla_server.ir.module import HloModule
from xla_server.target.gpu.properties import (
    BLOCK_THREADS,
    JOINED_ARGUMENTS,
    JOINED_BYTES,
    JOINED_THREADS,
)
from xla_server.target.machine import Machine

FORMS: dict[str, Callable[[Op], Op]] = {
    "elements": lambda x: x + x,
    "one": lambda x: ops.slice(x, (0, 0), (1, 1)) * 3,
    "rows": lambda x: ops.reduce(x, 0, ops.add, (1,)),
    "columns": lambda x: ops.reduce(x, 0, ops.add, (0,)),
    "all": lambda x: ops.reduce(x, 0, ops.max, (0, 1)),
    "turned": lambda x: ops.transpose(x, (1, 0)),
}
X, Y = np.arange(12, dtype=np.float32).reshape(3, 4), np.ones((4, 5), np.float32)


def several(*results: Op) -> Op:
    return ops.tuple(results, results[0].builder)


def joined(module: HloModule) -> Code:
    code = with_joined_launches(lowered(module))
    for thunk in code.thunks:
        if isinstance(thunk, KernelThunk) and thunk in code.joined:
            sizes = {n: value.byte_size for n, value in enumerate(thunk.arguments)}
            verify(thunk.kernel.kernel, sizes)  # type: ignore[attr-defined]
    return code


def names(function: Callable[..., Op], *arguments: Any) -> list[str]:
    """Return the opcodes of the kernels of each launch of a program."""
    thunks = joined(built(function, arguments)).thunks
    return [re.sub(r"\.\d+", "", thunk.name) for thunk in thunks if isinstance(thunk, KernelThunk)]


@drawn(25, 1000)
@given(st.data())
def test_independent_kernels_of_any_form_share_launches(data: st.DataObject) -> None:
    forms = data.draw(st.lists(st.sampled_from(sorted(FORMS)), min_size=2, max_size=5))
    kinds = st.sampled_from([np.float32, np.float64, np.int8, np.uint32, np.int64])
    sizes = st.sampled_from([1, 3, 16, 33, 65, 300])
    arguments = []
    for _ in forms:
        shape, kind = (data.draw(sizes), data.draw(sizes)), data.draw(kinds)
        # Sums of few bits are exact in any order.
        arguments.append(np.arange(shape[0] * shape[1]).reshape(shape) % 3 == 1)
        arguments[-1] = arguments[-1].astype(kind)
    chosen = [FORMS[form] for form in forms]
    module = built(lambda *p: several(*(f(x) for f, x in zip(chosen, p, strict=True))), arguments)
    apart, code = lowered(module), joined(module)
    together = results_of(module, code, arguments)
    assert len(code.thunks) < len(apart.thunks)
    assert work_of(code).cost == work_of(apart).cost
    for ours, own, wanted in zip(
        together, results_of(module, apart, arguments), interpreted(module, arguments), strict=True
    ):
        assert_equal_bits(ours, own)
        assert_equal_bits(ours, wanted)


def test_a_kernel_passes_what_it_has_nothing_to_do_with() -> None:
    assert names(lambda x, y: several(x + x, -ops.dot(x, y)), X, Y) == ["dot", "add+negate"]
    assert names(lambda x, y: several(ops.dot(x, y), y + y, x * x), X, Y) == ["dot", "add+multiply"]
    launches = names(lambda x, y: several(x + x, ops.dot(-x, y), x * x), X, Y)
    assert launches == ["add+negate+multiply", "dot"]


def test_a_small_product_shares_a_launch() -> None:
    x, y = np.arange(800, dtype=np.float32).reshape(32, 25) % 7, np.ones((25, 40), np.float32)

    def both(x: Op, y: Op) -> Op:
        return several(ops.dot(x, y), ops.reduce(y, 0, ops.add, (0,)))

    assert names(both, x, y) == ["dot+reduce"]
    module = built(both, [x, y])
    for ours, wanted in zip(
        results_of(module, joined(module), [x, y]), interpreted(module, [x, y]), strict=True
    ):
        assert_equal_bits(ours, wanted)


def test_a_kernel_does_not_pass_what_it_needs_or_what_needs_it() -> None:
    assert names(lambda x: ops.exp(x + x), X) == ["add", "exponential"]
    assert names(lambda x, y: -ops.dot(x + x, y), X, Y) == ["add", "dot", "negate"]


def test_a_kernel_does_not_pass_steps_of_the_host() -> None:
    def fed(x: Op) -> Op:
        return several(x + x, ops.infeed(x.builder, x.shape), x * x)

    assert names(fed, X) == ["add", "multiply"]


def test_large_kernels_have_launches_of_their_own() -> None:
    def both(x: Op) -> Op:
        return several(x + x, x * x)

    # A thread has two elements.
    assert names(both, np.zeros(JOINED_THREADS, np.float64)) == ["add+multiply"]
    assert names(both, np.zeros(JOINED_THREADS + 2, np.float64)) == ["add", "multiply"]

    def beside(x: Op, y: Op) -> Op:
        return several(-y, ops.reduce(x, 0, ops.add, (1,)))

    # Arrays are counted for each kernel.
    half = [np.zeros((8, JOINED_BYTES // 64), np.float32)] * 3
    sums = names(lambda *p: several(*(ops.reduce(x, 0, ops.add, (1,)) for x in p)), *half)
    assert sums == ["reduce+reduce+reduce"]
    longest = JOINED_BYTES // 32 - 1
    assert names(beside, np.zeros((8, longest), np.float32), X) == ["negate+reduce"]
    assert names(beside, np.zeros((8, longest + 1), np.float32), X) == ["negate", "reduce"]
    many = [np.zeros(2, np.float32)] * JOINED_ARGUMENTS
    launches = names(lambda *p: several(*(-x for x in p)), *many)
    assert [1 + name.count("+") for name in launches] == [JOINED_THREADS // BLOCK_THREADS] * 2


def test_a_kernel_writes_over_what_no_other_one_of_its_launch_reads() -> None:
    def may_write_over(other: Callable[[Op, Op], Op]) -> list[str]:
        (thunk,) = joined(built(lambda x, y: several(x + x, other(x, y)), [X, X])).thunks
        assert isinstance(thunk, KernelThunk)
        return [read.name for _, read in thunk.in_place]

    assert may_write_over(lambda _, y: -y) == ["p0.1", "p1.2"]
    assert may_write_over(lambda x, _: ops.reduce(x, 0, ops.add, (1,))) == []


def test_a_dump_says_which_instructions_share_a_launch() -> None:
    code = joined(built(lambda x, y: several(x + x, -y), [X, Y]))
    modules = {each.key: DeviceModule(b"") for each in grids(code)}
    text = "\n".join(place_listing(code, code.thunks, modules))
    assert "in all: 1 launch, " in text
    assert "add %add.3, negate %negate.4" in text


def test_last_stores_of_joined_kernels_stay_with_their_neighbours() -> None:
    """Two threads that each store 16 bytes at once do so when they share a launch."""
    machine = Machine.cuda("sm_90")
    four = np.ones(4, np.float32)
    (grid,) = grids(joined(built(lambda x, y: several(x + x, y * y), (four, four))))
    with PtxCompiler(machine) as compiler:
        text = compiler.module(str(grid_module({"kernel": grid}, machine))).ptx.decode()
    assert text.count("st.global.v4") == 2
