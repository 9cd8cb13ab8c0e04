"""Docstrings of operations: parts in Google's form, and examples that print what they say."""

import doctest
import inspect
import re

import numpy as np
import pytest

import xla_client
from xla_client import Builder, ops

PAGE = "https://openxla.org/xla/operation_semantics#"
SECTIONS = {
    "afterall", "allgather", "allreduce", "alltoall", "batchnormgrad", "batchnorminference",
    "batchnormtraining", "bitcastconverttype", "broadcast", "broadcastindim", "call", "cholesky",
    "clamp", "collapse", "collectivepermute", "concatenate", "conditional", "conv_convolution",
    "convwithgeneralpadding_convolution", "convertelementtype", "crossreplicasum", "customcall",
    "dot", "dotgeneral", "dynamicslice", "dynamicupdateslice",
    "element-wise_binary_arithmetic_operations", "element-wise_comparison_operations",
    "element-wise_unary_functions", "fft", "gather", "getdimensionsize", "gettupleelement",
    "infeed", "iota", "map", "optimizationbarrier", "pad", "recv", "reduce", "reduceprecision",
    "reducescatter", "reducewindow", "reshape", "rev_reverse", "rngbitgenerator", "rngnormal",
    "rnguniform", "scatter", "select", "selectandscatter", "send", "setdimensionsize", "slice",
    "sort", "topk", "transpose", "triangularsolve", "tuple", "while",
}  # fmt: skip
"""The sections of XLA's page on the semantics of operations."""


@pytest.mark.parametrize("name", ops.__all__)
def test_a_docstring_has_its_parts_and_its_example_runs(name: str) -> None:
    function = getattr(ops, name)
    text = inspect.getdoc(function) or ""
    parts = [part for part in ("Args:", "Returns:", "Raises:", "Example:") if f"\n{part}\n" in text]
    assert parts == ["Args:", "Returns:", "Raises:", "Example:"]
    described = re.search(r"\nArgs:\n(.*?)\n\n", text, re.DOTALL)
    assert described is not None
    parameters = re.findall(r"^    (\w+): ", described[1], re.MULTILINE)
    assert parameters == list(inspect.signature(function).parameters)
    assert set(re.findall(re.escape(PAGE) + r"(\S+)", text)) <= SECTIONS
    names = {"Builder": Builder, "ops": ops, "np": np, "xla_client": xla_client}
    test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    assert len(test.examples) >= 1
    assert any(example.want for example in test.examples)
    problems: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=problems.append)
    assert problems == []


WITHOUT_SECTION = {
    "collective_broadcast", "composite_call", "dynamic_reshape", "outfeed", "outfeed_with_token",
    "ragged_all_to_all", "ragged_dot", "roll", "scaled_dot", "scan", "stochastic_convert_type",
}  # fmt: skip
"""Operations that XLA's page does not describe, and `roll`, which is none."""


def test_operations_name_their_section_of_the_page() -> None:
    linked = {name for name in ops.__all__ if PAGE in (getattr(ops, name).__doc__ or "")}
    assert linked == set(ops.__all__) - WITHOUT_SECTION
