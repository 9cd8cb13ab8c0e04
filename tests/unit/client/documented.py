"""Public functions and classes of `ops` and `lib`, their docstrings' parts and their examples."""

import ast
import doctest
import inspect
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

import xla_client
from xla_client import Builder, lib, ops

NAMES: dict[str, Any] = {
    "Builder": Builder, "lib": lib, "np": np, "ops": ops, "xla_client": xla_client
}  # fmt: skip
"""The names that examples use without importing them."""


def public_names(module: str) -> list[str]:
    """Return the public names of a module of `lib`: `__all__`, or those that it defines."""
    names = vars(getattr(lib, module))
    return names.get("__all__") or [
        name
        for name, value in names.items()
        if callable(value)
        and not name.startswith("_")
        and getattr(value, "__module__", "") == f"xla_client.lib.{module}"
    ]


def _documented() -> Iterator[tuple[str, Any]]:
    for name in ops.__all__:
        yield f"ops.{name}", getattr(ops, name)
    for module in lib.__all__:
        for name in public_names(module):
            yield f"lib.{module}.{name}", getattr(getattr(lib, module), name)


DOCUMENTED: dict[str, Any] = dict(_documented())
"""Functions and classes by the names that examples call them by."""


def part(text: str, title: str) -> dict[str, str]:
    """Return the entries of a part of a docstring, such as Args, by their names."""
    found = re.search(rf"\n{title}:\n(.*?)(?:\n\n|\Z)", text, re.DOTALL)
    assert found is not None, title
    return dict(re.findall(r"^    (\w+): (.*)", found[1], re.MULTILINE))


def example(name: str) -> doctest.DocTest:
    """Return the example of a function or class."""
    text = inspect.getdoc(DOCUMENTED[name]) or ""
    return doctest.DocTestParser().get_doctest(text, dict(NAMES), name, None, 0)


class ExampleCall:
    """The call of a function in its example, made anew with other arguments."""

    def __init__(self, name: str) -> None:
        self.function = DOCUMENTED[name]
        # A function of `lib` that `ops` has too is called by its name there.
        same = {known for known, value in DOCUMENTED.items() if value is self.function}
        tree = ast.parse("".join(each.source for each in example(name).examples))
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        call = next(node for node in calls if ast.unparse(node.func) in same)
        before = [node for node in tree.body if call not in ast.walk(node)]
        before = [node for node in before if node.lineno < call.lineno]
        keywords = [(each.arg or "", each.value) for each in call.keywords]
        self._before = compile(ast.Module(before, []), name, "exec")
        self._args = [_compiled(each, name) for each in call.args]
        self._named = {key: _compiled(value, name) for key, value in keywords}

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of the call, of a program of their own."""
        values = dict(NAMES)
        exec(self._before, values)
        args = [eval(each, values) for each in self._args]
        return args, {key: eval(each, values) for key, each in self._named.items()}


def _compiled(node: ast.expr, name: str) -> Any:
    return compile(ast.Expression(node), name, "eval")
