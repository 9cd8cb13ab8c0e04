"""Gathers and scatters of one window, and what else turns out to be a simpler operation."""

import dataclasses
import itertools

import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.conformance.sweep.draws.depth import paired
from tests.unit.codegen.compiled import on_cpu, pairs
from tests.unit.passes.passing import assert_kept, opcodes, passed, rewritten, stated
from xla_contract.stubs import xla_data_pb2
from xla_contract.types.opcode import Opcode
from xla_server.passes.canonicalize.convolutions.convolution_canonicaliser import (
    ConvolutionCanonicaliser,
)
from xla_server.passes.expand.scatter_simplifier import SingleScatter
from xla_server.passes.framework.rewrite_pass import RewritePass
from xla_server.passes.simplify.algebraic_simplifier import AlgebraicSimplifier

_X = np.arange(40, dtype=np.float32).reshape(5, 8)

SCATTERS = {
    "a_row": (
        ["f32[5,8]", "s32[1]", "f32[8]"],
        "update_window_dims={0}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=0",
        (8,),
        lambda index: np.array([index], np.int32),
    ),
    "an_element": (
        ["f32[5,8]", "u8[2]", "f32[]"],
        "update_window_dims={}, inserted_window_dims={0,1}, scatter_dims_to_operand_dims={1,0}, "
        "index_vector_dim=0",
        (),
        lambda index: np.array([index, 2], np.int64).astype(np.uint8),
    ),
    "a_box_of_a_batch_of_one": (
        ["f32[5,8]", "s64[1,1]", "f32[2,1,8]"],
        "update_window_dims={0,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, "
        "index_vector_dim=1",
        (2, 1, 8),
        lambda index: np.array([[index]], np.int64),
    ),
}


@pytest.mark.parametrize("combiner", ["add", "second"])
@pytest.mark.parametrize("name", SCATTERS)
def test_a_scatter_of_one_window(name: str, combiner: str) -> None:
    parameters, numbers, sizes, indices = SCATTERS[name]
    text = f"f32[5,8] scatter(x0, x1, x2), {numbers}, to_apply={combiner}"
    module = stated(parameters, text)
    after = passed(module, SingleScatter())
    counts = opcodes(after)
    assert "scatter" not in counts
    assert counts["dynamic-update-slice"] == 1
    update = np.full(sizes, 0.5, np.float32)
    for index in (0, 3, 4, 5, -1, 300):
        assert_kept(module, after, [_X, indices(index), update])


@pytest.mark.parametrize(
    ("rewrite", "parameters", "root"),
    [
        (
            SingleScatter(),
            ["f32[5,8]", "s32[2]", "f32[2,8]"],
            "f32[5,8] scatter(x0, x1, x2), update_window_dims={1}, inserted_window_dims={0}, "
            "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
        ),
        (
            AlgebraicSimplifier(),
            ["f32[5,8]", "s32[2]"],
            "f32[2,8] gather(x0, x1), offset_dims={1}, collapsed_slice_dims={0}, "
            "start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}",
        ),
        (
            ConvolutionCanonicaliser(),
            ["f32[4,6,3]", "f32[2,3,5]"],
            "f32[4,5,5] convolution(x0, x1), window={size=2}, dim_labels=b0f_0io->b0f",
        ),
    ],
    ids=["scatter", "gather", "convolution"],
)
def test_two_windows_are_left(rewrite: RewritePass, parameters: list[str], root: str) -> None:
    passed(stated(parameters, root), rewrite, fires=False)


def test_a_scatter_of_many_empty_index_vectors_adds_all_updates_at_the_origin() -> None:
    module = stated(
        ["f32[4]", "s32[3,0]", "f32[3]"],
        "f32[4] scatter(x0, x1, x2), update_window_dims={}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={}, index_vector_dim=1, to_apply=add",
    )
    passed(module, SingleScatter(), fires=False)
    arguments = [np.zeros(4, np.float32), np.zeros((3, 0), np.int32), np.float32([4, 2, 1])]
    (result,) = on_cpu(module, arguments)
    assert result.tolist() == [7, 0, 0, 0]


POSITIONS: list[tuple[int, ...]] = [(), (0,), (1,), (4,), (1, 1), (2, 3), (0, 2)]


@pytest.mark.parametrize(
    ("case", "combiner"),
    paired(itertools.product(["", "0", "1", "1,0"], POSITIONS), ["add", "second"]),
    ids=str,
)
def test_scatters_of_any_number_of_index_vectors(
    case: tuple[str, tuple[int, ...]], combiner: str
) -> None:
    mapped, positions = case
    random = np.random.default_rng(7)
    length = len(mapped.split(",")) if mapped else 0
    rank = len(positions)
    indices = [(n, [*positions[:n], length, *positions[n:]]) for n in range(rank + 1)]
    if length == 1:
        # A vector behind the last dimension is one index and has no dimension.
        indices.append((rank, [*positions]))
    for (vector, sizes), window in itertools.product(indices, [(), (3,), (2, 3)]):
        inserted = ["0,1", "0", ""][len(window)]
        update = [*positions, *window]
        dims = range(rank, len(update))
        module = stated(
            ["f32[4,5]", f"s32{sizes}".replace(" ", ""), f"f32{update}".replace(" ", "")],
            f"f32[4,5] scatter(x0, x1, x2), update_window_dims={{{','.join(map(str, dims))}}}, "
            f"inserted_window_dims={{{inserted}}}, scatter_dims_to_operand_dims={{{mapped}}}, "
            f"index_vector_dim={vector}, to_apply={combiner}",
        )
        arguments = [
            np.zeros((4, 5), np.float32),
            random.integers(-1, 5, sizes).astype(np.int32),
            random.integers(1, 9, update).astype(np.float32),
        ]
        for ours, expected in pairs(module, arguments):
            assert_equal_bits(ours, expected)


@pytest.mark.parametrize("index", [0, 4, 9, -2])
def test_a_gather_of_one_slice(index: int) -> None:
    module = stated(
        ["f32[5,8]", "s32[1]"],
        "f32[3] gather(x0, x1), offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1}, "
        "index_vector_dim=0, slice_sizes={3,1}",
    )
    after = rewritten(module, AlgebraicSimplifier(), arguments=[_X, np.array([index], np.int32)])
    assert "gather" not in opcodes(after)


@pytest.mark.parametrize("labels", ["bf_io->bf", "fb_oi->fb"])
def test_a_convolution_over_nothing_is_a_dot(labels: str) -> None:
    sizes = {"bf_io->bf": ["f32[4,3]", "f32[3,5]"], "fb_oi->fb": ["f32[3,4]", "f32[5,3]"]}[labels]
    result = "f32[4,5]" if labels.endswith("bf") else "f32[5,4]"
    module = stated(sizes, f"{result} convolution(x0, x1), dim_labels={labels}")
    precision = {"precision": (2, 2), "algorithm": xla_data_pb2.PrecisionConfig.ALG_DOT_F32_F32_F32}
    module.entry.root.attributes = dataclasses.replace(module.entry.root.attributes, **precision)
    after = rewritten(module, ConvolutionCanonicaliser(), relative=1e-6)
    (dot,) = (i.attributes for i in after.instructions() if i.opcode is Opcode.DOT)
    assert {name: getattr(dot, name) for name in precision} == precision
