"""Symbols that object code needs from elsewhere."""

from tests.processors import HOST
from xla_server.codegen.compiler.kernel_compiler import object_of_module
from xla_server.codegen.compiler.llvm_text import Declaration, FunctionText, ModuleText
from xla_server.codegen.compiler.symbols import undefined_symbols


def test_what_is_called_and_not_defined_is_found() -> None:
    f = FunctionText(Declaration("known", ["x"], HOST))
    called = f.call("i64", "elsewhere", ["i64 %x"])
    code = object_of_module(ModuleText(f.text(called)), HOST)
    assert undefined_symbols(code) == {"elsewhere"}


def test_a_function_that_calls_nothing_needs_nothing() -> None:
    f = FunctionText(Declaration("known", ["x"], HOST))
    assert not undefined_symbols(object_of_module(ModuleText(f.text("%x")), HOST))


def test_other_formats_are_left_alone() -> None:
    assert not undefined_symbols(b"\xcf\xfa\xed\xfe and so on")
