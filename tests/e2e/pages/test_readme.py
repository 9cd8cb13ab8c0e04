"""The README's Python does what it says, block after block, against a real server."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import xla_client
from tests.e2e.process import start_server
from xla_contract.descriptors import EXTENSION_RPCS, RPCS, Rpc

README = (Path(__file__).parents[3] / "README.md").read_text()


def _blocks(heading: str) -> list[str]:
    """The Python of one section."""
    [section] = re.findall(rf"^## {heading}\n(.*?)(?=^## )", README, re.DOTALL | re.MULTILINE)
    return re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[xla_client.Client]:
    with (
        start_server(tmp_path, "--platform", "interpreter") as server,
        xla_client.connect(server.address) as client,
    ):
        yield client


def test_the_light_path_is_three_lines_that_print_what_it_says(
    client: xla_client.Client,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = re.search(r"prints `(.*?)`:\n\n```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    assert found is not None
    printed, code = found.groups()
    monkeypatch.setattr(xla_client, "Local", lambda: contextlib.nullcontext(client))
    exec(code, {})
    assert capsys.readouterr().out == f"{printed}\n"


def test_what_it_shows_runs_as_it_stands(
    client: xla_client.Client,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    twenty_lines, from_jax = _blocks("Twenty lines")
    assert "client.jit" in from_jax
    # A server that was started before the block and outlives it.
    monkeypatch.setattr(xla_client, "Local", lambda: contextlib.nullcontext(client))
    names: dict[str, Any] = {}
    exec(twenty_lines, names)
    assert capsys.readouterr().out == "f32[2,3]{1,0} [[10. 22. 34.]\n [16. 28. 40.]]\n"
    exec(from_jax, names)
    assert capsys.readouterr().out == "[[3. 3. 3.]]\n"
    submit, pipeline, feeds, sessions = _blocks("Asynchronous work")
    exec(submit, names)
    assert capsys.readouterr().out == "[[ 5. 11. 17.]\n [ 8. 14. 20.]]\n"
    exec(pipeline, names)
    assert names["total"].tolist() == [[1, 3, 5], [7, 9, 11]]
    assert names["doubled"].to_numpy().tolist() == [[0, 2, 4], [6, 8, 10]]
    exec(feeds, names)
    assert capsys.readouterr().out == "[0.0, 1.0, 3.0, 6.0, 10.0]\n"
    assert names["summing"].result().to_numpy() == 10
    exec(sessions, names)
    assert "f32[2,3]{1,0}\n" in capsys.readouterr().out
    with names["client"] as resumed:
        assert resumed.session_token == names["token"]


@pytest.mark.parametrize(
    ("heading", "rpcs"),
    [("rpc", RPCS), ("rpc of `XlaExtensionService`", EXTENSION_RPCS)],
    ids=["xla", "extension"],
)
def test_the_tables_of_rpcs_have_each_once(heading: str, rpcs: Sequence[Rpc]) -> None:
    found = re.search(rf"^\| {heading} \| what it does \|\n(.*?)\n\n", README, re.DOTALL | re.M)
    assert found is not None
    rows = [line.split("|")[1] for line in found[1].splitlines()[1:]]
    named = [name.strip() for row in rows for name in row.split(",")]
    assert sorted(named) == sorted(rpc.name for rpc in rpcs)
