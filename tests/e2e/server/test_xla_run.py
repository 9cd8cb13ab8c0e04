"""xla-run: programs from files on arrays from files, here and on a server."""

from collections.abc import Iterator
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from typer.testing import CliRunner

from tests.device_programs import device_program
from tests.e2e.process import ServerProcess, start_server
from xla_contract.types.shape import Shape
from xla_server.app.run_tool.command import app

AXPY = """HloModule axpy
ENTRY e {
  x = f32[3] parameter(0)
  y = f32[3] parameter(1)
  s = f32[3] add(x, y)
  d = f32[3] subtract(x, y)
  ROOT r = (f32[3], f32[3]) tuple(s, d)
}
"""
X, Y = np.float32([1, 2, 3]), np.float32([10, 20, 30])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("server")
    token = directory / "token"
    token.write_text("secret-of-the-test")
    flags = ("--platform", "interpreter", "--devices", "2", "--token-file", str(token))
    with start_server(directory, *flags, insecure=False) as running:
        yield running


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("axpy.hlo").write_text(AXPY)
    np.save("x.npy", X)
    np.save("y.npy", Y)
    np.savez("both.npz", y=Y, x=X)


def run(*arguments: object, piped: str | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(each) for each in arguments], input=piped)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


LOCAL = ("--platform", "interpreter")


@pytest.mark.parametrize("place", ["cpu", "interpreter", "server"])
def test_arrays_go_in_and_out_as_files(place: str, server: ServerProcess) -> None:
    where = ("--platform", place)
    if place == "server":
        where = ("--target", server.address, "--token-file", server.log.parent / "token")
    files = ("--input", "x.npy", "--input", "y.npy", "--output", "s.npy", "--output", "d.npy")
    assert run("axpy.hlo", *files, *where) == (0, "")
    np.testing.assert_array_equal(np.load("s.npy"), X + Y)
    np.testing.assert_array_equal(np.load("d.npy"), X - Y)


def test_one_npz_has_all_arguments_by_name_and_one_all_results() -> None:
    assert run("axpy.hlo", "--input", "both.npz", "--output", "out.npz", *LOCAL) == (0, "")
    with np.load("out.npz") as results:
        np.testing.assert_array_equal(results["result_0"], X + Y)
        np.testing.assert_array_equal(results["result_1"], X - Y)


def test_results_are_printed_where_no_file_takes_them() -> None:
    code, output = run("-", "--input", "x.npy", "--input", "y.npy", *LOCAL, piped=AXPY)
    assert (code, output) == (0, "f32[3]\n[11. 22. 33.]\nf32[3]\n[ -9. -18. -27.]\n")


SUMMED = """HloModule summed%s
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[3] parameter(0)
  ROOT s = f32[3] all-reduce(x), replica_groups={}, to_apply=add
}
"""


@pytest.mark.parametrize("place", ["cpu", "interpreter", "server"])
@pytest.mark.parametrize(
    ("header", "flags", "count"),
    [
        ("", ("--replicas", 2), 2),
        (", replica_count=2", (), 2),
        (", replica_count=2", ("--replicas", 1), 1),
    ],
)
def test_a_program_runs_on_all_its_devices(
    place: str, header: str, flags: tuple[object, ...], count: int, server: ServerProcess
) -> None:
    Path("summed.hlo").write_text(SUMMED % header)
    where = ("--platform", place)
    if place == "server":
        where = ("--target", server.address, "--token-file", server.log.parent / "token")
    files = ("--input", "x.npy", "--output", "s.npy")
    assert run("summed.hlo", *files, *flags, *where) == (0, "")
    np.testing.assert_array_equal(np.load("s.npy"), count * X)


@pytest.mark.parametrize("form", ["lowered", "spmd"])
def test_values_in_tiles_are_whole_in_files(form: str) -> None:
    stored = device_program("psum_scatter_dim1_axis_b")
    Path("m.pb").write_bytes(getattr(stored, form))
    [argument], [result] = stored.arguments, stored.results
    np.save("x.npy", argument.whole)
    assert run("m.pb", "--input", "x.npy", "--output", "r.npy", *LOCAL) == (0, "")
    found = np.load("r.npy")
    shape = Shape.array("f32", found.shape)
    result.check([found[result.sharding.slices(shape, part)] for part in range(8)])


def test_random_arguments_are_those_of_the_seed() -> None:
    first, again, other = (run("axpy.hlo", "--random", seed, *LOCAL) for seed in (1, 1, 2))
    assert first[0] == 0
    assert first == again != other


