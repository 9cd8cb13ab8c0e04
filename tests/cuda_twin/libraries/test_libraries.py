"""Plans by the code that calls NVIDIA's libraries, over bindings on the host, beside the twin."""

import contextlib
import dataclasses
import gc
import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.cuda.checks import library_checks
from tests.cuda.checks.convolution_checks import SQUARE, convolution_plans
from tests.cuda.checks.library_checks import assert_right, buffers_of, plan_checks, run
from tests.cuda_twin import bindings
from tests.cuda_twin.bindings import cublas, cublas_lt, cudnn, cufft, cusolver_dn
from tests.cuda_twin.device.driver import SmallTwin, TwinDriver
from tests.cuda_twin.libraries.by_numpy import compute
from xla_contract.types.element_type import ElementType as E
from xla_server.backends.cuda.worker.device.driver import PreparedCall, Work
from xla_server.backends.cuda.worker.exchange.protocol import OutOfDeviceMemoryError
from xla_server.backends.cuda.worker.libraries import Libraries, LibraryError, cudnn_backend
from xla_server.codegen.gpu.plans.convolution_plans import ConvolutionPlan
from xla_server.codegen.gpu.plans.library_plans import CholeskyPlan, FftPlan, LibraryPlan
from xla_server.codegen.gpu.plans.solver_plans import (
    EigenPlan,
    LuPlan,
    QrPlan,
    SingularPlan,
    SolverPlan,
)

PACKAGE = "xla_server.backends.cuda.worker.libraries"
MODULES = tuple(
    f"{PACKAGE}.{name}"
    for name in (
        "cublaslt",
        "cublas",
        "cusolver",
        "cusolver_lapack",
        "cusolver_batches",
        "cufft",
        "cudnn",
    )
)
PLANS = [*library_checks.plans(), *convolution_plans()]
PRODUCT = library_checks.product(E.F32, E.F32, (1, 33, 17, 65), (False, False))


