"""Concatenates of any number of operands, in memory and computed, against NumPy's and jaxlib's."""

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from tests.conformance.oracle import assert_equal_bits
from tests.conformance.sweep.draws.depth import paired
from tests.corpus.jax.programs import lower
from tests.processors import TARGET
from tests.unit.codegen.compiled import built, imported, on_cpu
from tests.unit.codegen.from_jax import assert_same_as_interpreted, assert_same_as_jax
from tests.unit.passes.passing import stated
from xla_client import ops
from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.code import KernelThunk
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.lower.loop_nests.concatenate import Runs, runs_of
from xla_server.codegen.lower.lowering import kernels_of

FEW_OPERANDS = TARGET.tuning.concatenates.max_loop_operands
FEW_COPIES = TARGET.tuning.concatenates.max_joined_copies
MAX_RUNS = TARGET.tuning.loops.pieces.max_runs

COUNTS = [2, 5, 8, 9, 20, 40, 100]
FORMS = {
    # (dimensions of the operands without the joined one, its position, its sizes)
    "long runs of one row": ((), 0, (700, 1, 33)),
    "rows": ((40,), 0, (3, 1, 7)),
    "the middle": ((20, 6), 1, (5, 1, 9)),
    "long runs of few rows": ((3, 50), 1, (9, 4)),
    "single elements": ((300,), 1, (1,)),
    "few single elements": ((19,), 1, (1,)),
    "pairs of elements": ((150,), 1, (2,)),
    "short runs": ((70,), 1, (1, 3, 8, 20)),
    "short runs of few rows": ((5,), 1, (1, 3, 20)),
}


def operands(form: str, count: int, kind: Any = np.float32) -> tuple[list[Any], int]:
    """Arrays of different numbers, and the dimension to join them in."""
    others, dimension, sizes = FORMS[form]
    found = []
    for number in range(count):
        shape = [*others[:dimension], sizes[number % len(sizes)], *others[dimension:]]
        numbers = (np.arange(np.prod(shape)) * 7 + 13 * number) % 97
        found.append(numbers.reshape(shape).astype(kind))
    return found, dimension


def joined(dimension: int, computed: Callable[[int], bool]) -> Callable[..., Any]:
    """Return a program that joins its operands, with a formula of its own for each computed one."""
    formulas = [
        lambda x, n: x + x.dtype.type(n),
        lambda x, n: x * x,
        lambda x, n: jnp.maximum(x, x.dtype.type(n % 90)),
        lambda x, n: -x * x.dtype.type(3) - x,
    ]

    def function(*arrays: Any) -> Any:
        parts = [
            formulas[n % len(formulas)](x, n) if computed(n) else x for n, x in enumerate(arrays)
        ]
        return jnp.concatenate(parts, dimension)

    return function


COMPUTED: dict[str, Callable[[int], bool]] = {
    "none": lambda n: False,
    "all": lambda n: True,
    "every second": lambda n: n % 2 == 0,
    "one": lambda n: n == 1,
    "all but one": lambda n: n != 1,
}


def kernels(function: Callable[..., Any], arguments: Sequence[Any]) -> list[KernelThunk]:
    return kernels_of(compile_module(imported(lower(function, *arguments))).code)


def assert_joined(arrays: Sequence[Any], dimension: int) -> None:
    """Compare a compiled concatenate of arrays in memory with NumPy's, which is its definition."""
    module = built(lambda *parameters: ops.concat_in_dim(parameters, dimension), arrays)
    assert_equal_bits(*on_cpu(module, arrays), np.concatenate(arrays, dimension))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("form", FORMS)
def test_arrays_in_memory(form: str, count: int) -> None:
    assert_joined(*operands(form, count))


@pytest.mark.parametrize("form", FORMS)
def test_arrays_in_memory_are_joined_as_jax_joins_them(form: str) -> None:
    arrays, dimension = operands(form, 9)
    assert_same_as_jax(joined(dimension, COMPUTED["none"]), *arrays)


@pytest.mark.parametrize(
    ("case", "count"),
    paired(itertools.product(FORMS, ["all", "every second", "one", "all but one"]), [3, 11, 30]),
    ids=str,
)
def test_computed_arrays(case: tuple[str, str], count: int) -> None:
    form, computed = case
    arrays, dimension = operands(form, count)
    function = joined(dimension, COMPUTED[computed])
    if count == 11:
        assert_same_as_jax(function, *arrays)
    else:
        assert_same_as_interpreted(function, *arrays)


