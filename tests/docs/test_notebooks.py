"""Notebooks of the gallery, made from its scripts by `make docs`, run from top to bottom."""

from __future__ import annotations

from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "docs" / "gallery").glob("*.ipynb"))
nbclient = pytest.importorskip("nbclient", reason="needs the extra docs")
pytestmark = pytest.mark.skipif(not NOTEBOOKS, reason="make docs makes the notebooks")


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
@pytest.mark.filterwarnings("ignore")  # of Jupyter's own
def test_a_notebook_runs(file, tmp_path, monkeypatch):
    import nbformat

    monkeypatch.setenv("CMPE_QUICK", "1")
    notebook = nbformat.read(file, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", ())]
    assert any("image/png" in out.get("data", {}) for out in outputs)
