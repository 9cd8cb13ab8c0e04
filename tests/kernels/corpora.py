"""Every program whose kernels are compared: golden, HLO, JAX, benchmarks, routines and graphs."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tests.benchmarks.workloads import GROUPS
from tests.corpus.hlo_programs import PROGRAMS, program
from tests.corpus.hlo_text import parse_hlo
from tests.corpus.jax.cases import CASES
from tests.corpus.jax.programs import lower
from tests.golden.kernels import LARGE, MATRICES, SMALL
from tests.golden.kernels import PROGRAMS as GOLDEN
from tests.work_ratio.graphs import graph
from xla_contract.stubs import hlo_pb2
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule
from xla_server.ir.text.parser import parse_module

Programs = Iterator[tuple[str, HloModule]]

GRAPHS = 100
"""Random graphs, by the seeds from 0 on."""


def _golden(names: Sequence[str]) -> Programs:
    for name in names:
        yield name, parse_module(GOLDEN[name].read_text())


def _hlo() -> Programs:
    for name, (parameters, root, *before) in PROGRAMS.items():
        yield name, import_module(parse_hlo(program(parameters, root, *before)))


def _jax() -> Programs:
    for name, make in CASES.items():
        function, arguments = make()
        yield name, lowered_by_jax(function, arguments)


def _benchmark() -> Programs:
    import jax

    for workloads in GROUPS.values():
        for name, workload in workloads().items():
            with jax.enable_x64(workload.is_wide):
                module = lowered_by_jax(workload.function, workload.arguments)
            yield name, module


def _graphs() -> Programs:
    for seed in range(GRAPHS):
        yield str(seed), import_module(graph(seed))


def _routines() -> Programs:
    for kind in ("f32", "f64", "c64", "c128"):
        yield f"tridiagonal_solve_perturbed {kind}", parse_module(_PERTURBED.replace("f32", kind))


_PERTURBED = """HloModule m
ENTRY e {
  a = f32[3,6] parameter(0)
  b = f32[3,6] parameter(1)
  c = f32[3,6] parameter(2)
  x = f32[3,6,2] parameter(3)
  ROOT r = f32[3,6,2] custom-call(a, b, c, x), api_version=API_VERSION_TYPED_FFI,
    custom_call_target="tridiagonal_solve_perturbed_ffi"
}
"""


def lowered_by_jax(function: Callable[..., Any], arguments: Any) -> HloModule:
    """Return the module that JAX makes of a function."""
    return import_module(hlo_pb2.HloModuleProto.FromString(lower(function, *arguments)))


CORPORA: Mapping[str, Callable[[], Programs]] = {
    "golden": functools.partial(_golden, [name for name in SMALL if name not in MATRICES]),
    "matrices": functools.partial(_golden, MATRICES),
    "large": functools.partial(_golden, LARGE),
    "hlo": _hlo,
    "jax": _jax,
    "benchmark": _benchmark,
    "graphs": _graphs,
    "routines": _routines,
}
"""The programs of each corpus, by its name."""
