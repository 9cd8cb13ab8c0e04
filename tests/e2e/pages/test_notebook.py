"""Errors and interrupts as a notebook shows them: one screen each."""

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="the extra `dev` is not installed whole")
nbclient = pytest.importorskip("nbclient", reason="the extra `dev` is not installed whole")
pytest.importorskip("ipykernel", reason="the extra `dev` is not installed whole")

SCREEN = 24
"""Lines of a small terminal."""

CELLS = [
    """
    import os, signal, threading
    import numpy as np
    import xla_client as xc
    from xla_client import Builder, ops

    own = xc.Local("interpreter", prepare=False)
    client = own.start()
    kept = client.to_device(np.float32([1, 2, 3]))
    b = Builder("twice")
    twice = client.compile(b.build(b.parameter(0, "f32[3]") * 2))
    b = Builder("forever")
    x = b.parameter(0, "f32[]")
    forever = client.compile(b.build(ops.while_(lambda x: ops.ge(x, 0.0), lambda x: x + 1, x)))
    """,
    # An argument that does not fit, reported by the client.
    "twice.run(np.zeros(2, np.float32))",
    # A handle that does not exist, reported by the server.
    "client.adopt(1)",
    # The interrupt of a notebook is SIGINT for the group of its kernel.
    """
    def interrupt():
        while not client.describe().use.concurrent_executions:
            pass
        os.killpg(os.getpgid(0), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    forever.run(1.0)
    """,
    """
    print(twice.run(kept))
    own.stop()
    """,
]


def traceback_of(cell: Any) -> list[str]:
    """The lines of the only error of a cell, without colours."""
    [error] = [each for each in cell.outputs if each.output_type == "error"]
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback)).splitlines()


def test_errors_are_one_screen_and_an_interrupt_leaves_the_server(tmp_path: Path) -> None:
    cells = [nbformat.v4.new_code_cell(textwrap.dedent(cell)) for cell in CELLS]
    notebook = nbformat.v4.new_notebook(cells=cells)
    resources = {"metadata": {"path": tmp_path}}
    client = nbclient.NotebookClient(
        notebook, timeout=100, resources=resources, allow_errors=True, kernel_name="python3"
    )
    client.execute()
    assert not notebook.cells[0].outputs
    misfit, unknown, interrupted = map(traceback_of, notebook.cells[1:4])
    assert "argument 0" in misfit[-1] or "argument 0" in "".join(misfit[-2:])
    assert "GetShape" in "".join(unknown)
    assert interrupted[-1].startswith("KeyboardInterrupt")
    for lines in (misfit, unknown, interrupted):
        assert len(lines) <= SCREEN, "\n".join(lines)
        text = "\n".join(lines)
        # The cell and the wrapper of the public method, and nothing of what is below.
        assert "During handling" not in text
        assert "transport/transport.py" not in text
    [printed] = notebook.cells[4].outputs
    assert printed.text == "[2. 4. 6.]\n"
