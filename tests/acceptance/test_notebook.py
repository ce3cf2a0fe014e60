"""The notebook of the examples, executed as Jupyter does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from .conftest import User

NOTEBOOK = Path(__file__).parents[2] / "examples" / "analysis.ipynb"


@pytest.fixture
def executed(finished: User, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The code cells of the notebook with their outputs, over a finished campaign."""
    monkeypatch.setenv("CAMPAIGN", str(finished.folder / "study.yaml"))
    monkeypatch.setenv("IPYTHONDIR", str(finished.folder / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(finished.folder / "runtime"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(notebook, timeout=240, kernel_name="python3")
    client.execute(cwd=str(finished.folder))
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_every_cell_runs_and_shows_what_its_text_promises(executed: list[dict[str, Any]]) -> None:
    results = []
    for cell in executed:
        (output,) = cell["outputs"]  # no warning, and no text on stderr
        results.append(output["data"])
    status, cells, pairs, chart, means, changes = results
    assert "'success': 2" in status["text/plain"]
    for frame in (cells, pairs, means, changes):
        assert "<table" in frame["text/html"]
    assert "m1" in cells["text/plain"]
    assert "vega" in chart["text/html"]


def test_the_notebook_is_kept_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells)
