"""The decorator that makes an instruction of kernels, from the parts of a numba intrinsic."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Generate = Callable[[Any, Any, Any, Sequence[Any]], Any]
"""generate(context, builder, signature, args): the LLVM value of the result."""

Define = Callable[..., tuple[Any, Generate]]
"""Function from a typing context and the operands' numba types to a signature and its code."""


class Instruction:
    """An operation that kernels call."""

    def __init__(self, define: Define) -> None:
        self._define = define
        self._signatures: dict[tuple[Any, ...], Any] = {}
        self._codes: dict[tuple[Any, ...], Generate] = {}
        self.__name__ = define.__name__
        self.__doc__ = define.__doc__

    def signature(self, context: Any, operands: tuple[Any, ...]) -> Any:
        """The signature for operands of these types."""
        found = self._signatures.get(operands)
        if found is None:
            found, generate = self._define(context, *operands)
            # Operands of several types may be converted to those of one signature.
            self._codes.setdefault(found.args, generate)
            self._signatures[operands] = found
        return found

    def code(self, signature: Any) -> Generate:
        """Return the code generator of a signature that `signature` returned."""
        return self._codes[signature.args]


def instruction(define: Define) -> Any:
    """An instruction from `define(typing_context, *operands) -> (signature, generate)`."""
    return Instruction(define)


def instruction_of(signature: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate `code(builder, *operands)`, which returns the value of the result, if there is one.

    It becomes an instruction of one signature, to whose operands all others are converted.
    """

    def decorate(code: Callable[..., Any]) -> Instruction:
        def generate(context: Any, builder: Any, _: Any, args: Sequence[Any]) -> Any:
            result = code(builder, *args)
            return context.get_dummy_value() if result is None else result

        def define(_: Any, *operands: Any) -> tuple[Any, Generate]:
            check_count(len(signature.args), operands)
            return signature, generate

        define.__name__, define.__doc__ = code.__name__, code.__doc__
        return Instruction(define)

    return decorate


def of_types(own: Mapping[Any, Instruction], other: Instruction) -> Instruction:
    """An instruction that is another one for each numba type, of its first operand."""

    def define(typing_context: Any, *operands: Any) -> tuple[Any, Generate]:
        found = own.get(operands[0], other)
        signature = found.signature(typing_context, operands)
        return signature, found.code(signature)

    define.__name__ = other.__name__
    return Instruction(define)


def check_count(count: int, operands: Sequence[Any]) -> None:
    """Raises TypeError if an instruction is called with more or fewer operands than it has."""
    if len(operands) != count:
        raise TypeError(f"an instruction must have {count} operands, got {len(operands)}")
