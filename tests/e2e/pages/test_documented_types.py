"""The programs of README and docs/CLIENT.md pass mypy; mistakes do not."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = (ROOT / "README.md", ROOT / "docs" / "CLIENT.md")

# JAX would take longer than all the rest.
_CONFIGURATION = """
[mypy]
strict = True
ignore_missing_imports = True

[mypy-jax.*]
follow_imports = skip
"""

_WRONG = """
import xla_client

xla_client.Local(platfrm="cpu")
xla_client.Local(feed_items="many")


def run(client: xla_client.Client, program: xla_client.Computation) -> None:
    one, several = client.compile(program), client.compile(program, returns=tuple)
    reveal_type(one)
    reveal_type(one(1))
    reveal_type(one.run(1))
    reveal_type(one.submit(1).result())
    reveal_type(several)
    reveal_type(several(1))
    reveal_type(several.run(1))
    several(1).to_numpy()


async def arun(client: xla_client.Client, program: xla_client.Computation) -> None:
    one = await client.acompile(program)
    reveal_type(await one.arun(1))
    reveal_type(await one.submit(1))
    reveal_type(await (await client.acompile(program, returns=tuple)).arun(1))
"""


def _program(page: Path) -> str:
    """The Python of a page, each line where it is on the page."""
    lines = [""] * (page.read_text().count("\n") + 1)
    for found in re.finditer(
        r"^```python\n(.*?)^```\n", page.read_text(), re.DOTALL | re.MULTILINE
    ):
        first = page.read_text().count("\n", 0, found.start(1))
        code = found[1].splitlines()
        lines[first : first + len(code)] = code
    return "\n".join(lines) + "\n"


def _checked(directory: Path, programs: dict[str, str]) -> str:
    """Return the errors of mypy for programs, by name."""
    for name, text in programs.items():
        (directory / f"{name}.py").write_text(text)
    (directory / "mypy.ini").write_text(_CONFIGURATION)
    command = [sys.executable, "-m", "mypy", "--no-error-summary"]
    command += ["--cache-dir", str(ROOT / ".mypy_cache" / "documents")]
    command += [f"{name}.py" for name in programs]
    path = os.pathsep.join(str(ROOT / each) for each in ("host", "protos", "client"))
    done = subprocess.run(
        command,
        cwd=directory,
        env=os.environ | {"MYPYPATH": path},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    programs = {page.stem.lower(): _program(page) for page in PAGES} | {"wrong": _WRONG}
    return _checked(tmp_path_factory.mktemp("documents"), programs)


@pytest.mark.parametrize("page", [page.stem.lower() for page in PAGES])
def test_what_is_documented_has_types(said: str, page: str) -> None:
    assert [line for line in said.splitlines() if line.startswith(f"{page}.py:")] == []


def test_results_are_a_buffer_or_the_tuple_that_is_asked_for(said: str) -> None:
    found = re.findall(r'wrong\.py:\d+: note: Revealed type is "(.*)"', said)
    buffer = "xla_client.session.buffer.Buffer"
    array = r"numpy\.ndarray\[.*, numpy\.dtype\[Any\]\]"
    found = [each.replace("builtins.tuple", "tuple") for each in found]
    shortened = [re.sub(array, "Array", each.replace(buffer, "Buffer")) for each in found]
    several = "tuple[{}, ...]"
    executable = "xla_client.runs.executable.Executable[{}]"
    assert shortened == [
        executable.format("Buffer"),
        "Buffer",
        "Array",
        "Buffer",
        executable.format(several.format("Buffer")),
        several.format("Buffer"),
        several.format("Array"),
        "Array",
        "Buffer",
        several.format("Array"),
    ]


def test_misspelt_options_and_methods_that_are_not_there_are_refused(said: str) -> None:
    errors = re.findall(r"wrong\.py:\d+: error: (.*)", said)
    assert len(errors) == 3
    assert 'Unexpected keyword argument "platfrm" for "Local"' in errors[0]
    assert 'Argument "feed_items" to "Local" has incompatible type "str"' in errors[1]
    assert 'has no attribute "to_numpy"' in errors[2]
