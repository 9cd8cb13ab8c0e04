"""The numba source of kernels, compiled by numba's own front end, against their machine code."""

import itertools
from collections.abc import Iterator

import pytest

from tests.conformance.sweep.draws.depth import FULL, paired
from tests.golden.kernels import KINDS, PROGRAMS, SMALL, WIDTHS, retyped
from tests.kernels.running import arguments_of, results_of, run_compiled
from tests.numba_front_end import kernel_object
from tests.processors import MACHINES, assembles, runs
from xla_server.backends.compiled.compilation import compile_module
from xla_server.codegen import kernel as kernels
from xla_server.codegen.kernel import Kernels, symbol_of
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.ir.module import HloModule
from xla_server.ir.text.parser import parse_module
from xla_server.target.machine import Machine
from xla_server.target.target import Target

CHOSEN = list(PROGRAMS) if FULL else list(SMALL)
TURNS = {name: number for number, name in enumerate(PROGRAMS)}
RETYPED = list(SMALL) if FULL else list(SMALL[::4])
"""Programs that are compiled in other types, too."""


def _modules(name: str) -> Iterator[HloModule]:
    """Yield a program as it is, and one of `RETYPED` in all other types, or in one by turns."""
    yield parse_module(PROGRAMS[name].read_text())
    first = 0 if FULL else TURNS[name] % len(KINDS)
    kinds = (retyped(name, kind) for kind in (*KINDS[first:], *KINDS[:first]))
    valid = (module for module in kinds if module is not None)
    if name in RETYPED:
        yield from itertools.islice(valid, None if FULL else 1)


@assembles
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "width"), paired(CHOSEN, WIDTHS))
def test_numba_makes_the_same_of_the_source(
    name: str, width: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels for a processor that this one is not are compiled, but not run."""
    machine = MACHINES[width]
    seen = set()
    for module in _modules(name):
        code = compile_module(module, target=Target.of(machine)).code
        thunks = {thunk.kernel.key: thunk for thunk in kernels_of(code)}
        emitted = Kernels(machine=machine).get_all(thunk.kernel for thunk in thunks.values())
        with monkeypatch.context() as patch:
            patch.setattr(kernels, "kernel_object", _by_numba)
            compiled = Kernels(machine=machine).get_all(each.kernel for each in thunks.values())
        for key in thunks.keys() - seen if runs(machine) else ():
            thunk, found = thunks[key], arguments_of(thunks[key], code.constants)
            expected = arguments_of(thunk, code.constants)
            run_compiled(compiled[key], thunk, found)
            run_compiled(emitted[key], thunk, expected)
            results = results_of(thunk)
            for value, ours, theirs in zip(thunk.arguments, found, expected, strict=True):
                assert value not in results or ours.tobytes() == theirs.tobytes(), f"{name} {value}"
        seen |= thunks.keys()


def _by_numba(kernel: Kernel, machine: Machine) -> bytes:
    return kernel_object(kernel, symbol_of(kernel.key), machine)


def test_programs_are_in_every_type_that_their_operations_take() -> None:
    count = {name: sum(retyped(name, kind) is not None for kind in KINDS) for name in SMALL}
    assert min(count["transpose"], count["gather"], count["pieces"]) == len(KINDS) - 1
    assert count["random_bits"] == count["narrow_transpose"] == 0
    # Floats, and complex numbers with LAPACK's other letters.
    assert count["factorizations"] == 3
    assert count["fourier_transform"] == 1
