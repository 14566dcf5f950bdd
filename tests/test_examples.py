"""Every example runs, and stays short enough to be read at a glance."""

import runpy
import sys
from pathlib import Path

import pytest

from test_pygcl import stand_in_for_compiled_packages

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    if "from GCL" in path.read_text():
        stand_in_for_compiled_packages(monkeypatch)
        pytest.importorskip("GCL.models", exc_type=ImportError)
    monkeypatch.setattr(sys, "argv", [str(path)])
    runpy.run_path(str(path), run_name="__main__")
    assert "loss" in capsys.readouterr().out
    assert len(path.read_text().splitlines()) < 80
