from unittest import mock

import llvmlite.binding as llvm
import pytest
from numba.core import config

from tests.processors import PROCESSORS, compiled_for
from xla_server.codegen.compiler.kernel_compiler import fingerprint
from xla_server.codegen.compiler.target_cpu import cpu_features, cpu_name, has_features


def test_it_is_the_host_where_nothing_else_is_named() -> None:
    with mock.patch.multiple(config, CPU_NAME=None, CPU_FEATURES=None):
        assert cpu_name() == llvm.get_host_cpu_name()
        host = llvm.get_host_cpu_features()
        assert all(has_features(name) == is_there for name, is_there in host.items())


@pytest.mark.parametrize("name", PROCESSORS)
def test_it_is_what_numba_s_variables_name(name: str) -> None:
    with compiled_for(name):
        assert (cpu_name(), cpu_features()) == PROCESSORS[name]
        assert has_features("avx2") == (name != "sse2")
        assert has_features("avx2", "avx512f", "bmi2") == name.startswith("avx512")
        assert has_features("avx512f", "avx512vnni") == (name == "avx512vnni")


def test_the_last_word_on_a_feature_counts() -> None:
    with mock.patch.object(config, "CPU_FEATURES", "+avx2,+avx512f,-avx512f,-fma,+fma"):
        assert has_features("avx2", "fma")
        assert not has_features("avx512f")
    with mock.patch.object(config, "CPU_FEATURES", ""):
        assert has_features()
        assert not has_features("sse2")


def test_kernels_kept_for_one_processor_are_not_taken_by_another() -> None:
    found = set()
    for name in PROCESSORS:
        with compiled_for(name):
            found.add(fingerprint())
    assert len(found) == len(PROCESSORS)
