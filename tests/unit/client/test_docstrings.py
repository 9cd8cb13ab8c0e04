"""Docstrings of operations and of the library.

They have the parts of Google's style, examples that print what they say, and links to the pages
that define the semantics.
"""

import doctest
import inspect
import re

import pytest

from tests.unit.client.documented import DOCUMENTED, example, part
from xla_client import ops

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


HEADER = re.compile(r"https://github\.com/openxla/xla/blob/main/xla/hlo/builder/lib/(\w+)\.h")
HEADERS = {
    "arithmetic", "broadcast", "comparators", "constants", "logdet", "loops", "lu_decomposition",
    "math", "matrix", "pooling", "prng", "qr", "self_adjoint_eig", "slicing", "sorting",
    "tridiagonal",
}  # fmt: skip
"""The headers of XLA's own library of builders that docstrings name."""

OTHER_PAGES = {
    "https://docs.jax.dev/en/latest/_autosummary/jax.random.": {
        "bernoulli", "bits", "fold_in", "key", "normal", "randint", "split", "uniform"
    },
    "https://docs.jax.dev/en/latest/_autosummary/jax.lax.linalg.": {"svd"},
    "https://numpy.org/doc/stable/user/basics.": {"broadcasting"},
}  # fmt: skip
"""Pages of functions that are defined by those of JAX or by the broadcasting of NumPy."""


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_docstring_has_its_parts_and_its_example_runs(name: str) -> None:
    value = DOCUMENTED[name]
    text = inspect.getdoc(value) or ""
    titles = ("Args", "Attributes", "Returns", "Raises", "Example")
    parts = [title for title in titles if f"\n{title}:\n" in text]
    if inspect.isclass(value):
        assert parts == ["Attributes", "Example"]
    else:
        assert parts == ["Args", "Returns", "Raises", "Example"]
    assert list(part(text, parts[0])) == list(inspect.signature(value).parameters)
    test = example(name)
    assert len(test.examples) >= 1
    assert any(each.want for each in test.examples)
    problems: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=problems.append)
    assert problems == []


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_links_of_a_docstring_are_of_known_pages(name: str) -> None:
    text = inspect.getdoc(DOCUMENTED[name]) or ""
    for link in re.findall(r"https://\S+", text):
        if found := HEADER.fullmatch(link):
            assert found[1] in HEADERS
        elif link.startswith(PAGE):
            assert link.removeprefix(PAGE) in SECTIONS
        else:
            page = next(each for each in OTHER_PAGES if link.startswith(each))
            assert link.removeprefix(page).removesuffix(".html") in OTHER_PAGES[page]
        assert f"\nSee {link}" in text


WITHOUT_SECTION = {
    "collective_broadcast", "composite_call", "dynamic_reshape", "outfeed", "outfeed_with_token",
    "ragged_all_to_all", "ragged_dot", "roll", "scaled_dot", "scan", "stochastic_convert_type",
}  # fmt: skip
"""Operations that XLA's page does not describe, and `roll`, which is none."""

WITHOUT_LINK = {
    "lib.activations.gelu", "lib.activations.log_softmax", "lib.activations.logsumexp",
    "lib.activations.one_hot", "lib.activations.relu", "lib.activations.silu",
    "lib.activations.softmax", "lib.activations.softplus", "lib.factorizations.matrix_dimensions",
    "lib.factorizations.permutation_sign", "lib.factorizations.square_dimensions",
    "lib.special.chebyshev", "lib.special.in_double", "lib.special.logit",
    "lib.special.polynomial",
}  # fmt: skip
"""Functions of the library whose docstring is all there is of their semantics."""


def test_operations_name_their_section_of_the_page() -> None:
    linked = {name for name in ops.__all__ if PAGE in (getattr(ops, name).__doc__ or "")}
    assert linked == set(ops.__all__) - WITHOUT_SECTION


def test_functions_of_the_library_name_the_source_of_their_semantics() -> None:
    of_library = {name for name in DOCUMENTED if name.startswith("lib.")}
    linked = {name for name in of_library if "\nSee https://" in inspect.getdoc(DOCUMENTED[name])}
    assert of_library - linked == WITHOUT_LINK