@pytest.mark.parametrize(
    "kind", [np.int8, np.bool_, ml_dtypes.bfloat16, np.float64, np.complex64, np.complex128]
)
@pytest.mark.parametrize("form", FORMS)
def test_every_width_of_elements(form: str, kind: Any) -> None:
    for count in (5, 17):
        assert_joined(*operands(form, count, kind))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 127, 129])
def test_runs_of_any_number_of_bytes(size: int) -> None:
    arrays = [
        ((np.arange(50 * size) + n) % 101).astype(np.int8).reshape(50, size) for n in range(9)
    ]
    assert_joined(arrays, 1)


def test_large_arrays_are_shared_by_threads() -> None:
    for rows, columns in ((1, 30_000), (30_000, 1), (3000, 10), (100, 400)):
        arrays = [
            np.random.default_rng(n).integers(-9, 9, (rows, columns)).astype(np.int16)
            for n in range(20)
        ]
        assert_joined(arrays, 1)
        assert_same_as_interpreted(joined(1, COMPUTED["all"]), *arrays)


def test_empty_operands_and_one_array_many_times() -> None:
    x, nothing = np.arange(60, dtype=np.float32).reshape(6, 10), np.zeros((6, 0), np.float32)

    def function(x: Any, nothing: Any) -> Any:
        return jnp.concatenate([x, nothing, *[x, x * 2, nothing] * 6, x[:, :3], nothing], 1)

    assert_same_as_jax(function, x, nothing)


def _views() -> dict[str, Callable[..., Any]]:
    def windows(x: Any) -> Any:
        return jnp.stack([x[n : n + 30] for n in range(20)])

    def columns(x: Any) -> Any:
        return jnp.stack([x[:, 19 - n] for n in range(20)], 1)

    def parts(x: Any) -> Any:
        return jnp.concatenate([x[:, n : 2 * n] for n in range(1, 20)], 1)

    def backwards(x: Any) -> Any:
        return jnp.concatenate([x[::-1], *[x[n::2] for n in range(9)]])

    def turned(x: Any) -> Any:
        return jnp.concatenate([x.T, *[lax.reshape(x, (40, 50)) for _ in range(9)]])

    def rows(x: Any) -> Any:
        return jnp.concatenate([jnp.broadcast_to(x[n], x.shape) for n in range(12)], 1)

    def numbers(x: Any) -> Any:
        return jnp.concatenate([jnp.full((50, n), x[0, n]) for n in range(12)], 1)

    def folded(x: Any) -> Any:
        return jnp.concatenate([x[2:, n : n + 10].reshape(-1) for n in range(20)])

    return locals()


@pytest.mark.parametrize(
    "name",
    ["windows", "columns", "parts", "backwards", "turned", "rows", "numbers", "folded"],
)
def test_parts_of_arrays(name: str) -> None:
    x = np.arange(2000, dtype=np.float32).reshape(50, 40)
    assert_same_as_jax(_views()[name], x)


@pytest.mark.parametrize("name", ["windows", "columns", "parts", "rows"])
def test_parts_of_arrays_are_copied_from_where_they_are(name: str) -> None:
    (kernel,) = kernels(_views()[name], [np.zeros((50, 40), np.float32)])
    assert "concatenate_" in kernel.source
    assert len(kernel.reads) == 2


def test_the_text_of_copies_depends_on_no_operand() -> None:
    for form in ("long runs of one row", "the middle", "short runs"):
        texts = set()
        for count in (FEW_OPERANDS + 1, 40, 100):
            arrays, dimension = operands(form, count)
            (kernel,) = kernels(joined(dimension, COMPUTED["none"]), arrays)
            texts.add(kernel.source)
        assert len(texts) == 1


