"""README and docs/ hold: programs run, and what is named exists, with its default."""

import contextlib
import fnmatch
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import server_page
from tests.e2e.process import ServerProcess, serving
from xla_server.app.options.settings import Settings, load_settings

ROOT = Path(__file__).parents[3]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
CLIENT = ROOT / "docs" / "CLIENT.md"
SERVER = ROOT / "docs" / "SERVER.md"
ADDRESS = "127.0.0.1:1685"


class Block(NamedTuple):
    """A program of a page, the line it begins in, and what the page says that it prints."""

    line: int
    code: str
    printed: str


def blocks_of(text: str) -> Iterator[Block]:
    pattern = r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?"
    for found in re.finditer(pattern, text, re.DOTALL | re.MULTILINE):
        yield Block(text.count("\n", 0, found.start(1)) + 1, found[1], found[2] or "")


server = serving("--devices", "4")


def test_the_programs_of_the_client_page_print_what_it_says(server: ServerProcess) -> None:
    names: dict[str, Any] = {}
    blocks = list(blocks_of(CLIENT.read_text()))
    assert len(blocks) > 10
    for line, code, printed in blocks:
        # Errors name the line of the page.
        program = "\n" * (line - 1) + code.replace(ADDRESS, server.address)
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(program, str(CLIENT), "exec"), names)
        assert output.getvalue() == printed, f"{CLIENT}:{line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def paths_named(text: str, *, bare: bool) -> list[str]:
    """Return the paths in quotes of a page outside of its programs; `bare` ones have no folder."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    quoted = re.findall(r"`([\w<>*./-]+)`", prose)
    path = r"[a-z_<][\w<>*-]*(/[\w<>*.-]+)+/?" + (r"|[\w<>*-]+\.(py|md|proto|toml|yml)" * bare)
    return [each for each in quoted if re.fullmatch(path, each)]


def endings(root: Path) -> set[str]:
    """Return the ends of the paths of all files and folders that a checkout has."""
    tops = [top for top in root.iterdir() if not top.name.startswith((".", "build"))]
    every = [path.relative_to(root) for top in tops for path in (top, *top.rglob("*"))]
    return {"/".join(path.parts[n:]) for path in every for n in range(len(path.parts))}


def test_a_path_that_is_not_there_is_found() -> None:
    text = "`a/b.py` and `c.py`, `x > 0`, `1/2`\n```text\n`d/e.py`\n```\n`<name>/f_*.py`"
    assert paths_named(text, bare=True) == ["a/b.py", "c.py", "<name>/f_*.py"]
    assert paths_named(text, bare=False) == ["a/b.py", "<name>/f_*.py"]


def test_paths_are_there() -> None:
    known, missing = endings(ROOT), []
    for page in PAGES:
        # Other pages have names of files that the server writes.
        bare = page.name in ("ARCHITECTURE.md", "CONTRIBUTING.md")
        for path in paths_named(page.read_text(), bare=bare):
            pattern = re.sub("<[^>]*>", "*", path.rstrip("/"))
            if pattern not in known and not fnmatch.filter(known, pattern):
                missing.append((page.name, path))
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_targets_of_make_are_there(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = re.findall(r"`make ([a-z-]+)", page.read_text())
    assert [name for name in named if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


def test_the_server_page_lists_every_option_with_its_default() -> None:
    text = SERVER.read_text(encoding="utf-8")
    assert server_page.page(text) == text, "run `make options`"
    assert len(re.findall(r"^\| `--.*\|$", text, re.MULTILINE)) == len(Settings.model_fields)


def test_the_file_of_options_on_the_server_page_is_one(tmp_path: Path) -> None:
    [text] = re.findall(r"^```toml\n(.*?)^```", SERVER.read_text(), re.DOTALL | re.MULTILINE)
    file = tmp_path / "server.toml"
    file.write_text(text)
    settings = load_settings({}, file)
    address, socket = settings.listen
    assert address == ADDRESS
    assert (settings.feed_items, settings.prepare) == (64, False)
    assert settings.max_device_bytes == 4 * 2**30
    # A server starts with it as it stands, but for names that other servers of this machine have.
    own = f"{socket}-{os.getpid()}"
    file.write_text(text.replace(ADDRESS, "127.0.0.1:0").replace(socket, own))
    command = [sys.executable, "-m", "xla_server", "serve", "--config", str(file), "--insecure"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        process.terminate()
    assert ready["addresses"][1] == own
    assert process.returncode == 0


def test_the_ready_line_on_the_server_page_has_what_a_server_prints(server: ServerProcess) -> None:
    [line] = re.findall(r"^```json\n(.*?)\n```", SERVER.read_text(), re.DOTALL | re.MULTILINE)
    said = json.loads(line)
    assert list(said) == list(server.ready)
    assert said["addresses"] == [said["listening"]]
    assert server.ready["addresses"] == [server.ready["listening"]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_names_an_option_of_the_server_that_is_not_there(page: Path) -> None:
    options = {name.replace("_", "-") for name in Settings.model_fields}
    options |= {"config", "no-prepare"}
    # Options of the other commands, and of other programs.
    options |= {"dump-to", "run", "profile", "target", "timeout", "help", "build", "list"}
    options |= {"capability", "gpus", "ordinal", "from-file", "append-to"}
    options |= {"ca-file", "role", "version", "json", "cert-file", "key-file", "fingerprint", "tls"}
    options |= {"input", "output", "random", "compare", "time", "editable"}
    options |= {"replicas", "partitions"}
    # Options of mpirun.
    options |= {"with-ft", "host", "hostfile", "oversubscribe", "bind-to", "allow-run-as-root"}
    # `--python_out` of protoc.
    options |= {"python", "grpc"}
    named = re.findall(r"(?<![\w-])--([a-z][a-z-]+)", page.read_text())
    assert sorted(set(named) - options) == []
