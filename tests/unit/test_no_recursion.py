"""The compiler and the evaluators do not recurse over a client's program, however deep it is.

Functions that call themselves, or each other within a file, are found in the source. Deep functions
(ir/explicit_stack.py) may: their stack is on the heap. Every other one is listed with its bound.
"""

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import MAX_NESTING, shape_from_proto, shape_to_proto

ROOT = Path(__file__).parents[2]
PACKAGES = [
    *(
        ROOT / "server/xla_server" / name
        for name in (
            "ir",
            "ops",
            "custom_calls",
            "execution",
            "evaluator",
            "buffers",
            "passes",
            "fusion",
            "codegen",
            "runtime",
            "backends",
        )
    ),
    ROOT / "client/xla_client",
    ROOT / "protos/xla_contract",
    ROOT / "host/xla_host",
]

SHAPE = "tuples in a shape: 64 nested, xla_contract.wire.shape_proto.MAX_NESTING"
TEXT = "nesting in HLO text, which its reader limits"
KERNEL = "nested loops and calls in one kernel, which fusion limits"
NESTED = "quotients nested in an index of a fusion, target.fusion_tuning.Fusions.max_index_terms"
SIZE = "a size that is divided or a step that is counted down each time"
ONCE = "once: the inner call takes another branch"
APPLIED = "computations applied to elements: xla_server.ir.verifier.MAX_APPLIED_DEPTH"
FIELDS = "messages inside of the project's own protos"
GRAPHS = "loops and branches in each other: backends.cuda.worker.segments.MAX_DEPTH"
COPIED = "operations copied with a constant: xla_client.programs.functions._COPIED_DEPTH"

