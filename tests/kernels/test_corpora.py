import itertools
from collections.abc import Iterator

import pytest

from tests.kernels.corpora import CORPORA
from tests.kernels.listing import Listing, differences, object_hash
from tests.processors import HOST
from tests.sources import source_module, without_requests
from tests.unit.passes.passing import stated
from xla_contract.ops.elementwise.elementwise import ELEMENTWISE as RULES
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.assignment import assign
from xla_server.buffers.code import Code, KernelThunk
from xla_server.codegen import kernel
from xla_server.codegen.kernel_ir.analysis.verify import verify
from xla_server.codegen.kernel_ir.expressions import STOP, Buffer, Index, Usage, Value
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.simplifier import simplify
from xla_server.codegen.kernel_ir.statements import Let, Store
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.evaluator.dynamic_shapes import has_dynamic_shapes
from xla_server.target.target import Target


@pytest.mark.timeout(600)
@pytest.mark.parametrize("corpus", CORPORA)
def test_kernels_obey_the_rules_and_their_source_means_the_same(corpus: str) -> None:
    seen = {}
    for name, module in CORPORA[corpus]():
        if not has_dynamic_shapes(module):
            program = compile_module(module, target=Target.of(HOST)).code
            assert list(_partly_overwritten(program)) == [], name
            for thunk in kernels_of(program):
                seen[thunk.kernel.key] = thunk
    for thunk in seen.values():
        code = thunk.kernel
        with without_requests():
            module = str(kernel.module_of(code, "kernel", HOST))
        assert isinstance(code, Kernel)
        assert simplify(code) is code
        verify(code, {number: value.byte_size for number, value in enumerate(thunk.arguments)})
        assert module == str(source_module(code.text))


def _partly_overwritten(program: Code) -> Iterator[str]:
    """Values that a kernel reads while it writes another one over a part of them."""
    places = assign(program).locations
    for thunk in program.thunks:
        if not isinstance(thunk, KernelThunk):
            continue
        for written, read in itertools.product(thunk.writes, thunk.reads):
            to, source = places[written], places[read]
            if to.kind == source.kind == "arena" and to != source:
                is_before = source.number + read.byte_size <= to.number
                if not is_before and to.number + written.byte_size > source.number:
                    yield f"{thunk.name} writes {written.name} over a part of {read.name}"


@pytest.mark.parametrize("kind", [ElementType.C64, ElementType.C128], ids=str)
def test_kernels_of_complex_numbers_are_compiled(kind: ElementType) -> None:
    for opcode, rule in RULES.items():
        # jaxlib's parser knows no atan; its kernel function has the form of the others.
        if kind not in rule.types.members or opcode is Opcode.ATAN:
            continue
        shape, result = f"{kind.text}[8]", f"{rule.result_type(kind).text}[8]"
        operands = ", ".join(f"x{n}" for n in range(opcode.arity))
        module = stated([shape] * opcode.arity, f"{result} {opcode}({operands})")
        for thunk in kernels_of(compile_module(module, target=Target.of(HOST)).code):
            kernel.module_of(thunk.kernel, "kernel", HOST)


def test_object_code_does_not_depend_on_names() -> None:
    place = Buffer(0, Usage.SCRATCH)
    one, other = (
        Kernel((place,), (), (Let(value, STOP), Store(place, Type.I64, Index(0), value)))
        for value in (Value("x", Type.I64), Value("y", Type.I64))
    )
    assert one.text != other.text
    assert object_hash(one, HOST) == object_hash(other, HOST)


def test_kernels_are_compared_by_text_and_module() -> None:
    row = {"text": "a", "llvm": "b", "ranges": [1, 2, 3]}
    texts = {"a": "one\n", "b": "module\n", "c": "two\n"}
    before = Listing({"x": row}, texts)
    assert list(differences(before, before)) == ["1 kernels: equal"]
    after = Listing({"x": {**row, "text": "c"}, "y": row}, texts)
    found = list(differences(before, after))
    assert found[0] == "x: text"
    assert {"-one", "+two", "0 kernels: equal", "1 kernels: text", "1 kernels: added"} <= {*found}
