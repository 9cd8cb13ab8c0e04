"""The tutorial notebook runs from top to bottom, and draws and prints what its text says."""

import re
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="the extra `dev` is not installed whole")
nbclient = pytest.importorskip("nbclient", reason="the extra `dev` is not installed whole")
pytest.importorskip("ipykernel", reason="the extra `dev` is not installed whole")

NOTEBOOK = Path(__file__).parents[3] / "client" / "examples" / "tutorial.ipynb"


def outputs_of(notebook: Any) -> list[dict[str, str]]:
    """Return the outputs of all cells by MIME type; the text of streams is text/plain."""
    return [
        {"text/plain": output.text} if output.output_type == "stream" else output.data
        for cell in notebook.cells
        for output in cell.get("outputs", ())
    ]


def test_it_is_kept_without_outputs() -> None:
    assert outputs_of(nbformat.read(NOTEBOOK, as_version=4)) == []


def test_it_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    resources = {"metadata": {"path": tmp_path}}
    nbclient.NotebookClient(notebook, timeout=60, resources=resources).execute()
    outputs = outputs_of(notebook)
    assert sum("image/png" in each for each in outputs) == 3
    [graph] = [each["text/html"] for each in outputs if "text/html" in each]
    assert "&lt;svg" in graph
    text = "".join(each["text/plain"] for each in outputs)
    accuracy = re.search(r"accuracy (0\.\d+)", text)
    assert accuracy is not None
    assert float(accuracy[1]) > 0.9
    # The profile, the session that was left, and the training that goes on.
    assert "fusion" in text
    assert "UnavailableError" in text or "FailedPreconditionError" in text
    assert "True f32[64,10]" in text
    before, after = map(float, re.findall(r"loss (\S+), and after 100 steps more (\S+)", text)[0])
    assert after < before
