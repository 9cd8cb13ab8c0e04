"""LAPACK's routines, and one of BLAS, as kernels call them: by name, with addresses.

They are column-major: a row-major matrix is its transpose to them.
"""

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xla_server.codegen.instructions.blas import alloca_i32, cython_lapack, routine
from xla_server.codegen.kernel_ir.routine import Cost, Parameter, Routine, Unit
from xla_server.custom_calls.linear_algebra.lapack import queried, routine_address

LETTER = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}
"""The first letter of the routines of each type."""

_SIDES = ("side", "uplo", "transa", "diag", "m", "n", "alpha", "trans", "k", "nrhs")
_JOBS = ("jobu", "jobvl", "jobvr", "jobvs", "jobvt", "jobz", "sort", "select", "ilo", "ihi")
_OF_ARRAYS = (
    *("lda", "ldb", "ldc", "ldu", "ldvl", "ldvr", "ldvs", "ldvt"),
    *("liwork", "lrwork", "lwork"),
)
_NUMBERS = frozenset((*_SIDES, *_JOBS, *_OF_ARRAYS))
_FACTORS, _WORK = ("m", "n", "a", "lda"), ("work", "lwork")
_SINGULAR = (*_FACTORS, "s", "u", "ldu", "vt", "ldvt", *_WORK)


def _families(*, is_complex: bool) -> Mapping[str, tuple[str, ...]]:
    """The names that LAPACK gives the parameters of routines, by their names without the letter."""
    unitary, symmetric = ("un", "he") if is_complex else ("or", "sy")
    values, reals = (("w",), ("rwork",)) if is_complex else (("wr", "wi"), ())
    sizes = ("rwork", "lrwork") if is_complex else ()
    return {
        "geev": (
            *("jobvl", "jobvr", "n", "a", "lda", *values, "vl", "ldvl", "vr", "ldvr"),
            *(*_WORK, *reals, "info"),
        ),
        "gees": (
            *("jobvs", "sort", "select", "n", "a", "lda", "sdim", *values, "vs", "ldvs"),
            *(*_WORK, *reals, "bwork", "info"),
        ),
        "gehrd": ("n", "ilo", "ihi", "a", "lda", "tau", *_WORK, "info"),
        "geqp3": (*_FACTORS, "jpvt", "tau", *_WORK, *reals, "info"),
        "geqrf": (*_FACTORS, "tau", *_WORK, "info"),
        "gesdd": ("jobz", *_SINGULAR, *reals, "iwork", "info"),
        "gesvd": ("jobu", "jobvt", *_SINGULAR, *reals, "info"),
        "getrf": (*_FACTORS, "ipiv", "info"),
        "gtsv": ("n", "nrhs", "dl", "d", "du", "b", "ldb", "info"),
        "potrf": ("uplo", "n", "a", "lda", "info"),
        "trsm": ("side", "uplo", "transa", "diag", "m", "n", "alpha", "a", "lda", "b", "ldb"),
        f"{unitary}gqr": ("m", "n", "k", "a", "lda", "tau", *_WORK, "info"),
        f"{unitary}mqr": (
            *("side", "trans", "m", "n", "k", "a", "lda", "tau", "c", "ldc", *_WORK, "info"),
        ),
        f"{symmetric}evd": (
            *("jobz", "uplo", "n", "a", "lda", "w", *_WORK, *sizes, "iwork", "liwork", "info"),
        ),
        f"{symmetric}trd": ("uplo", "n", "a", "lda", "d", "e", "tau", *_WORK, "info"),
    }


_COST: Mapping[str, Cost] = {
    **dict.fromkeys(("eev", "ees"), lambda n: 25 * n["n"] ** 3),
    "evd": lambda n: 9 * n["n"] ** 3,
    "trd": lambda n: 2 * n["n"] ** 3,
    "hrd": lambda n: 4 * n["n"] ** 3,
    "trf": lambda n: n.get("m", n["n"]) * n["n"] * min(n.get("m", n["n"]), n["n"]),
    "qrf": lambda n: 2 * n["m"] * n["n"] * min(n["m"], n["n"]),
    "qp3": lambda n: 4 * n["m"] * n["n"] * min(n["m"], n["n"]),
    **dict.fromkeys(("sdd", "svd"), lambda n: 20 * n["m"] * n["n"] * min(n["m"], n["n"])),
    "tsv": lambda n: 8 * n["n"] * n["nrhs"],
    "rsm": lambda n: n["m"] * n["n"] * n["lda"],
    "gqr": lambda n: 2 * n["m"] * n["n"] * n["k"],
    "mqr": lambda n: 4 * n["m"] * n["n"] * n["k"],
}
"""The times of routines in additions, by the ends of their names and the values of numbers."""

_READ = {("trsm", "a"), ("gqr", "tau"), ("mqr", "a"), ("mqr", "tau")}
"""Arrays that routines do not write, by the end of the routine's name."""


def _routine(name: str, names: Sequence[str]) -> Routine:
    """Return a routine, whose parameters are all addresses."""
    arguments = [
        Parameter(
            each,
            Unit.READ
            if each in _NUMBERS or (name[-3:], each) in _READ or (name[-4:], each) in _READ
            else Unit.UPDATE,
        )
        for each in names
    ]
    return Routine(name, tuple(arguments), cost=_COST[name[-3:]])


ROUTINES: Mapping[str, Routine] = {
    letter + family: _routine(letter + family, names)
    for computed, letter in LETTER.items()
    for family, names in _families(is_complex=computed[0] == "c").items()
}
"""Every routine by LAPACK's name."""

LAPACK: dict[str, Any] = {"alloca_i32": alloca_i32, **{name: routine(name) for name in ROUTINES}}
"""The functions of routines by their names in kernels, and the slots of their numbers."""


def workspace(name: str, arguments: Mapping[str, int | np.dtype[Any]]) -> dict[str, int]:
    """Return the elements that each workspace of a routine needs, by a workspace query.

    `arguments` has numbers and options by names of parameters, and for each workspace whose size is
    a parameter its type.
    """
    dtypes = {name: each for name, each in arguments.items() if isinstance(each, np.dtype)}
    if not dtypes:
        return {}
    arrays = {name: np.zeros(1, dtype) for name, dtype in dtypes.items()}
    arrays |= {f"l{name}": np.array([-1], np.int32) for name in dtypes}
    for parameter in ROUTINES[name].names:
        if parameter not in arrays:
            arrays[parameter] = np.array([arguments.get(parameter, 0), 0, 0, 0], np.int32)
    signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays))
    ask = signature(routine_address(cython_lapack, name))
    ask(*(arrays[parameter].ctypes.data for parameter in ROUTINES[name].names))
    return {array: queried((arrays[array][0], 0))[0] for array in dtypes}
