"""Base of most passes, which replace instructions of some opcodes one by one."""

import dataclasses
from collections.abc import Callable, Collection
from typing import ClassVar

from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.passes.framework.editor import Editor, drop_uncalled, rewrite
from xla_server.target.target import Target

EditorRule = Callable[[HloInstruction, Editor], HloInstruction | None]
Rule = Callable[[HloInstruction], HloInstruction | None]
"""Return the replacement of an instruction; the instruction itself or None if there is none."""


@dataclasses.dataclass(frozen=True)
class RewritePass:
    """Applies a rule to the instructions of the `opcodes`, in every computation of a module.

    A pass defines `_rule`, or `_rule_in` where the rule depends on the rest of a computation.
    Computations that nothing calls any more are dropped.
    """

    name: ClassVar[str]
    opcodes: ClassVar[Collection[Opcode]]

    def apply(self, module: HloModule) -> bool:
        """Rewrite all computations; return whether anything changed."""
        return self._rewrite(module, self._rule_in)

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        raise AssertionError(f"the pass {self.name} defines no rule for {i.opcode}")

    def _rule_in(self, computation: HloComputation, editor: Editor) -> Rule | None:
        """The rule for one computation before replacements; None if the pass does not apply."""
        return lambda i: self._rule(i, editor)

    def _rewrite(
        self, module: HloModule, rule_in: Callable[[HloComputation, Editor], Rule | None]
    ) -> bool:
        if not any(i.opcode in self.opcodes for i in module.instructions()):
            return False
        editor, changed = Editor(module), False
        for computation in list(module.computations):
            if any(i.opcode in self.opcodes for i in computation.instructions):
                rule = rule_in(computation, editor)
                if rule is not None:
                    changed |= rewrite(computation, self._restricted(rule), editor)
            editor.insert_inner(module, computation)
        module.computations[:0] = editor.shared.values()
        if changed:
            drop_uncalled(module)
        return changed

    def _restricted(self, rule: Rule) -> Rule:
        return lambda i: rule(i) if i.opcode in self.opcodes else None


@dataclasses.dataclass(frozen=True)
class TargetRewritePass(RewritePass):
    """A pass whose rule depends on the target machine."""

    target: Target
