"""Numbers that tune compilation are fields of the target, so modules have none of their own.

The constants of modules are parts of what code means: the order of sums, the end of a cancelled
execution, limits on the size of code, numbers of the formulas of elementary functions. Routines are
left out, as their numbers are those of code that is written for them.
"""

import ast
import dataclasses
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import xla_server
from xla_server.target import fusion_tuning, kernel_tuning, loop_tuning, pass_tuning, tuning
from xla_server.target.gpu import gpu_tuning

ROOT = Path(xla_server.__file__).parent
PACKAGES = (
    *("codegen/compiler", "codegen/emit", "codegen/functions", "codegen/gpu"),
    *("codegen/instructions", "codegen/kernel_ir", "codegen/schedules", "codegen/lower"),
    *("codegen/routines", "codegen/trace"),
)

ORDERS_OF_SUMS = {
    "codegen/gpu/schedules/groups.py": {"MANY_RESULTS", "MAX_GROUP_THREADS", "MIN_LENGTH"},
    "codegen/gpu/schedules/rows.py": {"_ELEMENTS", "_MIN_THREADS"},
    "codegen/gpu/schedules/columns.py": {"_ELEMENTS"},
    "codegen/gpu/lower/reduction/scan.py": {"_DISTANCES"},
    "codegen/gpu/lower/reduction/scan_levels.py": {
        *("MANY_LINES", "SHORT_LINE", "THREAD_PART", "WARP_LINE", "WARP_PART")
    },
    "codegen/gpu/schedules/threads.py": {"RUN"},
    "codegen/schedules/reductions/reduction_groups.py": {"MIN_COLUMNS"},
    "codegen/schedules/reductions/sum_levels.py": {"PARTS", "RUN", "SHORTEST"},
    "codegen/schedules/nests/window_levels.py": {"MAX_LEVELS", "MAX_RATIO", "PASS", "TAP"},
    "codegen/routines/linear_algebra/matrix_blocks.py": {"BLOCK", "PIECE_WORK", "_LEAST"},
    "codegen/routines/contraction/thin_products.py": {"OUTER_HEIGHTS", "ROWS"},
    "codegen/routines/contraction/winograd_transforms.py": {"RESULTS", "TAPS"},
    "codegen/trace/reductions.py": {"LONG_WINDOW"},
}
"""Bits of results depend on these, which are the same for every target."""

CANCELLATION = {
    "codegen/schedules/nests/scalar_loop.py": {"_WORK_UNSEEN"},
    "codegen/schedules/builders/launches/stopping.py": {"LONG_WORK_ITEM", "SPAN"},
    "codegen/routines/indexing/sorting.py": {"SPAN", "_HEAP_SPAN"},
}
"""Bounds on what an execution does after it is cancelled."""

FORMULAS = {
    "fusion/analysis/gelu.py": {"_ROUNDINGS"},
    "codegen/functions/values.py": {"_SHIFTER"},
    "codegen/instructions/intrinsics.py": {*("_DOUBLE_BITS", "_SINGLE_BITS", "_SMALLEST_ADDEND")},
    "codegen/kernel_ir/integer_rules.py": {"ABSORBED", "KEPT"},
}
"""Layouts of types, laws of integers, orders of formulas: results depend on these."""

FUNCTIONS = ("codegen/functions/bits", "codegen/functions/complex", "codegen/functions/real")
"""Folders of formulas, whose numbers are parts of these: each says what it is."""

ROUTINES = {
    "codegen/routines/movement/concatenation.py": {"LINE_BYTES", "TILE_BYTES"},
    "codegen/routines/contraction/winograd_block.py": {"GAP_BYTES"},
    "codegen/routines/contraction/gemm_panels.py": {"_CHUNK"},
    "codegen/routines/contraction/gemm_tiles.py": {
        "_LINE",
        "_MIN_SUMS",
        "_MAX_VECTORS",
        "_VECTORS",
    },
    "codegen/routines/contraction/product_tiles.py": {"VECTORS"},
    "codegen/routines/indexing/sorting.py": {"_FEW"},
    "codegen/routines/movement/transposed_tiles.py": {"SIDES"},
}
"""Sizes that the code of routines is written for, in vectors and cache lines of any machine."""

