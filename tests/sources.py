"""Kernels as numba source, which the compiler of functions of Python reads."""

import contextlib
import itertools
import linecache
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from llvmlite import ir

from tests.processors import HOST
from xla_server.codegen.compiler.python_compiler import function_module
from xla_server.codegen.emit import llvm
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.namespace import vocabulary
from xla_server.target.machine import Machine

_NUMBERS = itertools.count()


def source_module(
    source: str, names: Mapping[str, Any] | None = None, machine: Machine = HOST
) -> ir.Module:
    """Return the LLVM module of the function `kernel` that a source defines, as `kernel`.

    `names` are the global names, by default those that kernels for `machine` know.
    """
    title = f"<source {next(_NUMBERS)}>"
    # The compiler reads a function from the file that it came from.
    linecache.cache[title] = len(source), None, source.splitlines(keepends=True), title
    namespace = dict(vocabulary(machine).names if names is None else names)
    exec(compile(source, title, "exec"), namespace)
    return function_module(namespace["kernel"], "kernel")


@contextlib.contextmanager
def without_requests() -> Iterator[None]:
    """Have kernels emitted without loop metadata and numbers of items, which no source states."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llvm, "request", lambda *_: None)
        patch.setattr(Kernel, "few_items", None)
        yield
