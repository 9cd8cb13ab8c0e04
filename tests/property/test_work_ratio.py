"""Compiled programs evaluate little more than once: counted, without a clock."""

from typing import Any

import pytest

from tests.benchmarks.workloads import GROUPS
from tests.corpus.hlo_programs import PROGRAMS, program
from tests.corpus.hlo_text import parse_hlo
from tests.corpus.jax.cases import CASES, Case
from tests.corpus.jax.programs import lower
from tests.cuda_twin.programs import TARGET as GPU
from tests.work_ratio.bounds import complaints
from tests.work_ratio.graphs import graph
from xla_contract.stubs import hlo_pb2
from xla_server.backends.compiled.compilation import compile_module
from xla_server.codegen.gpu.lower.table import CUDA_LOWERINGS
from xla_server.evaluator.dynamic_shapes import has_dynamic_shapes
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule
from xla_server.passes.framework.selection import PassOptions

GRAPHS, GRAPHS_ON_A_GPU, CHUNK = 300, 75, 25


def check(module: HloModule) -> None:
    if not has_dynamic_shapes(module):
        assert list(complaints(compile_module(module))) == []


def check_on_a_gpu(module: HloModule) -> None:
    compilation = compile_module(module, target=GPU, lowerings=CUDA_LOWERINGS)
    assert list(complaints(compilation, GPU)) == []


@pytest.mark.parametrize("first", range(0, GRAPHS, CHUNK))
def test_random_graphs(first: int) -> None:
    for seed in range(first, first + CHUNK):
        check(import_module(graph(seed)))


@pytest.mark.parametrize("first", range(0, GRAPHS_ON_A_GPU, CHUNK))
def test_random_graphs_on_a_gpu(first: int) -> None:
    for seed in range(first, first + CHUNK):
        check_on_a_gpu(import_module(graph(seed)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_corpus_of_hlo(name: str) -> None:
    parameters, root, *before = PROGRAMS[name]
    check(import_module(parse_hlo(program(parameters, root, *before))))


def test_the_corpus_of_jax() -> None:
    for name, make in CASES.items():
        module = import_module(hlo_pb2.HloModuleProto.FromString(lower(*_case(make()))))
        if not has_dynamic_shapes(module):
            assert list(complaints(compile_module(module))) == [], name


def _case(case: Case) -> tuple[Any, ...]:
    function, arguments = case
    return (function, *arguments)


@pytest.mark.parametrize("group", GROUPS)
def test_programs_of_the_benchmark(group: str) -> None:
    import jax

    for name, workload in GROUPS[group]().items():
        with jax.enable_x64(workload.is_wide):
            serialized = lower(workload.function, *workload.arguments)
        module = import_module(hlo_pb2.HloModuleProto.FromString(serialized))
        assert list(complaints(compile_module(module))) == [], name
        check_on_a_gpu(module)


def test_the_same_seed_gives_the_same_graph() -> None:
    assert graph(7) == graph(7)
    assert graph(7) != graph(8)


def test_bounds_are_exceeded_without_the_guard() -> None:
    options = PassOptions(disabled=frozenset({"recomputation-guard"}))
    modules = map(import_module, map(graph, range(GRAPHS)))
    assert any(list(complaints(compile_module(module, options))) for module in modules)
