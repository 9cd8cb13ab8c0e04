"""A missing driver, device or library is reported in a sentence; a driver of the test answers."""

from typing import Any

import pytest

from xla_server.backends.cuda import probe
from xla_server.backends.cuda.probe import MissingError, devices_of
from xla_server.backends.cuda.worker.exchange.protocol import NoDeviceError
from xla_server.backends.cuda.workers import read_count


class Driver:
    """A driver of a version, with devices of compute capabilities; calls end with a code."""

    def __init__(
        self, *capabilities: tuple[int, int], version: int = 13_000, code: int = 0
    ) -> None:
        self.capabilities, self.version, self.code = capabilities, version, code

    def cuDriverGetVersion(self, number: Any) -> int:  # noqa: N802
        number._obj.value = self.version
        return 0

    def cuInit(self, flags: int) -> int:  # noqa: N802
        assert flags == 0
        return self.code

    def cuDeviceGetCount(self, number: Any) -> int:  # noqa: N802
        number._obj.value = len(self.capabilities)
        return 0

    def cuDeviceGetAttribute(self, number: Any, attribute: int, ordinal: int) -> int:  # noqa: N802
        number._obj.value = self.capabilities[ordinal][{75: 0, 76: 1}[attribute]]
        return 0


def test_devices_are_counted() -> None:
    assert devices_of(Driver((9, 0), (8, 0))) == 2


@pytest.mark.parametrize(
    ("driver", "sentence"),
    [
        (Driver((9, 0), version=12_080), "driver of CUDA 13.0 or later, got one of CUDA 12.8"),
        (Driver(), "needs a GPU, got none that the driver sees"),
        (Driver((9, 0), code=100), "needs a GPU, got none that the driver sees"),
        (Driver((9, 0), code=999), "needs a driver that works, got its error 999"),
        (Driver((9, 0), (7, 5)), r"capability 8.0 or later, got GPU 1 of 7.5"),
    ],
)
def test_what_is_missing_is_reported(driver: Driver, sentence: str) -> None:
    with pytest.raises(MissingError, match=f"^platform cuda .*{sentence}"):
        devices_of(driver)


@pytest.mark.parametrize(
    ("library", "module", "sentence"),
    [
        ("libno-such.so.1", "cuda.bindings", "needs NVIDIA's driver, got no libno-such.so.1: "),
        ("libc.so.6", "no_such", r"pip install 'xla-service\[cuda\]'; No module named 'no_such'"),
    ],
)
def test_the_line_has_the_sentence(
    library: str,
    module: str,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(probe, "LIBRARY", library)
    monkeypatch.setattr(probe, "BINDINGS", module)
    probe.main()
    with pytest.raises(NoDeviceError, match=sentence):
        read_count(capsys.readouterr().out)


def test_the_line_has_the_count(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(probe, "_library", lambda: Driver((9, 0)))
    probe.main()
    assert read_count(capsys.readouterr().out) == 1


def test_a_process_that_says_nothing_has_no_device() -> None:
    with pytest.raises(NoDeviceError, match="must say what devices it has"):
        read_count("")
