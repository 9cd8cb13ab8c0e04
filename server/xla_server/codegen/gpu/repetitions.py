"""Values that a kernel computes again while a register has them.

Copies of unrolled loops follow each other without a jump: equal values of two loops over the same
range are computed once. LLVM, GVN: global value numbering.
"""

import dataclasses
from collections.abc import Hashable, Sequence

from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir import statements as stmt
from xla_server.codegen.kernel_ir.walk import Path, walk


def repetitions(body: Sequence[stmt.Statement]) -> frozenset[int]:
    """Return the identities of statements that bind the same value as an earlier one.

    Both are under the same tests, and in no loop but unrolled ones.
    """
    forms = Forms()
    seen: set[Hashable] = set()
    found: set[int] = set()
    for statement, path in walk(body):
        forms.bind(statement, path)
        if not isinstance(statement, stmt.Let):
            continue
        form = forms.of(statement.value)
        if isinstance(form, ir.Value) or not all(
            each.unrolled for each in path if isinstance(each, stmt.For)
        ):
            continue
        key = form, tuple(_test(forms, n, path, statement) for n in range(len(path)))
        if key in seen:
            found.add(id(statement))
        seen.add(key)
    return frozenset(found)


def _test(forms: "Forms", n: int, path: Path, statement: stmt.Statement) -> Hashable:
    """Return the test of statement `n` of `path` and the branch taken; None if it has no test."""
    around = path[n]
    if not isinstance(around, stmt.If):
        return None
    inside = path[n + 1] if n + 1 < len(path) else statement
    return forms.of(around.test), any(each is inside for each in around.orelse)


@dataclasses.dataclass(frozen=True, slots=True)
class _Number:
    """The number of a form."""

    number: int


class Forms:
    """Value numbers of expressions: those with equal forms have equal values.

    Variables of loops at the same depth over the same range are equal.
    """

    def __init__(self) -> None:
        self._known: dict[ir.Value, Hashable] = {}
        self._numbers: dict[Hashable, _Number] = {}

    def bind(self, statement: stmt.Statement, path: Path) -> None:
        """Record the names that a statement defines."""
        match statement:
            case stmt.Let(value=value, expression=expression):
                form = self.of(expression)
                # Numbers instead of nested forms, whose size would be exponential.
                number = self._numbers.setdefault(form, _Number(len(self._numbers)))
                self._known[value] = value if form is None else number
            case stmt.For(axis=axis, low=low, high=high, step=step):
                depth = sum(isinstance(each, stmt.For) for each in path)
                self._known[axis] = depth, self.of(low), self.of(high), step

    def of(self, expression: ir.Expression) -> Hashable:
        """Return the form of an expression; None if memory that it reads may change."""
        match expression:
            case ir.Value():
                return self._known.get(expression, expression)
            case ir.Cell():
                return None
            case ir.Load(memory=memory) if not (
                isinstance(memory, ir.Buffer) and memory.usage is ir.Usage.READ
            ):
                return None
            case ir.Const():
                return expression
        parts = tuple(map(self.of, ir.operands_of(expression)))
        if None in parts:
            return None
        match expression:
            case ir.Index(constant=constant, terms=terms):
                return constant, parts, tuple(factor for _, factor in terms)
            case ir.Quotient(divisor=divisor) | ir.Remainder(divisor=divisor):
                return type(expression), divisor, parts
            case ir.Apply(function=function, type=kind):
                return function, kind, parts
            case ir.Load(memory=memory, type=kind):
                return memory, kind, parts
        return type(expression), parts
