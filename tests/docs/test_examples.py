"""Every example runs, and stays short enough to be read at a glance."""

import runpy
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from support.pygcl import stand_in_for_compiled_packages

pytestmark = pytest.mark.docs
ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.mark.docs(seconds=3)
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    if "from GCL" in path.read_text():
        stand_in_for_compiled_packages(monkeypatch)
        pytest.importorskip("GCL.models", exc_type=ImportError)
    monkeypatch.setattr(sys, "argv", [str(path)])
    runpy.run_path(str(path), run_name="__main__")
    assert "loss" in capsys.readouterr().out
    assert len(path.read_text().splitlines()) < 80


@pytest.mark.docs(seconds=15)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is, from top to bottom, in a kernel of its own."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in cells), "strip the outputs"
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": tmp_path}}).execute()
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    pictures = [kind for cell in cells for output in cell.outputs for kind in output.get("data", {})]
    assert {"image/png", "image/svg+xml"} <= set(pictures)
