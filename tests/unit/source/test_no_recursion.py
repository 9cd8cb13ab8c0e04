"""The compiler and the evaluators do not recurse over a client's program, however deep it is.

Functions that call themselves, or each other within a file, are found in the source. Deep functions
(ir/explicit_stack.py) may: their stack is on the heap. Every other one is listed with its bound.
"""

import ast
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import MAX_NESTING, shape_from_proto, shape_to_proto

ROOT = Path(__file__).parents[3]
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
APPLIED = "computations applied to elements: xla_server.ir.verification.verifier.MAX_APPLIED_DEPTH"
RECORDS = "records in the parameters of a routine, as deep as their classes say"
FIELDS = "messages inside of the project's own protos"
GRAPHS = "loops and branches in each other: backends.cuda.worker.segments.MAX_DEPTH"
COPIED = "operations copied with a constant: xla_client.programs.functions._COPIED_DEPTH"

ALLOWED = {
    SIZE: """
        codegen/functions/real/irrational.py: leading
        codegen/gpu/lower/reduction/scan.py: _Scan.add
        codegen/lower/fourier/fft_lines.py: LineTransforms._convolution LineTransforms._cut
            LineTransforms._swap LineTransforms.transform
        codegen/lower/fourier/fft_plan.py: radices
        codegen/routines/fourier/fourier_passes.py: _composite _of_eight _of_four butterfly
        ir/analysis/affine.py: _joined _sum
        passes/canonicalize/transposes/transposed_operands.py: before_transpose
        xla_contract/wire/literals/linear_stream.py: _gather
    """,
    SHAPE: """
        backends/compiled/executable.py: _add_leaves _assembled
        backends/cuda/buffers.py: DevicePlacement.placed
        backends/host_buffer.py: HostBuffer.of_literal HostBuffer.placed literal_of
        backends/signature.py: _laid_out owned
        codegen/lower/control/control.py: _arrays _state
        codegen/lower/host.py: _value
        codegen/lower/lowering.py: Lowering.new_tree
        ir/fingerprint.py: _add_literal
        ir/traversal.py: leaves
        ops/control/constant.py: value_of
        ops/evaluation.py: zeros
        ops/feeds/infeed.py: _aligned
        passes/dynamic_sizes/size_specialisation.py: SizeSpecialiser._bounded SizeSpecialiser._parts
            SizeSpecialiser.parameter _static
        passes/dynamic_sizes/sized_operations.py: _literal
        passes/dynamic_sizes/sized_values.py: extents_of packed unpacked value_of whole_shape
        passes/framework/editor.py: Editor.zeros
        passes/scheduling/alias_analysis.py: _tree_of
        runtime/host.py: _copied
        xla_client/coercion/literals.py: _of_unknown_type
        xla_client/coercion/shapes.py: as_shape
        xla_client/ops/elementwise/selection.py: _select_tuple select
        xla_contract/ops/rules.py: as_dynamic
        xla_contract/types/literal.py: Literal._from_tuple Literal.from_numpy with_aligned_elements
        xla_contract/types/shape.py: ShapeReader.shape
        xla_contract/types/devices/sharding.py: _rebuilt
        xla_contract/wire/literals/encoding.py: _parts _pieces max_encoded_bytes
        xla_contract/wire/literals/feed_items.py: _fields array_count data_byte_size
        xla_contract/wire/literals/proto.py: _fill _read _read_tuple
        xla_contract/wire/shape_proto.py: _fill_shape _read_other _read_part _read_shape _remembered
            shape_from_proto
    """,
    TEXT: """
        custom_calls/attributes.py: _Reader._value _Reader.dictionary_of
            _Reader.dictionary_of.entry
        ir/text/parser.py: _Parser._body _Parser._called _Parser._complete _Parser._instruction
            _Parser._operand _Parser._value
        ir/text/literals.py: _array _read_dense _texts print_literal read_literal
        ir/text/shardings.py: _read _write
    """,
    ONCE: """
        codegen/trace/elementwise.py: converted
        ops/elementwise/convert.py: _converted
        ops/indexing/topk.py: ordering_keys
        passes/canonicalize/dots/dot_canonicaliser.py: _canonical _widened
        passes/framework/fixpoint.py: run_once.run
        passes/framework/selection.py: _names selected.chosen
        xla_client/lib/special.py: erf_inv
        xla_client/programs/arguments/checked.py: _converter_of
        xla_client/runs/execution.py: LaunchedExecution._settle LaunchedExecution._wait
            LaunchedExecution._watch LaunchedExecution.cancel
        xla_client/runs/run_template.py: RunTemplate.request
        xla_contract/wire/sharding_proto.py: _elements sharding_from_proto sharding_to_proto
    """,
    APPLIED: """
        passes/scalar_loops/element_calls.py: ScalarComputations._is_traced
            ScalarComputations.fits_loops
    """,
    NESTED: """
        fusion/analysis/index_maps.py: _terms
    """,
    KERNEL: """
        codegen/compiler/python_compiler.py: InlinedFunction._assign_to InlinedFunction._body
            InlinedFunction._call InlinedFunction._conditional InlinedFunction._conditional.write
            InlinedFunction._for_loop InlinedFunction._for_loop.inside
            InlinedFunction._short_circuit InlinedFunction._statement InlinedFunction._value
        codegen/compiler/python_names.py: _used_unassigned
        codegen/emit/llvm.py: Emitter._base Emitter._count_axis Emitter._count_axis.inside
            Emitter._index Emitter._loop Emitter._part Emitter._value Emitter._write
            Emitter._write_all
        codegen/gpu/emit/copies.py: copies_of
        codegen/gpu/emit/emitter.py: _GridEmitter._divided _GridEmitter._narrow _GridEmitter._parts
            _GridEmitter._shuffled _GridEmitter._value _GridEmitter._write_copies
        codegen/gpu/joined.py: _renamed
        codegen/gpu/repetitions.py: Forms.of
        codegen/gpu/stopping.py: _Watched._all _Watched._watched _flagged
        codegen/kernel.py: Kernels._load_named Kernels._load_shared
        codegen/kernel_ir/analysis/corners.py: _Execution.run
        codegen/kernel_ir/analysis/hoisting.py: _Varying._note
        codegen/kernel_ir/analysis/known_numbers.py: Numbers.address Numbers.value
        codegen/kernel_ir/numba_text.py: NumbaText._address NumbaText._base NumbaText._index
            NumbaText._statement NumbaText.expression NumbaText.lines
        codegen/kernel_ir/simplifier.py: _Simplifier._statement _Simplifier.block
        codegen/kernel_ir/unrolling.py: _copies _has_loops
        codegen/kernel_ir/walk.py: walk
        codegen/lower/shared_kernels.py: _Rewriter._fields _Rewriter._index _Rewriter._operand
            _Rewriter._part _Rewriter._tested
    """,
    GRAPHS: """
        backends/cuda/worker/thunk_work.py: ThunkWork._capture
        backends/cuda/worker/segments.py: _Parser._cases _Parser._items _Parser._loop
            _Parser._structure _loops
    """,
    COPIED: """
        xla_client/programs/functions.py: Inner._copied
    """,
    RECORDS: """
        codegen/kernel_ir/routine.py: _parameters _words arguments_of.argument
    """,
    FIELDS: """
        xla_contract/descriptors.py: _descriptors
        xla_contract/wire/literals/value_proto.py: _form_of _found_form _read fill_value is_plain
    """,
}
"""Functions by file, under what bounds their depth."""


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
    rows = re.findall(r"^ {8}(\S+): (.*(?:\n {12}.*)*)", "".join(ALLOWED.values()), re.MULTILINE)
    assert found == {path: set(names.split()) for path, names in rows}


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
