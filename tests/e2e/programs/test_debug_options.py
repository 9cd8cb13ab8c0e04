"""Compilations as clients see them, over real servers: dumps, passes, profiles, refusals."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xla_client as xc
from tests.e2e.process import start_server
from xla_client import Builder, Computation, Shape, ops

LIMIT = 1 << 20


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("operator") / "dumps"


@pytest.fixture(scope="module")
def cpu(tmp_path_factory: pytest.TempPathFactory, dumps: Path) -> Iterator[xc.Client]:
    directory = tmp_path_factory.mktemp("cpu")
    flags = ("--platform", "cpu", "--dump-dir", str(dumps), "--compilation-cache-dir", "")
    flags += ("--identity-share", "1", "--connection-share", "1")
    with (
        start_server(directory, *flags, "--max-device-bytes", str(LIMIT)) as running,
        xc.connect(running.address, timeout=120) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[xc.Client, Path]]:
    directory = tmp_path_factory.mktemp("interpreter")
    root = directory / "dumps"
    with (
        start_server(directory, "--platform", "interpreter", "--dump-dir", str(root)) as running,
        xc.connect(running.address, timeout=60) as client,
    ):
        yield client, root


def program(name: str, size: int = 8) -> Computation:
    """x -> 2 tanh(x) + x, with something for simplification."""
    builder = Builder(name)
    x = builder.parameter(0, Shape.parse(f"f32[{size}]"), "x")
    return builder.build(ops.tanh(x * 1.0) * 2.0 + x)


X = np.linspace(-1, 1, 8, dtype=np.float32)


def files(root: Path, name: str) -> list[str]:
    return sorted(path.relative_to(root / name).as_posix() for path in (root / name).rglob("*.*"))


def test_a_dump_shows_modules_kernels_and_buffers(cpu: xc.Client, dumps: Path) -> None:
    options = {
        "xla_dump_to": "all",
        "xla_dump_hlo_pass_re": "algsimp|fusion",
        "xla_dump_hlo_as_text": True,
        "xla_dump_hlo_as_proto": True,
        "xla_dump_hlo_as_dot": True,
        "xla_dump_hlo_as_html": True,
    }
    found = cpu.compile(program("seen"), debug_options=options).run(X)
    np.testing.assert_allclose(found, 2 * np.tanh(X) + X, rtol=1e-5)
    directory, *names = files(dumps, "all")
    assert directory == "module_0001.seen"
    for part in ("00.input", "01.algsimp", "optimised"):
        for kind in ("txt", "pb", "dot", "html"):
            assert [name for name in names if name.endswith(f"{part}.{kind}")], (part, kind)
    assert any("/kernel_00." in name for name in names)
    text = (dumps / "all" / directory / "module_00.input.txt").read_text()
    assert text.startswith("HloModule seen")
    assert "value" in (dumps / "all" / directory / "buffers.txt").read_text()


def test_a_dump_by_itself_is_text_of_the_first_and_last_module(cpu: xc.Client, dumps: Path) -> None:
    cpu.compile(program("plain"), debug_options={"xla_dump_to": "plain"})
    cpu.compile(
        program("other"), debug_options={"xla_dump_to": "plain", "xla_dump_hlo_module_re": "^pl"}
    )
    names = [name.rpartition("/")[2] for name in files(dumps, "plain")[1:]]
    modules = [name for name in names if name.startswith("module_")]
    assert modules == ["module_00.input.txt", "module_01.optimised.txt"]


BAD_NAMES = ["/tmp/x", "..", "../x", "a/b", "link", ".x"]


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
def test_dumps_go_nowhere_else(
    cpu: xc.Client,
    interpreter: tuple[xc.Client, Path],
    dumps: Path,
    tmp_path: Path,
    platform: str,
    name: str,
) -> None:
    client, root = (cpu, dumps) if platform == "cpu" else interpreter
    link = root / "link"
    link.unlink(missing_ok=True)
    link.symlink_to(tmp_path)
    with pytest.raises(xc.InvalidArgumentError, match="xla_dump_to must be the name of a dir"):
        client.compile(program("escaping"), debug_options={"xla_dump_to": name})
    assert not list(tmp_path.iterdir())


def test_the_interpreter_dumps_what_came_and_ignores_passes(
    interpreter: tuple[xc.Client, Path],
) -> None:
    client, root = interpreter
    options: dict[str, Any] = {
        "xla_dump_to": "mine",
        "xla_disable_hlo_passes": ["algsimp"],
        "xla_backend_optimization_level": 0,
        "xla_hlo_profile": True,
    }
    np.testing.assert_allclose(
        client.compile(program("plain"), debug_options=options).run(X), 2 * np.tanh(X) + X, 1e-5
    )
    assert files(root, "mine") == ["module_0001.plain", "module_0001.plain/module_00.input.txt"]


def test_a_server_without_a_directory_says_how_to_get_one(tmp_path: Path) -> None:
    with (
        start_server(tmp_path, "--platform", "interpreter") as running,
        xc.connect(running.address, timeout=60) as client,
        pytest.raises(xc.InvalidArgumentError, match="without a directory for dumps") as caught,
    ):
        client.compile(program("plain"), debug_options={"xla_dump_to": "mine"})
    assert "--dump-dir" in caught.value.hint


def test_passes_are_left_out_by_name_and_level(cpu: xc.Client, dumps: Path) -> None:
    expected = cpu.compile(program("whole")).run(X)
    choices: dict[str, dict[str, Any]] = {
        "named": {"xla_disable_hlo_passes": ["algsimp", "loop-fusion"]},
        "none": {"xla_backend_optimization_level": 0},
        "all": {"xla_disable_all_hlo_passes": True},
    }
    for name, choice in choices.items():
        options = {"xla_dump_to": f"left-{name}", "xla_dump_hlo_pass_re": "."} | choice
        found = cpu.compile(program("parted"), debug_options=options).run(X)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        names = " ".join(files(dumps, f"left-{name}"))
        assert "algsimp" not in names
        assert "loop-fusion" not in names


def test_needed_passes_stay_and_the_refusal_names_the_others(cpu: xc.Client) -> None:
    with pytest.raises(xc.InvalidArgumentError, match="batch-norm-expander") as caught:
        cpu.compile(program("m"), debug_options={"xla_disable_hlo_passes": ["batch-norm-expander"]})
    assert "loop-fusion" in caught.value.hint


def test_the_profile_of_an_execution_has_real_figures(cpu: xc.Client) -> None:
    computation = program("figures", 1000)
    for is_known in (False, True):
        run = cpu.compile(computation).submit(np.zeros(1000, np.float32))
        run.result()
        profile = run.profile
        assert profile.compilation_cache_hit is is_known
        assert (profile.compile_time_ms == 0) is is_known
        assert profile.compute_cycle_count > 0
        assert 0 < profile.compute_time_ns <= profile.compute_and_transfer_time_ns
        assert profile.executable_size_in_bytes > 100


def test_the_time_of_each_step_is_written_beside_the_dump(cpu: xc.Client, dumps: Path) -> None:
    options = {"xla_dump_to": "profiles", "xla_hlo_profile": True}
    executable = cpu.compile(program("timed"), debug_options=options)
    for _ in range(2):
        executable.run(X)
    names = [name.rpartition("/")[2] for name in files(dumps, "profiles")]
    assert {f"profile_000{n}.{kind}" for n in (1, 2) for kind in ("txt", "json")} <= set(names)
    (trace,) = (dumps / "profiles").rglob("profile_0002.json")
    assert json.loads(trace.read_text())["traceEvents"][0]["dur"] > 0
    with pytest.raises(xc.InvalidArgumentError, match="xla_hlo_profile must come with"):
        cpu.compile(program("timed"), debug_options={"xla_hlo_profile": True})


def test_what_cannot_fit_is_refused_when_it_is_compiled(cpu: xc.Client) -> None:
    builder = Builder("large")
    x = builder.parameter(0, Shape.parse("f32[100,1000]"))
    with pytest.raises(xc.ResourceExhaustedError, match=r"1048576 bytes .* got \d+ bytes at once"):
        cpu.compile(builder.build(ops.tuple([x * 2.0, x * 3.0])))


def test_what_does_not_fit_beside_what_is_kept_is_refused_when_it_runs(cpu: xc.Client) -> None:
    executable = cpu.compile(program("running", 50_000))
    argument = cpu.to_device(np.ones(50_000, np.float32))
    kept = cpu.to_device(np.ones(170_000, np.float32))
    with pytest.raises(xc.ResourceExhaustedError, match="200000 of results") as caught:
        executable(argument)
    assert re.search(r"with 8\d{5} in use", caught.value.message)
    kept.delete()
    np.testing.assert_allclose(executable(argument).to_numpy()[0], 2 * np.tanh(1) + 1, rtol=1e-5)


def test_what_is_dumped_is_for_the_server_s_user_alone(tmp_path: Path) -> None:
    root = tmp_path / "dumps"
    before = os.umask(0)
    try:
        with (
            start_server(tmp_path, "--dump-dir", str(root)) as running,
            xc.connect(running.address, timeout=120) as client,
        ):
            options = {"xla_dump_to": "mine", "xla_hlo_profile": True}
            client.compile(program("private"), debug_options=options).run(X)
    finally:
        os.umask(before)
    made = [root, *root.rglob("*")]
    assert any(path.name.startswith("profile_") for path in made)
    for path in made:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path