ALLOWED: dict[str, tuple[str, set[str]]] = {
    "ir/affine.py": (SIZE, {"_joined", "_sum"}),
    "ir/fingerprint.py": (SHAPE, {"_add_literal"}),
    "ir/text/literals.py": (
        TEXT,
        {"_array", "_read_dense", "_texts", "print_literal", "read_literal"},
    ),
    "ir/text/shardings.py": (TEXT, {"_read", "_write"}),
    "ops/collectives/collective.py": (SHAPE, {"zeros"}),
    "ops/control/constant.py": (SHAPE, {"_value"}),
    "ops/elementwise/convert.py": (ONCE, {"_converted"}),
    "ops/feeds/infeed.py": (SHAPE, {"_aligned"}),
    "ops/feeds/send_recv.py": (SHAPE, {"_nothing_yet"}),
    "ops/indexing/topk.py": (ONCE, {"ordering_keys"}),
    "custom_calls/attributes.py": (
        TEXT,
        {"_Reader._array", "_Reader._dictionary", "_Reader._value"},
    ),
    "evaluator/interpret.py": (SHAPE, {"describe", "has_shape"}),
    "passes/framework/editor.py": (SHAPE, {"Editor.zeros"}),
    "passes/canonicalize/dot_canonicaliser.py": (ONCE, {"_canonical", "_widened"}),
    "passes/scalar_loops/element_calls.py": (
        APPLIED,
        {"ScalarComputations._is_traced", "ScalarComputations.fits_loops"},
    ),
    "passes/framework/fixpoint.py": (ONCE, {"run_once.run"}),
    "passes/framework/selection.py": (ONCE, {"_names", "selected.chosen"}),
    "passes/dynamic_sizes/size_specialisation.py": (
        SHAPE,
        {
            "SizeSpecialiser._bounded",
            "SizeSpecialiser._parts",
            "SizeSpecialiser.parameter",
            "_fills",
            "_static",
        },
    ),
    "passes/dynamic_sizes/sized_values.py": (
        SHAPE,
        {"arrays_of", "extents_of", "packed", "unpacked", "value_of", "whole_shape", "wholes"},
    ),
    "passes/dynamic_sizes/sized_operations.py": (SHAPE, {"_literal"}),
    "passes/scheduling/alias_analysis.py": (SHAPE, {"_tree_of", "leaves"}),
    "passes/canonicalize/transposed_operands.py": (SIZE, {"before_transpose"}),
    "fusion/analysis/index_maps.py": (NESTED, {"_terms"}),
    "codegen/compiler/direct_compiler.py": (
        KERNEL,
        {
            "_Function._assign_to",
            "_Function._choose_between",
            "_Function._count",
            "_Function._do",
            "_Function._do_all",
            "_Function._repeat",
            "_Function._run",
        },
    ),
    "codegen/compiler/direct_expressions.py": (
        KERNEL,
        {
            "Expressions._call",
            "Expressions._chosen",
            "Expressions._shortened",
            "Expressions._value",
        },
    ),
    "codegen/compiler/direct_names.py": (KERNEL, {"_strays"}),
    "codegen/emit/llvm.py": (
        KERNEL,
        {
            "Emitter._base",
            "Emitter._count",
            "Emitter._index",
            "Emitter._loop",
            "Emitter._part",
            "Emitter._repeat",
            "Emitter._run",
            "Emitter._value",
            "Emitter._write",
            "Emitter._write_all",
        },
    ),
    "codegen/functions/real/irrational.py": (SIZE, {"leading"}),
    "codegen/gpu/emit/copies.py": (KERNEL, {"copies_of"}),
    "codegen/gpu/emit/emitter.py": (
        KERNEL,
        {
            "_GridEmitter._divided",
            "_GridEmitter._narrow",
            "_GridEmitter._parts",
            "_GridEmitter._shuffled",
            "_GridEmitter._value",
            "_GridEmitter._write_copies",
        },
    ),
    "codegen/gpu/joined.py": (KERNEL, {"_renamed"}),
    "codegen/gpu/lower/reduction/scan.py": (SIZE, {"_Scan.add"}),
    "codegen/gpu/stopping.py": (KERNEL, {"_Watched._all", "_Watched._watched", "_told"}),
    "codegen/kernel.py": (KERNEL, {"Kernels._load_named", "Kernels._load_shared"}),
    "codegen/kernel_ir/analysis/corners.py": (KERNEL, {"_Execution.run"}),
    "codegen/kernel_ir/analysis/known_numbers.py": (KERNEL, {"Numbers.place", "Numbers.value"}),
    "codegen/kernel_ir/analysis/hoisting.py": (KERNEL, {"_Varying._note"}),
    "codegen/kernel_ir/analysis/repetitions.py": (KERNEL, {"Forms.of"}),
    "codegen/kernel_ir/listing.py": (KERNEL, {"_base", "_lines", "_text"}),
    "codegen/kernel_ir/numba_text.py": (
        KERNEL,
        {
            "NumbaText._address",
            "NumbaText._base",
            "NumbaText._index",
            "NumbaText._statement",
            "NumbaText.expression",
            "NumbaText.lines",
        },
    ),
    "codegen/kernel_ir/unrolling.py": (
        KERNEL,
        {"_copies", "_has_calls", "_has_loops"},
    ),
    "codegen/kernel_ir/walk.py": (KERNEL, {"walk"}),
    "codegen/lower/control/control.py": (SHAPE, {"_state"}),
    "codegen/lower/contraction/dot.py": (ONCE, {"_add"}),
    "codegen/lower/fourier/fft_lines.py": (
        SIZE,
        {
            "LineTransforms._convolution",
            "LineTransforms._cut",
            "LineTransforms._turned",
            "LineTransforms.transform",
        },
    ),
    "codegen/lower/fourier/fft_plan.py": (SIZE, {"radices"}),
    "codegen/lower/host.py": (SHAPE, {"_arrays", "_value"}),
    "codegen/lower/lowering.py": (SHAPE, {"Lowering.fresh", "leaves"}),
    "codegen/routines/fourier/fourier_passes.py": (
        SIZE,
        {"_composite", "_of_eight", "_of_four", "butterfly"},
    ),
    "codegen/trace/elementwise.py": (ONCE, {"converted"}),
    "runtime/host.py": (SHAPE, {"_copied"}),
    "backends/compiled/executable.py": (SHAPE, {"_add_leaves", "_assembled"}),
    "backends/cuda/buffers.py": (SHAPE, {"Placement.placed"}),
    "backends/cuda/worker/executor.py": (GRAPHS, {"ProgramRun._capture"}),
    "backends/cuda/worker/segments.py": (
        GRAPHS,
        {"_Parser._cases", "_Parser._items", "_Parser._loop", "_Parser._structure", "_loops"},
    ),
    "backends/host_buffer.py": (SHAPE, {"HostBuffer.placed", "literal_of", "value_of"}),
    "backends/signature.py": (SHAPE, {"_laid_out", "owned"}),
    "xla_client/programs/checked.py": (ONCE, {"_taker_of"}),
    "xla_client/coercion/literals.py": (SHAPE, {"_of_unknown_type"}),
    "xla_client/coercion/shapes.py": (SHAPE, {"as_shape"}),
    "xla_client/runs/execution.py": (
        ONCE,
        {
            "LaunchedExecution._settle",
            "LaunchedExecution._wait",
            "LaunchedExecution._watch",
            "LaunchedExecution.cancel",
        },
    ),
    "xla_client/programs/functions.py": (COPIED, {"Inner._copied"}),
    "xla_client/lib/special.py": (ONCE, {"erf_inv"}),
    "xla_client/ops/elementwise/selection.py": (SHAPE, {"_select_tuple", "select"}),
    "xla_client/runs/run_template.py": (ONCE, {"RunTemplate.request"}),
    "xla_contract/descriptors.py": (FIELDS, {"_descriptors"}),
    "xla_contract/wire/literals/feed_items.py": (
        SHAPE,
        {"_fields", "array_count", "data_byte_size"},
    ),
    "xla_contract/wire/literals/linear_stream.py": (SIZE, {"_gather"}),
    "xla_contract/types/literal.py": (
        SHAPE,
        {"Literal._from_tuple", "Literal.from_numpy", "with_aligned_elements"},
    ),
    "xla_contract/wire/literals/encoding.py": (SHAPE, {"_parts", "_pieces", "most_bytes"}),
    "xla_contract/wire/literals/proto.py": (SHAPE, {"_fill", "_read", "_read_tuple"}),
    "xla_contract/ops/rules.py": (SHAPE, {"as_dynamic"}),
    "xla_contract/wire/shape_proto.py": (
        SHAPE,
        {
            "_fill_shape",
            "_read_other",
            "_read_part",
            "_read_shape",
            "_remembered",
            "shape_from_proto",
        },
    ),
    "xla_contract/types/shape.py": (SHAPE, {"ShapeReader.shape"}),
    "xla_contract/types/sharding.py": (SHAPE, {"_rebuilt"}),
    "xla_contract/wire/sharding_proto.py": (
        ONCE,
        {"_elements", "sharding_from_proto", "sharding_to_proto"},
    ),
    "xla_contract/wire/literals/value_proto.py": (
        FIELDS,
        {"_form_of", "_found_form", "_read", "fill_value", "is_plain"},
    ),
}
"""Functions by file, with what bounds the depth of all of them."""