@pytest.mark.parametrize(
    ("form", "function"),
    [
        ("long runs of one row", "concatenate_bytes"),
        ("the middle", "concatenate_rows"),
        ("long runs of few rows", "concatenate_bytes"),
        ("short runs", "concatenate_rows"),
        ("short runs of few rows", "concatenate_bytes"),
        ("single elements", "interleave_tiles"),
        ("few single elements", "concatenate_rows"),
        ("pairs of elements", "interleave_tiles"),
    ],
)
def test_which_function_copies(form: str, function: str) -> None:
    arrays, dimension = operands(form, 20)
    (kernel,) = kernels(joined(dimension, COMPUTED["none"]), arrays)
    assert f"{function}(" in kernel.source


def test_runs_of_three_bytes_are_no_elements_of_tiles() -> None:
    arrays = [np.zeros((300, 3), np.int8)] * 20
    (kernel,) = kernels(joined(1, COMPUTED["none"]), [np.copy(x) for x in arrays])
    assert "concatenate_rows(" in kernel.source


@pytest.mark.parametrize(
    ("count", "kind", "is_loop"),
    [
        (2, np.complex64, True),
        (FEW_OPERANDS, np.int8, True),
        (FEW_OPERANDS + 1, np.int8, False),
        (FEW_OPERANDS - 1, np.float32, True),
        (FEW_OPERANDS, np.float32, False),
        (FEW_OPERANDS - 1, np.complex64, False),
    ],
)
def test_single_elements_of_few_operands_are_interleaved_by_a_loop(
    count: int, kind: Any, is_loop: bool
) -> None:
    texts = set()
    for form in ("single elements", "few single elements"):
        arrays, dimension = operands(form, count, kind)
        (kernel,) = kernels(joined(dimension, COMPUTED["none"]), arrays)
        assert ("for row in" in kernel.source) is is_loop
        texts.add(kernel.source)
        assert_joined(arrays, dimension)
    assert len(texts) == 1 or not is_loop