@pytest.mark.parametrize("reference", ["jax", "interpreter"])
def test_a_comparison_says_how_far_each_result_is(reference: str) -> None:
    code, output = run("axpy.hlo", "--random", 1, "--compare", reference, "--time", *LOCAL)
    times, *lines = output.splitlines()
    assert code == 0, output
    assert times.startswith("compile: ")
    assert lines == [
        f"result {n} against {reference}: largest difference 0, relative 0" for n in range(2)
    ]


def test_narrow_types_pass_through_files() -> None:
    Path("b.hlo").write_text("HloModule b\nENTRY e { ROOT x = bf16[2] parameter(0) }")
    np.save("b.npy", np.asarray([1.5, -2], ml_dtypes.bfloat16))
    assert run("b.hlo", "--input", "b.npy", "--output", "out.npy", *LOCAL) == (0, "")
    assert np.load("out.npy").view(ml_dtypes.bfloat16).tolist() == [1.5, -2]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["axpy.hlo"], 2, "parameter 0 (x) must have an --input, got none for f32[3]"),
        (["axpy.hlo", "--input", "wide.npy"], 2, "must be f32[3], got float64[3] of wide.npy"),
        (["axpy.hlo", "--input", "long.npy"], 2, "parameter 0 (x) from long.npy: a value must fit"),
        (["axpy.hlo", "--input", "both.npz", "--input", "x.npy"], 2, "got 1 more than the 2 of"),
        (["axpy.hlo", "--input", "away.npy"], 2, "away.npy: No such file or directory"),
        (["axpy.hlo", "--input", "text.npy"], 2, "text.npy: it must be a file of numpy's"),
        (["axpy.hlo", "--random", 1, "--output", "one.npy"], 2, "an output file for each result"),
        (["axpy.hlo", "--random", 1, "--compare", "torch"], 2, "--compare must be jax or"),
        (["axpy.hlo", "--random", 1, "--platform", "tpu"], 2, "--platform must be cpu or"),
        (["away.hlo"], 2, "away.hlo: No such file or directory"),
        (["bad.hlo"], 2, "bad.hlo:2:1: "),
        (["fed.hlo"], 1, "infeed"),
        (["axpy.hlo", "--random", 1, "--replicas", 2, "--compare", "jax"], 1, "on one device, got"),
        (["lu.hlo", "--random", 1, "--compare", "jax"], 1, "jax must be able to run it, got "),
        (["axpy.hlo", "--random", 1, "--target", "unix:/nowhere"], 1, "no server answers at unix:"),
        (
            ["axpy.hlo", "--random", 1, "--target", "h.example:1", "--token-file", "bad.hlo"],
            2,
            "a token must not go to another machine in plaintext",
        ),
    ],
)
def test_mistakes_are_one_line_and_a_status(arguments: list[object], code: int, words: str) -> None:
    np.save("wide.npy", X.astype(np.float64))
    np.save("long.npy", np.zeros(4, np.float32))
    Path("text.npy").write_text("1 2 3")
    Path("bad.hlo").write_text("HloModule m\n}")
    Path("fed.hlo").write_text(
        "HloModule f\nENTRY e { t = token[] after-all()\n"
        "i = (f32[3], token[]) infeed(t) ROOT x = f32[3] get-tuple-element(i), index=0 }"
    )
    Path("lu.hlo").write_text(
        "HloModule l\nENTRY e { a = f32[3,3] parameter(0) ROOT r = (f32[3,3], s32[3], s32[3]) "
        'custom-call(a), custom_call_target="LuDecomposition" }'
    )
    found, output = run(*arguments, *([] if "--platform" in arguments else LOCAL))
    assert found == code, output
    assert words in output
    assert output.startswith("xla-run: ")
    assert output.count("\n") == 1


def test_a_server_s_error_is_a_line(server: ServerProcess) -> None:
    code, output = run("axpy.hlo", "--random", 1, "--target", server.address)
    assert code == 1
    assert "must carry credentials" in output
    assert output.count("\n") == 1


def test_results_that_are_not_finite_on_one_side_are_reported() -> None:
    from xla_server.app.run_tool.comparison import compared

    ours, theirs = np.float32([1, np.nan, np.inf]), np.float32([1.5, np.nan, 2])
    [(line, fits)] = compared([ours], [theirs], "jax")
    assert not fits
    assert line.startswith("result 0 against jax: largest difference 0.5, relative 0.333; 1 elem")
    [(line, fits)] = compared([np.int32([1, 2])], [np.int32([1, 5])], "jax")
    assert (line, fits) == (
        "result 0 against jax: largest difference 3 (1 of 2 elements differ)",
        True,
    )
    assert not next(compared([ours], [ours[:2]], "jax"))[1]
    assert not next(compared([ours], [], "jax"))[1]
