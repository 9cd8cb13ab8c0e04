"""Elementary functions in several kernels: written once, printed the same."""

from typing import Any

from llvmlite import ir

from tests.processors import HOST
from tests.sources import source_module
from xla_server.codegen.compiler.kernel_compiler import object_of_module
from xla_server.codegen.functions import values
from xla_server.codegen.functions.function_text import KeptText
from xla_server.codegen.functions.real import exponential
from xla_server.codegen.namespace import vocabulary

NAMES = vocabulary(HOST).names
SOURCE = """def kernel(buffers, start, stop):
    data = peek_i64(buffers, 0)
    for i in range(start, stop):
        store_f32(data, i, {}(reload_f32(data, i)))
"""


def _text(name: str, **names: Any) -> str:
    return str(source_module(SOURCE.format(name), {**NAMES, **names}))


def test_a_function_is_written_once_and_printed_alike() -> None:
    written = []

    def body(x: values.Value) -> values.Value:
        written.append(x)
        return exponential.exp(x)

    own = values.ElementaryFunction("own", body, 1, "f32")
    first, second = _text("own", own=own), _text("own", own=own)
    assert len(written) == 1
    assert first == second
    assert first.count("define internal float") == 1
    assert first.count("declare float @") == 1
    assert object_of_module(source_module(SOURCE.format("exp_f32")), HOST)


def test_functions_with_tables_are_written_for_each_module() -> None:
    table = values.Table("test_table", bytes(64))
    written = []

    def body(x: values.Value) -> values.Value:
        written.append(x)
        return x * table.at(values.Value(x.builder, ir.Constant(ir.IntType(32), 1), "i32"))

    own = values.ElementaryFunction("own", body, 1, "f64")
    source = SOURCE.replace("f32", "f64").format("own")
    for _ in range(2):
        module = source_module(source, {**NAMES, "own": own})
        assert "test_table" in module.globals
        assert object_of_module(module, HOST)
    assert len(written) > 1


def test_only_what_needs_no_more_than_declarations_is_kept() -> None:
    form = ir.FunctionType(ir.FloatType(), [ir.FloatType()])

    def written(module: ir.Module) -> ir.Function:
        function = ir.Function(module, form, "one")
        builder = ir.IRBuilder(function.append_basic_block())
        builder.ret(function.args[0])
        return function

    assert KeptText.of(written(ir.Module())) is not None
    with_metadata = ir.Module()
    with_metadata.add_metadata([])
    assert KeptText.of(written(with_metadata)) is None
    with_another = ir.Module()
    ir.IRBuilder(ir.Function(with_another, form, "other").append_basic_block()).unreachable()
    assert KeptText.of(written(with_another)) is None
    with_attributes = ir.Module()
    ir.Function(with_attributes, form, "other").attributes.add("nounwind")
    assert KeptText.of(written(with_attributes)) is None