@pytest.mark.parametrize("form", ["rows", "long runs of one row", "the middle", "single elements"])
def test_computed_operands_are_not_tested_for(form: str) -> None:
    arrays, dimension = operands(form, 30)
    found = kernels(joined(dimension, COMPUTED["all"]), arrays)
    assert len(found) == -(-30 // MAX_RUNS)
    for kernel in found:
        assert not re.search(r"\b(select|ge|lt)\(", kernel.source)
        # Each operand is computed once for each element, by one kernel.
        assert len(kernel.reads) <= MAX_RUNS
    assert not found[0].updates
    assert all(kernel.updates == kernel.writes for kernel in found[1:])


def test_what_is_in_memory_is_copied_beside_computed_operands() -> None:
    arrays, dimension = operands("rows", 30)
    copies, loops = kernels(joined(dimension, lambda n: 0 < n < 5), arrays)
    assert "concatenate_bytes(" in copies.source
    assert loops.updates == loops.writes == copies.writes
    assert len(loops.reads) == 4
    (all_loops,) = kernels(
        joined(dimension, lambda n: 0 < n <= MAX_RUNS - FEW_COPIES), arrays[:MAX_RUNS]
    )
    assert "concatenate_" not in all_loops.source


def test_few_elements_are_tested_in_one_loop() -> None:
    arrays, dimension = operands("few single elements", 3)
    (kernel,) = kernels(joined(dimension, COMPUTED["all"]), arrays)
    assert "select(" in kernel.source


@pytest.mark.parametrize(("rows", "is_plain"), [(10, True), (400, False)])
def test_loops_of_few_elements_have_no_vectors(rows: int, is_plain: bool) -> None:
    arrays = [np.zeros((rows, 4), np.float32) + n for n in range(20)]
    (kernel,) = kernels(joined(0, COMPUTED["all"]), arrays)
    assert isinstance(kernel.kernel, Kernel)
    assert (kernel.kernel.effort is Effort.PLAIN) is is_plain


def test_loops_that_are_repeated_have_vectors() -> None:
    def halves(_: int, x: Any) -> Any:
        return jnp.concatenate([part * n for n, part in enumerate(jnp.split(x, 10))][::-1])

    found = kernels(lambda x, n: lax.fori_loop(0, n, halves, x), [np.ones((10, 50)), np.int32(3)])
    # Two iterations of the loop call it.
    (body,) = {each.kernel for each in found if "mul(" in each.source}
    assert isinstance(body, Kernel)
    assert body.effort is Effort.OPTIMISED


VIEWS = {
    # (shape, dimension that is joined, lines before, offset and distance of runs)
    "whole": ("x0", "40,50", 0, (0, 0)),
    "rows": ("x0", "40,50", 1, (0, 50)),
    "slice": ("slice(x0), slice={[3:23], [10:40]}", "20,30", 1, (160, 50)),
    "columns apart": ("slice(x0), slice={[0:40], [0:50:2]}", "40,25", 1, None),
    "one column": ("slice(x0), slice={[0:40], [7:8]}", "40,1", 1, (7, 50)),
    "every second row": ("slice(x0), slice={[1:40:2], [0:50]}", "20,50", 1, (50, 100)),
    "slice as one row": ("slice(x0), slice={[3:23], [10:40]}", "20,30", 0, None),
    "rows as one row": ("slice(x0), slice={[3:23], [0:50]}", "20,50", 0, (150, 0)),
    "transposed": ("transpose(x0), dimensions={1,0}", "50,40", 1, None),
    "rows backwards": ("reverse(x0), dimensions={0}", "40,50", 1, (1950, -50)),
    "columns backwards": ("reverse(x0), dimensions={1}", "40,50", 1, None),
    "reshaped": ("reshape(x0)", "8,250", 1, (0, 250)),
    "broadcast": ("broadcast(x0), dimensions={1,2}", "3,40,50", 1, (0, 0)),
    "broadcast inside": ("broadcast(x0), dimensions={0,2}", "40,3,50", 1, None),
    "computed": ("abs(x0)", "40,50", 1, None),
}


@pytest.mark.parametrize("name", VIEWS)
def test_where_runs_are(name: str) -> None:
    line, sizes, dimension, expected = VIEWS[name]
    if line == "x0":
        line = "copy(x0)"
    module = stated(["f32[40,50]"], f"f32[{sizes}] {line}")
    (x,), operand = module.entry.parameters, module.entry.root
    operand = x if line == "copy(x0)" else operand
    found = runs_of(operand, dimension, {x: x})
    assert found == (None if expected is None else Runs(x, *expected))


@pytest.mark.parametrize(
    ("behind", "sizes", "expected"),
    [
        # Elements in the order of an array's rows may have any dimensions.
        ("slice(n1), slice={[2:4], [0:250]}", "2,250", (500, 250)),
        # A part of each row has not.
        ("reshape(n2)", "600", None),
        ("reshape(n2)", "20,1,30", (160, 50)),
    ],
)
def test_runs_behind_a_reshape(behind: str, sizes: str, expected: tuple[int, int] | None) -> None:
    module = stated(
        ["f32[40,50]"],
        f"f32[{sizes}] {behind}",
        "n1 = f32[8,250] reshape(x0)",
        "n2 = f32[20,30] slice(x0), slice={[3:23], [10:40]}",
    )
    (x,) = module.entry.parameters
    dimension = 0 if expected is None else 1
    found = runs_of(module.entry.root, dimension, {x: x})
    assert found == (None if expected is None else Runs(x, *expected))


def test_dimensions_of_a_reshaped_part_are_followed() -> None:
    module = stated(
        ["f32[40,50]"],
        "f32[10,15] slice(n2), slice={[2:12], [0:15]}",
        "n1 = f32[20,30] slice(x0), slice={[3:23], [10:40]}",
        "n3 = f32[600] reshape(n1)",
        "n2 = f32[20,30] reshape(n3)",
    )
    (x,) = module.entry.parameters
    assert runs_of(module.entry.root, 1, {x: x}) == Runs(x, 260, 50)


def test_equal_concatenates_of_what_is_computed_share_a_kernel() -> None:
    def joined(x: Any, y: Any) -> Any:
        return jnp.concatenate([x * np.float32(n) - y for n in range(2, 26)], 1)

    arguments = [np.linspace(n, 9, 4000, dtype=np.float32).reshape(4, 1000) for n in range(3)]

    def twice(x: Any, y: Any, z: Any) -> Any:
        return joined(x, y), joined(y, z)

    first, second = kernels_of(compile_module(imported(lower(twice, *arguments))).code)
    assert first.kernel is second.kernel
    assert first.writes != second.writes
    assert_same_as_interpreted(twice, *arguments)
