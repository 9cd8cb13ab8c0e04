"""Functions whose LLVM text is cached.

Emitting one takes as long as compiling a kernel that calls it.
"""

import dataclasses
from typing import Any

from llvmlite import ir


@dataclasses.dataclass(frozen=True, slots=True)
class KeptText:
    """The text of an LLVM function, with the names and types of the functions that it calls."""

    symbol: str
    form: Any
    text: str
    called: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, function: Any) -> "KeptText | None":
        """Return the text of a module's only function; None if it needs more than declarations."""
        module = function.module
        others = [value for value in module.global_values if value is not function]
        if module.metadata or not all(map(_is_plain_declaration, others)):
            return None
        called = tuple((value.name, value.ftype) for value in others)
        return cls(function.name, function.ftype, str(function), called)

    def added_to(self, module: Any) -> Any:
        """Add the function to another module, which must not have a function of its name."""
        for name, form in self.called:
            if name not in module.globals:
                ir.Function(module, form, name)
        return _Written(module, self)


class _Written(ir.Function):  # type: ignore[misc]
    """A function that is printed as its cached text."""

    def __init__(self, module: Any, kept: KeptText) -> None:
        super().__init__(module, kept.form, kept.symbol)
        self._text = kept.text

    def descr(self, buf: list[str]) -> None:
        """Append the text."""
        buf.append(self._text)


def _is_plain_declaration(value: Any) -> bool:
    return isinstance(value, ir.Function) and value.is_declaration and not value.attributes