def functions_of(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """The functions of a file, by their qualified names."""
    found: dict[str, ast.FunctionDef] = {}
    waiting: list[tuple[str, ast.AST]] = [("", tree)]
    while waiting:
        prefix, node = waiting.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                if isinstance(child, ast.FunctionDef):
                    found[prefix + child.name] = child
                waiting.append((f"{prefix}{child.name}.", child))
            else:
                waiting.append((prefix, child))
    return found


def called_in(name: str, function: ast.FunctionDef, names: Iterable[str]) -> set[str]:
    """The functions of the file that a function refers to: by bare name, or as its own methods."""
    known = set(names)
    scopes = [name.rsplit(".", n)[0] + "." for n in range(name.count(".") + 1)] + [f"{name}.", ""]
    found: set[str] = set()
    given = function.args
    arguments = {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        if isinstance(node, ast.Name) and node.id not in arguments:
            # Methods are not reached by their bare names.
            own = [scope + node.id for scope in (f"{name}.", "") if scope + node.id in known]
            beside = name.rpartition(".")[0]
            if beside in known and f"{beside}.{node.id}" in known:
                own.append(f"{beside}.{node.id}")
            found.update(own)
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in ("self", "cls")
        ):
            found.update(s + node.attr for s in scopes if s and s + node.attr in known)
        waiting += ast.iter_child_nodes(node)
    return found


def recursive(source: str) -> set[str]:
    """The functions of a file that lead back to themselves and are not deep functions."""
    functions = functions_of(ast.parse(source))
    calls = {name: called_in(name, node, functions) for name, node in functions.items()}
    found = set()
    for name, node in functions.items():
        if node.returns is not None and "Deep[" in ast.unparse(node.returns):
            continue
        seen: set[str] = set()
        waiting = list(calls[name])
        while waiting:
            other = waiting.pop()
            if other not in seen:
                seen.add(other)
                waiting += calls[other]
        if name in seen:
            found.add(name)
    return found


def files() -> list[tuple[str, Path]]:
    """The files of the packages, by their paths as they are listed above."""
    return [
        (str(path.relative_to(package.parent)).removeprefix("xla_server/"), path)
        for package in PACKAGES
        for path in sorted(package.rglob("*.py"))
        if "stubs" not in path.parts
    ]


def test_only_what_is_bounded_recurses() -> None:
    found = {name: names for name, path in files() if (names := recursive(path.read_text()))}
    assert found == {name: names for name, (_, names) in ALLOWED.items()}


def test_shapes_have_the_bound_that_is_relied_on() -> None:
    shape = Shape.parse("f32[]")
    for _ in range(MAX_NESTING + 1):
        shape = Shape.tuple_of([shape])
    with pytest.raises(InvalidArgumentError, match=str(MAX_NESTING)):
        shape_from_proto(shape_to_proto(shape))


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(i): return [f(o) for o in i.operands]", {"f"}),
        ("def f(i): return g(i)\ndef g(i): return map(f, i.operands)", {"f", "g"}),
        ("class A:\n def f(self): self.g()\n def g(self): self.f()", {"A.f", "A.g"}),
        ("def f():\n def g(i): g(i - 1)\n g(3)", {"f.g"}),
        ("def f(i) -> Deep[int]:\n return (yield f(i))", set()),
        ("def f(f): return f(1)", set()),
        ("def f(i): return i.f()\ndef g(): return f(1)", set()),
    ],
)
def test_what_is_found(source: str, names: set[str]) -> None:
    assert recursive(source) == names
