"""Passes repeated until nothing changes."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol

from xla_server.ir.checkpoints import checkpoint
from xla_server.ir.module import HloModule


class Pass(Protocol):
    """A transformation of a module that preserves its results."""

    @property
    def name(self) -> str:
        """The name in dumps and in xla_disable_hlo_passes."""

    def apply(self, module: HloModule) -> bool:
        """Transform the module and return whether anything changed."""


class PassObserver(Protocol):
    """An observer of running passes."""

    def before_pass(self, name: str, module: HloModule) -> None:
        """A pass is about to run."""

    def after_pass(self, name: str, module: HloModule, changed: bool) -> None:
        """A pass has run."""


@dataclasses.dataclass(frozen=True)
class Fixpoint:
    """Runs passes round after round, at most `rounds` times, while a round changes anything."""

    name: str
    passes: tuple[Pass, ...]
    rounds: int = 8

    def apply(self, module: HloModule) -> bool:
        """Run to the fixed point; return whether anything changed."""
        return self.repeat(lambda step: step.apply(module))

    def repeat(self, run: Callable[[Pass], bool]) -> bool:
        """Like `apply`, but `run` runs each pass and returns whether that changed anything."""
        changed = False
        # The fixed point is reached after as many idle passes in a row as there are passes.
        idle = 0
        for step in self.passes * self.rounds:
            if run(step):
                changed, idle = True, 0
            else:
                idle += 1
            if idle == len(self.passes):
                break
        return changed


def run_once(
    passes: Sequence[Pass], module: HloModule, observer: PassObserver | None = None
) -> list[str]:
    """Run every pass once, observed, fixpoints included.

    Returns the names of the passes that changed the module, one entry for each change.
    """
    changes: list[str] = []

    def run(step: Pass) -> bool:
        if isinstance(step, Fixpoint):
            return step.repeat(run)
        checkpoint()
        if observer is not None:
            observer.before_pass(step.name, module)
        changed = step.apply(module)
        if changed:
            changes.append(step.name)
        if observer is not None:
            observer.after_pass(step.name, module, changed)
        return changed

    for step in passes:
        run(step)
    return changes
