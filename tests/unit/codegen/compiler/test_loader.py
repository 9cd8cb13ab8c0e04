"""Object code is loaded only with everything that it calls."""

import pytest

from tests.processors import HOST
from tests.unit.codegen.kernel_ir.kernels import SUM
from xla_server.buffers.code import KernelError
from xla_server.codegen import kernel as kernels
from xla_server.codegen.compiler.kernel_compiler import object_of_module
from xla_server.codegen.compiler.llvm_text import ModuleText
from xla_server.codegen.compiler.loader import Loader, UnresolvedSymbolsError
from xla_server.codegen.compiler.symbols import undefined_symbols
from xla_server.codegen.kernel import Kernels, symbol_of

CALLED = "nobody_defines_this"


def _code(symbol: str, *called: str) -> bytes:
    """Return object code of a function that calls others, and erf, which the process has."""
    declared = "".join(f"declare void @{name}()\n" for name in called)
    calls = "".join(f"call void @{name}()\n" for name in called)
    library = "declare double @erf(double)\n"
    body = f"{calls}%r = call double @erf(double %x)\nret double %r"
    text = f"{library}{declared}define double @{symbol}(double %x) {{\n{body}\n}}\n"
    return object_of_module(ModuleText(text), HOST)


def test_what_code_calls_and_does_not_define() -> None:
    assert undefined_symbols(_code("f", CALLED, "g")) == {CALLED, "erf", "g"}


def test_of_another_format_nothing_is_read() -> None:
    assert undefined_symbols(b"\xcf\xfa\xed\xfe" + bytes(60)) == frozenset()


def test_code_that_calls_an_unknown_symbol_is_refused_and_what_is_with_it_not_loaded() -> None:
    loader = Loader(HOST)
    with pytest.raises(UnresolvedSymbolsError, match=rf"got {CALLED}, .* in g$") as caught:
        loader.load_all({"f": _code("f"), "g": _code("g", CALLED)})
    assert (caught.value.symbol, caught.value.missing) == ("g", {CALLED})
    assert loader.symbol_count == 0


def test_code_calls_what_is_loaded_with_it_or_before_it() -> None:
    loader = Loader(HOST)
    loader.load_all({"f": _code("f", "g"), "g": _code("g")})
    assert loader.load(_code("h", "f"), "h")


def test_a_kernel_that_calls_an_unknown_symbol_is_an_error_of_that_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        kernels, "kernel_object", lambda kernel, machine: _code(symbol_of(kernel.key), CALLED)
    )
    with pytest.raises(KernelError) as caught:
        Kernels().get(SUM)
    assert caught.value.kernel is SUM
    assert CALLED in str(caught.value.__cause__)
