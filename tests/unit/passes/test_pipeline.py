"""The pipeline over the corpora: every prefix keeps the program whole, and what it computes."""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.checked_evaluation import evaluate_checked
from tests.corpus import hlo_programs
from tests.corpus.hlo_text import parse_hlo
from tests.corpus.jax import vocabulary as jax_vocabulary
from tests.corpus.jax.programs import PROGRAMS
from tests.processors import TARGET
from tests.unit.passes import rare_programs
from tests.unit.passes.passing import drawn, leaves, tame
from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import hlo_pb2
from xla_server.backends.compiled.compilation import steps_of
from xla_server.evaluator.interpret import evaluate
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule
from xla_server.ir.verification.verifier import verify
from xla_server.passes.framework.editor import copy_module
from xla_server.passes.framework.fixpoint import Fixpoint, Pass, run_once
from xla_server.passes.pipeline import pipeline
from xla_server.target.machine import Machine
from xla_server.target.target import Target

STEPS, _ = steps_of(TARGET)

MAX_RUNS = 3
"""After this many runs of the pipeline another one changes nothing."""

Source = tuple[HloModule, list[Any] | None]


def _of_text(name: str) -> Source:
    parameters, root, *before = hlo_programs.PROGRAMS[name]
    text = hlo_programs.program(parameters, root, *before)
    return import_module(parse_hlo(text)), hlo_programs.arguments(parameters)


def _of_jax(name: str) -> Source:
    return import_module(hlo_pb2.HloModuleProto.FromString(PROGRAMS[name]())), None


def _of_group(group: Callable[[], jax_vocabulary.Group]) -> list[tuple[str, Source]]:
    found: list[tuple[str, Source]] = []
    for name, serialized, arguments in jax_vocabulary.lowered(group):
        proto = hlo_pb2.HloModuleProto.FromString(serialized)
        found.append((name, (import_module(proto), [np.asarray(a) for a in arguments])))
    return found


def _arguments(source: Source) -> list[Any]:
    module, arguments = source
    if arguments is not None and len(arguments) == len(module.entry.parameters):
        return arguments
    random = np.random.default_rng(3)
    return [tame(parameter.shape, random) for parameter in module.entry.parameters]


def _assert_close(got: list[Any], expected: list[Any], after: str) -> None:
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), after
        if theirs.dtype.kind in "biu":
            np.testing.assert_array_equal(ours, theirs, err_msg=after)
            continue
        wide = np.complex128 if theirs.dtype.kind == "c" else np.float64
        tolerance = {1: 0.3, 2: 2e-2}.get(theirs.dtype.itemsize, 2e-4)
        np.testing.assert_allclose(
            ours.astype(wide), theirs.astype(wide), rtol=tolerance, atol=tolerance, err_msg=after
        )


def check_prefixes(source: Source) -> None:
    """Verify and run a module after each pass of the pipeline that changes it."""
    module, _ = source
    arguments = _arguments(source)
    try:
        expected = leaves(evaluate(module, arguments, seed=1))
    except InvalidArgumentError:
        # A program for other replicas is refused when it runs, optimised too.
        optimised = copy_module(module)
        run_once(pipeline(TARGET), optimised)
        verify(optimised)
        with pytest.raises(InvalidArgumentError):
            evaluate(optimised, arguments, seed=1)
        return
    changing = copy_module(module)
    for step in pipeline(TARGET):
        if step.apply(changing):
            verify(changing)
            got = leaves(evaluate_checked(changing, arguments, seed=1))
            _assert_close(got, expected, step.name)
    for _ in range(MAX_RUNS - 1):
        run_once(pipeline(TARGET), changing)
    verify(changing)
    assert not [step.name for step in pipeline(TARGET) if step.apply(changing)]


@pytest.mark.parametrize("name", hlo_programs.PROGRAMS)
def test_single_operations(name: str) -> None:
    check_prefixes(_of_text(name))


@pytest.mark.parametrize("name", PROGRAMS)
def test_jax_programs(name: str) -> None:
    check_prefixes(_of_jax(name))


@functools.cache
def _group(group: Callable[[], jax_vocabulary.Group]) -> list[tuple[str, Source]]:
    return _of_group(group)


@pytest.mark.parametrize("group", jax_vocabulary.GROUPS, ids=lambda group: group.__name__)
def test_jax_vocabulary(group: Callable[[], jax_vocabulary.Group]) -> None:
    for name, source in _group(group):
        try:
            check_prefixes(source)
        except Exception as error:
            raise AssertionError(name) from error


def test_every_pass_has_its_own_name() -> None:
    names = [step.name for step in pipeline(TARGET)]
    assert len(set(names)) == len(names)


def _single(steps: Iterable[Pass]) -> Iterator[Pass]:
    for step in steps:
        if isinstance(step, Fixpoint):
            yield from _single(step.passes)
        else:
            yield step


class _Fired:
    """Names of the passes that changed a module, and of those that left one as it was."""

    def __init__(self) -> None:
        self.changed: set[str] = set()
        self.kept: set[str] = set()

    def before_pass(self, name: str, module: HloModule) -> None:
        """A pass is about to run."""

    def after_pass(self, name: str, module: HloModule, changed: bool) -> None:
        """It has run."""
        (self.changed if changed else self.kept).add(name)


def test_every_pass_changes_one_program_of_the_corpora_and_keeps_another() -> None:
    fired = _Fired()
    sources = [_of_text(name) for name in hlo_programs.PROGRAMS]
    sources += [_of_jax(name) for name in PROGRAMS]
    sources += [source for group in jax_vocabulary.GROUPS for _, source in _group(group)]
    names: set[str] = set()
    for steps in (STEPS, steps_of(Target.of(Machine.cuda("sm_90")))[0]):
        names |= {step.name for step in _single(steps)}
        for module in [*(module for module, _ in sources), *rare_programs.PROGRAMS.values()]:
            run_once(steps, copy_module(module), fired)
    assert sorted(names - fired.changed) == []
    assert sorted(names - fired.kept) == []


def test_a_module_without_anything_to_do_stays() -> None:
    module, arguments = _of_text("fft")
    before = [i.opcode for i in module.instructions()]
    run_once(pipeline(TARGET), module)
    assert module.entry.root.opcode in before
    assert arguments is not None
    assert drawn(module.entry.root.shape, np.random.default_rng(0)).shape
