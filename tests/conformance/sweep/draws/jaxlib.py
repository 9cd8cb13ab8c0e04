"""Groups of calls of JAX's functions, by our evaluators and by jaxlib's CPU backend."""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tests.conformance.oracle import evaluated
from tests.conformance.sweep.draws.depth import FULL
from tests.corpus.jax.calls.values import Builder, merged
from xla_contract.stubs import hlo_pb2
from xla_contract.types.element_type import ElementType

STRIDE = 40
"""One call of so many in a group runs in the fixed slice without x64, another one with it."""
FIRST = {False: 5, True: 25}
"""The first of them, without x64 and with it."""
WRITTEN_FOR = "0.10.2"
"""The JAX whose names the corpus knows; another one may have more."""

TOLERANCE = {2: 2e-2, 4: 4e-5, 8: 1e-10}
"""Tolerances by the bytes of a float: relative to each number and to the largest one of its
array.
"""
IN_F32 = {**TOLERANCE, 8: TOLERANCE[4]}
"""For what computes in f32 whatever the type of its arguments."""


def check(build: Builder, *, x64: bool, tolerance: Mapping[int, float] = TOLERANCE) -> None:
    """Assert that every call gives jaxlib's numbers; all differences are in one message."""
    wrong = []
    for name, call in _chosen(build(), x64).items():
        try:
            _check_one(call, x64, tolerance)
        except Exception as error:
            lines = str(error).strip().splitlines() or [""]
            wrong.append(f"{name}: {type(error).__name__}: " + " | ".join(lines[:12]))
    assert not wrong, "\n".join([f"{len(wrong)} calls differ from jaxlib's", *wrong])


def _chosen(calls: dict[str, Any], x64: bool) -> dict[str, Any]:
    if FULL:
        return calls
    return dict(list(calls.items())[FIRST[x64] :: STRIDE])


def _check_one(call: tuple[Any, ...], x64: bool, tolerance: Mapping[int, float]) -> None:
    import jax

    function, *arguments = call
    with jax.enable_x64(x64):
        lowered = jax.jit(function).lower(*arguments)
        data = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
        proto = hlo_pb2.HloModuleProto.FromString(data)
        theirs = [np.asarray(leaf) for leaf in jax.tree.leaves(lowered.compile()(*arguments))]
        leaves = [np.asarray(jax.numpy.asarray(leaf)) for leaf in jax.tree.leaves(arguments)]
    # JAX leaves parameters out that nothing reads.
    if not proto.host_program_shape.parameters:
        leaves = []
    for ours, wanted in zip(evaluated(proto, leaves), theirs, strict=True):
        compare(ours, wanted, tolerance)


def compare(ours: Any, theirs: Any, tolerance: Mapping[int, float] = TOLERANCE) -> None:
    """Same type and dimensions; integers and predicates equal, floats within the tolerance."""
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    if ours.dtype.kind in "biu" or ElementType.from_dtype(ours.dtype).is_integer:
        np.testing.assert_array_equal(ours.astype(object), theirs.astype(object))
        return
    is_complex = ours.dtype.kind == "c"
    bytes_each = max(2, ours.dtype.itemsize // (2 if is_complex else 1))
    wide = np.complex128 if is_complex else np.float64
    ours, theirs = ours.astype(wide), theirs.astype(wide)
    finite = np.abs(theirs[np.isfinite(theirs)])
    bound = tolerance[bytes_each]
    np.testing.assert_allclose(
        ours, theirs, rtol=bound, atol=bound * finite.max(initial=np.float64(1e-30))
    )


def assert_total(
    modules: Mapping[str, Any], builders: Iterable[Builder], not_a_program: Mapping[str, str]
) -> None:
    """Assert that every public callable of the modules has a call or a reason to have none.

    `modules` maps the prefix that names have in the corpus to a module.
    """
    import jax

    called = {name.partition("/")[0] for name in merged(builders)}
    both = sorted(called & set(not_a_program))
    assert not both, f"these have calls, and reasons to have none: {' '.join(both)}"
    if jax.__version__ != WRITTEN_FOR:
        return
    public = {prefix + name for prefix, part in modules.items() for name in _callables(part)}
    missing = sorted(public - called - set(not_a_program))
    assert not missing, f"neither a call nor a reason to have none: {' '.join(missing)}"
    gone = sorted(set(not_a_program) - public)
    assert not gone, f"reasons for names that are not there: {' '.join(gone)}"


def _callables(module: Any) -> Iterable[str]:
    for name in dir(module):
        value = getattr(module, name)
        is_type = inspect.isclass(value) and (
            hasattr(value, "dtype") or issubclass(value, np.generic)
        )
        is_primitive = name.endswith("_p")
        if callable(value) and not name.startswith("_") and not is_type and not is_primitive:
            yield name
