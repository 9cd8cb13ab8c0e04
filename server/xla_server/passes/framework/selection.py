"""Selection of the passes that run, by the options of a program."""

import dataclasses
from collections.abc import Iterator, Sequence

from xla_contract.errors import InvalidArgumentError
from xla_server.passes.framework.fixpoint import Fixpoint, Pass

HIGHEST_LEVEL = 3
"""Highest xla_backend_optimization_level, LLVM's -O3 in XLA."""

FUSION = "fusion"
"""Name for all fusion passes together, as in XLA."""


@dataclasses.dataclass(frozen=True, slots=True)
class PassOptions:
    """The options of a program that select passes.

    `disabled` are names of passes not to run. `only`, unless it is empty, has the names of the
    optional passes that run. `level` 0 disables all optional passes, 1 disables fusion, 2 and 3
    disable none.
    """

    disabled: frozenset[str] = frozenset()
    only: frozenset[str] = frozenset()
    level: int = HIGHEST_LEVEL


def selected(
    steps: Sequence[Pass], options: PassOptions, needed: frozenset[str], fusions: frozenset[str]
) -> tuple[Pass, ...]:
    """Return the steps that run; a fixpoint keeps its selected passes.

    Those in `needed` always run; level 1 leaves out `fusions`. Raises InvalidArgumentError for an
    unknown level, for names that are no optional pass's, and in `only` for names that are no
    pass's.
    """
    if not 0 <= options.level <= HIGHEST_LEVEL:
        raise InvalidArgumentError(
            f"xla_backend_optimization_level must be from 0 to {HIGHEST_LEVEL}, got {options.level}"
        )
    names = {*_names(steps), FUSION}
    _check("xla_disable_hlo_passes", options.disabled, names - needed)
    _check("xla_enable_hlo_passes_only", options.only - needed, names - needed)
    disabled = options.disabled | (fusions if FUSION in options.disabled else frozenset())
    only = options.only | (fusions if FUSION in options.only else frozenset())
    if options.level == 0:
        disabled |= names
    elif options.level == 1:
        disabled |= fusions

    def chosen(step: Pass, inside: bool) -> Iterator[Pass]:
        if step.name in needed:
            yield step
        elif step.name not in disabled:
            inside = inside or not only or step.name in only
            if isinstance(step, Fixpoint):
                kept = tuple(part for each in step.passes for part in chosen(each, inside))
                if kept:
                    yield dataclasses.replace(step, passes=kept)
            elif inside:
                yield step

    return tuple(part for step in steps for part in chosen(step, False))


def _names(steps: Sequence[Pass]) -> Iterator[str]:
    for step in steps:
        yield step.name
        if isinstance(step, Fixpoint):
            yield from _names(step.passes)


def _check(option: str, given: frozenset[str], known: set[str]) -> None:
    wrong = sorted(given - known)
    if wrong:
        raise InvalidArgumentError(
            f"{option} must name passes that can be left out, got {', '.join(wrong)!r:.300}",
            hint=f"These can be: {', '.join(sorted(known))}.",
        )
