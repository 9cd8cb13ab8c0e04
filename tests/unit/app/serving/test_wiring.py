"""Settings that cannot be combined, with errors that say what to set instead."""

import contextlib
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.unit.threads import no_threads
from xla_contract.errors import ResourceExhaustedError
from xla_server.app import platforms
from xla_server.app.endings import ConfigurationError
from xla_server.app.options.platform_names import Platform
from xla_server.app.options.settings import Settings
from xla_server.app.platforms import PLATFORMS
from xla_server.app.serving.wiring import create_server, device_bytes
from xla_server.backends.interpreter import Interpreter


def refused(rule: str, **options: Any) -> None:
    settings = Settings(**({"listen": "127.0.0.1:0", "platform": "interpreter"} | options))
    with (
        pytest.raises(ConfigurationError, match=rule),
        contextlib.ExitStack() as stack,
    ):
        stack.enter_context(create_server(settings))


def test_every_platform_that_can_be_named_is_there() -> None:
    assert set(Platform) == set(PLATFORMS)


def test_memory_is_what_is_set_or_what_the_devices_have() -> None:
    default = Settings(platform="interpreter")
    host, devices = Interpreter(), Interpreter()
    devices.memory_bytes = 10**15  # type: ignore[misc, assignment]
    assert device_bytes(default, host) == default.max_device_bytes
    assert device_bytes(default, devices) == 10**15
    assert device_bytes(Settings(max_device_bytes=7), devices) == 7


def test_all_devices_are_those_that_can_be_counted() -> None:
    refused("^devices: must be a number .* got all on interpreter", devices="all")


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (None, "ModuleNotFoundError: No module named"),
        ("import no_such_library", "ModuleNotFoundError: .*no_such_library"),
        ("def register(registry):\n    raise ValueError('not so')", "ValueError: not so"),
        ("", "register"),
    ],
)
def test_a_module_of_custom_calls_that_fails_is_named(
    text: str | None, rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"operators_calls_{tmp_path.name.replace('-', '_')}"
    if text is not None:
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    refused(f"^custom_calls: module {name}: .*{rule}", custom_calls=(name,))


def test_a_directory_for_dumps_must_be_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: list[tuple[object, int]] = []

    def forbidden(path: object, mode: int) -> bool:
        requested.append((path, mode))
        return False

    # Whoever runs the tests may be allowed everything.
    monkeypatch.setattr(platforms.os, "access", forbidden)
    tmp_path.chmod(0o500)
    rule = f"^dump_dir: {tmp_path}: the server must be able to write there, got mode dr-x------ "
    rule += f"of user {os.geteuid()} as user {os.geteuid()}$"
    refused(rule, dump_dir=str(tmp_path))
    assert requested == [(tmp_path, os.W_OK | os.X_OK)]


def test_a_directory_for_dumps_is_writable_for_no_other_user(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    rule = "others must not be able to replace what is written, got mode 777"
    refused(f"^dump_dir: {tmp_path}: {rule}$", dump_dir=str(tmp_path))


def test_a_cache_of_kernels_is_writable_for_no_other_user(tmp_path: Path) -> None:
    directory = tmp_path / "kernels"
    directory.mkdir()
    directory.chmod(0o777)
    refused(
        f"^compilation_cache_dir: no other user may write .*got {directory} with mode 777$",
        platform="cpu",
        compilation_cache_dir=str(directory),
    )


def test_a_server_that_may_start_too_few_threads_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All numbers of threads from 0 on, until the server starts."""
    settings = Settings(listen=f"unix:{tmp_path}/s", platform="interpreter")
    start, left, refusals = threading.Thread.start, [0], list[str]()

    def start_some(thread: threading.Thread) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_some)
    for number in range(100):
        left[0] = number
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(create_server(settings))
                break
            except ResourceExhaustedError as error:
                refusals.append(error.message)
    assert len(refusals) > 4
    assert all("must be able to start threads" in refusal for refusal in refusals)


def test_launched_executions_have_a_thread_where_the_system_refuses_more(tmp_path: Path) -> None:
    settings, done = (
        Settings(listen=f"unix:{tmp_path}/s", platform="interpreter"),
        threading.Event(),
    )
    with create_server(settings) as server, no_threads():
        server._sessions.open().service.submit(done.set)
        assert done.wait(100)