LIMITS = {
    "codegen/compiler/python_compiler.py": {"_DEEPEST"},
    "codegen/lower/native_collectives.py": {"MAX_AREA_BYTES", "MAX_BYTES"},
    "codegen/compiler/kernel_cache.py": {"MAX_BYTES"},
    "codegen/gpu/lower/concatenate.py": {"MAX_BOXES"},
    "codegen/gpu/lower/indexing/merging.py": {"MERGED"},
    "codegen/gpu/lower/indexing/scatter.py": {"MAX_WALK"},
    "codegen/gpu/lower/indexing/merge_sort.py": {"MAX_TILE"},
    "codegen/gpu/emit/assembler.py": {"_TIMEOUT", "_SHOWN"},
    "codegen/gpu/emit/ptx.py": {"_TIMEOUT", "_SHOWN"},
    "codegen/kernel_ir/analysis/corners.py": {"_MAX_STATEMENTS"},
    "codegen/kernel_ir/analysis/verify.py": {"MAX_STACK_BYTES"},
    "codegen/kernel_ir/kernel.py": {"VECTOR_ITEMS"},
    "codegen/kernel_ir/unrolling.py": {
        "LOOP_COPIES",
        "MAX_COLUMN_STATEMENTS",
        "MAX_COPIED_STATEMENTS",
        "MAX_COPIES",
        "MAX_LOOP_STATEMENTS",
        "MAX_NESTED_STATEMENTS",
        "MIN_COLUMN_STRIDE",
        "MIN_LEFT",
        "MIN_SUMS",
        "VECTOR_COPIES",
    },
    "codegen/lower/fourier/fft_plan.py": {"MAX_CONVOLUTION"},
    "codegen/lower/shared_kernels.py": {"MIN_KERNELS"},
    "codegen/trace/contraction.py": {"MAX_TESTED_COPIES"},
    "codegen/trace/tracer.py": {"MAX_ELEMENT_COPIES"},
    "fusion/update_barriers.py": {"MAX_UPDATES"},
    "passes/partitioning/replicated_work.py": {"_MAX_SHOWN"},
    "passes/reductions/stacked_elements.py": {"MAX_OPERATIONS"},
    "passes/simplify/algebraic_simplifier.py": {"_MAX_STEPS"},
    "passes/simplify/constant_folding.py": {"LARGEST_RESULT", "MAX_TOUCHED_ELEMENTS"},
    "passes/simplify/cse.py": {"_LARGEST_CONSTANT"},
    "passes/scheduling/in_place_order.py": {"MAX_PEAK_GROWTH", "_SET_SIZE"},
    "passes/dynamic_sizes/known_sizes.py": {"LARGEST", "_LONGEST"},
    "passes/simplify/lifting.py": {"LONGEST"},
    "passes/simplify/rules/slices.py": {"MAX_PARTS"},
    "passes/dynamic_sizes/size_specialisation.py": {"MAX_INSTRUCTIONS", "MAX_REPETITIONS"},
    "passes/canonicalize/transposes/transposed_operands.py": {"_MAX_CHAIN"},
    "passes/canonicalize/transposes/transpose_mover.py": {"_MAX_STEPS"},
}
"""Bounds on memory, and on the time and size of a compilation."""