@pytest.fixture(autouse=True)
def bound(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the host's bindings be those that are imported."""
    package: Any = ModuleType("nvmath")
    package.bindings = bindings
    monkeypatch.setitem(sys.modules, "nvmath", package)
    monkeypatch.setitem(sys.modules, "nvmath.bindings", bindings)
    monkeypatch.setattr(cudnn_backend, "library", cudnn.Cudnn)
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield
    for name in MODULES:
        sys.modules.pop(name, None)


class Bound(TwinDriver):
    """The twin, with libraries by their bindings."""

    def __init__(self) -> None:
        super().__init__()
        self._libraries = Libraries(self)

    def prepare(self, plan: LibraryPlan) -> Any:
        return self._libraries.prepare(plan)

    def enqueue(self, work: Work, stream: int) -> None:
        if isinstance(work, PreparedCall):
            work.prepared.call(work.addresses, stream)
        else:
            super().enqueue(work, stream)


@pytest.mark.parametrize("part", range(8))
def test_plans_have_the_results_of_the_twin(part: int) -> None:
    for plan in PLANS[part::8]:
        driver, twin = Bound(), TwinDriver()
        given = buffers_of(plan)
        ours, theirs = (run(d, d.prepare(plan), given) for d in (driver, twin))
        assert_right(plan, ours, theirs)


def test_threads_share_what_is_prepared() -> None:
    *_, (name, check) = plan_checks(Bound())
    assert name == "threads"
    check()


def test_a_library_is_loaded_at_its_first_plan() -> None:
    libraries = Libraries(TwinDriver())
    libraries.prepare(FftPlan(E.C64, 1, (8,), is_inverse=False))
    assert [name for name in MODULES if name in sys.modules] == [f"{PACKAGE}.cufft"]


def test_what_no_library_computes_is_refused_before_one_is_loaded() -> None:
    with pytest.raises(LibraryError, match="element type must be c64 or c128, got f32"):
        Libraries(TwinDriver()).prepare(FftPlan(E.F32, 1, (8,), is_inverse=False))
    assert not [name for name in MODULES if name in sys.modules]


def test_descriptions_are_destroyed_with_what_was_prepared() -> None:
    before = len(cublas_lt.descriptions)
    prepared = Libraries(TwinDriver()).prepare(PRODUCT)
    assert len(cublas_lt.descriptions) == before + 4
    del prepared
    assert len(cublas_lt.descriptions) == before


@pytest.mark.parametrize(
    ("plan", "module", "name"),
    [
        (PRODUCT, cublas_lt, "create"),
        (FftPlan(E.C64, 1, (8,), is_inverse=False), cufft, "create"),
        (ConvolutionPlan(SQUARE), cudnn_backend, "library"),
    ],
)
def test_what_was_not_prepared_is_dropped_without_an_error(
    plan: LibraryPlan, module: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> None:
        raise OSError("no library")

    raised: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", raised.append)
    monkeypatch.setattr(module, name, refused)
    with contextlib.suppress(OSError, LibraryError):
        Libraries(TwinDriver()).prepare(plan)
    gc.collect()
    assert raised == []


@pytest.mark.parametrize(
    ("plan", "module", "name"),
    [
        (LuPlan(E.F32, 100, 4, 4), cublas, "sgetrf_batched"),
        (QrPlan(E.C64, 100, 4, 3), cublas, "cgeqrf_batched"),
        (EigenPlan(E.F64, 100, 4, True, True), cusolver_dn, "dsyevj_batched"),
        (SingularPlan(E.C64, 100, 4, 3, 4), cusolver_dn, "cgesvdj_batched"),
    ],
)
def test_a_batch_is_one_call(
    plan: SolverPlan, module: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    routine, batches = getattr(module, name), list[int]()

    def counted(*given: int) -> None:
        batches.append(given[-1])
        routine(*given)

    monkeypatch.setattr(module, name, counted)
    driver = Bound()
    run(driver, driver.prepare(plan), buffers_of(plan))
    assert batches == [100]


def test_a_product_without_an_algorithm_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*given: int) -> None:
        """Find nothing."""

    def refused(*given: int) -> None:
        raise cublas_lt.cuBLASLtError("not supported")

    for heuristic, message in ((none, "has no algorithm"), (refused, "not supported")):
        monkeypatch.setattr(cublas_lt, "matmul_algo_get_heuristic", heuristic)
        with pytest.raises(LibraryError, match=rf"product 1 x .*{message}"):
            Libraries(TwinDriver()).prepare(PRODUCT)


def test_a_transform_that_is_refused_names_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*given: Any) -> int:
        raise cufft.cuFFTError("invalid size")

    monkeypatch.setattr(cufft, "make_plan_many64", refused)
    with pytest.raises(LibraryError, match=r"Fourier transforms of c64, 1 x \[8\]: invalid size"):
        Libraries(TwinDriver()).prepare(FftPlan(E.C64, 1, (8,), is_inverse=False))


def convolution(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> tuple[cudnn.Cudnn, Any]:
    """Return a library and a convolution prepared by it, in full precision."""
    library = cudnn.Cudnn(**fields)
    monkeypatch.setattr(cudnn_backend, "library", lambda: library)
    return library, Libraries(TwinDriver()).prepare(ConvolutionPlan(SQUARE))


def test_the_engine_is_the_first_that_may_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = cudnn.Engine()
    refused = [cudnn.Engine((note,)) for note in range(9)]
    large = cudnn.Engine(workspace=1 << 40)
    missing = cudnn.Engine(is_supported=False)
    for engines in ({3: [*refused, large, missing, wanted], 2: []}, {3: refused, 2: [wanted]}):
        library, prepared = convolution(monkeypatch, engines=engines)
        run(Bound(), prepared, buffers_of(ConvolutionPlan(SQUARE)))
        assert library.used == [wanted]


def test_a_convolution_in_tf32_takes_tensor_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    library = cudnn.Cudnn({3: [cudnn.Engine((0,))], 2: []})
    monkeypatch.setattr(cudnn_backend, "library", lambda: library)
    rounding = dataclasses.replace(SQUARE, rounds_operands=True)
    Libraries(TwinDriver()).prepare(ConvolutionPlan(rounding))
    with pytest.raises(LibraryError, match=r"no engine that may be taken: TENSOR_CORE"):
        Libraries(TwinDriver()).prepare(ConvolutionPlan(SQUARE))


def test_convolutions_without_an_engine_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    engines = [cudnn.Engine((4, 5)), cudnn.Engine(workspace=1 << 40)]
    why = r"convolution forward of f32, .* NONDETERMINISTIC, WINOGRAD; a workspace of 1099511627776"
    with pytest.raises(LibraryError, match=why):
        convolution(monkeypatch, engines={3: engines, 2: []})


def test_descriptors_live_as_long_as_a_convolution(monkeypatch: pytest.MonkeyPatch) -> None:
    library, prepared = convolution(monkeypatch)
    before = len(library.descriptors)
    library.fails["cudnnBackendExecute"] = cudnn.EXECUTION_FAILED
    with pytest.raises(
        cudnn_backend.CudnnError,
        match=r"cudnnBackendExecute: CUDNN_STATUS_FAILED \(5000\): the last words",
    ):
        prepared.call((1 << 12, 2 << 12, 3 << 12, 4 << 12), 5)
    assert library.streams == [5]
    assert len(library.descriptors) == before
    del prepared
    assert not library.descriptors


def test_a_library_that_is_not_installed_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(cudnn_backend, "PACKAGE", "no_such_package.cudnn")
    assert not cudnn_backend.is_installed()
    with pytest.raises(LibraryError, match="cuDNN must be installed: pip install"):
        Libraries(TwinDriver()).prepare(ConvolutionPlan(SQUARE))


def test_memory_that_a_library_asks_for_is_given_back() -> None:
    driver = Bound()
    for plan in (FftPlan(E.C64, 2, (8,), False), CholeskyPlan(E.F32, 1, 5, is_lower=True)):
        run(driver, driver.prepare(plan), buffers_of(plan))
        assert driver.free_bytes() == driver.total_bytes


def test_a_library_without_memory_changes_nothing() -> None:
    driver = SmallTwin()
    plan = FftPlan(E.C64, 2, (8,), is_inverse=False)
    prepared = Libraries(driver).prepare(plan)
    stream = driver.new_stream()
    source, target = (driver.allocate(128, stream) for _ in range(2))
    taken = driver.allocate(driver.free_bytes(), stream)
    with pytest.raises(OutOfDeviceMemoryError):
        prepared.call((source, target), stream)
    driver.free(taken, stream)
    prepared.call((source, target), stream)


def test_the_twin_refuses_what_libraries_do() -> None:
    plan = FftPlan(E.F32, 1, (8,), is_inverse=False)
    with pytest.raises(ValueError, match="got f32"):
        TwinDriver().prepare(plan)
    with pytest.raises(ValueError, match="got f32"):
        compute(plan, ())
    with pytest.raises(ValueError, match="must be aligned, got 0x8"):
        compute(PRODUCT, (8, 16, 32, 48))


def test_spectra_must_be_real_at_their_ends() -> None:
    plan = FftPlan(E.C64, 1, (4,), is_inverse=True, is_real=True)
    given = buffers_of(plan)
    given.arrays[0][0, 2] += 1j
    with pytest.raises(ValueError, match="the ends of spectra must be real"):
        compute(plan, [_aligned(array) for array in given.arrays])


_KEPT: list[Any] = []


def _aligned(array: Any) -> int:
    memory = np.empty(array.nbytes + 16, np.uint8)
    _KEPT.append(memory)
    at = -memory.ctypes.data % 16
    memory[at : at + array.nbytes] = array.reshape(-1).view(np.uint8)
    return int(memory.ctypes.data + at)


def test_every_library_has_its_module() -> None:
    for name in MODULES:
        importlib.import_module(name)