FACTS = {
    "codegen/compiler/shared_functions.py": {"LANES"},
    "codegen/gpu/emit/instructions.py": {"GLOBAL", "SHARED"},
    "codegen/gpu/plans/convolution_plans.py": {"_LEAST_WORKSPACE_BYTES", "_MAX_WORKSPACE_BYTES"},
    "codegen/gpu/plans/library_plans.py": {
        *("ALIGNMENT", "MAX_BATCH", "MAX_COMPLEX_ROWS", "MAX_WORKSPACE_BYTES"),
        *("WORKSPACE_ALIGNMENT", "_PARTIAL_SUMS", "_WORD"),
    },
    "codegen/gpu/emit/ptx_child.py": {"_SPEED"},
    "codegen/gpu/plans/solver_plans.py": {"MAX_CALLS", "SMALL", "_LARGEST", "_SIZE_FOR_MATRICES"},
    "codegen/compiler/llvm_text.py": {"ELEMENT_BYTES"},
    "codegen/compiler/symbols.py": {"_SYMBOL_TABLE", "_UNDEFINED"},
    "codegen/schedules/nests/pieces.py": {"_LINE"},
    "codegen/routines/movement/concatenation.py": {
        *("BLOCK_ROWS", "COPIED_BYTES", "COUNT", "HEAD_WORDS", "ROWS", "ROW_BYTES"),
        *("BEGIN", "BUFFER", "ENTRY_WORDS", "OFFSET", "SIZE", "STRIDE", "TARGET"),
    },
    "codegen/routines/contraction/exact_sums.py": {"SPATIAL"},
    "codegen/routines/fourier/fourier_passes.py": {
        *("CALL_COST", "MOVE_COST", "PASS_COST", "RADICES"),
    },
    "codegen/routines/contraction/gemm_panels.py": {"SLACK", "_QUARTER"},
    "codegen/routines/contraction/product_tiles.py": {"LEVELS", "_ROWS_OF_A_POINTER"},
    "codegen/routines/indexing/sorting.py": {"COUNT_WORDS", "_COLUMN"},
    "codegen/routines/movement/transposed_tiles.py": {"_REGISTERS", "_SHORT"},
    "codegen/lower/contraction/exact_sums.py": {"UNBOUNDED"},
    "codegen/lower/control/small_loop.py": {"_VECTOR_ELEMENTS"},
    "passes/simplify/rules/repeats.py": {"_LARGEST_EXACT"},
    "passes/framework/selection.py": {"HIGHEST_LEVEL"},
    "passes/partitioning/moves.py": {"_CHANNEL", "_LARGEST_S32"},
    "passes/scalar_loops/window_loops.py": {"PADDING_INDEX"},
}
"""Sizes, positions and counts of instructions that are no choices."""


def _is_numeric(value: ast.expr) -> bool:
    """Return whether an expression is made of numbers alone."""
    match value:
        case ast.Constant(value=number):
            return type(number) in (int, float)
        case ast.UnaryOp(operand=operand):
            return _is_numeric(operand)
        case ast.BinOp(left=left, right=right):
            return _is_numeric(left) and _is_numeric(right)
        case ast.Tuple(elts=parts) | ast.Dict(values=parts):
            return bool(parts) and all(map(_is_numeric, parts))
        case ast.Call(func=ast.Name(id="range"), args=parts):
            return all(map(_is_numeric, parts))
    return False


def numeric_constants(text: str) -> set[str]:
    """Return the names of a module's constants that are numbers, or made of numbers alone."""
    found = set()
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value:
            targets = getattr(statement, "targets", None) or [statement.target]  # type: ignore[union-attr]
            if _is_numeric(statement.value):
                names = (name for target in targets for name in ast.walk(target))
                found |= {name.id for name in names if isinstance(name, ast.Name)}
    return found


def test_numbers_in_any_form_are_found() -> None:
    text = (
        "A = 1 << 3\nB: int = -2\nC, D = 3, 4\nE = ((1, 2.0), 3)\nF = range(6, 33)\n"
        'G = {2: 5}\nh = "1"\nK = True\nN = f(1)\nM: int\nO = ()\n'
    )
    assert numeric_constants(text) == {"A", "B", "C", "D", "E", "F", "G"}


def test_no_module_has_tuned_numbers_of_its_own() -> None:
    found = {
        name: numeric_constants(path.read_text())
        for package in (*PACKAGES, "passes", "fusion")
        for path in (ROOT / package).rglob("*.py")
        if not (name := path.relative_to(ROOT).as_posix()).startswith(FUNCTIONS)
    }
    known: dict[str, set[str]] = {}
    for group in (ORDERS_OF_SUMS, CANCELLATION, FORMULAS, ROUTINES, LIMITS, FACTS):
        for path, names in group.items():
            known[path] = known.get(path, set()) | names
    assert {path: names for path, names in found.items() if names} == known


def unexplained(text: str) -> set[str]:
    """Return the numeric constants without a text behind them or behind a group of them."""
    left, is_explained = set(), False
    for statement in reversed(ast.parse(text).body):
        if isinstance(statement, ast.Expr):
            is_explained = True
        elif names := numeric_constants(ast.unparse(statement)):
            left |= set() if is_explained else names
        else:
            is_explained = False
    return left


def test_numbers_of_formulas_say_what_they_are() -> None:
    assert unexplained('A = 1\nB = 2\n"""Of both."""\nC = f()\nD = 3\n') == {"D"}
    paths = (path for folder in FUNCTIONS for path in (ROOT / folder).rglob("*.py"))
    found = {path.name: unexplained(path.read_text()) for path in paths}
    assert {name: names for name, names in found.items() if names} == {}


RECORDS = (fusion_tuning, kernel_tuning, loop_tuning, pass_tuning, tuning)
LOG = Path(__file__).parents[2] / "benchmarks" / "LOG.md"

BOUNDS = {
    "Convolutions": {"im2col_elements", "im2col_rows"},
    "DoubleBuffers": {"max_added_bytes", "max_added_share"},
    "Fusions": {
        *("max_column_elements", "max_index_terms", "max_instructions", "max_scalars"),
        "max_results",
    },
    "InPlaceUpdates": {"max_stored", "max_stored_of_argument", "min_bytes"},
    "LoopNests": {"max_row_buffer_bytes"},
    "MatrixProducts": {"max_item_products", "max_packed_bytes"},
    "BlasProducts": {"max_piece_products"},
    "Reductions": {"joins_in_f64"},
    "ThinProducts": {"result_row_bytes", "step_elements"},
    "WindowTiles": {"max_stack_bytes", "max_taps"},
}
"""Fields that bound memory, compilation or the end of a cancelled execution, or order sums."""


@dataclasses.dataclass(frozen=True)
class Field:
    """A number of a record with its text, that of its record included."""

    record: str
    name: str
    own: str
    text: str


def _fields(module: ModuleType) -> Iterator[Field]:
    """Yield the numbers of a module's records, whose other fields are records themselves."""
    records = {name for each in RECORDS for name, kind in vars(each).items() if type(kind) is type}
    for record in ast.parse(Path(str(module.__file__)).read_text()).body:
        if not isinstance(record, ast.ClassDef):
            continue
        for field, following in itertools.pairwise([*record.body, ast.Pass()]):
            if not isinstance(field, ast.AnnAssign) or _last_name(field.annotation) in records:
                continue
            is_text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            own = " ".join(str(following.value.value).split()) if is_text else ""  # type: ignore[attr-defined]
            yield Field(
                record.name,
                ast.unparse(field.target),
                own,
                f"{own} {ast.get_docstring(record) or ''}",
            )


def _last_name(annotation: ast.expr) -> str:
    return ast.unparse(annotation).rpartition(".")[2]


@pytest.mark.parametrize("module", RECORDS)
def test_every_number_has_its_unit_and_reason(module: ModuleType) -> None:
    fields = list(_fields(module))
    assert [field for field in fields if not field.own] == []
    assert len(fields) > 20


@pytest.mark.parametrize("module", RECORDS)
def test_every_number_has_a_measurement(module: ModuleType) -> None:
    rows = set(re.findall(r"^\| (\w+\.\w+) \|", LOG.read_text(), re.MULTILINE))
    left = [
        f"{field.record}.{field.name}"
        for field in _fields(module)
        if not re.search("LOG|[Ss]ame row of the log|same section", field.text)
        and f"{field.record}.{field.name}" not in rows
        and field.name not in BOUNDS.get(field.record, set())
    ]
    assert left == []


@pytest.mark.parametrize("module", [*RECORDS, gpu_tuning])
def test_sections_of_the_log_that_numbers_name_are_there(module: ModuleType) -> None:
    heads = [line.lower() for line in LOG.read_text().splitlines() if line.startswith("#")]
    text = " ".join(Path(str(module.__file__)).read_text().split())
    named = re.findall(r"\(LOG, ([^);]*)\)", text)
    assert [name for name in named if not any(name.lower() in head for head in heads)] == []


def test_numbers_that_bound_something_are_fields() -> None:
    found = {(field.record, field.name) for module in RECORDS for field in _fields(module)}
    assert {(record, name) for record, names in BOUNDS.items() for name in names} <= found
